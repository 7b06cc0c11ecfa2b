//! When data is dropped, and how a job ends.
//!
//! An exchange is dropped once its consumer has finished entirely; should it be needed again, it is produced again. The result is
//! kept until it is read or its time is over. A job that fails or is cancelled drops everything at once.

use super::{Context, Job};
use crate::{Action, JobFailure, JobState, Record};

impl Job {
    pub(super) fn release_inputs(&mut self, ctx: &mut Context<'_>, stage: usize) {
        let producers: Vec<usize> = self.producers(stage).collect();
        for producer in producers {
            let exchange = self.output_key(producer);
            for tm in self.stages[producer].release() {
                ctx.cluster.forget_exchange(&tm, exchange);
                ctx.out.push(Action::ReleaseExchange { tm, exchange });
            }
        }
    }

    pub fn cancel(&mut self, ctx: &mut Context<'_>) {
        if !self.state.is_terminal() {
            self.close(ctx, JobState::Cancelled);
        }
    }

    /// The first failure is the one kept.
    pub fn fail(&mut self, ctx: &mut Context<'_>, failure: JobFailure) {
        if !matches!(self.state, JobState::Failed(_) | JobState::Cancelled) {
            self.close(ctx, JobState::Failed(failure));
        }
    }

    /// Whoever read the result has all of it, even if some of it was lost since.
    pub fn release_result(&mut self, ctx: &mut Context<'_>) {
        if self.announced && !self.closed {
            self.close(ctx, JobState::Finished);
        }
    }

    fn close(&mut self, ctx: &mut Context<'_>, state: JobState) {
        for stage in 0..self.stages.len() {
            for index in self.stages[stage].running_tasks() {
                self.cancel_task(ctx, stage, index, None);
            }
            let run = &mut self.stages[stage];
            run.reruns.clear();
            run.fresh.clear();
        }
        self.to_bind.clear();
        self.backoffs.clear();
        self.closed = true;
        ctx.persist(Record::Ended { job: self.id, state: state.clone(), at: ctx.now });
        for tm in std::mem::take(&mut self.touched) {
            ctx.out.push(Action::ReleaseJob { tm, job: self.id });
        }
        ctx.cluster.forget_job(self.id);
        self.set_state(ctx, state);
    }
}
