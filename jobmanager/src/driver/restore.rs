//! From a submission to what is stored of it, and back.

use std::sync::Arc;

use arrow::datatypes::Schema;
use arrow_flight::{IpcMessage, SchemaAsIpc};
use arrow_ipc::writer::IpcWriteOptions;
use thalweg_core::{Core, Record};
use thalweg_rpc::Problem;
use thalweg_types::LeaderEpoch;
use tracing::error;

use super::Submission;
use super::jobs::{JobEntry, Jobs};
use crate::ha::{StoredJob, StoredSubmission};

pub(super) fn stored(submission: &Submission) -> Result<StoredSubmission, Problem> {
    let schema = IpcMessage::try_from(SchemaAsIpc::new(&submission.schema, &IpcWriteOptions::default()));
    let schema = schema.map_err(|error| Problem::Internal { message: error.to_string() })?;
    Ok(StoredSubmission {
        schema: schema.0.to_vec(),
        statement: submission.statement.to_string(),
        plan: submission.plan.to_string(),
        settings: submission.settings.clone(),
        result_ttl: submission.result_ttl,
        result_max_size: submission.result_max_size,
    })
}

/// The scheduler and the jobs as an earlier leader left them. A job that cannot be understood is left out, and said so.
pub(super) fn restore(epoch: LeaderEpoch, stored: Vec<StoredJob>) -> (Core, Jobs) {
    let mut known = Vec::new();
    let mut records = Vec::new();
    for StoredJob { job, submission, records: of_job } in stored {
        let Some(Record::Submitted { template, options, .. }) = of_job.first() else { continue };
        let schema = match Schema::try_from(IpcMessage(submission.schema.into())) {
            Ok(schema) => Arc::new(schema),
            Err(error) => {
                error!(%job, %error, "the schema of a stored job cannot be read, the job is lost");
                continue;
            }
        };
        let submission = Submission {
            template: template.clone(),
            schema,
            statement: submission.statement.into(),
            plan: submission.plan.into(),
            options: options.clone(),
            settings: submission.settings,
            result_ttl: submission.result_ttl,
            result_max_size: submission.result_max_size,
            recoverable: true,
        };
        known.push((job, submission));
        records.extend(of_job);
    }
    let core = Core::restore(epoch, records);
    let mut jobs = Jobs::default();
    let mut ended = Vec::new();
    for (job, mut submission) in known {
        let (Some(view), Some(template)) = (core.job(job), core.template(job)) else { continue };
        submission.template = template;
        jobs.insert(JobEntry::restored(job, submission, &view));
        ended.extend(view.ended_at.map(|at| (at, job)));
    }
    ended.sort_unstable();
    ended.into_iter().for_each(|(_, job)| jobs.ended(job));
    (core, jobs)
}
