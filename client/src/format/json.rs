//! JSON lines: one object per row, one row per line. Several result sets follow each other without a mark.

use std::collections::HashSet;

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use arrow::error::ArrowError;

use super::cell::{Cells, json_string};

/// The names of the properties. A name that occurs again gets a number, since an object must not have a name twice.
pub fn names(schema: &Schema) -> Vec<String> {
    let all: HashSet<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    let mut used = HashSet::new();
    let mut names = Vec::with_capacity(schema.fields().len());
    for field in schema.fields() {
        let mut name = field.name().clone();
        let mut number = 1u32;
        while !used.insert(name.clone()) {
            number += 1;
            name = format!("{}_{number}", field.name());
            // the number must not make it the name of another column
            while all.contains(name.as_str()) {
                number += 1;
                name = format!("{}_{number}", field.name());
            }
        }
        names.push(name);
    }
    names
}

pub fn rows(names: &[String], batch: &RecordBatch, out: &mut String) -> Result<(), ArrowError> {
    let columns: Vec<Cells<'_>> =
        batch.columns().iter().map(|column| Cells::new(column.as_ref())).collect::<Result<_, _>>()?;
    for row in 0..batch.num_rows() {
        out.push('{');
        for (position, (name, column)) in names.iter().zip(&columns).enumerate() {
            if position > 0 {
                out.push(',');
            }
            json_string(name, out);
            out.push(':');
            column.json(row, out);
        }
        out.push_str("}\n");
    }
    Ok(())
}
