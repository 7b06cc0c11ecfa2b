//! A map output: its blocks, in memory or in its spill file.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use parking_lot::{Mutex, RwLock};
use thalweg_types::{Interval, MapOutputKey};

use super::spill::{Chunk, SpillFile, chain};
use crate::budget::{Budget, MemoryGauge};
use crate::codec::Encoder;
use crate::error::{Error, arrow};
use crate::lz4::Packer;
use crate::partition::BlockIndex;
use crate::sizes::pinned_bytes;

/// Bytes charged to the budget until dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Charge {
    pub fn new(budget: &Arc<Budget>, bytes: usize) -> Self {
        budget.charge(bytes as u64);
        Self { budget: budget.clone(), bytes: bytes as u64 }
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn grow(&mut self, bytes: usize) {
        self.budget.charge(bytes as u64);
        self.bytes += bytes as u64;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.release(self.bytes);
    }
}

#[derive(Debug)]
enum Place {
    Memory(RecordBatch, Charge),
    /// The messages hold the block's rows in order.
    Disk(Arc<SpillFile>, Arc<[Chunk]>),
}

/// What a reader holds of a block: enough to read it whatever happens to the block meanwhile.
#[derive(Debug, Clone)]
pub(crate) enum Held {
    Memory(RecordBatch),
    Disk(Arc<SpillFile>, Arc<[Chunk]>),
}

#[derive(Debug)]
pub(crate) struct Block {
    pub index: BlockIndex,
    place: Mutex<Place>,
    /// Set by the one that is spilling it.
    claimed: AtomicBool,
}

impl Block {
    pub fn new(index: BlockIndex, batch: RecordBatch, budget: &Arc<Budget>) -> Self {
        let charge = Charge::new(budget, pinned_bytes(&batch));
        Self { index, place: Mutex::new(Place::Memory(batch, charge)), claimed: AtomicBool::new(false) }
    }

    pub fn hold(&self) -> Held {
        match &*self.place.lock() {
            Place::Memory(batch, _) => Held::Memory(batch.clone()),
            Place::Disk(file, chunks) => Held::Disk(file.clone(), chunks.clone()),
        }
    }

    fn memory_bytes(&self) -> u64 {
        match &*self.place.lock() {
            Place::Memory(_, charge) => charge.bytes(),
            Place::Disk(_, _) => 0,
        }
    }
}

/// Everything one attempt of a producing task wrote, or is writing.
#[derive(Debug)]
pub(crate) struct MapOutput {
    pub key: MapOutputKey,
    pub schema: SchemaRef,
    pub subpartitions: u32,
    blocks: RwLock<Vec<Arc<Block>>>,
    file: Mutex<Option<Arc<SpillFile>>>,
    /// Someone began to read it.
    pub read: AtomicBool,
    /// Its exchange was released while it was being written.
    pub discarded: AtomicBool,
    /// Bytes of blocks in memory; a hint for the choice of what to spill.
    memory: AtomicU64,
}

/// How a block is written to disk.
pub(crate) struct SpillTarget<'a> {
    /// Makes the output's file when its first block is spilled.
    pub create: &'a dyn Fn(&MapOutputKey) -> Result<SpillFile, Error>,
    pub lz4: bool,
    /// Raw bytes per message; a block is cut at subpartition bounds, so that a small interval costs a small decode.
    pub message_bytes: u64,
}

impl MapOutput {
    pub fn new(key: MapOutputKey, schema: SchemaRef, subpartitions: u32) -> Self {
        Self {
            key,
            schema,
            subpartitions,
            blocks: RwLock::default(),
            file: Mutex::default(),
            read: AtomicBool::new(false),
            discarded: AtomicBool::new(false),
            memory: AtomicU64::new(0),
        }
    }

    pub fn push(&self, block: Block) {
        self.memory.fetch_add(block.memory_bytes(), Ordering::Relaxed);
        self.blocks.write().push(Arc::new(block));
    }

    pub fn blocks(&self) -> Vec<Arc<Block>> {
        self.blocks.read().clone()
    }

    pub fn memory_bytes(&self) -> u64 {
        self.memory.load(Ordering::Relaxed)
    }

    pub fn spilled_bytes(&self) -> u64 {
        self.file.lock().as_ref().map_or(0, |f| f.len())
    }

    fn file(&self, target: &SpillTarget<'_>) -> Result<Arc<SpillFile>, Error> {
        let mut file = self.file.lock();
        if let Some(file) = &*file {
            return Ok(file.clone());
        }
        let created = Arc::new((target.create)(&self.key)?);
        *file = Some(created.clone());
        Ok(created)
    }

    /// Writes blocks to disk, the last ones first since they are needed latest, until `enough` bytes are free.
    /// Returns how many bytes left memory.
    pub fn spill(&self, enough: u64, target: &SpillTarget<'_>) -> Result<u64, Error> {
        let mut freed = 0;
        for block in self.blocks().iter().rev() {
            if freed >= enough {
                break;
            }
            if block.claimed.swap(true, Ordering::AcqRel) {
                continue; // spilled, or another thread is at it
            }
            match self.spill_block(block, target) {
                Ok(bytes) => freed += bytes,
                Err(error) => {
                    block.claimed.store(false, Ordering::Release);
                    return Err(error);
                }
            }
        }
        Ok(freed)
    }

    fn spill_block(&self, block: &Block, target: &SpillTarget<'_>) -> Result<u64, Error> {
        let Held::Memory(batch) = block.hold() else { return Ok(0) };
        let file = self.file(target)?;
        let mut encoder = Encoder::try_new(&batch.schema()).map_err(arrow("encode a block"))?;
        let mut packer = target.lz4.then(Packer::default);
        let mut body = Vec::new();
        let whole = || vec![Interval::new(0, batch.num_rows())];
        let pieces = block.index.split(target.message_bytes);
        let pieces = pieces.map_or_else(whole, |p| p.into_iter().map(|(_, rows)| rows).collect());
        let mut chunks = Vec::with_capacity(pieces.len());
        for rows in pieces {
            let piece = batch.slice(rows.start, rows.end - rows.start);
            let message = encoder.encode(&piece).map_err(arrow("encode a block"))?;
            message.gather(&mut body);
            let packed = packer.as_mut().and_then(|p| p.pack(&body));
            chunks.push(file.append(&message.header, &body, packed, rows)?);
        }
        let mut place = block.place.lock();
        let bytes = match &*place {
            Place::Memory(_, charge) => charge.bytes(),
            Place::Disk(_, _) => 0,
        };
        *place = Place::Disk(file, chunks.into());
        self.memory.fetch_sub(bytes, Ordering::Relaxed);
        Ok(bytes)
    }

    pub fn lost(&self, detail: String) -> Error {
        Error::LostBlock { output: self.key, detail }
    }

    /// Decodes one message of a spilled block.
    pub fn read_chunk(&self, file: &SpillFile, chunk: &Chunk) -> Result<RecordBatch, Error> {
        file.read(chunk, &self.schema).map_err(|detail| self.lost(detail))
    }
}

/// The text of an error and its sources.
pub(crate) fn describe(error: &dyn std::error::Error) -> String {
    chain(error)
}
