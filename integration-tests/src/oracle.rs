//! DataFusion in this process on one partition: the answer to compare a distributed run with.
//!
//! It shares its kernels with the engine under test, so it says nothing about them; it has no tasks, no exchange and no retries.

use arrow::datatypes::DataType;
use arrow::record_batch::RecordBatch;
use datafusion::prelude::{SessionConfig, SessionContext};

use crate::compare::{Expected, Kind};
use crate::wire::to_table;

pub struct Oracle {
    context: SessionContext,
    runtime: tokio::runtime::Runtime,
}

impl Oracle {
    /// Knows these tables.
    pub fn new<'a>(tables: impl IntoIterator<Item = (&'a str, RecordBatch)>) -> Result<Oracle, String> {
        let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(1));
        for (name, batch) in tables {
            context.register_batch(name, batch).map_err(|e| e.to_string())?;
        }
        let runtime = tokio::runtime::Builder::new_current_thread().build().map_err(|e| e.to_string())?;
        Ok(Oracle { context, runtime })
    }

    /// The rows, with how each column is compared.
    pub fn answer(&self, query: &str) -> Result<Expected, String> {
        let run = async {
            let frame = self.context.sql(query).await?;
            let schema = frame.schema().as_arrow().clone();
            frame.collect().await.map(|batches| (schema, batches))
        };
        let (schema, mut batches) = self.runtime.block_on(run).map_err(|e| e.to_string())?;
        if batches.is_empty() {
            batches.push(RecordBatch::new_empty(schema.clone().into()));
        }
        let kinds = schema.fields().iter().map(|f| kind(f.data_type())).collect();
        Ok(Expected { kinds, table: to_table(&batches)? })
    }
}

fn kind(data_type: &DataType) -> Kind {
    match data_type {
        t if t.is_integer() || t.is_decimal() => Kind::Number,
        t if t.is_floating() => Kind::Double,
        _ => Kind::Text,
    }
}
