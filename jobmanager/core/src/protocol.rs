//! What goes into the core and what comes out: events, actions, records.
//!
//! Every id carries its incarnation (attempt, TaskManager incarnation, leader epoch); the core drops what is stale, and the
//! receivers of its actions do the same. Outcomes of actions come back as events.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thalweg_graph::{ExchangeKind, OutputStats, Placement, PlanTemplate, TaskSpec};
use thalweg_types::{AttemptId, ExchangeId, ExchangeKey, FailureCause, JobId, MapOutputKey, StageId, TaskManagerId};

use crate::broadcast::BroadcastOptions;
use crate::skew::SkewOptions;

/// Monotonic time since the JobManager started, or since the first of those whose records it goes on from did. Wall time appears
/// only in what people read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Time(pub Duration);

impl std::ops::Add<Duration> for Time {
    type Output = Time;

    fn add(self, rhs: Duration) -> Time {
        Time(self.0 + rhs)
    }
}

/// A fact the core is told about.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A TaskManager registered, for the first time or after it lost its link: whatever it ran for us has stopped. An older
    /// incarnation with the same resource id is gone by that.
    TaskManagerUp {
        tm: TaskManagerId,
        slots: u32,
        slot_memory: u64,
        /// Finished map outputs it has from before.
        held: Vec<MapOutputKey>,
    },
    /// A TaskManager is gone: connection closed, heartbeats missed, or it said so. One event, whoever noticed.
    TaskManagerDown {
        tm: TaskManagerId,
        detail: String,
    },
    Submit {
        job: JobId,
        template: Arc<PlanTemplate>,
        options: JobOptions,
    },
    Cancel {
        job: JobId,
    },
    TaskFinished {
        attempt: AttemptId,
        tm: TaskManagerId,
        stats: OutputStats,
        splits: Vec<Vec<u32>>,
    },
    TaskFailed {
        attempt: AttemptId,
        tm: TaskManagerId,
        cause: FailureCause,
    },
    /// A running attempt wants the next split of its source number `source`. `request` is echoed.
    SplitRequested {
        attempt: AttemptId,
        tm: TaskManagerId,
        source: u32,
        request: u64,
    },
    /// A sign of life of a running attempt: totals so far. An operator that only consumes (a build side, a sort) shows by its
    /// busy time that it goes on.
    Progress {
        attempt: AttemptId,
        tm: TaskManagerId,
        rows: u64,
        bytes: u64,
        busy_nanos: u64,
    },
    /// The relay could not read a map output of the result.
    ResultLost {
        job: JobId,
        map: u32,
        attempt: u32,
        from: TaskManagerId,
        detail: String,
    },
    /// The result was read to its end, or its time to live is over: forget the job's data.
    ReleaseResult {
        job: JobId,
    },
    Timer(TimerId),
    /// The first event after [`Core::restore`](crate::Core::restore): TaskManagers with outputs that are needed are waited for,
    /// this long at most.
    Restored {
        patience: Duration,
    },
}

/// Which of the core's own timers fired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum TimerId {
    /// The job waited for its first slot for this long.
    SlotRequest(JobId),
    /// Check whether the job made progress since the last check.
    Stall(JobId),
    /// A task that failed waits this long before its next attempt.
    Backoff(JobId),
    /// TaskManagers of an earlier leader are waited for no longer.
    Recovery,
}

impl TimerId {
    /// The job it is about, if it is about one.
    pub fn job(self) -> Option<JobId> {
        match self {
            TimerId::SlotRequest(job) | TimerId::Stall(job) | TimerId::Backoff(job) => Some(job),
            TimerId::Recovery => None,
        }
    }
}

/// An order to the driver. Carried out in the order they were put out.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Make the record durable before carrying out what follows.
    Persist(Record),
    /// Tell a TaskManager where an exchange's maps are. Precedes the first deploy that refers to this version.
    Place {
        tm: TaskManagerId,
        exchange: ExchangeKey,
        placement: Arc<Placement>,
    },
    Deploy {
        tm: TaskManagerId,
        task: Box<TaskSpec>,
    },
    CancelTask {
        tm: TaskManagerId,
        attempt: AttemptId,
    },
    GiveSplit {
        tm: TaskManagerId,
        attempt: AttemptId,
        source: u32,
        request: u64,
        split: Option<u32>,
    },
    /// Of the outputs that the TaskManager had when it registered, these may be read; the others can go.
    Retain {
        tm: TaskManagerId,
        outputs: Vec<MapOutputKey>,
    },
    /// Nobody needs this exchange's data any more.
    ReleaseExchange {
        tm: TaskManagerId,
        exchange: ExchangeKey,
    },
    /// Nobody needs anything of this job any more: fragments, placements, outputs.
    ReleaseJob {
        tm: TaskManagerId,
        job: JobId,
    },
    SetTimer {
        id: TimerId,
        at: Time,
    },
    /// The stage's tasks run the operators of whoever writes its input ([`PlanTemplate::fuse`]): the plan has changed.
    Fuse {
        job: JobId,
        stage: StageId,
        input: u32,
    },
    Report(Report),
}

/// What people and clients are told while a job runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Report {
    Job {
        job: JobId,
        state: JobState,
    },
    Stage {
        job: JobId,
        stage: StageId,
        progress: StageProgress,
    },
    Decision {
        job: JobId,
        decision: Decision,
    },
    Attempt {
        attempt: AttemptId,
        tm: TaskManagerId,
        state: AttemptState,
    },
    /// All map outputs of the result are there: where to read them. Sent again when one moved.
    ResultReady {
        job: JobId,
        placement: Arc<Placement>,
    },
}

/// Words for what is going on with a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobState {
    /// No task has a slot yet.
    WaitingForSlots,
    Running,
    Finished,
    Cancelled,
    /// The first cause is the one kept.
    Failed(JobFailure),
}

impl JobState {
    pub fn is_terminal(&self) -> bool {
        matches!(self, JobState::Finished | JobState::Cancelled | JobState::Failed(_))
    }
}

/// Why a job failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobFailure {
    /// A task failed and may not be tried again.
    Task { attempt: AttemptId, cause: FailureCause },
    /// No slot within `slot.request.timeout`.
    NoSlots { waited: Duration },
    /// No progress within `job.stall-timeout`; the text says what waits on whom.
    Stalled { waited: Duration, waits: String },
    /// The planner handed over something that is no valid template.
    InvalidPlan { message: String },
}

impl fmt::Display for JobFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JobFailure::Task { attempt, cause } => write!(f, "task {attempt} failed: {cause}"),
            JobFailure::NoSlots { waited } => write!(
                f,
                "no task slot became free within {waited:?} (slot.request.timeout): start more taskmanagers or raise taskmanager.numberOfTaskSlots"
            ),
            JobFailure::Stalled { waited, waits } => {
                write!(f, "no progress for {waited:?} (job.stall-timeout): {waits}")
            }
            JobFailure::InvalidPlan { message } => write!(f, "invalid plan: {message}"),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum AttemptState {
    Deploying,
    Finished,
    Failed,
    Cancelled,
    /// It had finished, and its output is lost or may no longer be read.
    Reset,
}

/// Where a stage stands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageProgress {
    /// 0 until decided.
    pub parallelism: u32,
    pub running: u32,
    pub finished: u32,
    pub rows: u64,
    pub bytes: u64,
}

/// One run-time decision, for people: what was measured, which rule, what changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    pub at: Time,
    pub stage: StageId,
    /// The rule's name: `parallelism`, `source-parallelism`, `memory-cut`, `retry`, `restart-consumers`, …
    pub rule: String,
    /// What was measured and compared with what.
    pub measured: String,
    /// What changed.
    pub outcome: String,
}

/// What must survive a restart of the JobManager. Restoring them in order restores every decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Record {
    Submitted {
        job: JobId,
        template: Arc<PlanTemplate>,
        options: JobOptions,
        at: Time,
    },
    /// A stage's parallelism and the ranges its tasks read are decided.
    Bound {
        job: JobId,
        stage: StageId,
        ranges: Vec<TaskRanges>,
        decisions: Vec<Decision>,
    },
    /// A stage runs the operators of the producer of its input number `input`: the template is changed by that.
    Fused {
        job: JobId,
        stage: StageId,
        input: u32,
        decision: Decision,
    },
    Finished {
        attempt: AttemptId,
        tm: TaskManagerId,
        stats: OutputStats,
        splits: Vec<Vec<u32>>,
        started_at: Time,
        finished_at: Time,
    },
    /// Finished tasks that must run again, and whether they read the same splits.
    Reset {
        job: JobId,
        stage: StageId,
        tasks: Vec<u32>,
    },
    Ended {
        job: JobId,
        state: JobState,
        at: Time,
    },
}

impl Record {
    pub fn job(&self) -> JobId {
        match self {
            Record::Submitted { job, .. }
            | Record::Bound { job, .. }
            | Record::Fused { job, .. }
            | Record::Reset { job, .. }
            | Record::Ended { job, .. } => *job,
            Record::Finished { attempt, .. } => attempt.task.job,
        }
    }
}

/// What one task of a bound stage reads of each input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskRanges {
    /// One list of rectangles per input of the stage. An own rectangle's rows belong to this task alone; a replicated one is
    /// read by several.
    pub inputs: Vec<Vec<Rectangle>>,
}

/// (map range × subpartition interval [× row range]) of one exchange.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rectangle {
    pub exchange: ExchangeId,
    pub maps: thalweg_types::Interval<u32>,
    pub subpartitions: thalweg_types::Interval<u32>,
    pub rows: Option<thalweg_types::Interval<u64>>,
    pub ownership: Ownership,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ownership {
    Own,
    Replicate,
}

/// Per-job settings the core needs; defaults are the documented ones.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobOptions {
    /// `execution.batch.adaptive.auto-parallelism.enabled`; off = every stage gets `default_parallelism`.
    pub auto_parallelism: bool,
    pub min_parallelism: u32,
    pub max_parallelism: u32,
    /// Bytes one task should read.
    pub avg_data_volume_per_task: u64,
    pub default_source_parallelism: Option<u32>,
    /// `parallelism.default` when the user set it.
    pub default_parallelism: Option<u32>,
    pub slot_request_timeout: Duration,
    pub stall_timeout: Duration,
    /// Attempts a task may use up by its own failures; a lost TaskManager or partition does not count.
    pub max_attempts: u32,
    pub skew: SkewOptions,
    pub broadcast: BroadcastOptions,
}

impl Default for JobOptions {
    fn default() -> Self {
        Self {
            auto_parallelism: true,
            min_parallelism: 1,
            max_parallelism: 128,
            avg_data_volume_per_task: 16 << 20,
            default_source_parallelism: None,
            default_parallelism: None,
            slot_request_timeout: Duration::from_secs(300),
            stall_timeout: Duration::from_secs(600),
            max_attempts: 4,
            skew: SkewOptions::default(),
            broadcast: BroadcastOptions::default(),
        }
    }
}

/// A job as people see it; `thalweg jobs show` prints this.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobView {
    pub job: JobId,
    pub state: JobState,
    pub submitted_at: Time,
    pub ended_at: Option<Time>,
    pub stages: Vec<StageView>,
    pub decisions: Vec<Decision>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StageView {
    pub stage: StageId,
    pub name: String,
    pub progress: StageProgress,
    /// First deploy and last finish.
    pub started_at: Option<Time>,
    pub finished_at: Option<Time>,
    pub attempts: Vec<AttemptView>,
    /// Operators summed over the finished attempts that count.
    pub operators: Vec<thalweg_graph::OperatorMetrics>,
    pub inputs: Vec<InputView>,
    pub output: OutputView,
    /// The stage whose tasks run this one's operators; this one never runs then, and its output is never written.
    pub runs_in: Option<StageId>,
    pub spilled_bytes: u64,
    pub cpu_nanos: u64,
}

impl StageView {
    /// Bytes read from other TaskManagers.
    pub fn network_bytes(&self) -> u64 {
        self.inputs.iter().fold(0, |sum, input| sum.saturating_add(input.network_bytes))
    }

    /// Rows read from other stages.
    pub fn rows_read(&self) -> u64 {
        self.inputs.iter().fold(0, |sum, input| sum.saturating_add(input.rows))
    }
}

/// What a stage reads of another, summed over the finished attempts that count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputView {
    pub producer: StageId,
    /// Every task reads all of it, so that its rows count once for each task.
    pub replicated: bool,
    pub rows: u64,
    /// Bytes that came from other TaskManagers.
    pub network_bytes: u64,
}

/// How the rows of a stage are distributed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputView {
    pub kind: ExchangeKind,
    /// The key columns of a hash exchange.
    pub keys: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttemptView {
    pub attempt: AttemptId,
    pub tm: TaskManagerId,
    pub state: AttemptState,
    pub started_at: Time,
    pub ended_at: Option<Time>,
    pub rows: u64,
    pub bytes: u64,
    pub cause: Option<FailureCause>,
}
