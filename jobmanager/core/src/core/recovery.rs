//! Going on where an earlier leader stopped.
//!
//! Restored jobs start nothing until every TaskManager that had an output somebody needs has registered again and said what it
//! still has, or is known to be gone, or was waited for long enough. An output that is not there is lost like any other: what is
//! needed of it runs again, with the ranges and splits that were decided. Jobs submitted meanwhile do not wait.

use std::collections::BTreeSet;
use std::time::Duration;

use thalweg_types::{JobId, TaskManagerId};

use super::Core;
use crate::job::Job;
use crate::{Action, Time, TimerId};

/// Which jobs wait for whom.
#[derive(Debug)]
pub(super) struct Recovery {
    pub jobs: BTreeSet<JobId>,
    pub awaited: BTreeSet<TaskManagerId>,
    /// How long it may take; `None` until it is said.
    pub patience: Option<Duration>,
}

impl Core {
    /// People see the restored jobs as they are; the wait begins.
    pub(super) fn restored(&mut self, now: Time, patience: Duration, out: &mut Vec<Action>) {
        let Some(recovery) = &mut self.recovery else { return };
        if recovery.patience.replace(patience).is_some() {
            return;
        }
        let jobs = recovery.jobs.clone();
        for id in jobs {
            self.with_job(now, id, out, Job::show_restored);
        }
        self.end_recovery_if_complete(now, out);
        if self.recovery.is_some() {
            out.push(Action::SetTimer { id: TimerId::Recovery, at: now + patience });
        }
    }

    /// A TaskManager registered: another incarnation of it will not come back. True if this very one was waited for.
    pub(super) fn no_longer_awaited(&mut self, now: Time, tm: &TaskManagerId, out: &mut Vec<Action>) -> bool {
        let Some(recovery) = &mut self.recovery else { return false };
        let same_process = recovery.awaited.remove(tm);
        let older: Vec<_> = recovery.awaited.iter().filter(|other| other.resource == tm.resource).cloned().collect();
        recovery.awaited.retain(|other| other.resource != tm.resource);
        for older in older {
            self.lose_awaited(now, &older, "it was started anew", out);
        }
        same_process
    }

    pub(super) fn end_recovery_if_complete(&mut self, now: Time, out: &mut Vec<Action>) {
        if self.recovery.as_ref().is_some_and(|r| r.awaited.is_empty() && r.patience.is_some()) {
            self.end_recovery(now, out);
        }
    }

    /// Whoever has not come back by now is gone.
    pub(super) fn recovery_overdue(&mut self, now: Time, out: &mut Vec<Action>) {
        let Some(Recovery { awaited, patience: Some(patience), .. }) = &mut self.recovery else { return };
        let detail = format!(
            "it did not come back within {patience:?} after the jobmanager restarted \
             (execution.batch.job-recovery.previous-worker.recovery.timeout)"
        );
        for tm in std::mem::take(awaited) {
            self.lose_awaited(now, &tm, &detail, out);
        }
        self.end_recovery(now, out);
    }

    fn lose_awaited(&mut self, now: Time, tm: &TaskManagerId, detail: &str, out: &mut Vec<Action>) {
        for id in self.jobs.keys().copied().collect::<Vec<_>>() {
            self.with_job(now, id, out, |job, ctx| job.task_manager_down(ctx, tm, detail));
        }
    }

    fn end_recovery(&mut self, now: Time, out: &mut Vec<Action>) {
        let Some(recovery) = self.recovery.take() else { return };
        for id in recovery.jobs {
            self.with_job(now, id, out, Job::resume);
        }
    }
}
