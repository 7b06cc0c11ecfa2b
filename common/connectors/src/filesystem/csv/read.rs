//! Reading one CSV file, a batch at a time. Of every row its offset in the file is kept; the line it stands on is counted only
//! when there is an error to report.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use ::csv::{ByteRecord, ReaderBuilder};
use arrow::array::{Array, ArrayRef, RecordBatch, StringBuilder};
use arrow::datatypes::{DataType, Field, SchemaRef};

use super::{CsvSpec, Dialect};
use crate::batches::{batch_of_rows, projected_schema};
use crate::error::{DataProblem, Error};
use crate::options::shorten;
use crate::parse::{parse_column, sql_name};

/// A batch ends early when the text of its columns is longer.
const BATCH_BYTES: usize = 16 << 20;
/// A longer row is taken for a quote that was never closed.
const MAX_ROW_BYTES: usize = 64 << 20;

/// The rows of a file as batches of the projected columns.
pub(super) struct CsvBatches {
    reader: ::csv::Reader<RowBounded<File>>,
    record: ByteRecord,
    path: PathBuf,
    dialect: Dialect,
    table: SchemaRef,
    projection: Vec<usize>,
    output: SchemaRef,
    batch_size: usize,
}

impl CsvBatches {
    pub(super) fn new(file: File, path: PathBuf, spec: &CsvSpec, projection: &[usize], batch_size: usize) -> Self {
        let dialect = spec.dialect.clone();
        let mut builder = ReaderBuilder::new();
        builder
            .delimiter(dialect.delimiter)
            .quoting(dialect.quote.is_some())
            .quote(dialect.quote.unwrap_or(b'"'))
            .escape(dialect.escape)
            .comment(dialect.comments.then_some(b'#'))
            .has_headers(dialect.header)
            .flexible(true)
            .buffer_capacity(256 << 10);
        let reader = builder.from_reader(RowBounded { inner: file, since_row: 0 });
        let output = projected_schema(&spec.schema.0, projection);
        let table = Arc::clone(&spec.schema.0);
        CsvBatches {
            reader,
            record: ByteRecord::new(),
            path,
            dialect,
            table,
            projection: projection.to_vec(),
            output,
            batch_size,
        }
    }

    pub(super) fn schema(&self) -> SchemaRef {
        Arc::clone(&self.output)
    }

    fn place(&self) -> String {
        format!("file '{}'", self.path.display())
    }

    fn row_error(&self, offset: u64, problem: String) -> Error {
        match self.line_of(offset) {
            Ok(line) => Error::Row { place: self.place(), unit: "line", line, problem },
            Err(error) => Error::io(&self.path, error),
        }
    }

    fn value_error(&self, offset: u64, field: &Field, value: &str, expected: String) -> Error {
        let (place, column, value) = (self.place(), field.name().clone(), shorten(value));
        match self.line_of(offset) {
            Ok(line) => Error::Value { place, unit: "line", line, column, value, expected },
            Err(error) => Error::io(&self.path, error),
        }
    }

    /// The line, from 1, of the row at or after `offset`: line breaks and comments may stand between.
    fn line_of(&self, offset: u64) -> io::Result<u64> {
        let file = &self.reader.get_ref().inner;
        let mut buffer = vec![0; 64 << 10];
        let (mut position, mut line, mut in_comment) = (0, 1, false);
        loop {
            let read = file.read_at(&mut buffer, position)?;
            for byte in &buffer[..read] {
                if position >= offset {
                    in_comment |= self.dialect.comments && *byte == b'#';
                    if !in_comment && !matches!(byte, b'\n' | b'\r') {
                        return Ok(line);
                    }
                }
                line += u64::from(*byte == b'\n');
                in_comment &= *byte != b'\n';
                position += 1;
            }
            if read == 0 {
                return Ok(line);
            }
        }
    }

    /// Reads the next row of the right width into `self.record`; its offset, or `None` at the end of the file.
    fn next_row(&mut self) -> Result<Option<u64>, Error> {
        loop {
            let offset = self.reader.position().byte();
            match self.reader.read_byte_record(&mut self.record) {
                Ok(true) => self.reader.get_mut().since_row = 0,
                Ok(false) => return Ok(None),
                Err(error) => return Err(self.reader_error(offset, error)),
            }
            let offset = self.record.position().map_or(offset, ::csv::Position::byte);
            let (found, expected) = (self.record.len(), self.table.fields().len());
            if found == expected {
                return Ok(Some(offset));
            }
            if !self.dialect.ignore_parse_errors {
                let problem = format!("has {found} fields, the table has {expected} columns");
                return Err(self.row_error(offset, problem));
            }
        }
    }

    fn reader_error(&self, offset: u64, error: ::csv::Error) -> Error {
        let display = error.to_string();
        match error.into_kind() {
            ::csv::ErrorKind::Io(error) if error.kind() == io::ErrorKind::InvalidData => {
                self.row_error(offset, format!("is longer than {MAX_ROW_BYTES} bytes, is a quote not closed?"))
            }
            ::csv::ErrorKind::Io(error) => Error::io(&self.path, error),
            _ => Error::data(&self.path, DataProblem::Other(display)),
        }
    }

    /// Appends the projected fields of `self.record`. Returns the bytes of text appended.
    fn append_row(&self, offset: u64, columns: &mut [StringBuilder]) -> Result<usize, Error> {
        let mut bytes = 0;
        for (builder, column) in columns.iter_mut().zip(&self.projection) {
            let field = self.table.field(*column);
            let raw = &self.record[*column];
            let text = match std::str::from_utf8(raw) {
                Ok(text) => text,
                Err(_) if self.dialect.ignore_parse_errors => {
                    builder.append_null();
                    continue;
                }
                Err(_) => {
                    let value = String::from_utf8_lossy(raw);
                    return Err(self.value_error(offset, field, &value, "UTF-8 text".to_owned()));
                }
            };
            bytes += text.len();
            builder.append_option(self.value_text(text, field.data_type()));
        }
        Ok(bytes)
    }

    /// The text to parse, `None` for NULL.
    fn value_text<'t>(&self, text: &'t str, data_type: &DataType) -> Option<&'t str> {
        if self.dialect.null_literal.as_deref() == Some(text) {
            return None;
        }
        match data_type {
            DataType::Utf8 => Some(text),
            _ => Some(text.trim()).filter(|text| !text.is_empty()),
        }
    }

    fn finish_column(&self, builder: &mut StringBuilder, field: &Field, offsets: &[u64]) -> Result<ArrayRef, Error> {
        let texts = builder.finish();
        let parsed = parse_column(texts.clone(), field.data_type())
            .map_err(|error| Error::data(&self.path, DataProblem::Arrow(error)))?;
        if let Some(row) = parsed.first_bad.filter(|_| !self.dialect.ignore_parse_errors) {
            return Err(self.value_error(offsets[row], field, texts.value(row), sql_name(field.data_type())));
        }
        if !field.is_nullable()
            && let Some(row) = (0..parsed.column.len()).find(|row| parsed.column.is_null(*row))
        {
            let problem = format!("column '{}' is NOT NULL, but has no value", field.name());
            return Err(self.row_error(offsets[row], problem));
        }
        Ok(parsed.column)
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>, Error> {
        let mut builders: Vec<_> = self.projection.iter().map(|_| StringBuilder::new()).collect();
        let mut offsets = Vec::new();
        let mut bytes = 0;
        while offsets.len() < self.batch_size && bytes < BATCH_BYTES {
            let Some(offset) = self.next_row()? else { break };
            bytes += self.append_row(offset, &mut builders)?;
            offsets.push(offset);
        }
        if offsets.is_empty() {
            return Ok(None);
        }
        let columns = builders.iter_mut().zip(self.output.fields());
        let columns = columns.map(|(builder, field)| self.finish_column(builder, field, &offsets));
        let batch = batch_of_rows(&self.output, columns.collect::<Result<Vec<_>, _>>()?, offsets.len());
        batch.map(Some).map_err(|error| Error::data(&self.path, DataProblem::Arrow(error)))
    }
}

impl Iterator for CsvBatches {
    type Item = Result<RecordBatch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_batch().transpose()
    }
}

/// Ends a row that grows beyond [`MAX_ROW_BYTES`] with an error of kind `InvalidData`.
struct RowBounded<R> {
    inner: R,
    since_row: usize,
}

impl<R: Read> Read for RowBounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.since_row > MAX_ROW_BYTES {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let read = self.inner.read(buffer)?;
        self.since_row += read;
        Ok(read)
    }
}
