//! One input of a task: a rectangle of an exchange, wherever its maps are.
//!
//! Guarantees that the rows come in the order of map numbers, whatever the timing of the producers and wherever they are, so
//! that a deterministic task stays deterministic; and that no map is left out or read in another attempt than the placement
//! says: that is a lost partition. Decides when connections open: all of an input's streams on its first poll, after room
//! for their windows was reserved, so that an input nobody reads yet costs nothing.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use thalweg_rpc::{ExchangeTicket, TicketKey};
use thalweg_types::{ErrorKind, ExchangeKey, FailureCause, Interval, LeaderEpoch, MapOutputKey, TaskManagerId};

use crate::coalesce::Coalescer;
use crate::error::Error;
use crate::flight::{DataChannels, FetchError, FetchStream, fetch};
use crate::reader::MapReader;
use crate::schema::{cast_batch, exchange_schema};
use crate::store::{ExchangeStore, describe};

/// Who holds a map output.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Location {
    /// This TaskManager's store.
    Local,
    /// Another one, by the address of its data plane.
    Remote { task_manager: TaskManagerId, address: String },
}

/// One map of an input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapSource {
    pub map: u32,
    pub attempt: u32,
    pub location: Location,
}

/// What is read.
#[derive(Debug, Clone)]
pub struct InputSpec {
    pub exchange: ExchangeKey,
    pub epoch: LeaderEpoch,
    /// In ascending order of map numbers.
    pub maps: Vec<MapSource>,
    pub subpartitions: Interval<u32>,
    /// Positions within a single map and subpartition; `None` = all.
    pub rows: Option<Interval<u64>>,
    /// What the consumer expects; columns that an exchange stores otherwise are cast back.
    pub schema: SchemaRef,
}

/// What reading needs of its TaskManager.
#[derive(Debug, Clone)]
pub struct ReadContext {
    pub store: Arc<ExchangeStore>,
    pub channels: Arc<DataChannels>,
    pub key: TicketKey,
    /// This TaskManager, named when a local output is lost.
    pub local: TaskManagerId,
}

/// Counters of one input.
#[derive(Debug, Default)]
pub struct ReadMetrics {
    rows: AtomicU64,
    network_bytes: AtomicU64,
}

impl ReadMetrics {
    /// Rows handed on.
    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// Bytes that came from other TaskManagers.
    pub fn network_bytes(&self) -> u64 {
        self.network_bytes.load(Ordering::Relaxed)
    }
}

/// Why an input cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A producer's output is gone, corrupt, of another attempt, or its host does not answer.
    #[error("partition lost: {exchange}.{map}#{attempt} on {from}: {detail}")]
    PartitionLost { exchange: ExchangeKey, map: u32, attempt: u32, from: TaskManagerId, detail: String },
    #[error(transparent)]
    Store(#[from] Error),
    #[error("cannot bring a batch of {exchange} to the consumer's schema")]
    Schema { exchange: ExchangeKey, source: ArrowError },
}

impl ReadError {
    /// What the task reports.
    pub fn cause(&self) -> FailureCause {
        match self {
            ReadError::PartitionLost { exchange, map, attempt, from, detail } => FailureCause::PartitionLost {
                exchange: exchange.exchange,
                map: *map,
                attempt: *attempt,
                from: from.clone(),
                detail: detail.clone(),
            },
            ReadError::Store(error) => FailureCause::Task { kind: error.kind(), message: describe(error) },
            ReadError::Schema { .. } => FailureCause::Task { kind: ErrorKind::Internal, message: describe(self) },
        }
    }
}

/// Batches of an input.
pub type InputStream = BoxStream<'static, Result<RecordBatch, ReadError>>;

/// Opens an input as one stream, or each of its maps as one.
#[derive(Debug, Clone)]
pub struct InputReader {
    context: ReadContext,
    spec: InputSpec,
    /// The schema of the exchange.
    stored: SchemaRef,
    metrics: Arc<ReadMetrics>,
}

impl InputReader {
    /// # Errors
    /// [`Error::UnsupportedType`] for a schema that no exchange has.
    pub fn new(context: ReadContext, spec: InputSpec) -> Result<Self, ReadError> {
        debug_assert!(spec.maps.windows(2).all(|pair| pair[0].map < pair[1].map), "maps must ascend");
        let stored = exchange_schema(&spec.schema)?;
        Ok(Self { context, spec, stored, metrics: Arc::default() })
    }

    pub fn spec(&self) -> &InputSpec {
        &self.spec
    }

    /// Shared by all streams of this input.
    pub fn metrics(&self) -> Arc<ReadMetrics> {
        self.metrics.clone()
    }

    /// All maps, one after the other.
    pub fn stream(&self) -> InputStream {
        self.open(self.spec.maps.clone())
    }

    /// The map at position `index` of the spec's list alone; empty if there is none.
    pub fn map_stream(&self, index: usize) -> InputStream {
        self.open(self.spec.maps.get(index).cloned().into_iter().collect())
    }

    fn open(&self, maps: Vec<MapSource>) -> InputStream {
        let state = Reading {
            input: self.clone(),
            maps: maps.into(),
            peers: None,
            local: None,
            coalescer: Coalescer::new(),
            ready: VecDeque::new(),
            flushed: false,
        };
        let stream = futures::stream::try_unfold(state, |mut state| async move {
            let batch = state.next().await?;
            Ok::<_, ReadError>(batch.map(|batch| (batch, state)))
        });
        stream.into_stream().boxed()
    }
}

/// A stream being read.
struct Reading {
    input: InputReader,
    /// Not read to their end yet; the first one is being read.
    maps: VecDeque<MapSource>,
    /// Open streams by producer; `None` before the first poll.
    peers: Option<BTreeMap<TaskManagerId, FetchStream>>,
    local: Option<MapReader>,
    coalescer: Coalescer,
    ready: VecDeque<RecordBatch>,
    flushed: bool,
}

impl Reading {
    async fn next(&mut self) -> Result<Option<RecordBatch>, ReadError> {
        if self.peers.is_none() {
            self.peers = Some(self.connect().await?);
        }
        while self.ready.is_empty() {
            match self.maps.front().cloned() {
                Some(map) => self.advance(&map).await?,
                None if self.flushed => return Ok(None),
                None => {
                    self.flushed = true;
                    self.peers = Some(BTreeMap::new()); // gives the windows back
                    self.coalescer.flush(&mut self.ready)?;
                }
            }
        }
        let Some(batch) = self.ready.pop_front() else { return Ok(None) };
        self.input.metrics.rows.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
        let exchange = self.input.spec.exchange;
        cast_batch(&batch, &self.input.spec.schema).map(Some).map_err(|source| ReadError::Schema { exchange, source })
    }

    /// Opens one stream per producer, each for the range of maps that it holds.
    async fn connect(&self) -> Result<BTreeMap<TaskManagerId, FetchStream>, ReadError> {
        let mut wanted: BTreeMap<&TaskManagerId, (&str, &MapSource, u32)> = BTreeMap::new();
        for map in &self.maps {
            if let Location::Remote { task_manager, address } = &map.location {
                let entry = wanted.entry(task_manager).or_insert((address, map, map.map));
                entry.2 = map.map;
            }
        }
        if wanted.is_empty() {
            return Ok(BTreeMap::new());
        }
        let InputReader { context, spec, stored, .. } = &self.input;
        let channels = &context.channels;
        let options = channels.options();
        let reserve = channels.budget().reserve(wanted.len(), options.stream_window, options.reservation_timeout);
        let mut windows = reserve.await;
        let calls = wanted.into_iter().map(|(task_manager, (address, first, last))| {
            let ticket = ExchangeTicket {
                exchange: spec.exchange,
                maps: Interval::new(first.map, last + 1),
                subpartitions: spec.subpartitions,
                rows: spec.rows,
                epoch: spec.epoch,
                incarnation: task_manager.incarnation,
            };
            let (bytes, window) = (ticket.sign(&context.key), windows.share());
            async move {
                let opened = fetch(channels, address, bytes, stored.clone(), window).await;
                opened
                    .map(|stream| (task_manager.clone(), stream))
                    .map_err(|e| self.input.lost_remote(first, task_manager, &e))
            }
        });
        futures::future::try_join_all(calls).await.map(|streams| streams.into_iter().collect())
    }

    /// Takes one step with the first map.
    async fn advance(&mut self, map: &MapSource) -> Result<(), ReadError> {
        let end = match &map.location {
            Location::Local => self.advance_local(map)?,
            Location::Remote { task_manager, .. } => self.advance_remote(map, task_manager).await?,
        };
        if end {
            self.maps.pop_front();
        }
        Ok(())
    }

    /// Reads one slice; true at the end of the map.
    fn advance_local(&mut self, map: &MapSource) -> Result<bool, ReadError> {
        let input = &self.input;
        let lost = |error: Error| match error.is_lost_output() {
            true => input.lost(map, &input.context.local, describe(&error)),
            false => ReadError::Store(error),
        };
        let mut reader = match self.local.take() {
            Some(reader) => reader,
            None => {
                let key = MapOutputKey { exchange: input.spec.exchange, map: map.map, attempt: map.attempt };
                let (subpartitions, rows) = (input.spec.subpartitions, input.spec.rows);
                input.context.store.read(&key, subpartitions, rows).map_err(lost)?
            }
        };
        match reader.next_slice().map_err(lost)? {
            None => Ok(true),
            Some(slice) => {
                self.coalescer.push(slice.batch, slice.block_rows, &mut self.ready)?;
                self.local = Some(reader);
                Ok(false)
            }
        }
    }

    /// Reads one message; true at the end of the map.
    async fn advance_remote(&mut self, map: &MapSource, from: &TaskManagerId) -> Result<bool, ReadError> {
        let input = &self.input;
        let lost = |detail: String| input.lost(map, from, detail);
        let stream = self.peers.as_mut().and_then(|peers| peers.get_mut(from));
        let stream = stream.ok_or_else(|| lost("its stream ended before".to_owned()))?;
        let item = stream.next().await.map_err(|e| input.lost_remote(map, from, &e))?;
        let item = item.ok_or_else(|| lost("its host no longer has it".to_owned()))?;
        input.metrics.network_bytes.fetch_add(item.bytes, Ordering::Relaxed);
        if item.map < map.map {
            return Ok(false); // a map that this input reads elsewhere, or not at all
        }
        if item.map > map.map {
            return Err(lost(format!("its host goes on with map {}", item.map)));
        }
        if item.attempt != map.attempt {
            return Err(lost(format!("attempt {} is there", item.attempt)));
        }
        let rows = item.batch.num_rows();
        self.coalescer.push(item.batch, rows, &mut self.ready)?;
        let last_of_peer = item.end_of_map
            && !self
                .maps
                .iter()
                .skip(1)
                .any(|m| matches!(&m.location, Location::Remote { task_manager, .. } if task_manager == from));
        if last_of_peer && let Some(peers) = &mut self.peers {
            peers.remove(from);
        }
        Ok(item.end_of_map)
    }
}

impl InputReader {
    fn lost(&self, map: &MapSource, from: &TaskManagerId, detail: String) -> ReadError {
        let (map, attempt) = (map.map, map.attempt);
        ReadError::PartitionLost { exchange: self.spec.exchange, map, attempt, from: from.clone(), detail }
    }

    fn lost_remote(&self, map: &MapSource, from: &TaskManagerId, error: &FetchError) -> ReadError {
        self.lost(map, from, describe(error))
    }
}
