//! Ids are newtypes with a `Display` that people read in logs and on the command line.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A text that is no id, with what was expected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{value:?} is not a {what}: expected {expected}")]
pub struct ParseIdError {
    pub what: &'static str,
    pub value: String,
    pub expected: &'static str,
}

/// A job: 128 random bits chosen by whoever accepts the submission, shown as 32 hex digits (as Flink does).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct JobId(pub u128);

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl FromStr for JobId {
    type Err = ParseIdError;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let bad = || ParseIdError { what: "job id", value: s.to_owned(), expected: "32 hex digits" };
        // from_str_radix alone would take a sign
        if s.len() != 32 || !s.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(bad());
        }
        u128::from_str_radix(s, 16).map(JobId).map_err(|_| bad())
    }
}

macro_rules! small_id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $name(pub u32);

        impl $name {
            /// Position in the plan template's list.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{self}")
            }
        }
    };
}

small_id!(
    /// A stage within its job's plan template.
    StageId,
    "s"
);
small_id!(
    /// An exchange within its job's plan template.
    ExchangeId,
    "x"
);

/// A stage of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StageKey {
    pub job: JobId,
    pub stage: StageId,
}

/// One parallel instance of a stage.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TaskId {
    pub job: JobId,
    pub stage: StageId,
    pub index: u32,
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}.{}", self.job, self.stage, self.index)
    }
}

impl fmt::Debug for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// One execution of a task; the first attempt is number 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AttemptId {
    pub task: TaskId,
    pub attempt: u32,
}

impl fmt::Display for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.task, self.attempt)
    }
}

impl fmt::Debug for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// An exchange of a job.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ExchangeKey {
    pub job: JobId,
    pub exchange: ExchangeId,
}

impl fmt::Display for ExchangeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.job, self.exchange)
    }
}

impl fmt::Debug for ExchangeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// What one attempt of a producing task wrote into an exchange. `map` is the producing task's index.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MapOutputKey {
    pub exchange: ExchangeKey,
    pub map: u32,
    pub attempt: u32,
}

impl fmt::Display for MapOutputKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}#{}", self.exchange, self.map, self.attempt)
    }
}

impl fmt::Debug for MapOutputKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// A TaskManager process: its resource id, and an incarnation that differs for every registration.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TaskManagerId {
    pub resource: Arc<str>,
    pub incarnation: u64,
}

impl TaskManagerId {
    pub fn new(resource: impl Into<Arc<str>>, incarnation: u64) -> Self {
        Self { resource: resource.into(), incarnation }
    }
}

impl fmt::Display for TaskManagerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{:x}", self.resource, self.incarnation)
    }
}

impl fmt::Debug for TaskManagerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Which JobManager start a message belongs to; receivers refuse an older one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LeaderEpoch(pub u64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_id_reads_back_what_it_prints() {
        let id = JobId(0x1f);
        assert_eq!(id.to_string(), "0000000000000000000000000000001f");
        assert_eq!(id.to_string().parse::<JobId>().unwrap(), id);
        assert!("1f".parse::<JobId>().is_err());
        assert!("+000000000000000000000000000000f".parse::<JobId>().is_err());
    }
}
