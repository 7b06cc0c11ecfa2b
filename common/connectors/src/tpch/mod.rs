//! `'connector' = 'tpch'`: the TPC-H tables, generated where they are read.
//!
//! Guarantees that a split is the same rows wherever and however often it is read, and that all splits together are the
//! table of the scale factor. Generates one batch at a time, on the caller's thread. Promises no order across splits.

mod generate;
mod schema;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::cast;
use arrow::datatypes::{Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use serde::{Deserialize, Serialize};

use self::schema::Table;
use crate::batches::{batch_of_rows, into_stream, projected_schema};
use crate::error::{DataProblem, Error, OptionProblem};
use crate::options::Options;
use crate::parse::sql_name;
use crate::table::{ScanSpec, TableDefinition};
use crate::{ScanPlan, ScanRequest, SplitInfo, TableSource};

const SCALE_FACTOR: &str = "scale-factor";
const TABLE: &str = "table";
/// Below, `supplier` would have no rows for the other tables to refer to.
const MIN_SCALE_FACTOR: f64 = 0.001;
const MAX_SCALE_FACTOR: f64 = 100_000.0;

/// A generated table, and which of its columns were declared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "UncheckedSpec")]
pub struct TpchSpec {
    table: Table,
    scale_factor: f64,
    columns: Vec<usize>,
}

#[derive(Deserialize)]
struct UncheckedSpec {
    table: Table,
    scale_factor: f64,
    columns: Vec<usize>,
}

impl TryFrom<UncheckedSpec> for TpchSpec {
    type Error = String;

    fn try_from(spec: UncheckedSpec) -> Result<Self, String> {
        let UncheckedSpec { table, scale_factor, columns } = spec;
        if !is_valid_scale_factor(scale_factor) {
            return Err(format!("scale factor {scale_factor} is out of range"));
        }
        match columns.iter().find(|column| **column >= table.columns().len()) {
            Some(column) => Err(format!("table {} has no column {column}", table.name())),
            None => Ok(TpchSpec { table, scale_factor, columns }),
        }
    }
}

/// Part `part` (from 1) of `parts`.
#[derive(Debug, Serialize, Deserialize)]
struct Split {
    part: i32,
    parts: i32,
}

impl TpchSpec {
    pub(crate) fn schema(&self) -> SchemaRef {
        projected_schema(&self.table.schema(), &self.columns)
    }

    fn column_bytes(&self, rows: u64) -> impl Iterator<Item = u64> {
        self.columns.iter().map(move |column| self.table.columns()[*column].average_bytes * rows)
    }
}

#[derive(Debug)]
pub(crate) struct TpchTable {
    spec: TpchSpec,
    schema: SchemaRef,
}

impl TpchTable {
    pub(crate) fn create(def: &TableDefinition) -> Result<Self, Error> {
        let options = Options::new(def, &[SCALE_FACTOR, TABLE])?;
        let scale_factor = read_scale_factor(&options)?;
        let table = read_table(&options)?;
        let columns = match &def.columns {
            None => (0..table.columns().len()).collect(),
            Some(declared) => match_columns(table, declared)?,
        };
        let spec = TpchSpec { table, scale_factor, columns };
        Ok(TpchTable { schema: spec.schema(), spec })
    }
}

#[async_trait]
impl TableSource for TpchTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn scan_spec(&self) -> ScanSpec {
        ScanSpec::Tpch(self.spec.clone())
    }

    async fn plan_scan(&self) -> Result<ScanPlan, Error> {
        let TpchSpec { table, scale_factor, .. } = self.spec;
        let parts = table.parts(scale_factor);
        let splits = (1..=parts).map(|part| {
            let payload = serde_json::to_vec(&Split { part, parts }).expect("two numbers can be written");
            let estimated_rows = table.estimated_rows(scale_factor, part, parts);
            let bytes = self.spec.column_bytes(estimated_rows).sum();
            SplitInfo { bytes, rows: table.rows(scale_factor, part, parts), payload }
        });
        let splits: Vec<_> = splits.collect();
        let rows = table.rows(scale_factor, 1, 1);
        let column_bytes: Vec<u64> = self.spec.column_bytes(table.estimated_rows(scale_factor, 1, 1)).collect();
        let bytes = column_bytes.iter().sum();
        Ok(ScanPlan { splits, rows, column_bytes, bytes, column_statistics: Vec::new() })
    }
}

pub(crate) fn open(
    spec: &TpchSpec,
    split: &[u8],
    request: &ScanRequest,
    ctx: &TaskContext,
) -> Result<SendableRecordBatchStream, Error> {
    let Split { part, parts } =
        serde_json::from_slice(split).map_err(|source| Error::Split { connector: "tpch", source })?;
    let (table, scale_factor) = (spec.table, spec.scale_factor);
    if parts != table.parts(scale_factor) || !(1..=parts).contains(&part) {
        let source = serde::de::Error::custom(format!("part {part} of {parts} does not exist"));
        return Err(Error::Split { connector: "tpch", source });
    }
    let columns: Vec<usize> = request.projection.iter().map(|column| spec.columns[*column]).collect();
    let schema = projected_schema(&spec.schema(), &request.projection);
    let batch_size = ctx.session_config().batch_size().max(1).min(request.limit.unwrap_or(usize::MAX).max(1));
    let output = Arc::clone(&schema);
    let batches = table.generate(scale_factor, part, parts, batch_size);
    Ok(into_stream(schema, batches.map(move |batch| project(&batch, &columns, &output)), request.limit))
}

/// Picks the columns, and copies text out of its views.
fn project(batch: &RecordBatch, columns: &[usize], schema: &SchemaRef) -> Result<RecordBatch, Error> {
    let picked =
        columns.iter().zip(schema.fields()).map(|(column, field)| cast(batch.column(*column), field.data_type()));
    let picked = picked.collect::<Result<Vec<_>, _>>();
    let projected = picked.and_then(|columns| batch_of_rows(schema, columns, batch.num_rows()));
    projected.map_err(|error| Error::data("tpch".as_ref(), DataProblem::Arrow(error)))
}

fn is_valid_scale_factor(scale_factor: f64) -> bool {
    (MIN_SCALE_FACTOR..=MAX_SCALE_FACTOR).contains(&scale_factor)
}

fn read_scale_factor(options: &Options<'_>) -> Result<f64, Error> {
    let text = options.get(SCALE_FACTOR).unwrap_or("1");
    match text.trim().parse::<f64>() {
        Ok(scale_factor) if is_valid_scale_factor(scale_factor) => Ok(scale_factor),
        _ => {
            let allowed = format!("a number from {MIN_SCALE_FACTOR} to {MAX_SCALE_FACTOR}");
            Err(options.invalid(SCALE_FACTOR, text, allowed))
        }
    }
}

fn read_table(options: &Options<'_>) -> Result<Table, Error> {
    let names = || Table::ALL.map(Table::name).join(", ");
    match options.get(TABLE) {
        Some(name) => Table::by_name(name).ok_or_else(|| options.invalid(TABLE, name, names())),
        None => Table::by_name(options.table()).ok_or_else(|| Error::Option {
            table: options.table().to_owned(),
            option: TABLE.to_owned(),
            problem: OptionProblem::Missing { expected: format!("one of {}", names()) },
        }),
    }
}

/// The positions of the declared columns, whose types must be the generated ones.
fn match_columns(table: Table, declared: &Schema) -> Result<Vec<usize>, Error> {
    let place = || format!("tpch table '{}'", table.name());
    let positions = declared.fields().iter().map(|field| {
        let columns = table.columns();
        let position = columns.iter().position(|column| column.name.eq_ignore_ascii_case(field.name()));
        let position = position.ok_or_else(|| {
            let names: Vec<_> = columns.iter().map(|column| column.name).collect();
            Error::schema(place(), field.name(), format!("does not exist, the columns are {}", names.join(", ")))
        })?;
        let generated = &columns[position].data_type;
        match generated == field.data_type() && columns[position].name == field.name() {
            true => Ok(position),
            false => {
                let (name, expected) = (columns[position].name, sql_name(generated));
                let problem = format!("is declared as {}, expected {name} {expected}", sql_name(field.data_type()));
                Err(Error::schema(place(), field.name(), problem))
            }
        }
    });
    positions.collect()
}
