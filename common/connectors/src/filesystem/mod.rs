//! `'connector' = 'filesystem'`: Parquet and CSV files that every process of the cluster sees under the same path.
//!
//! Guarantees that only regular files under an allowed root are read, that a file which changed after the scan was planned is
//! an error and not a wrong row, and that a declared column is matched by name and never converted with loss in silence.
//! Does not descend into subdirectories and knows no partition directories.
//!
//! Vocabulary: the *files* of a table are found anew for every query; a split is a piece of one file with its length and
//! modification time (copies on several hosts must keep both).

mod csv;
mod files;
mod footer;
mod parquet;
mod statistics;
mod types;

use std::path::PathBuf;
use std::sync::Arc;

pub use self::csv::CsvSpec;
pub(crate) use self::csv::open as open_csv;
pub use self::parquet::ParquetSpec;
pub(crate) use self::parquet::open as open_parquet;
use crate::TableSource;
use crate::access::AccessRules;
use crate::error::Error;
use crate::options::Options;
use crate::table::TableDefinition;

const PATH: &str = "path";
const FORMAT: &str = "format";

/// Where the files of a table are.
#[derive(Debug, Clone)]
struct Location {
    path: PathBuf,
    rules: AccessRules,
}

impl Location {
    /// The files of the table, sorted by path. Lists on a thread that may block.
    async fn files(&self) -> Result<Vec<files::FileStamp>, Error> {
        let location = self.clone();
        run_blocking(move || files::find(&location.path, &location.rules)).await
    }
}

/// Creates a table over files; there must be at least one.
pub(crate) async fn create(def: &TableDefinition, rules: &AccessRules) -> Result<Arc<dyn TableSource>, Error> {
    let options = Options::unchecked(def);
    let format = match options.required(FORMAT, "parquet or csv")? {
        "csv" => Format::Csv,
        "parquet" => Format::Parquet,
        other => return Err(options.invalid(FORMAT, other, "parquet, csv")),
    };
    let options = match format {
        Format::Csv => options.only(&[&[PATH, FORMAT][..], &csv::OPTIONS].concat())?,
        Format::Parquet => options.only(&[PATH, FORMAT])?,
    };
    let path = options.required(PATH, "a file, a directory or a pattern")?;
    let path = PathBuf::from(path.strip_prefix("file://").unwrap_or(path));
    let location = Location { path, rules: rules.clone() };
    match format {
        Format::Csv => Ok(Arc::new(csv::CsvTable::create(def, &options, location).await?)),
        Format::Parquet => Ok(Arc::new(parquet::ParquetTable::create(def, location).await?)),
    }
}

enum Format {
    Csv,
    Parquet,
}

/// Runs file system calls where they may block; inline when no runtime is there to take them.
async fn run_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::runtime::Handle::try_current() {
        Err(_) => work(),
        Ok(runtime) => match runtime.spawn_blocking(work).await {
            Ok(value) => value,
            Err(failure) => match failure.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // the runtime is shutting down: nobody is left to see what this returns
                Err(_) => std::future::pending().await,
            },
        },
    }
}

#[cfg(test)]
mod tests;
