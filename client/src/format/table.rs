//! A table for a terminal.
//!
//! Column widths come from the rows of a sample; after it rows are printed as they come, and a cell that is wider than its
//! column moves the rest of its line to the right: nothing is cut and memory is bounded. Control characters are shown as escapes,
//! so that data cannot steer the terminal.

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Schema};
use arrow::error::ArrowError;
use unicode_width::UnicodeWidthStr;

use super::cell::Cells;

/// A table's widths are settled after this many rows …
pub const SAMPLE_ROWS: usize = 1000;
/// … or this many bytes of text.
pub const SAMPLE_BYTES: usize = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    Left,
    Right,
}

/// Rows of text in columns.
pub struct Table {
    headers: Vec<String>,
    align: Vec<Align>,
    widths: Vec<usize>,
    sample: Vec<Vec<String>>,
    sample_bytes: usize,
    settled: bool,
}

impl Table {
    /// For the rows of a result; numbers stand on the right.
    pub fn new(schema: &Schema) -> Self {
        let columns = schema.fields().iter().map(|field| (visible(field.name()), alignment(field.data_type())));
        Self::of(columns.collect())
    }

    /// For texts of any origin.
    pub fn with_columns(columns: &[(&str, Align)]) -> Self {
        Self::of(columns.iter().map(|(name, align)| ((*name).to_owned(), *align)).collect())
    }

    fn of(columns: Vec<(String, Align)>) -> Self {
        let (headers, align): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
        let widths = headers.iter().map(|header| header.width()).collect();
        Self { headers, align, widths, sample: Vec::new(), sample_bytes: 0, settled: false }
    }

    /// Adds the rows of a batch and appends what can be printed already.
    pub fn batch(&mut self, batch: &RecordBatch, out: &mut String) -> Result<(), ArrowError> {
        let columns: Vec<Cells<'_>> =
            batch.columns().iter().map(|column| Cells::new(column.as_ref())).collect::<Result<_, _>>()?;
        for row in 0..batch.num_rows() {
            self.row(columns.iter().map(|column| cell(column, row)).collect(), out);
        }
        Ok(())
    }

    /// Adds one row.
    pub fn row(&mut self, cells: Vec<String>, out: &mut String) {
        if self.settled {
            return self.line(&cells, out);
        }
        for (width, cell) in self.widths.iter_mut().zip(&cells) {
            *width = (*width).max(cell.width());
        }
        self.sample_bytes += cells.iter().map(String::len).sum::<usize>();
        self.sample.push(cells);
        if self.sample.len() >= SAMPLE_ROWS || self.sample_bytes >= SAMPLE_BYTES {
            self.settle(out);
        }
    }

    /// Appends what is left and the closing rule.
    pub fn end(&mut self, out: &mut String) {
        if !self.settled {
            self.settle(out);
        }
        self.rule(out);
    }

    fn settle(&mut self, out: &mut String) {
        self.settled = true;
        self.rule(out);
        let headers = std::mem::take(&mut self.headers);
        self.line(&headers, out);
        self.rule(out);
        for cells in std::mem::take(&mut self.sample) {
            self.line(&cells, out);
        }
    }

    fn rule(&self, out: &mut String) {
        for width in &self.widths {
            out.push('+');
            pad('-', width + 2, out);
        }
        out.push_str("+\n");
    }

    fn line(&self, cells: &[String], out: &mut String) {
        for ((cell, width), align) in cells.iter().zip(&self.widths).zip(&self.align) {
            let space = width.saturating_sub(cell.width());
            out.push_str("| ");
            if *align == Align::Right {
                pad(' ', space, out);
            }
            out.push_str(cell);
            if *align == Align::Left {
                pad(' ', space, out);
            }
            out.push(' ');
        }
        out.push_str("|\n");
    }
}

fn pad(c: char, times: usize, out: &mut String) {
    out.extend(std::iter::repeat_n(c, times));
}

fn alignment(data_type: &DataType) -> Align {
    match data_type {
        DataType::Dictionary(_, values) => alignment(values),
        other if other.is_numeric() => Align::Right,
        _ => Align::Left,
    }
}

fn cell(column: &Cells<'_>, row: usize) -> String {
    if column.is_null(row) {
        return "NULL".to_owned();
    }
    let mut text = String::new();
    column.text(row, &mut text);
    visible(&text)
}

/// The text with its control characters as escapes.
pub fn visible(text: &str) -> String {
    if !text.chars().any(char::is_control) {
        return text.to_owned();
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if c.is_control() { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    shown
}
