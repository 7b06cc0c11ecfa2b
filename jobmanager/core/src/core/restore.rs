//! From records back to decisions.
//!
//! Restored: which jobs there are, how their stages are cut, which tasks had finished with which splits, and where their outputs
//! were. Not restored: what ran and what was waiting. Whether the outputs are still there is found out by
//! [recovery](super::recovery).

use std::collections::BTreeSet;

use thalweg_types::{AttemptId, JobId, LeaderEpoch, StageId};

use super::{Core, Recovery};
use crate::job::Job;
use crate::job::stage::Done;
use crate::{Decision, JobState, Record, TaskRanges, Time};

impl Core {
    /// The state after these records, in their order. A record that fits nothing is skipped with a warning.
    pub fn restore(epoch: LeaderEpoch, records: Vec<Record>) -> Self {
        let mut core = Self::new(epoch);
        for record in records {
            core.replay(record);
        }
        let jobs: BTreeSet<JobId> = core.active.values().copied().collect();
        let mut awaited = BTreeSet::new();
        for id in &jobs {
            if let Some(job) = core.jobs.get_mut(id) {
                awaited.extend(job.expect_outputs());
            }
        }
        core.recovery = Some(Recovery { jobs, awaited, patience: None });
        core
    }

    fn replay(&mut self, record: Record) {
        match record {
            Record::Submitted { job: id, template, options, at } => {
                if self.jobs.contains_key(&id) {
                    return;
                }
                let (job, valid) = self.create(at, id, template, options);
                if let Err(message) = valid {
                    tracing::warn!(%id, message, "a restored job's plan is invalid");
                    self.active.remove(&job.order);
                    return;
                }
                self.jobs.insert(id, job);
            }
            Record::Bound { job, stage, ranges, decisions } => {
                self.replay_in(job, "bound", |job| job.replay_bound(stage, ranges, decisions));
            }
            Record::Fused { job, stage, input, decision } => {
                self.replay_in(job, "fused", |job| job.replay_fused(stage, input, decision));
            }
            Record::Finished { attempt, tm, stats, splits, started_at, finished_at } => {
                let done = Done { tm, started_at, ended_at: finished_at, stats: stats.into(), lost: None };
                self.replay_in(attempt.task.job, "finished", |job| job.replay_finished(attempt, done, splits));
            }
            Record::Reset { job, stage, tasks } => {
                self.replay_in(job, "reset", |job| job.replay_reset(stage, &tasks));
            }
            Record::Ended { job, state, at } => {
                self.replay_in(job, "ended", |job| job.replay_ended(state, at));
                if let Some(job) = self.jobs.get(&job) {
                    self.active.remove(&job.order);
                }
            }
        }
    }

    fn replay_in(&mut self, id: JobId, what: &str, step: impl FnOnce(&mut Job) -> Option<()>) {
        if self.jobs.get_mut(&id).and_then(step).is_none() {
            tracing::warn!(%id, what, "a record fits no known job, stage or task and is skipped");
        }
    }
}

impl Job {
    fn replay_bound(&mut self, stage: StageId, ranges: Vec<TaskRanges>, decisions: Vec<Decision>) -> Option<()> {
        let run = self.stages.get(stage.index())?;
        if run.is_bound() || ranges.is_empty() {
            return None;
        }
        let inputs = self.template.stages[stage.index()].inputs.len();
        let fits = |r: &TaskRanges| r.inputs.len() == inputs && r.inputs.iter().all(|list| list.len() == 1);
        if !ranges.iter().all(fits) {
            return None;
        }
        self.install_binding(stage.index(), ranges);
        self.decisions.extend(decisions);
        Some(())
    }

    fn replay_fused(&mut self, stage: StageId, input: u32, decision: Decision) -> Option<()> {
        self.install_fusion(stage, input as usize).then(|| self.decisions.push(decision))
    }

    fn replay_finished(&mut self, attempt: AttemptId, done: Done, splits: Vec<Vec<u32>>) -> Option<()> {
        let run = self.stages.get_mut(attempt.task.stage.index())?;
        let index = attempt.task.index;
        let task = run.tasks.get_mut(index as usize)?;
        let is_done = matches!(task.state, crate::job::stage::TaskState::Done(_));
        if is_done || attempt.attempt <= task.attempts {
            return None;
        }
        task.attempts = attempt.attempt;
        for (pool, read) in run.pools.iter_mut().zip(&splits) {
            pool.retain(|split| !read.contains(split));
        }
        task.exact = Some(splits);
        run.started_at = Some(run.started_at.map_or(done.started_at, |first| first.min(done.started_at)));
        let ended_at = done.ended_at;
        run.complete(index, done, ended_at);
        Some(())
    }

    fn replay_reset(&mut self, stage: StageId, tasks: &[u32]) -> Option<()> {
        let run = self.stages.get_mut(stage.index())?;
        for &index in tasks {
            run.reset(index, None, Time::default());
        }
        Some(())
    }

    fn replay_ended(&mut self, state: JobState, at: Time) -> Option<()> {
        self.state = state;
        self.ended_at = Some(at);
        self.closed = true;
        Some(())
    }
}
