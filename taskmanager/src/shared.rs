//! What all tasks of a TaskManager share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use thalweg_connectors::AccessRules;
use thalweg_exec::environment::TaskEnvironment;
use thalweg_exec::memory::MemoryListener;
use thalweg_shuffle::flight::DataChannels;
use thalweg_shuffle::{BroadcastCache, Budget, ExchangeStore};

/// Made once per process, handed to every attempt.
pub struct Shared {
    pub store: Arc<ExchangeStore>,
    pub broadcasts: Arc<BroadcastCache>,
    pub channels: Arc<DataChannels>,
    pub environment: TaskEnvironment,
    pub access: AccessRules,
    pub operators: Arc<OperatorMemory>,
    /// Bytes of managed memory that one slot may use.
    pub slot_memory: u64,
}

/// What the operators of all running tasks hold; the exchange store has the rest of the managed memory.
#[derive(Debug)]
pub struct OperatorMemory {
    used: AtomicU64,
    budget: Arc<Budget>,
}

impl OperatorMemory {
    pub fn new(budget: Arc<Budget>) -> Self {
        Self { used: AtomicU64::new(0), budget }
    }
}

impl MemoryListener for OperatorMemory {
    fn grown(&self, bytes: usize) {
        let used = self.used.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64;
        self.budget.set_other_used(used);
    }

    fn shrunk(&self, bytes: usize) {
        let used = self.used.fetch_sub(bytes as u64, Ordering::Relaxed) - bytes as u64;
        self.budget.set_other_used(used);
    }
}
