//! What can be wrong with a table, typed by whose fault it is.
//!
//! Every message names the place (table, option, file, row, column), the value and what would be right.

use std::fmt;
use std::path::{Path, PathBuf};

use datafusion::common::DataFusionError;
use thalweg_types::Fault;

/// Why a table cannot be created, enumerated or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An option of `WITH (…)` is missing, unknown or has a bad value.
    #[error("table '{table}': option '{option}' {problem}")]
    Option { table: String, option: String, problem: OptionProblem },
    /// A path that may not or cannot be read.
    #[error("path '{}' {problem}", path.display())]
    Path { path: PathBuf, problem: PathProblem },
    /// The declared columns do not fit what the connector or the file has.
    #[error("{place}: column '{column}': {problem}")]
    Schema { place: String, column: String, problem: String },
    /// The declared columns as a whole do not fit.
    #[error("table '{table}': {problem}")]
    Columns { table: String, problem: String },
    /// A value that is not what its column says. `line` counts from 1; for the `values` connector it is the row.
    #[error("{place}, {unit} {line}, column '{column}': '{value}' is not a valid {expected}")]
    Value { place: String, unit: &'static str, line: u64, column: String, value: String, expected: String },
    /// A row that cannot be split into columns, or a NULL where none may be.
    #[error("{place}, {unit} {line}: {problem}")]
    Row { place: String, unit: &'static str, line: u64, problem: String },
    /// A file that is not what its format or its split says.
    #[error("file '{}': {problem}", file.display())]
    Data { file: PathBuf, problem: DataProblem },
    /// A split or spec that no version of this connector has written.
    #[error("malformed split of a '{connector}' table")]
    Split {
        connector: &'static str,
        #[source]
        source: serde_json::Error,
    },
    /// The operating system refused.
    #[error("cannot read '{}'", path.display())]
    Io {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// A library failed where only a defect of ours can make it fail, or memory ran out.
    #[error("cannot {doing}")]
    Engine {
        doing: &'static str,
        #[source]
        source: Box<DataFusionError>,
    },
}

/// What is wrong with an option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OptionProblem {
    Missing { expected: String },
    Unknown { nearest: Option<String>, known: Vec<String> },
    Invalid { value: String, allowed: String },
}

/// What is wrong with a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathProblem {
    /// Also said of a path that does not exist, when it would lie outside.
    OutsideRoots {
        roots: Vec<PathBuf>,
    },
    Missing,
    NoFiles,
    NotAFile,
    TooManyFiles {
        limit: usize,
    },
    BadPattern {
        detail: String,
    },
}

/// What is wrong with the content of a file.
#[derive(Debug, thiserror::Error)]
pub enum DataProblem {
    #[error(
        "changed while the query ran (planned with {planned} bytes, now {now} bytes or another modification time); \
             run the query again"
    )]
    Changed { planned: u64, now: u64 },
    #[error("has {actual} row groups, the split wants {start}..{end}")]
    RowGroups { actual: usize, start: usize, end: usize },
    #[error("{0}")]
    Other(String),
    #[error(transparent)]
    Parquet(#[from] parquet::errors::ParquetError),
    #[error(transparent)]
    Arrow(#[from] arrow::error::ArrowError),
    #[error(transparent)]
    Read(Box<DataFusionError>),
}

impl Error {
    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        match self {
            Error::Option { .. }
            | Error::Path { .. }
            | Error::Schema { .. }
            | Error::Columns { .. }
            | Error::Value { .. }
            | Error::Row { .. }
            | Error::Data { .. } => Fault::User,
            Error::Io { .. } => Fault::External,
            Error::Split { .. } | Error::Engine { .. } => Fault::Internal,
        }
    }

    pub(crate) fn io(path: &Path, source: std::io::Error) -> Self {
        Error::Io { path: path.to_path_buf(), source }
    }

    pub(crate) fn data(file: &Path, problem: impl Into<DataProblem>) -> Self {
        Error::Data { file: file.to_path_buf(), problem: problem.into() }
    }

    pub(crate) fn path(path: &Path, problem: PathProblem) -> Self {
        Error::Path { path: path.to_path_buf(), problem }
    }

    pub(crate) fn schema(place: impl Into<String>, column: &str, problem: impl Into<String>) -> Self {
        Error::Schema { place: place.into(), column: column.to_owned(), problem: problem.into() }
    }
}

/// Inside a stream of batches the error travels as [`DataFusionError::External`]; downcast to get it back.
impl From<Error> for DataFusionError {
    fn from(error: Error) -> Self {
        DataFusionError::External(Box::new(error))
    }
}

impl fmt::Display for OptionProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OptionProblem::Missing { expected } => write!(f, "is missing, expected {expected}"),
            OptionProblem::Unknown { nearest: Some(nearest), known } => {
                write!(f, "is unknown, did you mean '{nearest}'? known options: {}", known.join(", "))
            }
            OptionProblem::Unknown { nearest: None, known } => {
                write!(f, "is unknown, known options: {}", known.join(", "))
            }
            OptionProblem::Invalid { value, allowed } => write!(f, "has the value '{value}', allowed: {allowed}"),
        }
    }
}

impl fmt::Display for PathProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PathProblem::OutsideRoots { roots } if roots.is_empty() => {
                f.write_str("may not be read: no data directory is allowed, add one to the allowed roots")
            }
            PathProblem::OutsideRoots { roots } => {
                let roots: Vec<_> = roots.iter().map(|root| format!("'{}'", root.display())).collect();
                write!(f, "is outside the allowed roots {}", roots.join(", "))
            }
            PathProblem::Missing => f.write_str("does not exist"),
            PathProblem::NoFiles => {
                f.write_str("holds no file to read (names that start with '.' or '_' and subdirectories are skipped)")
            }
            PathProblem::NotAFile => f.write_str("is neither a regular file nor a directory"),
            PathProblem::TooManyFiles { limit } => write!(f, "matches more than {limit} files, narrow the pattern"),
            PathProblem::BadPattern { detail } => write!(f, "is not a valid pattern: {detail}"),
        }
    }
}
