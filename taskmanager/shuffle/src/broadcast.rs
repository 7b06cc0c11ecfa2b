//! Broadcast inputs: fetched once per TaskManager, shared by the tasks that run at the same time.
//!
//! Guarantees that concurrent readers share one fetch, that a failed fetch is forgotten (the next reader tries anew), and that
//! the batches are charged to the store's budget until the last task that reads them has ended.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use arrow::array::RecordBatch;
use futures::TryStreamExt;
use parking_lot::Mutex;
use thalweg_types::{ExchangeKey, JobId};
use tokio::sync::OnceCell;

use crate::budget::Budget;
use crate::input::{InputReader, InputStream, ReadError};
use crate::sizes::pinned_bytes;
use crate::store::Charge;

/// All batches of an exchange. Keep it as long as the batches are read.
#[derive(Debug)]
pub struct Broadcast {
    pub batches: Vec<RecordBatch>,
    _charge: Charge,
}

impl Broadcast {
    pub fn rows(&self) -> u64 {
        self.batches.iter().map(|b| b.num_rows() as u64).sum()
    }
}

type Entry = OnceCell<Arc<Broadcast>>;

/// Held by a task while it reads.
#[derive(Debug, Clone)]
pub struct BroadcastHandle(Arc<Entry>);

impl BroadcastHandle {
    pub fn data(&self) -> &Arc<Broadcast> {
        self.0.get().expect("a handle is given out after the fetch")
    }
}

/// See the module's header.
#[derive(Debug)]
pub struct BroadcastCache {
    budget: Arc<Budget>,
    /// By exchange and version of its placement.
    entries: Mutex<HashMap<(ExchangeKey, u64), Weak<Entry>>>,
}

impl BroadcastCache {
    pub fn new(budget: Arc<Budget>) -> Self {
        Self { budget, entries: Mutex::default() }
    }

    /// The batches of `input`, whose maps are taken from version `placement`; fetched if nobody has them yet. Only the reader
    /// that fetches counts rows and bytes in its input's metrics.
    ///
    /// # Errors
    /// Whatever the fetch fails with. A reader that waited for another one's failed fetch tries by itself.
    pub async fn read(&self, input: &InputReader, placement: u64) -> Result<BroadcastHandle, ReadError> {
        let entry = self.entry((input.spec().exchange, placement));
        entry.get_or_try_init(|| self.collect(input.stream())).await?;
        Ok(BroadcastHandle(entry))
    }

    fn entry(&self, key: (ExchangeKey, u64)) -> Arc<Entry> {
        let mut entries = self.entries.lock();
        if let Some(entry) = entries.get(&key).and_then(Weak::upgrade) {
            return entry;
        }
        entries.retain(|_, entry| entry.strong_count() > 0);
        let entry = Arc::new(Entry::new());
        entries.insert(key, Arc::downgrade(&entry));
        entry
    }

    async fn collect(&self, mut stream: InputStream) -> Result<Arc<Broadcast>, ReadError> {
        let mut charge = Charge::new(&self.budget, 0);
        let mut batches = Vec::new();
        while let Some(batch) = stream.try_next().await? {
            charge.grow(pinned_bytes(&batch));
            batches.push(batch);
        }
        Ok(Arc::new(Broadcast { batches, _charge: charge }))
    }

    /// Forgets an exchange; tasks that still read it keep what they have.
    pub fn release_exchange(&self, exchange: ExchangeKey) {
        self.entries.lock().retain(|(key, _), _| *key != exchange);
    }

    pub fn release_job(&self, job: JobId) {
        self.entries.lock().retain(|(key, _), _| key.job != job);
    }
}
