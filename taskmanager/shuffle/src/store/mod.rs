//! The exchange store: map outputs of all jobs of a TaskManager, memory first, disk as overflow.
//!
//! Decides what leaves memory: what is needed latest. Outputs that nobody has begun to read come first, of the newest exchange,
//! the highest map, its last blocks. A background thread keeps the store under its budget; a writer that finds it more than a
//! tenth above spills on its own thread before it goes on, and fails alone if the disk does.
//!
//! Guarantees: only finished outputs are readable; of several attempts of one map the newest finished one is kept; released
//! data goes with its last reader. A slice that a reader holds keeps its block in memory after the store has let go of it:
//! the store's count does not include it, the reader's operator does.

mod evict;
mod output;
mod spill;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use arrow::datatypes::SchemaRef;
use parking_lot::Mutex;
use thalweg_types::{ExchangeKey, Interval, JobId, MapOutputKey};

use output::SpillTarget;
pub(crate) use output::{Block, Charge, Held, MapOutput, describe};
use spill::SpillFile;

use crate::budget::Budget;
use crate::error::{Error, io};
use crate::reader::MapReader;
use crate::writer::MapWriter;

/// Settings of a store.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// Directories for spilled blocks, used in turn. The store makes a directory of its own in each.
    pub spill_dirs: Vec<PathBuf>,
    /// Raw bytes of a block, about.
    pub block_bytes: usize,
    /// Raw bytes a writer of several subpartitions buffers before it sorts them.
    pub flush_bytes: usize,
    /// Raw bytes of one message of a spilled block, about.
    pub spill_message_bytes: usize,
    /// Whether spilled blocks are LZ4-compressed.
    pub lz4: bool,
    /// How often the background thread looks at the budget when nobody wakes it.
    pub evict_interval: Duration,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            spill_dirs: Vec::new(),
            block_bytes: 1 << 20,
            flush_bytes: 32 << 20,
            spill_message_bytes: 256 << 10,
            lz4: true,
            evict_interval: Duration::from_millis(50),
        }
    }
}

/// What a store holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of blocks, broadcasts and write buffers in memory.
    pub memory: u64,
    /// Bytes in spill files.
    pub disk: u64,
    /// Finished map outputs.
    pub outputs: usize,
}

#[derive(Debug, Default)]
struct State {
    finished: BTreeMap<ExchangeKey, BTreeMap<u32, Arc<MapOutput>>>,
    writing: HashMap<u64, Arc<MapOutput>>,
    /// Exchanges of which some output was read.
    read: BTreeSet<ExchangeKey>,
}

/// See the module's header.
#[derive(Debug)]
pub struct ExchangeStore {
    pub(crate) options: StoreOptions,
    budget: Arc<Budget>,
    /// The store's own directories.
    dirs: Vec<PathBuf>,
    next_dir: AtomicUsize,
    next_id: AtomicU64,
    disk: Arc<AtomicU64>,
    state: Mutex<State>,
    evictor: evict::Evictor,
}

impl ExchangeStore {
    /// # Errors
    /// [`Error::Io`] if a directory cannot be made.
    pub fn new(options: StoreOptions, budget: Arc<Budget>) -> Result<Arc<Self>, Error> {
        static STORES: AtomicU64 = AtomicU64::new(0);
        let name = format!("thalweg-exchange-{}-{}", std::process::id(), STORES.fetch_add(1, Ordering::Relaxed));
        let dirs: Vec<PathBuf> = options.spill_dirs.iter().map(|d| d.join(&name)).collect();
        for dir in &dirs {
            std::fs::create_dir_all(dir).map_err(io("create spill directory", dir))?;
        }
        let interval = options.evict_interval;
        Ok(Arc::new_cyclic(|store| Self {
            options,
            budget,
            dirs,
            next_dir: AtomicUsize::new(0),
            next_id: AtomicU64::new(0),
            disk: Arc::default(),
            state: Mutex::default(),
            evictor: evict::Evictor::start(store.clone(), interval),
        }))
    }

    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// Opens the output of one attempt. Nothing is readable before [`MapWriter::finish`]; a dropped writer leaves nothing.
    ///
    /// # Errors
    /// [`Error::UnsupportedType`] for a schema that no exchange can carry.
    pub fn writer(
        self: &Arc<Self>,
        key: MapOutputKey,
        schema: SchemaRef,
        subpartitions: u32,
    ) -> Result<MapWriter, Error> {
        MapWriter::new(self.clone(), key, schema, subpartitions)
    }

    /// Opens a finished output for the rows of `subpartitions`, or of those the rows at positions `rows`.
    ///
    /// # Errors
    /// [`Error::NotFound`] if this attempt's output is not here.
    pub fn read(
        &self,
        key: &MapOutputKey,
        subpartitions: Interval<u32>,
        rows: Option<Interval<u64>>,
    ) -> Result<MapReader, Error> {
        let output = self.find(key)?;
        output.read.store(true, Ordering::Relaxed);
        self.state.lock().read.insert(key.exchange);
        Ok(MapReader::new(output, subpartitions, rows))
    }

    pub(crate) fn find(&self, key: &MapOutputKey) -> Result<Arc<MapOutput>, Error> {
        let not_found = |detail: String| Error::NotFound { output: *key, detail };
        let state = self.state.lock();
        let outputs =
            state.finished.get(&key.exchange).ok_or_else(|| not_found("its exchange is unknown".to_owned()))?;
        let output = outputs.get(&key.map).ok_or_else(|| not_found("no attempt of it finished here".to_owned()))?;
        if output.key.attempt != key.attempt {
            return Err(not_found(format!("attempt {} is here", output.key.attempt)));
        }
        Ok(output.clone())
    }

    /// Finished outputs of an exchange with map numbers in `maps`, ascending.
    pub fn outputs(&self, exchange: ExchangeKey, maps: Interval<u32>) -> Vec<MapOutputKey> {
        if maps.is_empty() {
            return Vec::new();
        }
        let state = self.state.lock();
        let Some(outputs) = state.finished.get(&exchange) else { return Vec::new() };
        outputs.range(maps.start..maps.end).map(|(_, output)| output.key).collect()
    }

    /// Forgets an exchange's outputs; those being written are dropped when they finish.
    pub fn release_exchange(&self, exchange: ExchangeKey) {
        self.release(|key| key == exchange);
    }

    /// Forgets everything of a job.
    pub fn release_job(&self, job: JobId) {
        self.release(|key| key.job == job);
    }

    /// Forgets everything: whoever asked for these outputs is gone.
    pub fn clear(&self) {
        self.release(|_| true);
    }

    /// Outputs being written will not become readable: whoever writes them was told to stop.
    pub fn discard_unfinished(&self) {
        for output in self.state.lock().writing.values() {
            output.discarded.store(true, Ordering::Relaxed);
        }
    }

    /// Every finished output, ordered.
    pub fn finished(&self) -> Vec<MapOutputKey> {
        let state = self.state.lock();
        state.finished.values().flat_map(BTreeMap::values).map(|output| output.key).collect()
    }

    /// Forgets every finished output but these.
    pub fn retain(&self, keep: &BTreeSet<MapOutputKey>) {
        let mut released = Vec::new(); // dropped after the lock: it unlinks files
        let mut state = self.state.lock();
        for outputs in state.finished.values_mut() {
            released.extend(outputs.extract_if(.., |_, output| !keep.contains(&output.key)));
        }
        state.finished.retain(|_, outputs| !outputs.is_empty());
        drop(state);
    }

    fn release(&self, matches: impl Fn(ExchangeKey) -> bool) {
        let mut released = Vec::new(); // dropped after the lock: it unlinks files
        let mut state = self.state.lock();
        let keys: Vec<ExchangeKey> = state.finished.keys().copied().filter(|k| matches(*k)).collect();
        for key in keys {
            released.extend(state.finished.remove(&key));
        }
        state.read.retain(|k| !matches(*k));
        for output in state.writing.values().filter(|o| matches(o.key.exchange)) {
            output.discarded.store(true, Ordering::Relaxed);
        }
        drop(state);
    }

    pub fn usage(&self) -> Usage {
        let outputs = self.state.lock().finished.values().map(BTreeMap::len).sum();
        Usage { memory: self.budget.store_used(), disk: self.disk.load(Ordering::Relaxed), outputs }
    }

    /// The store's own spill directories.
    pub fn directories(&self) -> &[PathBuf] {
        &self.dirs
    }

    pub(crate) fn begin(&self, output: Arc<MapOutput>) -> u64 {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        self.state.lock().writing.insert(id, output);
        id
    }

    pub(crate) fn abandon(&self, id: u64) {
        let dropped = self.state.lock().writing.remove(&id);
        drop(dropped);
    }

    /// Makes an output readable, in place of an older attempt; a newer one stays.
    pub(crate) fn complete(&self, id: u64) {
        let mut state = self.state.lock();
        let Some(output) = state.writing.remove(&id) else { return };
        if output.discarded.load(Ordering::Relaxed) {
            return;
        }
        let outputs = state.finished.entry(output.key.exchange).or_default();
        let newer = outputs.get(&output.key.map).is_some_and(|o| o.key.attempt > output.key.attempt);
        let replaced = if newer { Some(output) } else { outputs.insert(output.key.map, output) };
        drop(state);
        drop(replaced);
    }

    /// Called after a writer pushed blocks.
    pub(crate) fn relieve(&self) -> Result<(), Error> {
        if self.budget.over(110) > 0 {
            return self.evict();
        }
        if self.budget.over(100) > 0 {
            self.evictor.wake();
        }
        Ok(())
    }

    /// Spills until the budget is met with a tenth to spare, or nothing is left to spill.
    fn evict(&self) -> Result<(), Error> {
        let target = SpillTarget {
            create: &|key| self.create_spill_file(key),
            lz4: self.options.lz4,
            message_bytes: self.options.spill_message_bytes as u64,
        };
        for output in self.candidates() {
            let over = self.budget.over(90);
            if over == 0 {
                break;
            }
            output.spill(over, &target)?;
        }
        Ok(())
    }

    /// Outputs with blocks in memory, the one needed latest first.
    fn candidates(&self) -> Vec<Arc<MapOutput>> {
        let state = self.state.lock();
        let all = state.finished.values().flat_map(BTreeMap::values).chain(state.writing.values());
        let mut found: Vec<_> = all.filter(|o| o.memory_bytes() > 0).cloned().collect();
        found.sort_by_key(|o| {
            let being_read = state.read.contains(&o.key.exchange);
            let newest = std::cmp::Reverse((o.key.exchange.exchange, o.key.map));
            (being_read, o.read.load(Ordering::Relaxed), newest)
        });
        found
    }

    fn create_spill_file(&self, key: &MapOutputKey) -> Result<SpillFile, Error> {
        let turn = self.next_dir.fetch_add(1, Ordering::Relaxed);
        let dir = self.dirs.get(turn % self.dirs.len().max(1)).ok_or(Error::NoSpillDirectory)?;
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (job, exchange) = (key.exchange.job, key.exchange.exchange);
        let name = format!("{job}-{exchange}-{}-{}-{id}.blocks", key.map, key.attempt);
        SpillFile::create(dir.join(name), self.disk.clone())
    }
}

impl Drop for ExchangeStore {
    fn drop(&mut self) {
        self.evictor.stop();
        for dir in &self.dirs {
            // gone already when the process's work directory was removed first
            if let Err(error) = std::fs::remove_dir_all(dir)
                && error.kind() != std::io::ErrorKind::NotFound
            {
                tracing::warn!(dir = %dir.display(), %error, "cannot remove spill directory");
            }
        }
    }
}
