//! Where a task's rows go: into the exchange store, or, for a small result, into the finish report.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use arrow::ipc::writer::StreamWriter;
use bytes::Bytes;
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_plan::PhysicalExpr;
use thalweg_exec::failure::Caused;
use thalweg_exec::stable_hash::hash_columns;
use thalweg_rpc::link::MAX_INLINE_RESULT;
use thalweg_shuffle::{ExchangeStore, MapStats, MapWriter};
use thalweg_types::{ErrorKind, FailureCause, MapOutputKey};

/// Writes one map output.
pub struct Output {
    store: Arc<ExchangeStore>,
    key: MapOutputKey,
    schema: SchemaRef,
    subpartitions: u32,
    keys: Option<Vec<Arc<dyn PhysicalExpr>>>,
    state: State,
    hashes: Vec<u64>,
}

enum State {
    /// A result that may still be small: held back until it is too large or ends.
    Holding {
        batches: Vec<RecordBatch>,
        bytes: usize,
    },
    Writing(MapWriter),
}

/// What was written.
pub struct Written {
    pub stats: MapStats,
    /// The rows as an IPC stream when they were held back to the end; the store has them too, for a relay that forgot.
    pub inline: Option<Bytes>,
}

fn failed(error: thalweg_shuffle::Error) -> DataFusionError {
    Caused(FailureCause::Task { kind: error.kind(), message: error.to_string() }).into()
}

impl Output {
    /// `keys`: hash expressions over the task's rows; `None` puts everything into subpartition 0. `hold`: it is the result.
    pub fn new(
        store: Arc<ExchangeStore>,
        key: MapOutputKey,
        schema: SchemaRef,
        subpartitions: u32,
        keys: Option<Vec<Arc<dyn PhysicalExpr>>>,
        hold: bool,
    ) -> Result<Self> {
        let state = if hold {
            State::Holding { batches: vec![], bytes: 0 }
        } else {
            State::Writing(store.writer(key, Arc::clone(&schema), subpartitions).map_err(failed)?)
        };
        Ok(Self { store, key, schema, subpartitions, keys, state, hashes: vec![] })
    }

    pub fn write(&mut self, batch: RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        // operators may differ from their declared schema in field metadata or nullability
        let batch = conform(batch, &self.schema)?;
        if let State::Holding { batches, bytes } = &mut self.state {
            *bytes += batch.get_array_memory_size();
            batches.push(batch);
            if *bytes <= MAX_INLINE_RESULT / 2 {
                return Ok(());
            }
            let held = std::mem::take(batches);
            let writer = self.store.writer(self.key, Arc::clone(&self.schema), self.subpartitions).map_err(failed)?;
            self.state = State::Writing(writer);
            return held.into_iter().try_for_each(|batch| self.append(batch));
        }
        self.append(batch)
    }

    fn append(&mut self, batch: RecordBatch) -> Result<()> {
        let State::Writing(writer) = &mut self.state else {
            return Err(DataFusionError::Internal("append to an output that is held back".to_owned()));
        };
        let Some(keys) = &self.keys else { return writer.write(batch, None).map_err(failed) };
        self.hashes.clear();
        if keys.is_empty() {
            self.hashes.resize(batch.num_rows(), 0);
        } else {
            let columns = keys
                .iter()
                .map(|key| key.evaluate(&batch)?.into_array(batch.num_rows()))
                .collect::<Result<Vec<ArrayRef>>>()?;
            hash_columns(&columns, &mut self.hashes)
                .map_err(|e| Caused(FailureCause::Task { kind: ErrorKind::Data, message: e.to_string() }))?;
        }
        writer.write(batch, Some(&self.hashes)).map_err(failed)
    }

    /// Seals the output: from now on it can be read.
    pub fn finish(self) -> Result<Written> {
        match self.state {
            State::Writing(writer) => Ok(Written { stats: writer.finish().map_err(failed)?, inline: None }),
            State::Holding { batches, .. } => {
                let inline = encode(&batches, &self.schema)?;
                let mut writer = self.store.writer(self.key, self.schema, self.subpartitions).map_err(failed)?;
                for batch in batches {
                    writer.write(batch, None).map_err(failed)?;
                }
                let inline = (inline.len() <= MAX_INLINE_RESULT).then_some(inline);
                Ok(Written { stats: writer.finish().map_err(failed)?, inline })
            }
        }
    }
}

fn encode(batches: &[RecordBatch], schema: &SchemaRef) -> Result<Bytes> {
    let mut stream = StreamWriter::try_new(Vec::new(), schema)?;
    for batch in batches {
        stream.write(batch)?;
    }
    Ok(Bytes::from(stream.into_inner()?))
}

fn conform(batch: RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    if batch.schema_ref() == schema {
        return Ok(batch);
    }
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), batch.columns().to_vec(), &options)?)
}
