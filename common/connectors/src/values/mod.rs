//! `'connector' = 'values'`: the rows stand in the table definition.
//!
//! `'rows' = '[[1, "a"], [2, null]]'` is a JSON array of arrays, one value per declared column. Numbers are read from their
//! text, so decimals and large integers are exact; a DECIMAL may also be a string. DATE, TIME and TIMESTAMP are strings,
//! BYTES are hexadecimal strings. Guarantees that every row is checked when the table is created: a scan cannot fail on one.

mod json;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryArray, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, SchemaRef};
use async_trait::async_trait;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use serde::{Deserialize, Serialize};

use self::json::Cell;
use crate::batches::{batch_of_rows, into_stream, projected_schema};
use crate::error::{DataProblem, Error};
use crate::options::{Options, shorten};
use crate::parse::{is_exact_decimal, is_readable_from_text, parse_column, sql_name};
use crate::table::{ScanSpec, TableDefinition};
use crate::wire::{WireBatch, from_hex};
use crate::{ScanPlan, ScanRequest, SplitInfo, TableSource};

const ROWS: &str = "rows";
/// Bound of the option's text in bytes, and of the rows in memory.
const MAX_BYTES: usize = 16 << 20;

/// The rows of a `values` table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ValuesSpec {
    pub(crate) rows: WireBatch,
}

#[derive(Debug)]
pub(crate) struct ValuesTable {
    rows: RecordBatch,
}

impl ValuesTable {
    pub(crate) fn create(def: &TableDefinition) -> Result<Self, Error> {
        let options = Options::new(def, &[ROWS])?;
        let text = options.required(ROWS, "a JSON array of arrays, one value per declared column")?;
        let schema = def.columns.clone().ok_or_else(|| Error::Columns {
            table: def.name.clone(),
            problem: "a 'values' table needs declared columns".to_owned(),
        })?;
        let too_large = || options.invalid(ROWS, text, format!("rows of at most {MAX_BYTES} bytes in all"));
        if text.len() > MAX_BYTES {
            return Err(too_large());
        }
        let rows = json::parse_rows(text).map_err(|detail| options.invalid(ROWS, text, detail))?;
        let rows = build_batch(options.table(), &schema, &rows)?;
        match rows.get_array_memory_size() > MAX_BYTES {
            true => Err(too_large()),
            false => Ok(ValuesTable { rows }),
        }
    }
}

#[async_trait]
impl TableSource for ValuesTable {
    fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }

    fn scan_spec(&self) -> ScanSpec {
        ScanSpec::Values(ValuesSpec { rows: WireBatch(self.rows.clone()) })
    }

    async fn plan_scan(&self) -> Result<ScanPlan, Error> {
        let rows = self.rows.num_rows() as u64;
        let column_bytes: Vec<u64> =
            self.rows.columns().iter().map(|column| column.get_array_memory_size() as u64).collect();
        let bytes = column_bytes.iter().sum();
        let split = SplitInfo { bytes, rows: Some(rows), payload: Vec::new() };
        Ok(ScanPlan { splits: vec![split], rows: Some(rows), column_bytes, bytes, column_statistics: Vec::new() })
    }
}

pub(crate) fn open(
    spec: &ValuesSpec,
    _split: &[u8],
    request: &ScanRequest,
    ctx: &TaskContext,
) -> Result<SendableRecordBatchStream, Error> {
    let rows = &spec.rows.0;
    let schema = projected_schema(&rows.schema(), &request.projection);
    let columns = request.projection.iter().map(|column| Arc::clone(rows.column(*column))).collect();
    let projected = batch_of_rows(&schema, columns, rows.num_rows())
        .map_err(|error| Error::data("values".as_ref(), DataProblem::Arrow(error)))?;
    let batch_size = ctx.session_config().batch_size().max(1);
    let batches = (0..projected.num_rows()).step_by(batch_size).map(move |start| {
        let length = batch_size.min(projected.num_rows() - start);
        Ok(projected.slice(start, length))
    });
    Ok(into_stream(schema, batches, request.limit))
}

fn build_batch(table: &str, schema: &SchemaRef, rows: &[Vec<Cell<'_>>]) -> Result<RecordBatch, Error> {
    let width = schema.fields().len();
    if let Some(row) = rows.iter().position(|row| row.len() != width) {
        let problem = format!("has {} values, the table has {width} columns", rows[row].len());
        return Err(Error::Row { place: place(table), unit: "row", line: row as u64 + 1, problem });
    }
    let columns = schema.fields().iter().enumerate().map(|(column, field)| build_column(table, field, rows, column));
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    batch_of_rows(schema, columns, rows.len())
        .map_err(|error| Error::Columns { table: table.to_owned(), problem: error.to_string() })
}

fn build_column(table: &str, field: &Field, rows: &[Vec<Cell<'_>>], column: usize) -> Result<ArrayRef, Error> {
    let data_type = field.data_type();
    if !is_readable_from_text(data_type) && *data_type != DataType::Binary {
        let problem = format!("type {} cannot stand in a 'values' table", sql_name(data_type));
        return Err(Error::schema(place(table), field.name(), problem));
    }
    let bad = |row: usize| Error::Value {
        place: place(table),
        unit: "row",
        line: row as u64 + 1,
        column: field.name().clone(),
        value: shorten(&rows[row][column].to_string()),
        expected: expectation(field),
    };
    let mut texts = Vec::with_capacity(rows.len());
    for (row, cells) in rows.iter().enumerate() {
        match cell_text(&cells[column], data_type) {
            Some(None) if !field.is_nullable() => return Err(bad(row)),
            Some(text) => texts.push(text),
            None => return Err(bad(row)),
        }
    }
    if *data_type == DataType::Binary {
        let decoded: Result<Vec<_>, usize> = (texts.iter().enumerate())
            .map(|(row, text)| text.map(|text| from_hex(text).ok_or(row)).transpose())
            .collect();
        let decoded = decoded.map_err(bad)?;
        return Ok(Arc::new(BinaryArray::from_iter(decoded)));
    }
    let parsed = parse_column(StringArray::from(texts), data_type)
        .map_err(|error| Error::schema(place(table), field.name(), error.to_string()))?;
    match parsed.first_bad {
        Some(row) => Err(bad(row)),
        None => Ok(parsed.column),
    }
}

/// The text to read the cell from; `Some(None)` is NULL, `None` a kind of value the type does not take.
fn cell_text<'c>(cell: &'c Cell<'_>, data_type: &DataType) -> Option<Option<&'c str>> {
    match (cell, data_type) {
        (Cell::Null, _) => Some(None),
        (Cell::Bool(true), DataType::Boolean) => Some(Some("true")),
        (Cell::Bool(false), DataType::Boolean) => Some(Some("false")),
        (Cell::Number(text), DataType::Float32) => text.parse::<f32>().ok()?.is_finite().then_some(Some(*text)),
        (Cell::Number(text), DataType::Float64) => text.parse::<f64>().ok()?.is_finite().then_some(Some(*text)),
        (Cell::Number(text), DataType::Decimal128(_, scale) | DataType::Decimal256(_, scale)) => {
            is_exact_decimal(text, *scale).then_some(Some(*text))
        }
        (Cell::Text(text), DataType::Decimal128(_, scale) | DataType::Decimal256(_, scale)) => {
            is_exact_decimal(text, *scale).then_some(Some(text))
        }
        (Cell::Number(text), _) if data_type.is_integer() => Some(Some(*text)),
        (Cell::Text(text), DataType::Float32 | DataType::Float64) => match text.as_str() {
            "NaN" => Some(Some("NaN")),
            "Infinity" => Some(Some("inf")),
            "-Infinity" => Some(Some("-inf")),
            _ => None,
        },
        (Cell::Text(text), DataType::Utf8 | DataType::Binary) => Some(Some(text)),
        (Cell::Text(text), _) if data_type.is_temporal() => Some(Some(text)),
        _ => None,
    }
}

fn expectation(field: &Field) -> String {
    let form = match field.data_type() {
        DataType::Utf8 => " (a JSON string)",
        DataType::Boolean => " (true or false)",
        DataType::Date32 => " (a string such as \"1998-12-01\")",
        DataType::Time32(_) | DataType::Time64(_) => " (a string such as \"12:30:00\")",
        DataType::Timestamp(..) => " (a string such as \"1998-12-01 12:30:00\")",
        DataType::Binary => " (a string of hexadecimal digits)",
        DataType::Decimal128(..) | DataType::Decimal256(..) => " (a number without exponent, or a string of one)",
        _ => " (a JSON number)",
    };
    let not_null = if field.is_nullable() { "" } else { " NOT NULL" };
    format!("{}{not_null}{form}", sql_name(field.data_type()))
}

fn place(table: &str) -> String {
    format!("table '{table}'")
}
