//! Timers of a job: waiting for slots, checking for progress, waiting out failures.
//!
//! A timer that fires twice, early or late changes nothing but the time of the next check. At most one of each kind is awaited; setting one
//! again replaces it or adds a harmless second ring.

use std::time::Duration;

use thalweg_types::{AttemptId, TaskManagerId};

use super::failure::backoff;
use super::{Context, Job};
use crate::{Action, JobFailure, JobState, Time, TimerId};

impl Job {
    /// Starts the job's clocks.
    pub fn arm(&mut self, ctx: &mut Context<'_>) {
        self.last_progress = ctx.now;
        self.slot_deadline = ctx.now + self.options.slot_request_timeout;
        ctx.out.push(Action::SetTimer { id: TimerId::SlotRequest(self.id), at: self.slot_deadline });
        self.arm_stall(ctx);
    }

    fn arm_stall(&mut self, ctx: &mut Context<'_>) {
        // a pause of nothing would ring for ever
        let pause = (self.options.stall_timeout / 2).max(Duration::from_millis(10));
        self.next_stall_check = ctx.now + pause;
        ctx.out.push(Action::SetTimer { id: TimerId::Stall(self.id), at: self.next_stall_check });
    }

    pub fn timer(&mut self, ctx: &mut Context<'_>, id: TimerId) {
        if self.state.is_terminal() {
            return;
        }
        match id {
            TimerId::SlotRequest(_) => self.slot_request_over(ctx),
            TimerId::Stall(_) => self.check_stall(ctx),
            TimerId::Backoff(_) => {
                self.wake_at = None;
                self.wake_backoffs(ctx.now);
                if let Some((at, ..)) = self.backoffs.first().copied() {
                    self.wake_by(ctx, at);
                }
            }
            TimerId::Recovery => {}
        }
    }

    fn slot_request_over(&mut self, ctx: &mut Context<'_>) {
        let timeout = self.options.slot_request_timeout;
        match self.state {
            JobState::WaitingForSlots if ctx.now >= self.slot_deadline => {
                let waited = since(self.submitted_at, ctx.now);
                self.fail(ctx, JobFailure::NoSlots { waited });
            }
            JobState::Running => {
                let Some(empty_since) = ctx.cluster.empty_since else { return };
                if self.running_attempts() == 0 && ctx.now >= empty_since + timeout {
                    self.fail(ctx, JobFailure::NoSlots { waited: since(empty_since, ctx.now) });
                }
            }
            _ => {}
        }
    }

    /// The last slot of the cluster is gone.
    pub fn cluster_emptied(&mut self, ctx: &mut Context<'_>) {
        if self.state == JobState::Running {
            let at = ctx.now + self.options.slot_request_timeout;
            ctx.out.push(Action::SetTimer { id: TimerId::SlotRequest(self.id), at });
        }
    }

    fn check_stall(&mut self, ctx: &mut Context<'_>) {
        if ctx.now < self.next_stall_check {
            return;
        }
        let waited = since(self.last_progress, ctx.now);
        if self.state == JobState::Running && waited >= self.options.stall_timeout {
            let waits = self.what_waits(ctx.cluster);
            self.fail(ctx, JobFailure::Stalled { waited, waits });
            return;
        }
        self.arm_stall(ctx);
    }

    /// A running attempt's totals so far. Only growth counts.
    pub fn attempt_progress(
        &mut self,
        ctx: &mut Context<'_>,
        attempt: AttemptId,
        tm: &TaskManagerId,
        totals: [u64; 3],
    ) {
        const MOST: u64 = 1 << 47;
        let [rows, bytes, busy_nanos] = totals.map(|total| total.min(MOST));
        let Some(stage) = self.current(attempt, tm) else { return };
        let index = attempt.task.index;
        let Some(running) = self.stages[stage].running_mut(index) else { return };
        let grown = (rows.saturating_sub(running.rows), bytes.saturating_sub(running.bytes));
        let busier = busy_nanos > running.busy_nanos;
        if grown == (0, 0) && !busier {
            return;
        }
        running.busy_nanos = running.busy_nanos.max(busy_nanos);
        running.rows += grown.0;
        running.bytes += grown.1;
        self.stages[stage].rows += grown.0;
        self.stages[stage].bytes += grown.1;
        self.last_progress = ctx.now;
        self.report_stage(ctx, stage);
        // a side of a join may have outgrown what its other side waits for
        if !self.held.is_empty() && self.settle_held(ctx) {
            self.advance(ctx);
        }
    }

    pub(super) fn back_off(&mut self, ctx: &mut Context<'_>, stage: usize, index: u32, failures: u32) {
        let at = ctx.now + backoff(failures);
        self.backoffs.insert((at, stage, index));
        self.wake_by(ctx, at);
    }

    /// Enqueues tasks whose wait is over.
    pub(super) fn wake_backoffs(&mut self, now: Time) {
        while let Some(&(at, stage, index)) = self.backoffs.first() {
            if at > now {
                return;
            }
            self.backoffs.pop_first();
            self.stages[stage].enqueue(index);
        }
    }

    /// Asks for a ring at `at` unless an earlier one is awaited.
    pub(super) fn wake_by(&mut self, ctx: &mut Context<'_>, at: Time) {
        if self.wake_at.is_none_or(|awaited| at < awaited || awaited <= ctx.now) {
            self.wake_at = Some(at);
            ctx.out.push(Action::SetTimer { id: TimerId::Backoff(self.id), at });
        }
    }
}

fn since(start: Time, now: Time) -> Duration {
    now.0.saturating_sub(start.0)
}
