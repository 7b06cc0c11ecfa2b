//! The link between a JobManager and one TaskManager: a stream of typed messages in each direction.
//!
//! Decides what the two may say to each other. The TaskManager dials; the first message it sends is
//! [`FromTaskManager::Register`], the first one it gets is [`ToTaskManager::Registered`] or [`ToTaskManager::Refused`].
//! Messages of one direction arrive in the order they were sent, at most once; a link never resumes. Whoever sees its
//! receiver end knows the link is lost and starts over with a new registration: what ran has stopped, what was finished is there.
//!
//! Guarantees: both directions are bounded (a full channel makes the sender wait); what arrives over the network was checked
//! field by field. Over the network heartbeats are sent and watched here, on both sides ([`dial`] and [`serve`]), so an owner
//! of an end needs to do nothing for them. In process there is nothing to watch: a dead peer drops its end.

mod check;
mod convert;
mod grpc;
mod parts;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use thalweg_graph::{OutputStats, Part, Placement, TaskSpec};
use thalweg_types::{AttemptId, ExchangeKey, FailureCause, JobId, LeaderEpoch, MapOutputKey, StageId, TaskManagerId};
use tokio::sync::mpsc;

pub use grpc::{Heartbeats, ToTaskManagerStream, dial, serve};

/// Messages in flight per direction before the sender waits.
pub const LINK_CAPACITY: usize = 1024;

/// Largest result that travels inside [`FromTaskManager::Finished`], bytes of its Arrow IPC stream.
pub const MAX_INLINE_RESULT: usize = 64 << 10;

/// Outputs a TaskManager may name when it registers.
pub const MAX_HELD: usize = 1 << 20;

/// What a TaskManager says.
#[derive(Debug, Clone, PartialEq)]
pub enum FromTaskManager {
    Register {
        resource: String,
        /// Differs for every process; the outputs of one are gone with it.
        incarnation: u64,
        /// host:port of its data plane (Arrow Flight), as others reach it.
        data_address: String,
        slots: u32,
        /// Bytes of managed memory of the whole process.
        managed_memory: u64,
        /// Bytes of managed memory one slot may count on.
        slot_memory: u64,
        version: String,
        /// Finished outputs it has from before it lost its link; at most [`MAX_HELD`], ordered.
        held: Vec<MapOutputKey>,
    },
    /// Sent by the transport; an owner of an end need not.
    Heartbeat,
    Finished {
        attempt: AttemptId,
        stats: OutputStats,
        /// Positions of the splits that were read, per source, in reading order.
        splits: Vec<Vec<u32>>,
        /// The rows as an Arrow IPC stream; only for the result exchange and at most [`MAX_INLINE_RESULT`] bytes.
        inline: Option<Bytes>,
    },
    Failed {
        attempt: AttemptId,
        cause: FailureCause,
    },
    NextSplit {
        attempt: AttemptId,
        source: u32,
        request: u64,
    },
    /// Totals so far: rows and raw bytes written, time spent computing.
    Progress {
        attempt: AttemptId,
        rows: u64,
        bytes: u64,
        busy_nanos: u64,
    },
    /// It shuts down in an orderly way; nothing follows.
    Leaving {
        detail: String,
    },
}

/// What a JobManager says.
#[derive(Debug, Clone, PartialEq)]
pub enum ToTaskManager {
    Registered {
        epoch: LeaderEpoch,
        /// Key of the tickets of the data plane. Everything signed with another one is refused.
        ticket_key: Vec<u8>,
        heartbeat_interval: Duration,
        heartbeat_timeout: Duration,
    },
    /// The registration is not accepted; the link ends.
    Refused {
        reason: String,
    },
    /// Sent by the transport.
    Heartbeat,
    /// The operators of a stage. Precedes the first deploy of a task of it on this link.
    Stage {
        job: JobId,
        stage: StageId,
        parts: Vec<Part>,
        settings: Vec<(String, String)>,
    },
    /// Where an exchange's maps are, and the data addresses of the TaskManagers named there.
    Place {
        job: JobId,
        placement: Arc<Placement>,
        addresses: Vec<(TaskManagerId, String)>,
    },
    Deploy {
        spec: TaskSpec,
        /// As many lists as `spec.splits`: the payloads of a `SplitPolicy::Exactly` in its order, none for `SplitPolicy::Ask`.
        exact: Vec<Vec<Bytes>>,
    },
    Cancel {
        attempt: AttemptId,
    },
    /// The answer to [`FromTaskManager::NextSplit`]: position and payload, or none when there are no more.
    Split {
        attempt: AttemptId,
        source: u32,
        request: u64,
        split: Option<(u32, Bytes)>,
    },
    /// Of the outputs named at registration, those that may be read; the others can go. Precedes the first deploy. Ordered.
    Retain {
        outputs: Vec<MapOutputKey>,
    },
    ReleaseExchange {
        exchange: ExchangeKey,
    },
    ReleaseJob {
        job: JobId,
    },
}

/// The TaskManager's end, whatever the transport.
#[derive(Debug)]
pub struct TaskManagerEnd {
    pub tx: mpsc::Sender<FromTaskManager>,
    /// Ends when the link is lost.
    pub rx: mpsc::Receiver<ToTaskManager>,
}

/// The JobManager's end, whatever the transport.
#[derive(Debug)]
pub struct JobManagerEnd {
    pub tx: mpsc::Sender<ToTaskManager>,
    /// Ends when the link is lost.
    pub rx: mpsc::Receiver<FromTaskManager>,
}

/// A link inside one process.
pub fn in_process() -> (JobManagerEnd, TaskManagerEnd) {
    let (to_tx, to_rx) = mpsc::channel(LINK_CAPACITY);
    let (from_tx, from_rx) = mpsc::channel(LINK_CAPACITY);
    (JobManagerEnd { tx: to_tx, rx: from_rx }, TaskManagerEnd { tx: from_tx, rx: to_rx })
}
