//! Identities and error kinds that every part of Thalweg shares.
//!
//! Decides nothing. No async, no arrow: the pure scheduler core depends on this crate and on nothing heavier.
//!
//! Vocabulary:
//! - a *stage* is a pipeline of operators between two exchanges; a *task* is one of its parallel instances;
//!   an *attempt* is one execution of a task.
//! - an *exchange* carries the output of one stage to the next; *map* `m` is what task `m` of the producing stage wrote;
//!   a *subpartition* is an interval of the hash space inside each map.
//! - a TaskManager is known by its resource id **and** its incarnation: a restarted process is another TaskManager.

mod error;
mod ids;
mod interval;

pub use error::{ErrorKind, FailureCause, Fault};
pub use ids::{
    AttemptId, ExchangeId, ExchangeKey, JobId, LeaderEpoch, MapOutputKey, ParseIdError, StageId, StageKey, TaskId,
    TaskManagerId,
};
pub use interval::Interval;
