//! A job that goes on from an earlier leader's records ([`core::recovery`](crate::core)).

use std::collections::BTreeSet;

use thalweg_types::TaskManagerId;

use super::{Context, Job};
use crate::{JobState, Report};

const RULE: &str = "recovery";

impl Job {
    /// Takes every finished output that somebody needs for readable where it was; gives the TaskManagers.
    pub fn expect_outputs(&mut self) -> BTreeSet<TaskManagerId> {
        for stage in 0..self.stages.len() {
            if self.consumer(stage).is_some_and(|consumer| self.stages[consumer].all_done()) {
                // it was released
                self.stages[stage].release();
                continue;
            }
            let run = &mut self.stages[stage];
            let done = (0..run.tasks.len() as u32).filter_map(|i| run.done_task(i));
            let hosts: BTreeSet<TaskManagerId> = done.map(|done| done.tm.clone()).collect();
            run.output.holders = hosts.clone();
            self.touched.extend(hosts);
        }
        for stage in 0..self.stages.len() {
            let starts = !self.stages[stage].is_bound() && self.template.stages[stage].fused_into.is_none();
            if starts && self.inputs_sealed(stage) {
                self.to_bind.insert(stage);
            }
        }
        self.touched.clone()
    }

    pub fn show_restored(&mut self, ctx: &mut Context<'_>) {
        ctx.report(Report::Job { job: self.id, state: self.state.clone() });
        for stage in 0..self.stages.len() {
            if self.stages[stage].is_bound() {
                self.report_stage(ctx, stage);
            }
        }
    }

    /// All is known that there is: the job goes on.
    pub fn resume(&mut self, ctx: &mut Context<'_>) {
        let finished: u32 = self.stages.iter().map(|s| s.done).sum();
        let tasks: usize = self.stages.iter().map(|s| s.tasks.len()).sum();
        let last = self.stages.len() - 1;
        let measured =
            format!("the jobmanager restarted, and {} taskmanagers have outputs of the job", self.touched.len());
        let outcome = format!("{finished} of the {tasks} tasks decided so far are finished and do not run again");
        self.decide(ctx, last, RULE, measured, outcome);
        self.arm(ctx);
        if finished > 0 {
            self.set_state(ctx, JobState::Running);
        }
        if self.stages[last].is_sealed() {
            self.announce_result(ctx, last);
        }
    }
}
