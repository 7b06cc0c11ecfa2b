//! Where records go.

use std::collections::BTreeMap;
use std::fmt::Debug;

use thalweg_core::Record;
use thalweg_types::JobId;

/// Takes records in order, before what depends on them happens.
pub trait RecordLog: Debug + Send {
    fn append(&mut self, record: Record);
    /// A job's records are of no use any more.
    fn forget(&mut self, job: JobId);
}

/// Keeps the records of jobs that have not ended; a restarted JobManager knows nothing.
#[derive(Debug, Default)]
pub struct MemoryLog {
    jobs: BTreeMap<JobId, Vec<Record>>,
}

impl RecordLog for MemoryLog {
    fn append(&mut self, record: Record) {
        let job = match &record {
            Record::Submitted { job, .. }
            | Record::Bound { job, .. }
            | Record::Fused { job, .. }
            | Record::Reset { job, .. } => *job,
            Record::Finished { attempt, .. } => attempt.task.job,
            Record::Ended { job, .. } => return self.forget(*job),
        };
        self.jobs.entry(job).or_default().push(record);
    }

    fn forget(&mut self, job: JobId) {
        self.jobs.remove(&job);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_core::JobState;
    use thalweg_types::StageId;

    #[test]
    fn an_ended_job_leaves_nothing() {
        let mut log = MemoryLog::default();
        log.append(Record::Reset { job: JobId(1), stage: StageId(0), tasks: vec![0] });
        log.append(Record::Reset { job: JobId(2), stage: StageId(0), tasks: vec![0] });
        log.append(Record::Ended { job: JobId(1), state: JobState::Finished });
        assert_eq!(log.jobs.keys().collect::<Vec<_>>(), [&JobId(2)]);
    }
}
