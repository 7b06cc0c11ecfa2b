//! What can go wrong between a user and a cluster, by whose fault it is.

use arrow::error::ArrowError;
use arrow_flight::error::FlightError;
use thalweg_rpc::{Malformed, Problem, RpcError};
use tonic::{Code, Status};

/// An error of this crate. Keeps its cause in `source()`.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nobody answers at the address, the connection broke, or the JobManager is about to end.
    #[error("no jobmanager answers at {address}: start one, or name another with --jobmanager or THALWEG_JOBMANAGER")]
    NotReachable {
        address: String,
        #[source]
        source: Box<RpcError>,
    },
    /// The cluster wants another token.
    #[error("{address} denied the call")]
    Denied {
        address: String,
        #[source]
        source: Box<RpcError>,
    },
    /// The address or the token cannot be used at all.
    #[error(transparent)]
    Usage(Box<RpcError>),
    /// The statement, a setting or another argument was refused, or what it names does not exist.
    #[error(transparent)]
    Sql(Box<RpcError>),
    /// The job failed or was cancelled, or its result is gone.
    #[error(transparent)]
    Job(Box<RpcError>),
    /// The answer is none of this API: another program or another version is at the address, or there is a defect.
    #[error("the answer of {address} is not understood")]
    Answer {
        address: String,
        #[source]
        source: AnswerError,
    },
}

/// What is wrong with an answer.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    #[error(transparent)]
    Rpc(#[from] Box<RpcError>),
    #[error(transparent)]
    Malformed(#[from] Malformed),
    #[error("rows cannot be decoded")]
    Rows(#[from] ArrowError),
    #[error("rows cannot be decoded")]
    Flight(#[from] Box<FlightError>),
    #[error("a batch has the columns ({found}), announced were ({announced})")]
    Schema { announced: String, found: String },
}

/// Whose fault an error is; decides the exit code of the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    NotReachable,
    Denied,
    Usage,
    Sql,
    Job,
    Answer,
}

impl Error {
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::NotReachable { .. } => ErrorKind::NotReachable,
            Error::Denied { .. } => ErrorKind::Denied,
            Error::Usage(_) => ErrorKind::Usage,
            Error::Sql(_) => ErrorKind::Sql,
            Error::Job(_) => ErrorKind::Job,
            Error::Answer { .. } => ErrorKind::Answer,
        }
    }

    pub(crate) fn from_rpc(address: &str, error: RpcError) -> Self {
        let address = address.to_owned();
        let kind = kind_of(&error);
        let source = Box::new(error);
        match kind {
            ErrorKind::NotReachable => Error::NotReachable { address, source },
            ErrorKind::Denied => Error::Denied { address, source },
            ErrorKind::Usage => Error::Usage(source),
            ErrorKind::Sql => Error::Sql(source),
            ErrorKind::Job => Error::Job(source),
            ErrorKind::Answer => Error::Answer { address, source: AnswerError::Rpc(source) },
        }
    }

    pub(crate) fn from_status(address: &str, status: Status) -> Self {
        Self::from_rpc(address, RpcError::from(status))
    }

    pub(crate) fn from_flight(address: &str, error: FlightError) -> Self {
        match error {
            FlightError::Tonic(status) => Self::from_status(address, *status),
            other => Self::answer(address, Box::new(other)),
        }
    }

    pub(crate) fn answer(address: &str, source: impl Into<AnswerError>) -> Self {
        Error::Answer { address: address.to_owned(), source: source.into() }
    }
}

fn kind_of(error: &RpcError) -> ErrorKind {
    match error {
        RpcError::Problem(problem) => kind_of_problem(problem),
        RpcError::Address { .. } | RpcError::Token => ErrorKind::Usage,
        RpcError::Unreachable { .. } | RpcError::Deadline { .. } => ErrorKind::NotReachable,
        RpcError::Status(status) => match status.code() {
            Code::Unavailable | Code::DeadlineExceeded => ErrorKind::NotReachable,
            Code::Unauthenticated | Code::PermissionDenied => ErrorKind::Denied,
            Code::InvalidArgument | Code::NotFound | Code::ResourceExhausted | Code::FailedPrecondition => {
                ErrorKind::Sql
            }
            // how tonic reports a connection that ended in the middle of an answer: what a server says has no cause here
            Code::Unknown | Code::Internal if broke(status) => ErrorKind::NotReachable,
            _ => ErrorKind::Answer,
        },
        _ => ErrorKind::Answer,
    }
}

fn kind_of_problem(problem: &Problem) -> ErrorKind {
    match problem {
        Problem::Unauthenticated { .. } => ErrorKind::Denied,
        Problem::ShuttingDown => ErrorKind::NotReachable,
        Problem::JobFailed { .. }
        | Problem::JobCancelled { .. }
        | Problem::ResultTooLarge { .. }
        | Problem::ResultGone { .. }
        | Problem::ResultLost { .. } => ErrorKind::Job,
        _ => ErrorKind::Sql,
    }
}

fn broke(status: &Status) -> bool {
    std::error::Error::source(status).is_some()
}

/// The messages of an error and its causes in one line. A cause that its error already quotes is left out, and so is a gRPC
/// status, whose own text is for the eyes of a debugger.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let message = error.to_string();
        let is_status = error.is::<Status>() || error.is::<Box<Status>>();
        if !is_status && !text.contains(&message) {
            text.push_str(": ");
            text.push_str(&message);
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_become_the_right_kind() {
        let kind = |problem: Problem| Error::from_status("h:1", Status::from(problem)).kind();
        assert_eq!(kind(Problem::Unauthenticated { detail: "no token".into() }), ErrorKind::Denied);
        assert_eq!(kind(Problem::Statement { message: "no table t".into() }), ErrorKind::Sql);
        assert_eq!(kind(Problem::ShuttingDown), ErrorKind::NotReachable);
        assert_eq!(kind(Problem::JobCancelled { job: thalweg_types::JobId(1) }), ErrorKind::Job);
        let kind = |code| Error::from_status("h:1", Status::new(code, "x")).kind();
        assert_eq!(kind(Code::Unavailable), ErrorKind::NotReachable);
        assert_eq!(kind(Code::PermissionDenied), ErrorKind::Denied);
        assert_eq!(kind(Code::Unimplemented), ErrorKind::Answer);
    }

    #[test]
    fn a_chain_says_everything_once() {
        let error = Error::from_status("h:1", Status::unavailable("gone"));
        let text = chain(&error);
        assert!(text.starts_with("no jobmanager answers at h:1"), "{text}");
        assert_eq!(text.matches("gone").count(), 1, "{text}");
        let sql = Error::from_status("h:1", Problem::Statement { message: "no table t".into() }.into());
        assert_eq!(chain(&sql), "no table t");
    }
}
