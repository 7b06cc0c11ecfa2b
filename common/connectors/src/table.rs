//! From a `CREATE TABLE` to a source, and from a spec and a split to a stream.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use serde::{Deserialize, Serialize};

use crate::access::AccessRules;
use crate::error::{Error, OptionProblem};
use crate::options::{CONNECTOR, nearest};
use crate::{ScanRequest, TableSource, filesystem, tpch, values};

const CONNECTORS: [&str; 3] = ["filesystem", "tpch", "values"];

/// What a `CREATE TABLE` says.
#[derive(Debug, Clone)]
pub struct TableDefinition {
    /// The table's own name, without catalog and database.
    pub name: String,
    /// The declared columns; `None` if none were declared.
    pub columns: Option<SchemaRef>,
    /// The options of `WITH (…)`, `connector` among them.
    pub options: BTreeMap<String, String>,
}

/// What a TaskManager needs to open the splits of a table; plain data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ScanSpec {
    Parquet(filesystem::ParquetSpec),
    Csv(filesystem::CsvSpec),
    Tpch(tpch::TpchSpec),
    Values(values::ValuesSpec),
}

impl ScanSpec {
    /// The schema of the table, before any projection.
    pub fn schema(&self) -> SchemaRef {
        match self {
            ScanSpec::Parquet(spec) => Arc::clone(&spec.schema.0),
            ScanSpec::Csv(spec) => Arc::clone(&spec.schema.0),
            ScanSpec::Tpch(spec) => spec.schema(),
            ScanSpec::Values(spec) => spec.rows.0.schema(),
        }
    }
}

/// Binds a table to its connector. Checks options, paths and declared columns; reads the footers of Parquet files.
pub async fn create_table(def: &TableDefinition, rules: &AccessRules) -> Result<Arc<dyn TableSource>, Error> {
    let option_error = |problem| Error::Option { table: def.name.clone(), option: CONNECTOR.to_owned(), problem };
    match def.options.get(CONNECTOR).map(String::as_str) {
        Some("filesystem") => filesystem::create(def, rules).await,
        Some("tpch") => Ok(Arc::new(tpch::TpchTable::create(def)?)),
        Some("values") => Ok(Arc::new(values::ValuesTable::create(def)?)),
        Some(other) => {
            let hint = nearest(other, &CONNECTORS).map(|name| format!(" (did you mean '{name}'?)"));
            let allowed = format!("{}{}", CONNECTORS.join(", "), hint.unwrap_or_default());
            Err(option_error(OptionProblem::Invalid { value: other.to_owned(), allowed }))
        }
        None => Err(option_error(OptionProblem::Missing { expected: format!("one of {}", CONNECTORS.join(", ")) })),
    }
}

/// Opens one split. The stream yields exactly the projected columns, in order, in batches of the session's batch size.
///
/// Nothing in `spec`, `split` and `request` is believed: paths are checked against `rules` again, columns against the schema.
pub async fn open_split(
    spec: &ScanSpec,
    split: &[u8],
    request: &ScanRequest,
    rules: &AccessRules,
    ctx: Arc<TaskContext>,
) -> Result<SendableRecordBatchStream, Error> {
    check_projection(&spec.schema(), request)?;
    match spec {
        ScanSpec::Parquet(spec) => filesystem::open_parquet(spec, split, request, rules, ctx).await,
        ScanSpec::Csv(spec) => filesystem::open_csv(spec, split, request, rules, ctx).await,
        ScanSpec::Tpch(spec) => tpch::open(spec, split, request, &ctx),
        ScanSpec::Values(spec) => values::open(spec, split, request, &ctx),
    }
}

fn check_projection(schema: &SchemaRef, request: &ScanRequest) -> Result<(), Error> {
    let columns = schema.fields().len();
    match request.projection.iter().find(|column| **column >= columns) {
        None => Ok(()),
        Some(column) => Err(Error::schema(
            "scan request",
            &format!("#{column}"),
            format!("the table has {columns} columns, counted from 0"),
        )),
    }
}
