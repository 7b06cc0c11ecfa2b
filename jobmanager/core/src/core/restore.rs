//! From records back to decisions.
//!
//! Restored: which jobs there are, how their stages are cut, which tasks had finished with which splits. Not restored: what ran, what
//! was waiting, and where data is. No TaskManager is known until it registers again, and since a registration is a new
//! incarnation, every output counts as lost: what is still needed runs again, with the same ranges and the same splits.

use thalweg_graph::OutputStats;
use thalweg_types::{AttemptId, JobId, LeaderEpoch, StageId, TaskManagerId};

use super::Core;
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
        let ids: Vec<JobId> = core.active.values().copied().collect();
        for id in ids {
            if let Some(job) = core.jobs.get_mut(&id) {
                job.lose_everything();
                core.unarmed.push(id);
            }
        }
        core
    }

    fn replay(&mut self, record: Record) {
        match record {
            Record::Submitted { job: id, template, options } => {
                if self.jobs.contains_key(&id) {
                    return;
                }
                let (job, valid) = self.create(Time::default(), id, template, options);
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
            Record::Finished { attempt, tm, stats, splits } => {
                self.replay_in(attempt.task.job, "finished", |job| job.replay_finished(attempt, tm, stats, splits));
            }
            Record::Reset { job, stage, tasks } => {
                self.replay_in(job, "reset", |job| job.replay_reset(stage, &tasks));
            }
            Record::Ended { job, state } => {
                self.replay_in(job, "ended", |job| job.replay_ended(state));
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

    fn replay_finished(
        &mut self,
        attempt: AttemptId,
        tm: TaskManagerId,
        stats: OutputStats,
        splits: Vec<Vec<u32>>,
    ) -> Option<()> {
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
        let now = Time::default();
        run.complete(index, Done { tm, started_at: now, ended_at: now, stats, lost: None }, now);
        Some(())
    }

    fn replay_reset(&mut self, stage: StageId, tasks: &[u32]) -> Option<()> {
        let run = self.stages.get_mut(stage.index())?;
        for &index in tasks {
            run.reset(index, None, Time::default());
        }
        Some(())
    }

    fn replay_ended(&mut self, state: JobState) -> Option<()> {
        self.state = state;
        self.ended_at = Some(Time::default());
        self.closed = true;
        Some(())
    }
}
