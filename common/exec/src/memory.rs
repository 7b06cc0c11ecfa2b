//! The memory quota of one task, as the library's operators see it.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;

use datafusion::error::Result;
use datafusion::execution::memory_pool::{
    FairSpillPool, MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation, TrackConsumersPool,
};

/// Told about every change of what a task's operators hold, so that whoever else draws on the same memory can yield.
pub trait MemoryListener: fmt::Debug + Send + Sync {
    fn grown(&self, bytes: usize);
    fn shrunk(&self, bytes: usize);
}

/// A task's share of the managed memory, divided fairly among its operators that can spill. An operator that cannot is refused
/// with an error that names it and what it asked for.
pub struct TaskMemoryPool {
    inner: TrackConsumersPool<FairSpillPool>,
    listener: Arc<dyn MemoryListener>,
}

impl TaskMemoryPool {
    /// `quota` in bytes.
    pub fn new(quota: usize, listener: Arc<dyn MemoryListener>) -> Self {
        const NAMED_IN_ERRORS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(2);
        Self { inner: TrackConsumersPool::new(FairSpillPool::new(quota), NAMED_IN_ERRORS), listener }
    }
}

impl fmt::Debug for TaskMemoryPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl fmt::Display for TaskMemoryPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.inner, f)
    }
}

impl MemoryPool for TaskMemoryPool {
    fn name(&self) -> &str {
        "task"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.inner.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.inner.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.inner.grow(reservation, additional);
        self.listener.grown(additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.inner.shrink(reservation, shrink);
        self.listener.shrunk(shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        self.inner.try_grow(reservation, additional)?;
        self.listener.grown(additional);
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.inner.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.inner.memory_limit()
    }
}
