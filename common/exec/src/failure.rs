//! From the library's errors to a cause that the scheduler can act on.

use std::error::Error as StdError;

use arrow::error::ArrowError;
use datafusion::error::DataFusionError;
use thalweg_types::{ErrorKind, FailureCause, Fault};

/// A cause that is already known where the error arises (a lost partition) on its way through the library's operators.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct Caused(pub FailureCause);

impl From<Caused> for DataFusionError {
    fn from(caused: Caused) -> Self {
        DataFusionError::External(Box::new(caused))
    }
}

/// The cause a task reports for `error`.
pub fn failure_cause(error: &DataFusionError) -> FailureCause {
    if let Some(caused) = find::<Caused>(error) {
        return caused.0.clone();
    }
    FailureCause::Task { kind: error_kind(error), message: message(error) }
}

fn error_kind(error: &DataFusionError) -> ErrorKind {
    if let Some(connector) = find::<thalweg_connectors::Error>(error) {
        return match connector.fault() {
            Fault::User => ErrorKind::Data,
            Fault::External => ErrorKind::Io,
            Fault::Internal => ErrorKind::Internal,
        };
    }
    match root(error) {
        DataFusionError::ResourcesExhausted(_) => ErrorKind::OutOfMemory,
        DataFusionError::IoError(_) | DataFusionError::ObjectStore(_) => ErrorKind::Io,
        DataFusionError::Internal(_) | DataFusionError::ExecutionJoin(_) => ErrorKind::Internal,
        DataFusionError::ArrowError(arrow, _) if matches!(arrow.as_ref(), ArrowError::IoError(..)) => ErrorKind::Io,
        _ => ErrorKind::Data,
    }
}

fn root(error: &DataFusionError) -> &DataFusionError {
    match error {
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => root(inner),
        DataFusionError::Shared(inner) => root(inner),
        DataFusionError::Collection(all) => all.first().map_or(error, root),
        DataFusionError::External(inner) => inner.downcast_ref::<DataFusionError>().map_or(error, root),
        DataFusionError::ArrowError(arrow, _) => match arrow.as_ref() {
            ArrowError::ExternalError(inner) => inner.downcast_ref::<DataFusionError>().map_or(error, root),
            _ => error,
        },
        other => other,
    }
}

/// The first error of type `T` on the way down to the root.
fn find<T: StdError + 'static>(error: &DataFusionError) -> Option<&T> {
    let root = root(error);
    let mut next: Option<&(dyn StdError + 'static)> = match root {
        DataFusionError::External(inner) => Some(inner.as_ref()),
        DataFusionError::ArrowError(arrow, _) => match arrow.as_ref() {
            ArrowError::ExternalError(inner) => Some(inner.as_ref()),
            _ => None,
        },
        _ => None,
    };
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<T>() {
            return Some(found);
        }
        next = error.source();
    }
    None
}

/// The error's text without the library's advice to report a bug and without backtraces.
fn message(error: &DataFusionError) -> String {
    error.strip_backtrace().replace(
        ".\nThis issue was likely caused by a bug in DataFusion's code. Please help us to resolve this by filing a bug report in our issue tracker: https://github.com/apache/datafusion/issues",
        "",
    )
}
