//! The pure heart of the JobManager: events in, actions out.
//!
//! Decides everything about a job while it runs: when a stage starts, how many tasks it gets, what each task reads and where it runs, what
//! runs again after a loss, when data is dropped, when a job has failed.
//!
//! ```text
//! event + now ──► Core::handle ──► actions in order ──► driver
//!      ▲                                                  │
//!      └──────────── outcomes are events again ◄──────────┘
//! ```
//!
//! Guarantees: no clock, no I/O, no randomness, ordered maps: the same events give the same actions. What depends on a record comes
//! after the action that persists it. Stale or repeated events change nothing. Bad input is never a panic. Does not know operators,
//! sockets or files.
//!
//! Vocabulary: a stage is *bound* when its parallelism and its tasks' ranges are decided (once and for ever); its exchange is
//! *sealed* while every map output of it can be read; a finished task's output is *lost* when nobody can read it any more.

mod broadcast;
mod cells;
mod cluster;
mod core;
mod job;
pub mod packing;
pub mod parallelism;
mod protocol;
mod skew;
pub mod verifier;
mod view;

pub use crate::core::Core;
pub use broadcast::BroadcastOptions;
pub use protocol::*;
pub use skew::SkewOptions;

/// A TaskManager as people see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskManagerView {
    pub tm: thalweg_types::TaskManagerId,
    pub slots: u32,
    pub free: u32,
    /// Bytes of memory per slot.
    pub slot_memory: u64,
}

#[cfg(test)]
mod tests;
