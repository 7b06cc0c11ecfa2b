//! The state machine's outside: events are sorted to cluster and jobs, then free slots are used.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use thalweg_graph::PlanTemplate;
use thalweg_types::{JobId, LeaderEpoch, MapOutputKey, TaskManagerId};

use self::recovery::Recovery;
use crate::cluster::Cluster;
use crate::job::{Context, Job};
use crate::{Action, Event, JobFailure, JobOptions, JobView, Record, Report, TaskManagerView, Time, TimerId};

/// The scheduler of one leader. Synchronous and deterministic: the same events at the same times give the same actions.
#[derive(Debug)]
pub struct Core {
    epoch: LeaderEpoch,
    cluster: Cluster,
    jobs: BTreeMap<JobId, Job>,
    /// Jobs that may still need slots, in the order of submission.
    active: BTreeMap<u64, JobId>,
    submissions: u64,
    /// While jobs of an earlier leader wait for its TaskManagers.
    recovery: Option<Recovery>,
}

impl Core {
    pub fn new(epoch: LeaderEpoch) -> Self {
        Self {
            epoch,
            cluster: Cluster::new(),
            jobs: BTreeMap::new(),
            active: BTreeMap::new(),
            submissions: 0,
            recovery: None,
        }
    }

    /// Takes in one fact and appends what is to be done about it, in order. `now` must not go back.
    pub fn handle(&mut self, now: Time, event: Event, out: &mut Vec<Action>) {
        let reclaimed = self.cluster.reclaim_overdue(now);
        let may_deploy = !matches!(event, Event::Progress { .. } | Event::SplitRequested { .. });
        match event {
            Event::TaskManagerUp { tm, slots, slot_memory, held } => {
                self.task_manager_up(now, tm, (slots, slot_memory), held, out);
            }
            Event::TaskManagerDown { tm, detail } => self.task_manager_down(now, &tm, &detail, out),
            Event::Submit { job, template, options } => self.submit(now, job, template, options, out),
            Event::TaskFinished { attempt, tm, stats, splits } => {
                self.cluster.vacate(&tm, attempt);
                self.with_job(now, attempt.task.job, out, |job, ctx| {
                    job.task_finished(ctx, attempt, tm, stats, splits)
                });
            }
            Event::TaskFailed { attempt, tm, cause } => {
                self.cluster.vacate(&tm, attempt);
                self.with_job(now, attempt.task.job, out, |job, ctx| job.task_failed(ctx, attempt, tm, cause));
            }
            Event::SplitRequested { attempt, tm, source, request } => {
                self.with_job(now, attempt.task.job, out, |job, ctx| {
                    job.split_requested(ctx, attempt, tm, source, request);
                });
            }
            Event::Progress { attempt, tm, rows, bytes, busy_nanos } => {
                self.with_job(now, attempt.task.job, out, |job, ctx| {
                    job.attempt_progress(ctx, attempt, &tm, [rows, bytes, busy_nanos])
                });
            }
            Event::Cancel { job } => self.with_job(now, job, out, |job, ctx| job.cancel(ctx)),
            Event::ResultLost { job, map, attempt, from, detail } => {
                self.with_job(now, job, out, |job, ctx| job.result_lost(ctx, map, attempt, from, detail));
            }
            Event::ReleaseResult { job } => self.with_job(now, job, out, |job, ctx| job.release_result(ctx)),
            Event::Timer(TimerId::Recovery) => self.recovery_overdue(now, out),
            Event::Timer(id) => {
                if let Some(job) = id.job() {
                    self.with_job(now, job, out, |job, ctx| job.timer(ctx, id));
                }
            }
            Event::Restored { patience } => self.restored(now, patience, out),
        }
        if may_deploy || reclaimed {
            self.advance(now, out);
        }
    }

    /// A job's view, until it is forgotten.
    pub fn job(&self, id: JobId) -> Option<JobView> {
        self.jobs.get(&id).map(Job::view)
    }

    pub fn jobs(&self) -> Vec<JobId> {
        self.jobs.keys().copied().collect()
    }

    /// A job's plan as it is now: stages are fused while it runs.
    pub fn template(&self, id: JobId) -> Option<Arc<PlanTemplate>> {
        self.jobs.get(&id).map(|job| Arc::clone(&job.template))
    }

    pub fn task_managers(&self) -> Vec<TaskManagerView> {
        self.cluster.views()
    }

    /// Drops the view of a job that has ended and whose result is released; others stay.
    pub fn forget(&mut self, id: JobId) {
        if self.jobs.get(&id).is_some_and(|job| job.closed) {
            self.jobs.remove(&id);
        }
    }

    fn task_manager_up(
        &mut self,
        now: Time,
        tm: TaskManagerId,
        (slots, slot_memory): (u32, u64),
        held: Vec<MapOutputKey>,
        out: &mut Vec<Action>,
    ) {
        while let Some(older) = self.cluster.older_incarnation(&tm) {
            self.task_manager_down(now, &older, "it registered again", out);
        }
        let held: BTreeSet<MapOutputKey> = held.into_iter().collect();
        let was_linked = self.cluster.remove(&tm);
        if self.no_longer_awaited(now, &tm, out) || was_linked {
            for id in self.jobs.keys().copied().collect::<Vec<_>>() {
                self.with_job(now, id, out, |job, ctx| job.task_manager_back(ctx, &tm, &held));
            }
        }
        self.cluster.register(tm.clone(), slots, slot_memory);
        if !held.is_empty() {
            let job = |output: &MapOutputKey| self.jobs.get(&output.exchange.job).filter(|job| !job.closed);
            let counts = |output: &MapOutputKey| job(output).is_some_and(|job| job.counts_on(&tm, output));
            let outputs = held.into_iter().filter(counts).collect();
            out.push(Action::Retain { tm, outputs });
        }
        self.note_emptiness(now, out);
        self.end_recovery_if_complete(now, out);
    }

    fn task_manager_down(&mut self, now: Time, tm: &TaskManagerId, detail: &str, out: &mut Vec<Action>) {
        if !self.cluster.remove(tm) {
            return;
        }
        for id in self.jobs.keys().copied().collect::<Vec<_>>() {
            self.with_job(now, id, out, |job, ctx| job.task_manager_down(ctx, tm, detail));
        }
        self.note_emptiness(now, out);
    }

    /// Keeps track of whether there is any slot; jobs that run nothing give up after a while without.
    fn note_emptiness(&mut self, now: Time, out: &mut Vec<Action>) {
        if self.cluster.slots() > 0 {
            self.cluster.empty_since = None;
        } else if self.cluster.empty_since.is_none() {
            self.cluster.empty_since = Some(now);
            for id in self.active.values().copied().collect::<Vec<_>>() {
                self.with_job(now, id, out, |job, ctx| job.cluster_emptied(ctx));
            }
        }
    }

    fn submit(
        &mut self,
        now: Time,
        id: JobId,
        template: Arc<PlanTemplate>,
        options: JobOptions,
        out: &mut Vec<Action>,
    ) {
        if self.jobs.contains_key(&id) {
            return;
        }
        let (job, valid) = self.create(now, id, template, options);
        out.push(Action::Persist(Record::Submitted {
            job: id,
            template: Arc::clone(&job.template),
            options: job.options.clone(),
            at: now,
        }));
        out.push(Action::Report(Report::Job { job: id, state: job.state.clone() }));
        self.jobs.insert(id, job);
        self.with_job(now, id, out, |job, ctx| match valid {
            Ok(()) => job.arm(ctx),
            Err(message) => job.fail(ctx, JobFailure::InvalidPlan { message }),
        });
    }

    /// A new job, listed as active, not yet among the jobs.
    pub(crate) fn create(
        &mut self,
        now: Time,
        id: JobId,
        template: Arc<PlanTemplate>,
        options: JobOptions,
    ) -> (Job, Result<(), String>) {
        let order = self.submissions;
        self.submissions += 1;
        self.active.insert(order, id);
        let (job, valid) = Job::new(id, order, template, options, self.epoch, now);
        (job, valid.map_err(|e| e.to_string()))
    }

    /// Lets every job, in the order of submission, use the slots that are free.
    fn advance(&mut self, now: Time, out: &mut Vec<Action>) {
        let waits = |id: &JobId| self.recovery.as_ref().is_some_and(|recovery| recovery.jobs.contains(id));
        for id in self.active.values().copied().filter(|id| !waits(id)).collect::<Vec<_>>() {
            self.with_job(now, id, out, |job, ctx| job.advance(ctx));
        }
    }

    /// Runs one step of a job that is not over.
    fn with_job(&mut self, now: Time, id: JobId, out: &mut Vec<Action>, step: impl FnOnce(&mut Job, &mut Context<'_>)) {
        let Some(job) = self.jobs.get_mut(&id).filter(|job| !job.closed) else { return };
        step(job, &mut Context { now, epoch: self.epoch, cluster: &mut self.cluster, out });
        if job.closed {
            self.active.remove(&job.order);
        }
    }
}

mod recovery;
mod restore;

#[cfg(test)]
impl Core {
    /// Panics if counters and states disagree, or a job breaks one of its invariants.
    pub(crate) fn check_invariants(&self) {
        for job in self.jobs.values().filter(|job| !job.closed) {
            job.check_invariants();
        }
    }
}
