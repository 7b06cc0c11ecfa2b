//! What can go wrong between a map task and its readers, typed so that the scheduler's answer can depend on it.

use std::path::PathBuf;

use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use thalweg_types::{ErrorKind, MapOutputKey};

/// A failure of the exchange store, of a writer or of a local read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A column of a type that no exchange can carry.
    #[error("column {column:?} has type {data_type}, which an exchange cannot carry: cast it before")]
    UnsupportedType { column: String, data_type: DataType },
    /// A batch that is not what the writer was opened for.
    #[error("a batch for map output {output} does not fit: {detail}")]
    InvalidInput { output: MapOutputKey, detail: String },
    /// No finished output of that key is here.
    #[error("map output {output} is not here: {detail}")]
    NotFound { output: MapOutputKey, detail: String },
    /// A block that was written cannot be read back as it was: recompute the map output.
    #[error("a block of map output {output} is lost: {detail}")]
    LostBlock { output: MapOutputKey, detail: String },
    /// A file or directory of the spill directories.
    #[error("cannot {action} {path:?}")]
    Io { action: &'static str, path: PathBuf, source: std::io::Error },
    /// No spill directory is configured.
    #[error("no spill directory is configured: set taskmanager.tmp.dirs to at least one directory")]
    NoSpillDirectory,
    /// A kernel failed on valid input, or the encoder did.
    #[error("cannot {action}")]
    Arrow { action: &'static str, source: ArrowError },
}

impl Error {
    /// How the failure of an attempt is classified.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::UnsupportedType { .. } => ErrorKind::Data,
            Error::Io { .. } | Error::NoSpillDirectory | Error::LostBlock { .. } | Error::NotFound { .. } => {
                ErrorKind::Io
            }
            Error::InvalidInput { .. } | Error::Arrow { .. } => ErrorKind::Internal,
        }
    }

    /// True if the producer's output is gone or damaged, so that another attempt of the reader alone cannot help.
    pub fn is_lost_output(&self) -> bool {
        matches!(self, Error::NotFound { .. } | Error::LostBlock { .. })
    }
}

pub(crate) fn arrow(action: &'static str) -> impl FnOnce(ArrowError) -> Error {
    move |source| Error::Arrow { action, source }
}

pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.into();
    move |source| Error::Io { action, path, source }
}
