//! What the tests of several connectors need.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::util::pretty::pretty_format_batches;
use datafusion::common::DataFusionError;
use datafusion::execution::TaskContext;
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::TryStreamExt;

use crate::{AccessRules, Error, ScanPlan, ScanRequest, ScanSpec, TableDefinition, TableSource, open_split};

pub(crate) fn rules_for(root: &Path) -> AccessRules {
    AccessRules { allowed_roots: vec![root.canonicalize().unwrap()] }
}

pub(crate) fn definition(name: &str, columns: Option<SchemaRef>, options: &[(&str, &str)]) -> TableDefinition {
    let options: BTreeMap<_, _> = options.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    TableDefinition { name: name.to_owned(), columns, options }
}

pub(crate) fn schema(fields: Vec<Field>) -> SchemaRef {
    Arc::new(Schema::new(fields))
}

pub(crate) fn task_context(batch_size: usize) -> Arc<TaskContext> {
    SessionContext::new_with_config(SessionConfig::new().with_batch_size(batch_size)).task_ctx()
}

/// All columns, no predicate, no limit.
pub(crate) fn everything(schema: &SchemaRef) -> ScanRequest {
    ScanRequest { projection: (0..schema.fields().len()).collect(), predicate: None, limit: None, row_filters: vec![] }
}

/// Sends the spec through its wire form, then reads one split to its end.
pub(crate) async fn read_split(
    spec: &ScanSpec,
    split: &[u8],
    request: &ScanRequest,
    rules: &AccessRules,
    batch_size: usize,
) -> Result<Vec<RecordBatch>, Error> {
    let json = serde_json::to_vec(spec).unwrap();
    let spec: ScanSpec = serde_json::from_slice(&json).unwrap();
    let stream = open_split(&spec, split, request, rules, task_context(batch_size)).await?;
    stream.try_collect().await.map_err(own_error)
}

/// Reads all splits of a table in order.
pub(crate) async fn read_table(
    table: &Arc<dyn TableSource>,
    request: &ScanRequest,
    rules: &AccessRules,
) -> Result<Vec<RecordBatch>, Error> {
    let plan: ScanPlan = table.plan_scan().await?;
    let spec = table.scan_spec();
    let mut batches = Vec::new();
    for split in &plan.splits {
        batches.extend(read_split(&spec, &split.payload, request, rules, 1024).await?);
    }
    Ok(batches)
}

/// The whole of a table as text, one line a row.
pub(crate) async fn read_text(table: &Arc<dyn TableSource>, rules: &AccessRules) -> Result<Vec<String>, Error> {
    let batches = read_table(table, &everything(&table.schema()), rules).await?;
    let formatted = pretty_format_batches(&batches).unwrap().to_string();
    let rows = formatted.lines().filter(|line| line.starts_with('|')).skip(1);
    Ok(rows.map(|line| line.split('|').map(str::trim).collect::<Vec<_>>().join("|")).collect())
}

pub(crate) fn count_rows(batches: &[RecordBatch]) -> usize {
    batches.iter().map(RecordBatch::num_rows).sum()
}

pub(crate) fn concat(batches: &[RecordBatch]) -> RecordBatch {
    concat_batches(&batches[0].schema(), batches).unwrap()
}

fn own_error(error: DataFusionError) -> Error {
    match error {
        DataFusionError::External(inner) => match inner.downcast::<Error>() {
            Ok(own) => *own,
            Err(other) => panic!("not an error of this crate: {other}"),
        },
        other => panic!("not an error of this crate: {other}"),
    }
}
