//! How rows are printed: a table for people, CSV and JSON lines for programs.
//!
//! What a value looks like is decided in [`cell`] and is the same in a table and in CSV:
//!
//! | type | text | JSON |
//! |---|---|---|
//! | NULL | `NULL` in a table, nothing in CSV | `null` |
//! | BOOLEAN | `true`, `false` | the same |
//! | integers | all digits | a number with all digits, also beyond 2^53 |
//! | DECIMAL | all digits of its scale, `1.50` | a number with the same digits |
//! | FLOAT, DOUBLE | the shortest text that reads back the same: `0.1`, `1.0`, `1e16`, `NaN`, `Infinity` | a number; `"NaN"`, `"Infinity"`, `"-Infinity"` |
//! | DATE, TIME | `1970-01-31`, `23:59:59` | a string |
//! | TIMESTAMP | `1970-01-31 23:59:59`, then 3, 6 or 9 digits of the second if they are not 0 | a string |
//! | TIMESTAMP_LTZ | the same in the type's zone, with its offset: `1970-01-31 23:59:59Z`, `…+02:00` | a string |
//! | BINARY | lower-case hex | a string |
//! | ARRAY, ROW, MAP | as JSON | array, object, object |
//!
//! Programs that read JSON numbers as doubles lose digits of large integers and decimals that are there in the text.
//!
//! Guarantees: CSV and JSON are written batch by batch; a table holds back at most [`table::SAMPLE_ROWS`] rows or
//! [`table::SAMPLE_BYTES`] bytes.

pub mod cell;
pub mod csv;
pub mod json;
pub mod table;
pub mod units;

#[cfg(test)]
mod tests;

use std::io::{self, Write};
use std::str::FromStr;

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use arrow::error::ArrowError;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Format {
    #[default]
    Table,
    Csv,
    Json,
}

/// A text that names no format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no output format: expected table, csv or json")]
pub struct UnknownFormat(String);

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Self, UnknownFormat> {
        match text.to_ascii_lowercase().as_str() {
            "table" => Ok(Format::Table),
            "csv" => Ok(Format::Csv),
            "json" => Ok(Format::Json),
            _ => Err(UnknownFormat(text.to_owned())),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    #[error("cannot write the result")]
    Io(#[from] io::Error),
    #[error("a value cannot be printed")]
    Value(#[from] ArrowError),
}

/// Writes result sets, one after the other.
pub struct ResultWriter<W> {
    out: W,
    format: Format,
    /// Result sets begun so far.
    sets: u64,
    set: Option<Set>,
    text: String,
}

/// The result set that is being written.
struct Set {
    rows: u64,
    table: Option<table::Table>,
    json_names: Vec<String>,
}

impl<W: Write> ResultWriter<W> {
    pub fn new(format: Format, out: W) -> Self {
        Self { out, format, sets: 0, set: None, text: String::new() }
    }

    /// Begins a result set; one that is still open is ended first.
    pub fn begin(&mut self, schema: &Schema) -> Result<(), WriteError> {
        self.end()?;
        let mut set = Set { rows: 0, table: None, json_names: Vec::new() };
        match self.format {
            Format::Table => set.table = Some(table::Table::new(schema)),
            Format::Csv => {
                if self.sets > 0 {
                    self.text.push('\n');
                }
                csv::header(schema, &mut self.text);
            }
            Format::Json => set.json_names = json::names(schema),
        }
        self.sets += 1;
        self.set = Some(set);
        self.flush()
    }

    /// Writes rows of the open result set.
    pub fn batch(&mut self, batch: &RecordBatch) -> Result<(), WriteError> {
        let Some(set) = &mut self.set else { return Ok(()) };
        set.rows += batch.num_rows() as u64;
        match &mut set.table {
            Some(table) => table.batch(batch, &mut self.text)?,
            None if self.format == Format::Csv => csv::rows(batch, &mut self.text)?,
            None => json::rows(&set.json_names, batch, &mut self.text)?,
        }
        self.flush()
    }

    /// Ends the open result set and returns its number of rows.
    pub fn end(&mut self) -> Result<u64, WriteError> {
        let Some(mut set) = self.set.take() else { return Ok(0) };
        if let Some(table) = &mut set.table {
            table.end(&mut self.text);
        }
        self.flush()?;
        Ok(set.rows)
    }

    /// Writes a line outside of any result set.
    pub fn line(&mut self, line: &str) -> Result<(), WriteError> {
        self.end()?;
        self.text.push_str(line);
        self.text.push('\n');
        self.flush()
    }

    pub fn into_inner(self) -> W {
        self.out
    }

    fn flush(&mut self) -> Result<(), WriteError> {
        let written = self.out.write_all(self.text.as_bytes()).and_then(|()| self.out.flush());
        self.text.clear();
        Ok(written?)
    }
}
