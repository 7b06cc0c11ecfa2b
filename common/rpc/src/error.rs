//! Errors that cross the wire stay typed.
//!
//! A [`Problem`] is what a server tells a caller. It travels as a gRPC status with two metadata entries: its kind as a word
//! (`thalweg-error-kind`, for any client) and the whole of it (`thalweg-error-details-bin`, JSON, left out when it is long).
//! An [`RpcError`] is what a caller of ours sees: a problem the server told, or that there was no usable answer.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use thalweg_core::JobFailure;
use thalweg_types::JobId;
use tonic::metadata::{Ascii, Binary, MetadataKey, MetadataValue};
use tonic::{Code, Status};

/// Metadata key of the kind of a [`Problem`].
pub const KIND_KEY: &str = "thalweg-error-kind";
const DETAILS_KEY: &str = "thalweg-error-details-bin";
/// HTTP/2 headers are bounded (16 KB is common), and a message is percent-encoded.
const MESSAGE_LIMIT: usize = 2500;
const DETAILS_LIMIT: usize = 4000;

/// What a server tells a caller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Problem {
    #[error("{detail}: set security.token (or THALWEG_SECURITY_TOKEN) to the cluster's token")]
    Unauthenticated { detail: String },
    #[error("{message}")]
    InvalidArgument { message: String },
    /// The statement is wrong: its syntax, a name in it, a type.
    #[error("{message}")]
    Statement { message: String },
    /// A setting is unknown or its value is refused.
    #[error("{message}")]
    Setting { message: String },
    #[error("there is no {what} {id}")]
    NotFound { what: String, id: String },
    #[error("too many {what}: the limit is {limit}")]
    Limit { what: String, limit: u64 },
    #[error("job {job} failed: {failure}")]
    JobFailed { job: JobId, failure: JobFailure },
    #[error("job {job} was cancelled")]
    JobCancelled { job: JobId },
    #[error(
        "the result of job {job} is larger than client.result.max-size ({limit} bytes): add a LIMIT or raise the option"
    )]
    ResultTooLarge { job: JobId, limit: u64 },
    #[error("the result of job {job} is gone: it was read already, or its time to live (client.result.ttl) is over")]
    ResultGone { job: JobId },
    /// A part of the result was lost after some of it had been sent; running the query again helps.
    #[error("the result of job {job} was lost while it was read: {detail}")]
    ResultLost { job: JobId, detail: String },
    #[error("the server shuts down")]
    ShuttingDown,
    /// A defect of ours.
    #[error("internal error: {message}")]
    Internal { message: String },
}

impl Problem {
    /// One word per kind, stable across releases.
    pub fn kind(&self) -> &'static str {
        match self {
            Problem::Unauthenticated { .. } => "unauthenticated",
            Problem::InvalidArgument { .. } => "invalid-argument",
            Problem::Statement { .. } => "statement",
            Problem::Setting { .. } => "setting",
            Problem::NotFound { .. } => "not-found",
            Problem::Limit { .. } => "limit",
            Problem::JobFailed { .. } => "job-failed",
            Problem::JobCancelled { .. } => "job-cancelled",
            Problem::ResultTooLarge { .. } => "result-too-large",
            Problem::ResultGone { .. } => "result-gone",
            Problem::ResultLost { .. } => "result-lost",
            Problem::ShuttingDown => "shutting-down",
            Problem::Internal { .. } => "internal",
        }
    }

    fn code(&self) -> Code {
        match self {
            Problem::Unauthenticated { .. } => Code::Unauthenticated,
            Problem::InvalidArgument { .. } | Problem::Statement { .. } | Problem::Setting { .. } => {
                Code::InvalidArgument
            }
            Problem::NotFound { .. } | Problem::ResultGone { .. } => Code::NotFound,
            Problem::Limit { .. } => Code::ResourceExhausted,
            Problem::JobFailed { .. } => Code::FailedPrecondition,
            Problem::JobCancelled { .. } => Code::Cancelled,
            Problem::ResultTooLarge { .. } => Code::OutOfRange,
            Problem::ResultLost { .. } => Code::DataLoss,
            Problem::ShuttingDown => Code::Unavailable,
            Problem::Internal { .. } => Code::Internal,
        }
    }
}

impl From<Problem> for Status {
    fn from(problem: Problem) -> Self {
        let mut status = Status::new(problem.code(), shortened(&problem.to_string(), MESSAGE_LIMIT));
        let metadata = status.metadata_mut();
        metadata
            .insert(MetadataKey::<Ascii>::from_static(KIND_KEY), MetadataValue::<Ascii>::from_static(problem.kind()));
        if let Ok(details) = serde_json::to_vec(&problem)
            && details.len() <= DETAILS_LIMIT
        {
            metadata.insert_bin(
                MetadataKey::<Binary>::from_static(DETAILS_KEY),
                MetadataValue::<Binary>::from_bytes(&details),
            );
        }
        status
    }
}

/// What a caller sees.
#[derive(Debug, thiserror::Error)]
pub enum RpcError {
    #[error(transparent)]
    Problem(#[from] Problem),
    #[error("{address:?} is no address: expected host:port")]
    Address {
        address: String,
        #[source]
        source: Option<tonic::transport::Error>,
    },
    #[error("the token cannot be sent: only visible ASCII characters are allowed in security.token")]
    Token,
    #[error("cannot reach {address}")]
    Unreachable {
        address: String,
        #[source]
        source: tonic::transport::Error,
    },
    #[error("no answer from {address} within {waited:?}")]
    Deadline { address: String, waited: Duration },
    /// The server answered with something that is not one of our problems.
    #[error("{code:?}: {message}", code = .0.code(), message = .0.message())]
    Status(#[source] Box<Status>),
    #[error("malformed message")]
    Malformed(#[from] Malformed),
}

impl From<Status> for RpcError {
    fn from(status: Status) -> Self {
        let details = status.metadata().get_bin(DETAILS_KEY).and_then(|value| value.to_bytes().ok());
        if let Some(details) = details.filter(|d| d.len() <= 2 * DETAILS_LIMIT)
            && let Ok(problem) = serde_json::from_slice(&details)
        {
            return RpcError::Problem(problem);
        }
        RpcError::Status(Box::new(status))
    }
}

/// A message whose bytes are valid protobuf but whose content is not what it has to be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    #[error("{0} is missing")]
    Missing(&'static str),
    #[error("{field} is {found}, expected {expected}")]
    Value { field: &'static str, found: String, expected: &'static str },
    #[error("{field} has {found} elements or bytes, at most {limit} are allowed")]
    TooLong { field: &'static str, found: usize, limit: usize },
}

impl From<Malformed> for Status {
    fn from(malformed: Malformed) -> Self {
        Problem::InvalidArgument { message: malformed.to_string() }.into()
    }
}

/// The text, or its beginning (cut at a character) when it is longer than `limit` bytes.
pub fn shortened(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let mut end = limit;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}… ({} bytes more)", &text[..end], text.len() - end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_survives_the_wire() {
        let problem = Problem::JobFailed {
            job: JobId(7),
            failure: JobFailure::Stalled { waited: Duration::from_secs(3), waits: "s1 waits on s0 – ü".into() },
        };
        let status = Status::from(problem.clone());
        assert_eq!(status.metadata().get(KIND_KEY).unwrap(), "job-failed");
        match RpcError::from(status) {
            RpcError::Problem(back) => assert_eq!(back, problem),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_long_problem_keeps_its_kind_and_a_bounded_message() {
        let status = Status::from(Problem::Statement { message: "ß".repeat(100_000) });
        assert!(status.message().len() < 3000);
        assert_eq!(status.metadata().get(KIND_KEY).unwrap(), "statement");
        assert!(matches!(RpcError::from(status), RpcError::Status(s) if s.code() == Code::InvalidArgument));
    }
}
