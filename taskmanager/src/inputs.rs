//! What an attempt reads of other stages' outputs, wherever they are.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt, stream};
use thalweg_exec::failure::Caused;
use thalweg_exec::io::TaskInputs;
use thalweg_graph::{InputAssignment, NOT_READ_TO_END, Placement};
use thalweg_shuffle::{BroadcastCache, InputReader, InputSpec, Location, MapSource, ReadContext, ReadError};
use thalweg_types::{ErrorKind, ExchangeKey, FailureCause, JobId, LeaderEpoch, TaskManagerId};

/// Where placements and addresses are looked up.
pub struct Placements<'a> {
    pub versions: &'a HashMap<ExchangeKey, Vec<Arc<Placement>>>,
    pub addresses: &'a HashMap<TaskManagerId, String>,
}

/// The inputs of one attempt, by slot.
pub struct AttemptInputs {
    context: ReadContext,
    broadcasts: Arc<BroadcastCache>,
    slots: Vec<Slot>,
}

struct Slot {
    exchange: ExchangeKey,
    epoch: LeaderEpoch,
    assignment: InputAssignment,
    maps: Vec<MapSource>,
    /// Made when the input is first opened: only then its schema is known.
    reader: OnceLock<InputReader>,
    progress: Arc<Progress>,
}

/// How far the streams of one input were read.
#[derive(Default)]
struct Progress {
    rows: AtomicU64,
    opened: AtomicUsize,
    ended: AtomicUsize,
}

impl AttemptInputs {
    /// Fails if an assignment names a placement that never arrived, or a TaskManager whose address did not.
    pub fn new(
        context: ReadContext,
        broadcasts: Arc<BroadcastCache>,
        (job, epoch): (JobId, LeaderEpoch),
        assignments: &[InputAssignment],
        placements: &Placements<'_>,
    ) -> std::result::Result<Self, FailureCause> {
        let slot = |assignment: &InputAssignment| {
            let exchange = ExchangeKey { job, exchange: assignment.exchange };
            let maps = placements.maps(exchange, assignment, &context.local)?;
            let (reader, progress) = (OnceLock::new(), Arc::default());
            Ok(Slot { exchange, epoch, assignment: assignment.clone(), maps, reader, progress })
        };
        let slots = assignments.iter().map(slot).collect::<std::result::Result<_, _>>()?;
        Ok(Self { context, broadcasts, slots })
    }

    /// Rows read per input; [`NOT_READ_TO_END`] where the operators stopped early.
    pub fn rows_read(&self) -> Vec<u64> {
        let rows = |slot: &Slot| {
            let streams = slot.progress.opened.load(Ordering::Relaxed);
            let to_end = streams > 0 && slot.progress.ended.load(Ordering::Relaxed) == streams;
            if to_end { slot.progress.rows.load(Ordering::Relaxed) } else { NOT_READ_TO_END }
        };
        self.slots.iter().map(rows).collect()
    }

    pub fn network_bytes(&self) -> Vec<u64> {
        let bytes = |slot: &Slot| slot.reader.get().map_or(0, |reader| reader.metrics().network_bytes());
        self.slots.iter().map(bytes).collect()
    }

    fn slot(&self, slot: usize) -> Result<&Slot> {
        self.slots.get(slot).ok_or_else(|| DataFusionError::Internal(format!("the stage has no input number {slot}")))
    }
}

impl Placements<'_> {
    fn maps(
        &self,
        exchange: ExchangeKey,
        assignment: &InputAssignment,
        local: &TaskManagerId,
    ) -> std::result::Result<Vec<MapSource>, FailureCause> {
        let internal = |message: String| FailureCause::Task { kind: ErrorKind::Internal, message };
        let versions = self.versions.get(&exchange).map(Vec::as_slice).unwrap_or_default();
        let placement = versions.iter().find(|p| p.version == assignment.placement).ok_or_else(|| {
            internal(format!("placement {} of exchange {exchange} never arrived", assignment.placement))
        })?;
        let wanted = assignment.maps.iter().map(|map| {
            let location = placement.maps.get(map as usize).ok_or_else(|| {
                internal(format!("exchange {exchange} has {} maps, map {map} is asked for", placement.maps.len()))
            })?;
            let place = if location.task_manager == *local {
                Location::Local
            } else {
                let address = self.addresses.get(&location.task_manager).ok_or_else(|| {
                    internal(format!("the address of taskmanager {} never arrived", location.task_manager))
                })?;
                Location::Remote { task_manager: location.task_manager.clone(), address: address.clone() }
            };
            Ok(MapSource { map, attempt: location.attempt, location: place })
        });
        wanted.collect()
    }
}

fn failed(error: ReadError) -> DataFusionError {
    Caused(error.cause()).into()
}

impl Slot {
    fn reader(&self, context: &ReadContext, schema: SchemaRef) -> Result<InputReader> {
        if let Some(reader) = self.reader.get() {
            return Ok(reader.clone());
        }
        let spec = InputSpec {
            exchange: self.exchange,
            epoch: self.epoch,
            maps: self.maps.clone(),
            subpartitions: self.assignment.subpartitions,
            rows: self.assignment.rows,
            schema,
        };
        let reader = InputReader::new(context.clone(), spec).map_err(failed)?;
        Ok(self.reader.get_or_init(|| reader).clone())
    }

    /// Counts rows, and the streams that were read to their end.
    fn counted(&self, batches: BoxStream<'static, Result<RecordBatch>>) -> BoxStream<'static, Result<RecordBatch>> {
        let progress = Arc::clone(&self.progress);
        progress.opened.fetch_add(1, Ordering::Relaxed);
        let at_end = Arc::clone(&progress);
        let counted = batches.inspect_ok(move |batch| {
            progress.rows.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
        });
        let end = stream::poll_fn(move |_| {
            at_end.ended.fetch_add(1, Ordering::Relaxed);
            std::task::Poll::Ready(None)
        });
        counted.chain(end).boxed()
    }
}

impl TaskInputs for AttemptInputs {
    fn partitions(&self, slot: usize) -> usize {
        self.slots.get(slot).map_or(0, |slot| slot.maps.len())
    }

    fn open(&self, slot: usize, partition: usize, schema: SchemaRef) -> Result<SendableRecordBatchStream> {
        let per_map = self.slot(slot)?.assignment.per_map;
        let slot = self.slot(slot)?;
        let reader = slot.reader(&self.context, Arc::clone(&schema))?;
        let batches = if slot.assignment.shared {
            let (cache, placement) = (Arc::clone(&self.broadcasts), slot.assignment.placement);
            let shared = async move {
                let handle = cache.read(&reader, placement).await.map_err(failed)?;
                let count = handle.data().batches.len();
                // the handle lives as long as the stream: it keeps the batches for others
                Ok::<_, DataFusionError>(stream::iter((0..count).map(move |i| Ok(handle.data().batches[i].clone()))))
            };
            stream::once(shared).try_flatten().boxed()
        } else if per_map {
            reader.map_stream(partition).map_err(failed).boxed()
        } else {
            reader.stream().map_err(failed).boxed()
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, slot.counted(batches))))
    }
}
