//! One job: its stages, where it stands, and how the parts of its life are divided over the modules.
//!
//! | module | decides |
//! |---|---|
//! | `joins` | which stages wait to become part of a broadcast join, and which do |
//! | `scheduling` | which stage is bound and which task is deployed, where |
//! | `splits` | who reads which split |
//! | `outcome` | what a finished attempt changes |
//! | `failure` | what a failed attempt changes |
//! | `loss` | what runs again when an output or a TaskManager is gone (the retry rule) |
//! | `recovery` | where a job goes on after its JobManager was restarted |
//! | `release` | when data is dropped and how a job ends |
//! | `timers` | waiting for slots, stalls, back-off |
//!
//! Invariants between two events of an active job:
//! - every stage writes one exchange and every exchange has one consumer, so stages form a tree with the result at its root;
//! - a task runs only while all maps of all its inputs can be read, and with the placement they are in;
//! - a bound stage with an unfinished task has an unfinished consumer (or is the result): whatever is unfinished is needed.

mod failure;
#[cfg(test)]
mod invariants;
mod joins;
mod loss;
mod outcome;
mod recovery;
mod release;
mod scheduling;
mod splits;
pub(crate) mod stage;
mod stall_text;
mod timers;

use std::collections::BTreeSet;
use std::sync::Arc;

use thalweg_graph::{InvalidTemplate, PlanTemplate};
use thalweg_types::{
    AttemptId, ExchangeId, ExchangeKey, FailureCause, JobId, LeaderEpoch, StageId, TaskId, TaskManagerId,
};

use crate::broadcast;
use crate::cluster::Cluster;
use crate::{Action, AttemptState, Decision, JobOptions, JobState, Record, Report, Time};
#[cfg(test)]
pub(crate) use failure::backoff;
use stage::StageRun;

/// Decisions a job keeps for people. The ones of bindings come first and are few; retries may be many.
const MAX_DECISIONS: usize = 1000;

/// What every step of a job may use.
pub(crate) struct Context<'a> {
    pub now: Time,
    pub epoch: LeaderEpoch,
    pub cluster: &'a mut Cluster,
    pub out: &'a mut Vec<Action>,
}

impl Context<'_> {
    fn persist(&mut self, record: Record) {
        self.out.push(Action::Persist(record));
    }

    fn report(&mut self, report: Report) {
        self.out.push(Action::Report(report));
    }
}

#[derive(Debug)]
pub(crate) struct Job {
    pub id: JobId,
    /// Position in the order of submission.
    pub order: u64,
    pub template: Arc<PlanTemplate>,
    pub options: JobOptions,
    pub state: JobState,
    pub submitted_at: Time,
    pub ended_at: Option<Time>,
    pub stages: Vec<StageRun>,
    pub decisions: Vec<Decision>,
    /// Nothing more will happen: ended, and what it held is released.
    pub closed: bool,
    /// Stages whose inputs were sealed and that are not bound.
    to_bind: BTreeSet<usize>,
    /// Stages that are not bound because the join that reads them may come to run their operators itself.
    held: BTreeSet<usize>,
    /// Since when slots are free that a held stage could use.
    idle_since: Option<Time>,
    /// TaskManagers that may hold anything of the job.
    touched: BTreeSet<TaskManagerId>,
    /// Tasks that wait out a failure.
    backoffs: BTreeSet<(Time, usize, u32)>,
    /// The result was announced at least once.
    announced: bool,
    last_progress: Time,
    next_stall_check: Time,
    slot_deadline: Time,
    wake_at: Option<Time>,
}

impl Job {
    /// A job at its very start. Of an invalid template nothing but its existence is believed.
    pub fn new(
        id: JobId,
        order: u64,
        template: Arc<PlanTemplate>,
        options: JobOptions,
        epoch: LeaderEpoch,
        now: Time,
    ) -> (Self, Result<(), InvalidTemplate>) {
        let valid = template.validate();
        let mut stages = Vec::new();
        let mut to_bind = BTreeSet::new();
        let mut held = BTreeSet::new();
        if valid.is_ok() {
            held = broadcast::held_at_first(&template, &options.broadcast);
            // versions of a later leader are above those of an earlier one
            let first_version = epoch.0.saturating_mul(1 << 20);
            for stage in &template.stages {
                let splits: Vec<usize> = stage.sources.iter().map(|s| s.splits.len()).collect();
                let subpartitions = template.exchange(stage.output).kind.subpartitions();
                stages.push(StageRun::new(&splits, subpartitions, first_version));
                if stage.inputs.is_empty() {
                    to_bind.insert(stage.id.index());
                }
            }
        }
        let job = Self {
            id,
            order,
            template,
            options,
            state: JobState::WaitingForSlots,
            submitted_at: now,
            ended_at: None,
            stages,
            decisions: Vec::new(),
            closed: false,
            to_bind,
            held,
            idle_since: None,
            touched: BTreeSet::new(),
            backoffs: BTreeSet::new(),
            announced: false,
            last_progress: now,
            next_stall_check: now,
            slot_deadline: now,
            wake_at: None,
        };
        (job, valid)
    }

    fn producer(&self, exchange: ExchangeId) -> usize {
        self.template.exchange(exchange).producer.index()
    }

    /// Stages that the stage reads from, in the order of its inputs.
    fn producers(&self, stage: usize) -> impl Iterator<Item = usize> + '_ {
        self.template.stages[stage].inputs.iter().map(|input| self.producer(input.exchange))
    }

    /// The stage that reads a stage's output; `None` for the result.
    fn consumer(&self, stage: usize) -> Option<usize> {
        self.template.exchange(self.template.stages[stage].output).consumer.map(StageId::index)
    }

    fn inputs_sealed(&self, stage: usize) -> bool {
        self.producers(stage).all(|p| self.stages[p].is_sealed())
    }

    fn attempt_id(&self, stage: usize, index: u32) -> AttemptId {
        let task = TaskId { job: self.id, stage: StageId(stage as u32), index };
        AttemptId { task, attempt: self.stages[stage].tasks[index as usize].attempts }
    }

    fn output_key(&self, stage: usize) -> ExchangeKey {
        ExchangeKey { job: self.id, exchange: self.template.stages[stage].output }
    }

    /// The stage of an attempt if it is the current one of its task and runs on that TaskManager.
    fn current(&self, attempt: AttemptId, tm: &TaskManagerId) -> Option<usize> {
        let stage = attempt.task.stage.index();
        let run = self.stages.get(stage)?;
        let running = run.running(attempt.task.index)?;
        let number = run.tasks[attempt.task.index as usize].attempts;
        (number == attempt.attempt && running.tm == *tm).then_some(stage)
    }

    fn running_attempts(&self) -> u32 {
        self.stages.iter().map(|s| s.running).sum()
    }

    fn set_state(&mut self, ctx: &mut Context<'_>, state: JobState) {
        if self.state == state {
            return;
        }
        self.ended_at = state.is_terminal().then_some(ctx.now);
        self.last_progress = ctx.now;
        self.state = state.clone();
        ctx.report(Report::Job { job: self.id, state });
    }

    fn decide(&mut self, ctx: &mut Context<'_>, stage: usize, rule: &str, measured: String, outcome: String) {
        let decision = Decision { at: ctx.now, stage: StageId(stage as u32), rule: rule.to_owned(), measured, outcome };
        self.publish(ctx, decision);
    }

    fn publish(&mut self, ctx: &mut Context<'_>, decision: Decision) {
        if self.decisions.len() < MAX_DECISIONS {
            self.decisions.push(decision.clone());
        }
        ctx.report(Report::Decision { job: self.id, decision });
    }

    fn report_stage(&self, ctx: &mut Context<'_>, stage: usize) {
        let progress = self.stages[stage].progress();
        ctx.report(Report::Stage { job: self.id, stage: StageId(stage as u32), progress });
    }

    /// Ends a running attempt without a result; the task waits but is not enqueued.
    fn retire(
        &mut self,
        ctx: &mut Context<'_>,
        stage: usize,
        index: u32,
        state: AttemptState,
        cause: Option<FailureCause>,
    ) -> Option<TaskManagerId> {
        let attempt = self.attempt_id(stage, index);
        let running = self.stages[stage].retire(index, state, cause, ctx.now)?;
        ctx.report(Report::Attempt { attempt, tm: running.tm.clone(), state });
        Some(running.tm)
    }

    /// Stops a running attempt on request; its slot stays taken until the TaskManager says that it ended.
    fn cancel_task(&mut self, ctx: &mut Context<'_>, stage: usize, index: u32, cause: Option<FailureCause>) {
        let attempt = self.attempt_id(stage, index);
        if let Some(tm) = self.retire(ctx, stage, index, AttemptState::Cancelled, cause) {
            ctx.cluster.await_cancelled(&tm, attempt, ctx.now);
            ctx.out.push(Action::CancelTask { tm, attempt });
            self.wake_by(ctx, ctx.now + crate::cluster::CANCEL_GRACE);
        }
    }
}
