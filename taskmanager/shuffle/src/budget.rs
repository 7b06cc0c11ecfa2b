//! How much memory the exchange store may use.
//!
//! Decides nothing by itself: it counts. The store, the only elastic part of a TaskManager's memory, spills whenever what it
//! holds plus what the operators hold passes the limit.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts bytes against a limit. Charges are exact: whoever charged releases the same amount.
pub trait MemoryGauge: Send + Sync {
    /// Charges `bytes` if they fit under the limit; false (and nothing charged) otherwise.
    fn try_charge(&self, bytes: u64) -> bool;
    /// Charges `bytes` whatever the limit.
    fn charge(&self, bytes: u64);
    fn release(&self, bytes: u64);
    /// Bytes beyond the limit; 0 while below.
    fn over_budget(&self) -> u64;
}

/// The store's budget: a limit shared with what the operators of the same TaskManager use.
#[derive(Debug)]
pub struct Budget {
    limit: AtomicU64,
    store: AtomicU64,
    other: AtomicU64,
}

impl Budget {
    /// `limit` in bytes of raw Arrow data, operators and store together.
    pub fn new(limit: u64) -> Self {
        Self { limit: AtomicU64::new(limit), store: AtomicU64::new(0), other: AtomicU64::new(0) }
    }

    pub fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    pub fn set_limit(&self, bytes: u64) {
        self.limit.store(bytes, Ordering::Relaxed);
    }

    /// Bytes of blocks and broadcasts in memory.
    pub fn store_used(&self) -> u64 {
        self.store.load(Ordering::Relaxed)
    }

    /// Bytes that operators hold, as the TaskManager last said.
    pub fn other_used(&self) -> u64 {
        self.other.load(Ordering::Relaxed)
    }

    /// What the operators hold now. The store's background evictor notices within its interval.
    pub fn set_other_used(&self, bytes: u64) {
        self.other.store(bytes, Ordering::Relaxed);
    }

    fn used(&self) -> u64 {
        self.store_used().saturating_add(self.other_used())
    }

    /// Bytes beyond `percent` of the limit.
    pub(crate) fn over(&self, percent: u64) -> u64 {
        let threshold = u128::from(self.limit()) * u128::from(percent) / 100;
        self.used().saturating_sub(u64::try_from(threshold).unwrap_or(u64::MAX))
    }
}

impl MemoryGauge for Budget {
    fn try_charge(&self, bytes: u64) -> bool {
        let limit = self.limit();
        let other = self.other_used();
        let fits = |store: u64| {
            let total = store.checked_add(bytes)?;
            (total.saturating_add(other) <= limit).then_some(total)
        };
        self.store.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok()
    }

    fn charge(&self, bytes: u64) {
        self.store.fetch_add(bytes, Ordering::Relaxed);
    }

    fn release(&self, bytes: u64) {
        let before = self.store.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(before >= bytes, "released {bytes} bytes of {before}");
    }

    fn over_budget(&self) -> u64 {
        self.over(100)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_and_store_share_one_limit() {
        let budget = Budget::new(100);
        assert!(budget.try_charge(60));
        assert!(!budget.try_charge(41));
        budget.set_other_used(30);
        assert!(!budget.try_charge(11));
        assert!(budget.try_charge(10));
        budget.charge(20);
        assert_eq!(budget.over_budget(), 20);
        assert_eq!(budget.over(110), 10);
        budget.release(90);
        assert_eq!((budget.store_used(), budget.over_budget()), (0, 0));
    }
}
