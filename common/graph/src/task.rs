//! What a TaskManager is told to run: one attempt, and which rectangles of which exchanges it reads.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thalweg_types::{AttemptId, ExchangeId, Interval, LeaderEpoch, TaskManagerId};

/// One attempt to deploy. The stage's fragment travels apart, once per (stage, TaskManager).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskSpec {
    pub attempt: AttemptId,
    pub epoch: LeaderEpoch,
    /// One per source of the stage, in its order.
    pub splits: Vec<SplitPolicy>,
    /// One per input of the stage, in its order.
    pub inputs: Vec<InputAssignment>,
    pub output: ExchangeId,
    /// The output is what the client reads: small results travel inside the finish report.
    pub result: bool,
    /// Subpartitions to write; 1 unless the output is a hash exchange.
    pub subpartitions: u32,
    /// Tasks of the stage; for people and metrics.
    pub parallelism: u32,
}

/// Where a task gets the splits of one source from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SplitPolicy {
    /// Ask the JobManager for the next one until there is none.
    Ask,
    /// Read exactly these (positions in the source's list), in this order: the re-run of a finished attempt.
    Exactly(Vec<u32>),
}

/// A rectangle of an exchange: all maps in `maps` times the subpartitions in `subpartitions`.
///
/// The reader consumes maps in ascending order and each map's blocks in order, so what it sees does not depend on timing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputAssignment {
    pub exchange: ExchangeId,
    pub maps: Interval<u32>,
    pub subpartitions: Interval<u32>,
    /// Only rows with these positions within the (single map × single subpartition) rectangle; `None` = all.
    pub rows: Option<Interval<u64>>,
    /// Each map is read as a stream of its own.
    pub per_map: bool,
    /// Every task of the stage reads the same: fetched once per TaskManager.
    pub shared: bool,
    /// Which version of the exchange's [`Placement`] the maps' attempts and locations are taken from.
    pub placement: u64,
}

/// Where every map output of an exchange is. Sent once per (exchange, version, TaskManager).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    pub exchange: ExchangeId,
    /// Grows whenever a map output moved; a reader never mixes versions.
    pub version: u64,
    /// Index = map.
    pub maps: Arc<[MapLocation]>,
}

/// The attempt whose output is to be read, and who holds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MapLocation {
    pub attempt: u32,
    pub task_manager: TaskManagerId,
}
