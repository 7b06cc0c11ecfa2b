//! CSV as in RFC 4180, with lines that end in LF: what every reader takes and what Unix tools expect.
//!
//! One header line per result set, a blank line between two sets. NULL is an empty field, the empty string is `""`; other
//! fields are quoted only when they hold a comma, a quote or a line break. A NULL in a result of one column therefore is an empty
//! line too: a reader that has to tell the two apart asks for one result set at a time.

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use arrow::error::ArrowError;

use super::cell::Cells;

pub fn header(schema: &Schema, out: &mut String) {
    for (position, field) in schema.fields().iter().enumerate() {
        if position > 0 {
            out.push(',');
        }
        quoted(field.name(), out);
    }
    out.push('\n');
}

pub fn rows(batch: &RecordBatch, out: &mut String) -> Result<(), ArrowError> {
    let columns: Vec<Cells<'_>> =
        batch.columns().iter().map(|column| Cells::new(column.as_ref())).collect::<Result<_, _>>()?;
    let mut text = String::new();
    for row in 0..batch.num_rows() {
        for (position, column) in columns.iter().enumerate() {
            if position > 0 {
                out.push(',');
            }
            if !column.is_null(row) {
                text.clear();
                column.text(row, &mut text);
                quoted(&text, out);
            }
        }
        out.push('\n');
    }
    Ok(())
}

/// A field that is not NULL.
fn quoted(text: &str, out: &mut String) {
    if !text.is_empty() && !text.contains([',', '"', '\n', '\r']) {
        return out.push_str(text);
    }
    out.push('"');
    for c in text.chars() {
        if c == '"' {
            out.push('"');
        }
        out.push(c);
    }
    out.push('"');
}
