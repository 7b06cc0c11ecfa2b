//! Whose fault a failure is and what may be done about it, typed from the socket to the decision.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::{ExchangeId, TaskManagerId};

/// Whose fault it is: decides whether a retry can help.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Fault {
    /// The query, the data or the configuration: the same again would fail the same way.
    User,
    /// Something outside the process: a disk, a file, another host.
    External,
    /// A defect of ours, a panic included.
    Internal,
}

/// What went wrong inside a task, by the way it is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ErrorKind {
    /// An expression or cast failed on the data, or a file is not what the table says.
    Data,
    /// An operator that cannot spill did not fit into its memory quota.
    OutOfMemory,
    /// Reading or writing a file or the spill directory failed.
    Io,
    /// The task panicked or broke an invariant.
    Internal,
    /// Stopped on request.
    Cancelled,
}

impl ErrorKind {
    pub fn fault(self) -> Fault {
        match self {
            ErrorKind::Data | ErrorKind::OutOfMemory => Fault::User,
            ErrorKind::Io => Fault::External,
            ErrorKind::Internal | ErrorKind::Cancelled => Fault::Internal,
        }
    }

    /// True if another attempt of the same task may succeed. A bad row stays bad; memory may be free elsewhere.
    pub fn is_retryable(self) -> bool {
        !matches!(self, ErrorKind::Data | ErrorKind::Cancelled)
    }
}

/// Why an attempt ended without a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailureCause {
    /// The attempt itself failed.
    Task { kind: ErrorKind, message: String },
    /// It could not read what a producer had written: gone, corrupt, of another attempt, or its host does not answer.
    /// Counts against the producer's output, never against the attempt's own budget.
    PartitionLost { exchange: ExchangeId, map: u32, attempt: u32, from: TaskManagerId, detail: String },
    /// The TaskManager that ran it is gone.
    TaskManagerLost { task_manager: TaskManagerId, detail: String },
}

impl fmt::Display for FailureCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FailureCause::Task { message, .. } => f.write_str(message),
            FailureCause::PartitionLost { exchange, map, attempt, from, detail } => {
                write!(f, "partition lost: {exchange}.{map}#{attempt} on {from}: {detail}")
            }
            FailureCause::TaskManagerLost { task_manager, detail } => {
                write!(f, "taskmanager {task_manager} lost: {detail}")
            }
        }
    }
}
