//! TaskManagers, their slots, and what each has been told.
//!
//! Guarantees: one slot per attempt; a cancelled attempt keeps its slot until its TaskManager says that it ended, or for
//! [`CANCEL_GRACE`] if it never does. Decides which TaskManager gets the next task; does not know stages.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use thalweg_types::{AttemptId, ExchangeKey, JobId, TaskManagerId};

use crate::{TaskManagerView, Time};

/// A cancelled attempt that is not reported ended frees its slot after this long.
pub(crate) const CANCEL_GRACE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Cluster {
    tms: BTreeMap<TaskManagerId, TaskManager>,
    /// Attempts told to stop, with the time their slot is taken back at the latest.
    cancelling: BTreeMap<(TaskManagerId, AttemptId), Time>,
    /// Since when there is no slot at all.
    pub empty_since: Option<Time>,
}

#[derive(Debug)]
struct TaskManager {
    slots: u32,
    slot_memory: u64,
    occupied: BTreeSet<AttemptId>,
    /// The placement version sent last.
    placed: BTreeMap<ExchangeKey, u64>,
}

impl TaskManager {
    fn free(&self) -> u32 {
        self.slots.saturating_sub(self.occupied.len() as u32)
    }
}

impl Cluster {
    /// Nobody has registered since time zero.
    pub fn new() -> Self {
        Self { tms: BTreeMap::new(), cancelling: BTreeMap::new(), empty_since: Some(Time::default()) }
    }

    /// Registers or updates; an older incarnation must have been removed before.
    pub fn register(&mut self, tm: TaskManagerId, slots: u32, slot_memory: u64) {
        let entry = self.tms.entry(tm).or_insert_with(|| TaskManager {
            slots,
            slot_memory,
            occupied: BTreeSet::new(),
            placed: BTreeMap::new(),
        });
        entry.slots = slots;
        entry.slot_memory = slot_memory;
    }

    /// True if it was registered.
    pub fn remove(&mut self, tm: &TaskManagerId) -> bool {
        self.cancelling.retain(|(at, _), _| at != tm);
        self.tms.remove(tm).is_some()
    }

    /// Another incarnation of the same resource.
    pub fn older_incarnation(&self, tm: &TaskManagerId) -> Option<TaskManagerId> {
        self.tms.keys().find(|other| other.resource == tm.resource && *other != tm).cloned()
    }

    pub fn is_registered(&self, tm: &TaskManagerId) -> bool {
        self.tms.contains_key(tm)
    }

    pub fn slots(&self) -> u32 {
        self.tms.values().fold(0, |sum, t| sum.saturating_add(t.slots))
    }

    pub fn free_slots(&self) -> u32 {
        self.tms.values().map(TaskManager::free).sum()
    }

    pub fn len(&self) -> usize {
        self.tms.len()
    }

    /// Bytes of the smallest slot of a TaskManager that has slots; 0 when unknown.
    pub fn smallest_slot_memory(&self) -> u64 {
        self.tms.values().filter(|t| t.slots > 0).map(|t| t.slot_memory).min().unwrap_or(0)
    }

    /// The TaskManager with the most free slots; among equals the one that holds most of the input, then the first by name.
    pub fn choose(&self, input_bytes: impl Fn(&TaskManagerId) -> u64) -> Option<TaskManagerId> {
        let most = self.tms.values().map(TaskManager::free).max().filter(|&free| free > 0)?;
        let equals = self.tms.iter().filter(|(_, t)| t.free() == most).map(|(id, _)| id);
        equals.min_by_key(|id| Reverse(input_bytes(id))).cloned()
    }

    pub fn occupy(&mut self, tm: &TaskManagerId, attempt: AttemptId) {
        if let Some(t) = self.tms.get_mut(tm) {
            t.occupied.insert(attempt);
        }
    }

    /// The attempt ended there, whatever way. A report from the wrong place frees nothing.
    pub fn vacate(&mut self, tm: &TaskManagerId, attempt: AttemptId) {
        if let Some(t) = self.tms.get_mut(tm) {
            t.occupied.remove(&attempt);
        }
        self.cancelling.remove(&(tm.clone(), attempt));
    }

    /// The attempt was told to stop; its slot stays taken until it has.
    pub fn await_cancelled(&mut self, tm: &TaskManagerId, attempt: AttemptId, now: Time) {
        if self.is_registered(tm) {
            self.cancelling.insert((tm.clone(), attempt), now + CANCEL_GRACE);
        }
    }

    /// Takes back slots of attempts that should have stopped long ago. True if there were any.
    pub fn reclaim_overdue(&mut self, now: Time) -> bool {
        let overdue: Vec<_> =
            self.cancelling.iter().filter(|(_, deadline)| **deadline <= now).map(|(key, _)| key.clone()).collect();
        for (tm, attempt) in &overdue {
            tracing::warn!(%tm, %attempt, "cancelled attempt was never reported ended, its slot is taken back");
            self.vacate(tm, *attempt);
        }
        !overdue.is_empty()
    }

    /// Notes that a placement version is about to be sent; false if that TaskManager has it.
    pub fn must_place(&mut self, tm: &TaskManagerId, exchange: ExchangeKey, version: u64) -> bool {
        let Some(t) = self.tms.get_mut(tm) else { return false };
        t.placed.insert(exchange, version) != Some(version)
    }

    pub fn forget_exchange(&mut self, tm: &TaskManagerId, exchange: ExchangeKey) {
        if let Some(t) = self.tms.get_mut(tm) {
            t.placed.remove(&exchange);
        }
    }

    pub fn forget_job(&mut self, job: JobId) {
        for t in self.tms.values_mut() {
            t.placed.retain(|exchange, _| exchange.job != job);
        }
    }

    pub fn views(&self) -> Vec<TaskManagerView> {
        let view = |(tm, t): (&TaskManagerId, &TaskManager)| TaskManagerView {
            tm: tm.clone(),
            slots: t.slots,
            free: t.free(),
            slot_memory: t.slot_memory,
        };
        self.tms.iter().map(view).collect()
    }
}
