//! What runs again when outputs are gone: the retry rule.
//!
//! 1. A map output is *lost* when its host is gone or somebody could not read it. At that moment every running consumer of the
//!    exchange is stopped: it was deployed with a placement that names the lost attempt, and must not mix it with its successor.
//! 2. Then, from the result backwards: a stage whose consumer is unfinished (or that is the result) is *needed*, and runs again
//!    whatever of it is lost or was released. Nothing else runs again.
//! 3. A task that had finished reads the same splits in the same order again. Its ranges never change.
//! 4. If the output may differ from the first one in a way that some consumer can tell, all consumers run again, finished ones too,
//!    and all that was computed from them. That is so for a `Random` stage always, and for an order-free one when a consumer's
//!    rectangle cuts cells by rows.
//!
//! A stage counts as order-free if it or anything it reads from is. A stage whose rows depend on the order of its input must be
//! labelled `Random` by the planner when that order is free; nothing here can know it.

use std::collections::BTreeSet;

use thalweg_graph::Determinism;
use thalweg_types::{FailureCause, MapOutputKey, StageId, TaskManagerId};

use super::stage::TaskState;
use super::{Context, Job};
use crate::{AttemptState, JobState, Record, Report};

impl Job {
    /// A TaskManager is gone: what ran there starts again elsewhere, what it held is lost.
    pub fn task_manager_down(&mut self, ctx: &mut Context<'_>, tm: &TaskManagerId, detail: &str) {
        if !self.touched.remove(tm) {
            return;
        }
        for stage in &mut self.stages {
            stage.output.holders.remove(tm);
            stage.output.by_host.remove(tm);
        }
        self.lose_what_was_on(ctx, tm, detail, |_| false);
    }

    /// A TaskManager registered again after it lost its link: its attempts have stopped, of its outputs it has only `held`.
    pub fn task_manager_back(&mut self, ctx: &mut Context<'_>, tm: &TaskManagerId, held: &BTreeSet<MapOutputKey>) {
        if self.touched.contains(tm) {
            self.lose_what_was_on(ctx, tm, "its link to the jobmanager was lost", |output| held.contains(&output));
        }
    }

    /// Somebody may read this output, which is said to be there.
    pub fn counts_on(&self, tm: &TaskManagerId, output: &MapOutputKey) -> bool {
        let exchange = self.template.exchanges.get(output.exchange.exchange.index());
        let Some(run) = exchange.and_then(|x| self.stages.get(x.producer.index())) else { return false };
        run.done_task(output.map).is_some_and(|done| done.tm == *tm)
            && run.tasks[output.map as usize].attempts == output.attempt
            && !run.output.lost.contains(&output.map)
    }

    /// Ends the attempts that ran on a TaskManager and marks what it wrote as lost, but for what it still has.
    fn lose_what_was_on(
        &mut self,
        ctx: &mut Context<'_>,
        tm: &TaskManagerId,
        detail: &str,
        still_has: impl Fn(MapOutputKey) -> bool,
    ) {
        let cause = FailureCause::TaskManagerLost { task_manager: tm.clone(), detail: detail.to_owned() };
        let mut lost: Vec<(usize, Vec<u32>)> = Vec::new();
        for stage in 0..self.stages.len() {
            let exchange = self.output_key(stage);
            let mut ran = Vec::new();
            let mut held = Vec::new();
            for (map, task) in (0..).zip(&self.stages[stage].tasks) {
                let output = MapOutputKey { exchange, map, attempt: task.attempts };
                match &task.state {
                    TaskState::Running(running) if running.tm == *tm => ran.push(map),
                    TaskState::Done(done) if done.tm == *tm && !still_has(output) => held.push(map),
                    _ => {}
                }
            }
            for &index in &ran {
                self.retire(ctx, stage, index, AttemptState::Failed, Some(cause.clone()));
                self.stages[stage].enqueue(index);
            }
            if !ran.is_empty() {
                self.report_stage(ctx, stage);
            }
            lost.push((stage, held));
        }
        for (stage, held) in lost {
            self.lose_outputs(ctx, stage, &held, &cause);
        }
        self.rerun_what_is_needed(ctx);
    }

    /// Marks finished maps unreadable and stops whoever reads the exchange. Maps that are lost already change nothing.
    pub(super) fn lose_outputs(&mut self, ctx: &mut Context<'_>, stage: usize, maps: &[u32], cause: &FailureCause) {
        let mut any = false;
        for &map in maps {
            any |= self.stages[stage].lose(map, cause.clone());
        }
        if let (true, Some(consumer)) = (any, self.consumer(stage)) {
            self.stop_running(ctx, consumer, cause);
        }
    }

    fn stop_running(&mut self, ctx: &mut Context<'_>, stage: usize, cause: &FailureCause) {
        let running = self.stages[stage].running_tasks();
        for &index in &running {
            self.cancel_task(ctx, stage, index, Some(cause.clone()));
            self.stages[stage].enqueue(index);
        }
        if !running.is_empty() {
            self.report_stage(ctx, stage);
        }
    }

    /// Puts every lost output that somebody needs back to work, from the result backwards.
    pub(crate) fn rerun_what_is_needed(&mut self, ctx: &mut Context<'_>) {
        for stage in (0..self.stages.len()).rev() {
            let needed = self.consumer(stage).is_none_or(|c| !self.stages[c].all_done());
            if !needed || self.stages[stage].output.lost.is_empty() {
                continue;
            }
            let lost: Vec<u32> = self.stages[stage].output.lost.iter().copied().collect();
            let cause = lost.iter().find_map(|&i| self.stages[stage].done_task(i)?.lost.clone());
            self.reset(ctx, stage, &lost, None);
            let measured = match &cause {
                Some(cause) => cause.to_string(),
                None => "its output had been released after it was read".to_owned(),
            };
            let outcome = format!(
                "{} of {} run again with the same splits and ranges: {}",
                name(&lost),
                self.stages[stage].tasks.len(),
                list(&lost)
            );
            self.decide(ctx, stage, "retry", measured, outcome);
            if let (true, Some(consumer)) = (self.may_differ(stage), self.consumer(stage)) {
                self.restart_changed(ctx, stage, consumer, cause);
            }
        }
        let last = self.stages.len() - 1;
        if self.state == JobState::Finished && !self.stages[last].all_done() {
            self.set_state(ctx, JobState::Running);
        }
    }

    /// May another run of this stage's tasks give an output that a consumer can tell from the first one?
    fn may_differ(&self, stage: usize) -> bool {
        match self.template.stages[stage].determinism {
            Determinism::Random => true,
            _ => self.stages[stage].output.cut_by_rows && self.is_order_free(stage),
        }
    }

    /// The stage, or any stage below it, does not keep the order of its rows.
    fn is_order_free(&self, stage: usize) -> bool {
        let own = self.template.stages[stage].determinism != Determinism::Deterministic;
        own || self.producers(stage).any(|p| self.is_order_free(p))
    }

    /// All readers of a changed exchange start over, and all readers of what they had written.
    fn restart_changed(&mut self, ctx: &mut Context<'_>, changed: usize, consumer: usize, cause: Option<FailureCause>) {
        let mut next = Some(consumer);
        while let Some(stage) = next.filter(|&s| self.stages[s].is_bound()) {
            for index in self.stages[stage].running_tasks() {
                self.cancel_task(ctx, stage, index, cause.clone());
                self.stages[stage].enqueue(index);
            }
            let is_done = |i: &u32| self.stages[stage].done_task(*i).is_some();
            let finished: Vec<u32> = (0..self.stages[stage].tasks.len() as u32).filter(is_done).collect();
            if !finished.is_empty() {
                self.reset(ctx, stage, &finished, cause.clone());
                let measured = format!(
                    "tasks of {} run again and are {}, so their output may differ from what was read",
                    StageId(changed as u32),
                    self.nature(changed)
                );
                let outcome = format!("all finished {} run again: {}", name(&finished), list(&finished));
                self.decide(ctx, stage, "restart-consumers", measured, outcome);
            }
            self.report_stage(ctx, stage);
            next = self.consumer(stage);
        }
    }

    fn nature(&self, stage: usize) -> &'static str {
        match self.template.stages[stage].determinism {
            Determinism::Random => "random",
            _ => "order-free and read by row ranges",
        }
    }

    fn reset(&mut self, ctx: &mut Context<'_>, stage: usize, tasks: &[u32], cause: Option<FailureCause>) {
        ctx.persist(Record::Reset { job: self.id, stage: StageId(stage as u32), tasks: tasks.to_vec() });
        for &index in tasks {
            let attempt = self.attempt_id(stage, index);
            if let Some(tm) = self.stages[stage].reset(index, cause.clone(), ctx.now) {
                ctx.report(Report::Attempt { attempt, tm, state: AttemptState::Reset });
            }
        }
        self.report_stage(ctx, stage);
    }
}

fn name(tasks: &[u32]) -> String {
    if tasks.len() == 1 { "1 task".to_owned() } else { format!("{} tasks", tasks.len()) }
}

/// The first few of a list, for people.
fn list(tasks: &[u32]) -> String {
    const SHOWN: usize = 16;
    let shown: Vec<String> = tasks.iter().take(SHOWN).map(u32::to_string).collect();
    let more = if tasks.len() > SHOWN { ", …" } else { "" };
    format!("{}{more}", shown.join(", "))
}
