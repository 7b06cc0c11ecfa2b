//! What a failed attempt changes.
//!
//! A failure of its own uses up one of the task's attempts; one that a lost partition or TaskManager caused does not, but such losses
//! are bounded per task too ([`MAX_LOSSES`]). The first failure that may not be answered by another attempt fails the job.

use std::time::Duration;

use thalweg_types::{AttemptId, ErrorKind, ExchangeId, FailureCause, StageId, TaskId, TaskManagerId};

use super::{Context, Job};
use crate::{AttemptState, JobFailure};

/// Losses of one task's output or run, without its TaskManager being gone, that are answered by running it again.
pub(crate) const MAX_LOSSES: u32 = 16;

const FIRST_BACKOFF: Duration = Duration::from_millis(100);
const LONGEST_BACKOFF: Duration = Duration::from_secs(5);

/// Wait before the attempt that follows the `failures`-th failure (1 or more): 100 ms, doubled each time, at most 5 s.
pub(crate) fn backoff(failures: u32) -> Duration {
    let doubled = 1u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
    FIRST_BACKOFF.checked_mul(doubled).unwrap_or(LONGEST_BACKOFF).min(LONGEST_BACKOFF)
}

impl Job {
    pub fn task_failed(&mut self, ctx: &mut Context<'_>, attempt: AttemptId, tm: TaskManagerId, cause: FailureCause) {
        let Some(stage) = self.current(attempt, &tm) else { return };
        match cause {
            FailureCause::Task { .. } => self.own_failure(ctx, attempt, stage, cause),
            FailureCause::PartitionLost { exchange, map, attempt: producer_attempt, .. } => {
                self.partition_lost(ctx, attempt, stage, (exchange, map, producer_attempt), cause);
            }
            FailureCause::TaskManagerLost { .. } => self.run_lost(ctx, attempt, stage, cause),
        }
    }

    /// The attempt failed by itself: another one after a while, if it may have one.
    pub(super) fn own_failure(&mut self, ctx: &mut Context<'_>, attempt: AttemptId, stage: usize, cause: FailureCause) {
        let index = attempt.task.index;
        self.retire(ctx, stage, index, AttemptState::Failed, Some(cause.clone()));
        let task = &mut self.stages[stage].tasks[index as usize];
        task.own_failures += 1;
        let failures = task.own_failures;
        // nobody asked a current attempt to stop: its TaskManager did so for reasons of its own
        let retryable = match &cause {
            FailureCause::Task { kind, .. } => kind.is_retryable() || *kind == ErrorKind::Cancelled,
            _ => true,
        };
        if !retryable || failures >= self.options.max_attempts {
            self.fail(ctx, JobFailure::Task { attempt, cause });
            return;
        }
        self.back_off(ctx, stage, index, failures);
        self.report_stage(ctx, stage);
    }

    /// The TaskManager did not take or keep the attempt, and is not (yet) known to be gone.
    fn run_lost(&mut self, ctx: &mut Context<'_>, attempt: AttemptId, stage: usize, cause: FailureCause) {
        let index = attempt.task.index;
        self.retire(ctx, stage, index, AttemptState::Failed, Some(cause.clone()));
        if let Some(losses) = self.count_loss(ctx, stage, index, attempt, cause) {
            self.back_off(ctx, stage, index, losses);
            self.report_stage(ctx, stage);
        }
    }

    /// A consumer could not read a map output. If that output is still the current one, it is lost from now on.
    fn partition_lost(
        &mut self,
        ctx: &mut Context<'_>,
        attempt: AttemptId,
        stage: usize,
        (exchange, map, producer_attempt): (ExchangeId, u32, u32),
        cause: FailureCause,
    ) {
        let reads_it = self.template.stages[stage].inputs.iter().any(|i| i.exchange == exchange);
        let producer = if reads_it { self.producer(exchange) } else { stage };
        let is_current = reads_it
            && self.stages[producer].done_task(map).is_some()
            && self.stages[producer].tasks[map as usize].attempts == producer_attempt;
        if !is_current {
            // it never was told to read that: the report is nonsense, and must not be answered for ever
            self.run_lost(ctx, attempt, stage, cause);
            return;
        }
        self.retire(ctx, stage, attempt.task.index, AttemptState::Failed, Some(cause.clone()));
        self.stages[stage].enqueue(attempt.task.index);
        if self.count_loss(ctx, producer, map, attempt, cause.clone()).is_some() {
            self.lose_outputs(ctx, producer, &[map], &cause);
            self.rerun_what_is_needed(ctx);
        }
    }

    /// The client's relay could not read a map of the result.
    pub fn result_lost(&mut self, ctx: &mut Context<'_>, map: u32, attempt: u32, from: TaskManagerId, detail: String) {
        let Some(stage) = self.stages.len().checked_sub(1) else { return };
        let run = &self.stages[stage];
        let is_current = run.done_task(map).is_some_and(|done| done.tm == from)
            && run.tasks[map as usize].attempts == attempt
            && !run.output.lost.contains(&map);
        if !is_current {
            return;
        }
        let exchange = self.template.stages[stage].output;
        let cause = FailureCause::PartitionLost { exchange, map, attempt, from, detail };
        let task = TaskId { job: self.id, stage: StageId(stage as u32), index: map };
        if self.count_loss(ctx, stage, map, AttemptId { task, attempt }, cause.clone()).is_some() {
            self.lose_outputs(ctx, stage, &[map], &cause);
            self.rerun_what_is_needed(ctx);
        }
    }

    /// Counts a loss of a task. `None` if it was one too many, and the job failed of it.
    fn count_loss(
        &mut self,
        ctx: &mut Context<'_>,
        stage: usize,
        index: u32,
        attempt: AttemptId,
        cause: FailureCause,
    ) -> Option<u32> {
        let task = &mut self.stages[stage].tasks[index as usize];
        task.losses += 1;
        if task.losses > MAX_LOSSES {
            self.fail(ctx, JobFailure::Task { attempt, cause });
            return None;
        }
        Some(task.losses)
    }
}
