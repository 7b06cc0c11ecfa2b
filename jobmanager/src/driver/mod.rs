//! The driver: the one task that owns the scheduler core and carries out what it decides.
//!
//! Decides nothing about jobs. It turns messages into events, hands them to [`thalweg_core::Core`] and carries out the
//! actions in order: orders to TaskManagers, timers, records, what people are told.
//!
//! Guarantees: one mailbox, bounded; the driver never waits for anybody (a TaskManager that does not take its orders is held
//! for lost, a watcher that is slow is told the whole state again); a fact reaches the core once; orders to one TaskManager
//! arrive in the order they were decided, and a stage's fragment before the first task of it.
//!
//! With a journal ([`crate::ha`]) what depends on a record waits until that is durable, and a driver can be started with what an
//! earlier one wrote.

mod actions;
mod jobs;
mod outbox;
mod restore;
#[cfg(test)]
mod restore_tests;
mod run;
mod task_managers;
#[cfg(test)]
mod tests;
mod timers;

use std::sync::Arc;
use std::time::Duration;

use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use thalweg_core::{JobOptions, JobState, JobView, Time};
use thalweg_graph::PlanTemplate;
use thalweg_rpc::link::{FromTaskManager, Heartbeats, ToTaskManager};
use thalweg_rpc::views::{JobBrief, JobUpdate, WallClock};
use thalweg_rpc::{Problem, TicketKey};
use thalweg_runtime::{Clock, OwnedTask, spawn_owned};
use thalweg_types::{ExchangeKey, JobId, LeaderEpoch, MapOutputKey, TaskManagerId};
use tokio::sync::{broadcast, mpsc, oneshot, watch};

use crate::ha::{Journal, StoredJob};

/// Messages the driver has not looked at yet.
const MAILBOX: usize = 4096;
/// Ended jobs that can still be looked at.
pub const HISTORY: usize = 100;
/// Jobs that have not ended.
pub const MAX_JOBS: usize = 1000;
/// Updates a watcher may be behind before it is told the whole state again.
const WATCH_BUFFER: usize = 256;
pub const MAX_TASK_MANAGERS: usize = 10_000;

/// What the driver is started with.
pub struct DriverOptions {
    pub epoch: LeaderEpoch,
    pub ticket_key: TicketKey,
    pub heartbeats: Heartbeats,
    pub clock: Arc<dyn Clock>,
    /// Unix time in milliseconds at the clock's zero.
    pub start_unix_ms: u64,
    /// `None`: jobs end with this process.
    pub journal: Option<Journal>,
    /// Jobs of an earlier leader, in the order of their submission.
    pub restored: Vec<StoredJob>,
    /// How long TaskManagers with outputs of restored jobs are waited for.
    pub recovery_patience: Duration,
}

/// A query to run.
#[derive(Debug, Clone)]
pub struct Submission {
    pub template: Arc<PlanTemplate>,
    pub schema: SchemaRef,
    /// The query as it was written.
    pub statement: Arc<str>,
    /// What EXPLAIN prints.
    pub plan: Arc<str>,
    pub options: JobOptions,
    /// Settings that tasks read.
    pub settings: Vec<(String, String)>,
    pub result_ttl: Duration,
    /// Bytes.
    pub result_max_size: u64,
    /// The job goes on after a loss of the JobManager, if any does.
    pub recoverable: bool,
}

/// A job with everything about it.
#[derive(Debug, Clone)]
pub struct JobDetails {
    pub brief: JobBrief,
    pub view: JobView,
    pub plan: Arc<str>,
}

/// A seat from which a job is watched: what happened so far, then what happens.
#[derive(Debug)]
pub struct Watch {
    pub so_far: Vec<JobUpdate>,
    /// `None`: the job has ended.
    pub updates: Option<broadcast::Receiver<JobUpdate>>,
    pub submitted_at: Time,
}

/// Where the result of a job stands.
#[derive(Debug, Clone)]
pub enum ResultState {
    Pending,
    Ready(Arc<ResultMaps>),
    /// There is none, and why.
    None(Problem),
}

/// Where the rows are, in map order.
#[derive(Debug)]
pub struct ResultMaps {
    pub exchange: ExchangeKey,
    pub version: u64,
    pub maps: Vec<ResultMap>,
}

#[derive(Debug, Clone)]
pub struct ResultMap {
    pub map: u32,
    pub attempt: u32,
    pub tm: TaskManagerId,
    /// Its data plane; `None` when it is gone.
    pub address: Option<String>,
    /// The rows themselves as an Arrow IPC stream, if they came with the finish report.
    pub inline: Option<Bytes>,
}

/// What a reader of a result needs.
#[derive(Debug, Clone)]
pub struct ResultHandle {
    pub schema: SchemaRef,
    pub max_size: u64,
    pub state: watch::Receiver<ResultState>,
}

#[derive(Debug, Clone)]
pub struct TaskManagerInfo {
    pub tm: TaskManagerId,
    pub data_address: String,
    pub slots: u32,
    pub free: u32,
    pub managed_memory: u64,
    /// `None` in process.
    pub last_heard: Option<Duration>,
}

#[derive(Debug, Clone, Default)]
pub struct Overview {
    pub uptime: Duration,
    pub task_managers: Vec<TaskManagerInfo>,
    pub running: u32,
    pub finished: u32,
    pub failed: u32,
    pub cancelled: u32,
}

/// What planning needs to know of the cluster.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClusterSize {
    /// Bytes of managed memory of the smallest slot; `None` without TaskManagers.
    pub smallest_slot_memory: Option<u64>,
    pub slots: u32,
}

/// A registration as the link's task passes it on.
pub(crate) struct Arrival {
    pub id: TaskManagerId,
    pub data_address: String,
    pub slots: u32,
    pub managed_memory: u64,
    pub slot_memory: u64,
    /// Outputs it has from before.
    pub held: Vec<MapOutputKey>,
    /// Where its orders go; dropping it ends the link.
    pub orders: mpsc::Sender<ToTaskManager>,
    pub in_process: bool,
}

type Reply<T> = oneshot::Sender<T>;

pub(crate) enum Command {
    Arrived { arrival: Box<Arrival>, reply: Reply<Result<(), String>> },
    Said { tm: TaskManagerId, message: Box<FromTaskManager> },
    Gone { tm: TaskManagerId, orders: mpsc::WeakSender<ToTaskManager>, detail: String },
    Submit { submission: Box<Submission>, job: JobId, reply: Reply<Result<(), Problem>> },
    Cancel { job: JobId, reply: Reply<Result<JobState, Problem>> },
    Job { job: JobId, reply: Reply<Result<Box<JobDetails>, Problem>> },
    Jobs { reply: Reply<Vec<JobBrief>> },
    Watch { job: JobId, reply: Reply<Result<Watch, Problem>> },
    Result { job: JobId, reply: Reply<Result<ResultHandle, Problem>> },
    ResultLost { job: JobId, version: u64, map: u32, attempt: u32, from: TaskManagerId, detail: String },
    ReleaseResult { job: JobId },
    Overview { reply: Reply<Overview> },
}

/// How the rest of the JobManager talks to the driver. Every call fails with [`Problem::ShuttingDown`] once it has ended.
#[derive(Debug, Clone)]
pub struct Driver {
    mailbox: mpsc::Sender<Command>,
    cluster: watch::Receiver<ClusterSize>,
    clock: Arc<dyn Clock>,
    start_unix_ms: u64,
}

/// Starts the driver. It ends when its task is dropped.
pub fn start(options: DriverOptions) -> (Driver, OwnedTask<()>) {
    let (mailbox, commands) = mpsc::channel(MAILBOX);
    let (cluster_tx, cluster) = watch::channel(ClusterSize::default());
    let driver = Driver { mailbox, cluster, clock: options.clock.clone(), start_unix_ms: options.start_unix_ms };
    let state = run::DriverTask::new(options, cluster_tx);
    (driver, spawn_owned("driver", state.run(commands)))
}

impl Driver {
    pub async fn submit(&self, submission: Submission) -> Result<JobId, Problem> {
        let mut id = [0; 16];
        getrandom::fill(&mut id)
            .map_err(|error| Problem::Internal { message: format!("no random numbers: {error}") })?;
        let job = JobId(u128::from_be_bytes(id));
        let submission = Box::new(submission);
        self.ask(|reply| Command::Submit { submission, job, reply }).await??;
        Ok(job)
    }

    /// The state afterwards; a job that has ended stays as it is.
    pub async fn cancel(&self, job: JobId) -> Result<JobState, Problem> {
        self.ask(|reply| Command::Cancel { job, reply }).await?
    }

    pub async fn job(&self, job: JobId) -> Result<JobDetails, Problem> {
        Ok(*self.ask(|reply| Command::Job { job, reply }).await??)
    }

    /// Newest first.
    pub async fn jobs(&self) -> Result<Vec<JobBrief>, Problem> {
        self.ask(|reply| Command::Jobs { reply }).await
    }

    pub async fn watch(&self, job: JobId) -> Result<Watch, Problem> {
        self.ask(|reply| Command::Watch { job, reply }).await?
    }

    pub async fn result(&self, job: JobId) -> Result<ResultHandle, Problem> {
        self.ask(|reply| Command::Result { job, reply }).await?
    }

    /// A map of the result in that version could not be read.
    pub async fn result_lost(&self, job: JobId, version: u64, map: &ResultMap, detail: String) -> Result<(), Problem> {
        let (map, attempt, from) = (map.map, map.attempt, map.tm.clone());
        self.tell(Command::ResultLost { job, version, map, attempt, from, detail }).await
    }

    /// Nobody reads the result again.
    pub async fn release_result(&self, job: JobId) -> Result<(), Problem> {
        self.tell(Command::ReleaseResult { job }).await
    }

    pub async fn overview(&self) -> Result<Overview, Problem> {
        self.ask(|reply| Command::Overview { reply }).await
    }

    pub fn cluster_size(&self) -> ClusterSize {
        *self.cluster.borrow()
    }

    /// Waits until the cluster is as wanted; for those who start a cluster and want to use it.
    pub async fn wait_for_cluster(&self, wanted: impl FnMut(&ClusterSize) -> bool) -> Result<ClusterSize, Problem> {
        let mut cluster = self.cluster.clone();
        cluster.wait_for(wanted).await.map(|size| *size).map_err(|_| Problem::ShuttingDown)
    }

    pub fn wall_clock(&self) -> WallClock {
        WallClock { start_ms: self.start_unix_ms, now: Time(self.clock.now()) }
    }

    pub(crate) async fn tell(&self, command: Command) -> Result<(), Problem> {
        self.mailbox.send(command).await.map_err(|_| Problem::ShuttingDown)
    }

    pub(crate) async fn ask<T>(&self, command: impl FnOnce(Reply<T>) -> Command) -> Result<T, Problem> {
        let (reply, answer) = oneshot::channel();
        self.tell(command(reply)).await?;
        answer.await.map_err(|_| Problem::ShuttingDown)
    }
}
