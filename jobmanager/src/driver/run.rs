//! The driver's loop: commands and timers in, answers out.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use thalweg_core::{Action, Core, Event, JobState, Record, Time};
use thalweg_rpc::link::{FromTaskManager, Heartbeats, ToTaskManager};
use thalweg_rpc::views::catch_up;
use thalweg_rpc::{Problem, TicketKey};
use thalweg_runtime::Clock;
use thalweg_types::{AttemptId, JobId, LeaderEpoch, TaskManagerId};
use tokio::sync::{mpsc, watch};
use tracing::{debug, info, warn};

use crate::ha::{Entry, Journal};

use super::jobs::{AttemptNews, JobEntry, Jobs};
use super::outbox::{Held, Outbox};
use super::restore::{restore, stored};
use super::task_managers::TaskManagers;
use super::timers::{Timer, Timers};
use super::{
    Arrival, ClusterSize, Command, DriverOptions, HISTORY, JobDetails, MAX_JOBS, MAX_TASK_MANAGERS, Overview,
    ResultState, Submission, TaskManagerInfo, Watch,
};

pub(super) struct DriverTask {
    pub(super) core: Core,
    pub(super) epoch: LeaderEpoch,
    ticket_key: TicketKey,
    heartbeats: Heartbeats,
    clock: Arc<dyn Clock>,
    pub(super) journal: Option<Journal>,
    pub(super) outbox: Outbox,
    /// When this process started, on the clock that goes on from earlier ones.
    started_at: Time,
    recovery_patience: Duration,
    pub(super) jobs: Jobs,
    pub(super) task_managers: TaskManagers,
    pub(super) timers: Timers,
    cluster: watch::Sender<ClusterSize>,
    /// Facts found while actions were carried out.
    pub(super) found: VecDeque<Event>,
    actions: Vec<Action>,
}

impl DriverTask {
    /// With the restored jobs as they were.
    pub fn new(options: DriverOptions, cluster: watch::Sender<ClusterSize>) -> Self {
        let (core, jobs) = restore(options.epoch, options.restored);
        Self {
            core,
            epoch: options.epoch,
            ticket_key: options.ticket_key,
            heartbeats: options.heartbeats,
            started_at: Time(options.clock.now()),
            clock: options.clock,
            journal: options.journal,
            outbox: Outbox::default(),
            recovery_patience: options.recovery_patience,
            jobs,
            task_managers: TaskManagers::default(),
            timers: Timers::default(),
            cluster,
            found: VecDeque::new(),
            actions: Vec::new(),
        }
    }

    /// Runs until nobody can reach it any more, or it is dropped.
    pub async fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        // without a journal nothing is ever said here
        let (_never, never) = watch::channel(0);
        let mut durable = self.journal.as_ref().map_or(never, Journal::durable);
        self.tell(Event::Restored { patience: self.recovery_patience });
        loop {
            let now = self.now();
            let wait = self.timers.next_at().map(|at| at.0.saturating_sub(now.0));
            tokio::select! {
                biased;
                Ok(()) = durable.changed() => {
                    let number = *durable.borrow_and_update();
                    self.became_durable(number);
                }
                command = commands.recv() => match command {
                    Some(command) => self.command(command),
                    None => return,
                },
                () = tokio::time::sleep(wait.unwrap_or_default()), if wait.is_some() => {}
            }
            self.fire_timers();
        }
    }

    pub(super) fn now(&self) -> Time {
        Time(self.clock.now())
    }

    /// Tells the core a fact and carries out what it decides, and what follows from that.
    pub(super) fn tell(&mut self, event: Event) {
        self.found.push_back(event);
        self.settle();
    }

    fn settle(&mut self) {
        while let Some(event) = self.found.pop_front() {
            let now = self.now();
            let news = super::actions::news_of(&event);
            let mut actions = std::mem::take(&mut self.actions);
            self.core.handle(now, event, &mut actions);
            for action in actions.drain(..) {
                self.dispatch(action, &news, now);
            }
            self.actions = actions;
        }
        self.forget_surplus();
    }

    /// Writes a record down, carries an action out, or keeps it until it may be.
    fn dispatch(&mut self, action: Action, news: &Option<(AttemptId, AttemptNews)>, now: Time) {
        match action {
            Action::Persist(record) => {
                let is_decision = !matches!(record, Record::Finished { .. } | Record::Ended { .. });
                self.write_down(record.job(), Entry::Record(record), is_decision);
            }
            action if self.outbox.lets_pass(&action) => self.carry_out(action, news, now),
            action => self.outbox.hold(action, news.clone(), now),
        }
    }

    fn write_down(&mut self, job: JobId, entry: Entry, is_decision: bool) {
        let Some(journal) = &mut self.journal else { return };
        if self.jobs.get(job).is_some_and(|entry| entry.submission.recoverable) {
            let number = journal.append(job, entry);
            self.outbox.appended(number, is_decision);
        }
    }

    fn became_durable(&mut self, number: u64) {
        self.outbox.durable(number);
        while let Some(held) = self.outbox.pop() {
            match held {
                Held::Action { action, news, now } => self.carry_out(*action, &news, now),
                // who asked may have gone
                Held::Accepted(reply) => drop(reply.send(Ok(()))),
            }
        }
        self.settle();
    }

    fn fire_timers(&mut self) {
        let now = self.now();
        while let Some(timer) = self.timers.pop_due(now) {
            match timer {
                Timer::Core(id) => self.tell(Event::Timer(id)),
                Timer::ResultTtl(job) => self.release_result(job),
            }
        }
    }

    fn command(&mut self, command: Command) {
        // who asked may have gone; that is no failure of what was asked
        match command {
            Command::Arrived { arrival, reply } => {
                let _ = reply.send(self.arrived(*arrival));
            }
            Command::Said { tm, message } => self.said(tm, *message),
            Command::Gone { tm, orders, detail } => self.gone(&tm, &orders, detail),
            Command::Submit { submission, job, reply } => {
                let answer = match self.submit(job, *submission) {
                    Ok(()) => self.outbox.hold_reply(reply).map(|reply| (reply, Ok(()))),
                    Err(problem) => Some((reply, Err(problem))),
                };
                if let Some((reply, answer)) = answer {
                    let _ = reply.send(answer);
                }
            }
            Command::Cancel { job, reply } => {
                let _ = reply.send(self.cancel(job));
            }
            Command::Job { job, reply } => {
                let _ = reply.send(self.details(job).map(Box::new));
            }
            Command::Jobs { reply } => {
                let mut briefs: Vec<_> = self.jobs.iter().map(JobEntry::brief).collect();
                briefs.sort_by_key(|brief| std::cmp::Reverse((brief.submitted_at, brief.job)));
                let _ = reply.send(briefs);
            }
            Command::Watch { job, reply } => {
                let _ = reply.send(self.watch(job));
            }
            Command::Result { job, reply } => {
                let _ = reply.send(self.jobs.require(job).map(JobEntry::result_handle));
            }
            Command::ResultLost { job, version, map, attempt, from, detail } => {
                if self.is_ready_in(job, version) {
                    self.set_pending(job);
                    self.tell(Event::ResultLost { job, map, attempt, from, detail });
                }
            }
            Command::ReleaseResult { job } => self.release_result(job),
            Command::Overview { reply } => {
                let _ = reply.send(self.overview());
            }
        }
    }

    fn arrived(&mut self, mut arrival: Arrival) -> Result<(), String> {
        let id = arrival.id.clone();
        self.task_managers.drop_same(&id);
        if self.task_managers.len() >= MAX_TASK_MANAGERS {
            return Err(format!("there are {MAX_TASK_MANAGERS} taskmanagers already"));
        }
        let registered = ToTaskManager::Registered {
            epoch: self.epoch,
            ticket_key: self.ticket_key.as_bytes().to_vec(),
            heartbeat_interval: self.heartbeats.interval,
            heartbeat_timeout: self.heartbeats.timeout,
        };
        if arrival.orders.try_send(registered).is_err() {
            return Err("the link has ended".to_owned());
        }
        info!(task_manager = %id, slots = arrival.slots, address = %arrival.data_address, "taskmanager registered");
        let (slots, slot_memory) = (arrival.slots, arrival.slot_memory);
        let held = std::mem::take(&mut arrival.held);
        self.task_managers.insert(arrival, self.now());
        self.cluster.send_replace(self.task_managers.size());
        self.tell(Event::TaskManagerUp { tm: id, slots, slot_memory, held });
        Ok(())
    }

    fn said(&mut self, tm: TaskManagerId, message: FromTaskManager) {
        let now = self.now();
        if !self.task_managers.heard(&tm, now) {
            debug!(task_manager = %tm, "message of a taskmanager that is not registered");
            return;
        }
        match message {
            FromTaskManager::Finished { attempt, stats, splits, inline } => {
                self.keep_inline(attempt, inline);
                self.tell(Event::TaskFinished { attempt, tm, stats, splits });
            }
            FromTaskManager::Failed { attempt, cause } => {
                debug!(%attempt, task_manager = %tm, %cause, "attempt failed");
                self.tell(Event::TaskFailed { attempt, tm, cause });
            }
            FromTaskManager::NextSplit { attempt, source, request } => {
                self.tell(Event::SplitRequested { attempt, tm, source, request });
            }
            FromTaskManager::Progress { attempt, rows, bytes, busy_nanos } => {
                self.tell(Event::Progress { attempt, tm, rows, bytes, busy_nanos });
            }
            FromTaskManager::Leaving { detail } => self.let_go(&tm, format!("it left: {detail}")),
            FromTaskManager::Heartbeat => {}
            FromTaskManager::Register { .. } => self.lose(&tm, "it registered twice on one link".to_owned()),
        }
    }

    fn keep_inline(&mut self, attempt: AttemptId, rows: Option<Bytes>) {
        if let Some(rows) = rows
            && let Some(entry) = self.jobs.get_mut(attempt.task.job)
        {
            entry.keep_inline(attempt, rows);
        }
    }

    /// A link has ended. It may have been replaced before.
    fn gone(&mut self, tm: &TaskManagerId, orders: &mpsc::WeakSender<ToTaskManager>, detail: String) {
        let is_current = match (self.task_managers.get(tm), orders.upgrade()) {
            (Some(linked), Some(ended)) => linked.orders.same_channel(&ended),
            _ => false,
        };
        if is_current {
            self.lose(tm, detail);
        }
    }

    pub(super) fn lose(&mut self, tm: &TaskManagerId, detail: String) {
        if self.unlink(tm) {
            warn!(task_manager = %tm, detail, "taskmanager lost");
            self.tell(Event::TaskManagerDown { tm: tm.clone(), detail });
        }
    }

    fn let_go(&mut self, tm: &TaskManagerId, detail: String) {
        if self.unlink(tm) {
            info!(task_manager = %tm, detail, "taskmanager left");
            self.tell(Event::TaskManagerDown { tm: tm.clone(), detail });
        }
    }

    pub(super) fn unlink(&mut self, tm: &TaskManagerId) -> bool {
        let was_linked = self.task_managers.remove(tm);
        self.cluster.send_replace(self.task_managers.size());
        was_linked
    }

    fn submit(&mut self, job: JobId, submission: Submission) -> Result<(), Problem> {
        if self.jobs.running() >= MAX_JOBS {
            return Err(Problem::Limit { what: "jobs that have not ended".into(), limit: MAX_JOBS as u64 });
        }
        info!(%job, stages = submission.template.stages.len(), "job submitted");
        let (template, options) = (submission.template.clone(), submission.options.clone());
        let stored = self.journal.is_some().then(|| stored(&submission)).transpose()?;
        self.jobs.insert(JobEntry::new(job, submission, self.now()));
        if let Some(stored) = stored {
            self.write_down(job, Entry::Submission(Box::new(stored)), true);
        }
        self.tell(Event::Submit { job, template, options });
        Ok(())
    }

    fn cancel(&mut self, job: JobId) -> Result<JobState, Problem> {
        self.jobs.require(job)?;
        self.tell(Event::Cancel { job });
        // what people are told may still wait
        let state = self.core.job(job).map(|view| view.state);
        state.ok_or_else(|| Problem::NotFound { what: "job".into(), id: job.to_string() })
    }

    fn details(&self, job: JobId) -> Result<JobDetails, Problem> {
        let entry = self.jobs.require(job)?;
        let view = self
            .core
            .job(job)
            .ok_or_else(|| Problem::Internal { message: format!("the scheduler does not know job {job}") })?;
        Ok(JobDetails { brief: entry.brief(), view, plan: entry.submission.plan.clone() })
    }

    fn watch(&mut self, job: JobId) -> Result<Watch, Problem> {
        let details = self.details(job)?;
        let so_far = catch_up(&details.brief, &details.view);
        let updates = self.jobs.get_mut(job).and_then(JobEntry::watch);
        Ok(Watch { so_far, updates, submitted_at: details.brief.submitted_at })
    }

    fn is_ready_in(&self, job: JobId, version: u64) -> bool {
        let Some(entry) = self.jobs.get(job) else { return false };
        matches!(&*entry.result.borrow(), ResultState::Ready(maps) if maps.version == version)
    }

    fn set_pending(&mut self, job: JobId) {
        if let Some(entry) = self.jobs.get(job) {
            entry.result.send_replace(ResultState::Pending);
        }
    }

    /// The result was read, or nobody came for it.
    pub(super) fn release_result(&mut self, job: JobId) {
        let Some(entry) = self.jobs.get_mut(job) else { return };
        if entry.state != JobState::Finished || entry.released {
            return;
        }
        entry.released = true;
        entry.end_result(Problem::ResultGone { job });
        self.tell(Event::ReleaseResult { job });
    }

    /// Ended jobs beyond the history are forgotten, with their results.
    fn forget_surplus(&mut self) {
        while let Some(job) = self.jobs.surplus(HISTORY) {
            let is_held = self.jobs.get(job).is_some_and(|entry| entry.state == JobState::Finished && !entry.released);
            if is_held {
                // comes back here; the entry is released then
                return self.release_result(job);
            }
            self.core.forget(job);
            self.jobs.remove(job);
            self.timers.forget(job);
            if let Some(journal) = &mut self.journal {
                journal.forget(job);
            }
        }
    }

    fn overview(&self) -> Overview {
        let now = self.now();
        let mut overview = Overview { uptime: now.0.saturating_sub(self.started_at.0), ..Overview::default() };
        for entry in self.jobs.iter() {
            match entry.state {
                JobState::WaitingForSlots | JobState::Running => overview.running += 1,
                JobState::Finished => overview.finished += 1,
                JobState::Failed(_) => overview.failed += 1,
                JobState::Cancelled => overview.cancelled += 1,
            }
        }
        let views = self.core.task_managers();
        overview.task_managers = self
            .task_managers
            .iter()
            .map(|(tm, linked)| TaskManagerInfo {
                tm: tm.clone(),
                data_address: linked.data_address.clone(),
                slots: linked.slots,
                free: views.iter().find(|view| view.tm == *tm).map_or(0, |view| view.free),
                managed_memory: linked.managed_memory,
                last_heard: (!linked.in_process).then(|| now.0.saturating_sub(linked.last_heard.0)),
            })
            .collect();
        overview
    }
}
