//! What survives the JobManager: the lease on its cluster, and what it decided about jobs.
//!
//! ```text
//! <high-availability.storageDir>/<cluster-id>/
//!   lock           held by the JobManager that leads
//!   leader.json    epoch, time zero, ticket key
//!   jobs/ID.journal    one per job: how it was submitted, then the scheduler's records
//! ```
//! Guarantees: one leader at a time, as far as the file system's locks hold; an epoch is never used twice; a journal is read up to
//! the first damaged frame, so that what is restored is a state the job was in. Does not elect: a second JobManager is told
//! that there is one.

mod format;
mod journal;
mod lease;
#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use thalweg_config::HighAvailability;
use thalweg_core::Record;
use thalweg_types::JobId;

pub use format::StoredSubmission;
pub use journal::{Entry, Journal};
pub use lease::Leader;

/// How long the JobManager before may take to end.
const PATIENCE: Duration = Duration::from_secs(10);
const JOBS: &str = "jobs";
const EXTENSION: &str = "journal";

/// Why the storage cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HaError {
    #[error("high-availability.storageDir: cannot {action} {}: {source}", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error(
        "another jobmanager leads the cluster in {}: stop it, or set another high-availability.cluster-id",
        path.display()
    )]
    Led { path: PathBuf },
    #[error("{} is damaged ({message}): restore it, or remove the folder and with it the jobs in it", path.display())]
    Damaged { path: PathBuf, message: String },
    #[error("no random numbers for the ticket key")]
    Random(#[source] getrandom::Error),
}

fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> HaError {
    move |source| HaError::Io { action, path: path.to_owned(), source }
}

/// A job as an earlier leader left it.
#[derive(Debug)]
pub struct StoredJob {
    pub job: JobId,
    pub submission: StoredSubmission,
    /// In order; the first one says how it was submitted.
    pub records: Vec<Record>,
}

/// The cluster's storage, led by this process.
#[derive(Debug)]
pub struct Storage {
    jobs: PathBuf,
    pub leader: Leader,
}

impl Storage {
    /// Takes the lease. `storage_dir` and `cluster_id` are as configured and were checked.
    pub fn open(config: &HighAvailability, storage_dir: &Path) -> Result<Self, HaError> {
        let dir = storage_dir.join(config.cluster_id.trim_matches('/'));
        let jobs = dir.join(JOBS);
        std::fs::create_dir_all(&jobs).map_err(io_error("create", &jobs))?;
        Ok(Self { leader: Leader::take(&dir, PATIENCE)?, jobs })
    }

    /// The jobs of earlier leaders, in the order of their submission.
    pub fn load(&self) -> Result<Vec<StoredJob>, HaError> {
        let mut jobs = Vec::new();
        for entry in std::fs::read_dir(&self.jobs).map_err(io_error("list", &self.jobs))? {
            let path = entry.map_err(io_error("list", &self.jobs))?.path();
            let Some(job) = job_of(&path) else { continue };
            jobs.extend(journal::load(&path, job)?);
        }
        jobs.sort_by_key(|stored| (stored.submitted_at(), stored.job));
        Ok(jobs)
    }

    /// Starts the thread that writes.
    pub fn journal(&self) -> Result<Journal, HaError> {
        Journal::start(self.jobs.clone()).map_err(io_error("write to", &self.jobs))
    }
}

impl StoredJob {
    fn submitted_at(&self) -> Option<thalweg_core::Time> {
        match self.records.first() {
            Some(Record::Submitted { at, .. }) => Some(*at),
            _ => None,
        }
    }
}

fn job_of(path: &Path) -> Option<JobId> {
    let is_journal = path.extension().is_some_and(|extension| extension == EXTENSION);
    is_journal.then(|| path.file_stem()?.to_str()?.parse().ok()).flatten()
}

fn path_of(jobs: &Path, job: JobId) -> PathBuf {
    jobs.join(format!("{job}.{EXTENSION}"))
}
