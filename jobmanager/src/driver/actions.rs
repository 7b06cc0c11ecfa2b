//! Carrying out what the core decided.

use std::sync::Arc;

use bytes::Bytes;
use thalweg_core::{Action, Event, JobState, Report, Time};
use thalweg_graph::{Placement, SplitPolicy, TaskSpec};
use thalweg_rpc::link::ToTaskManager;
use thalweg_types::{AttemptId, ExchangeKey, JobId, StageId, TaskManagerId};
use tracing::{error, info};

use super::jobs::{AttemptNews, internal};
use super::run::DriverTask;
use super::task_managers::Undelivered;
use super::timers::Timer;
use super::{ResultMap, ResultMaps, ResultState};
use crate::driver::jobs::JobEntry;

/// What an event tells about the attempt it is about, beyond what the core reports of it.
pub(super) fn news_of(event: &Event) -> Option<(AttemptId, AttemptNews)> {
    match event {
        Event::TaskFinished { attempt, stats, .. } => {
            Some((*attempt, AttemptNews { rows: stats.total_rows(), bytes: stats.total_bytes(), cause: None }))
        }
        Event::TaskFailed { attempt, cause, .. } => {
            Some((*attempt, AttemptNews { cause: Some(cause.clone()), ..AttemptNews::default() }))
        }
        _ => None,
    }
}

impl DriverTask {
    pub(super) fn carry_out(&mut self, action: Action, news: &Option<(AttemptId, AttemptNews)>, now: Time) {
        match action {
            // written down before it comes here
            Action::Persist(_) => {}
            Action::Place { tm, exchange, placement } => {
                let addresses = self.task_managers.addresses(&placement);
                self.order(&tm, ToTaskManager::Place { job: exchange.job, placement, addresses });
            }
            Action::Deploy { tm, task } => self.deploy(&tm, *task),
            Action::CancelTask { tm, attempt } => self.order(&tm, ToTaskManager::Cancel { attempt }),
            Action::GiveSplit { tm, attempt, source, request, split } => {
                self.give_split(&tm, attempt, source, request, split);
            }
            Action::Retain { tm, outputs } => self.order(&tm, ToTaskManager::Retain { outputs }),
            Action::ReleaseExchange { tm, exchange } => {
                self.order(&tm, ToTaskManager::ReleaseExchange { exchange });
            }
            Action::ReleaseJob { tm, job } => {
                self.task_managers.forget_job(&tm, job);
                self.order(&tm, ToTaskManager::ReleaseJob { job });
            }
            Action::SetTimer { id, at } => self.timers.set(Timer::Core(id), at),
            Action::Fuse { job, stage, input } => self.fuse(job, stage, input),
            Action::Report(report) => self.report(report, news, now),
        }
    }

    /// Hands an order over. A TaskManager that does not take it is as good as gone.
    fn order(&mut self, tm: &TaskManagerId, order: ToTaskManager) {
        if self.task_managers.send(tm, order) == Err(Undelivered::Stuck) && self.unlink(tm) {
            error!(task_manager = %tm, "taskmanager does not take its orders, held for gone");
            let detail = "it does not take its orders".to_owned();
            self.found.push_back(Event::TaskManagerDown { tm: tm.clone(), detail });
        }
    }

    fn deploy(&mut self, tm: &TaskManagerId, spec: TaskSpec) {
        let (job, stage) = (spec.attempt.task.job, spec.attempt.task.stage);
        let Some(entry) = self.jobs.get(job) else { return };
        let template = entry.submission.template.clone();
        let settings = entry.submission.settings.clone();
        let exact = spec.splits.iter().enumerate().map(|(source, policy)| match policy {
            SplitPolicy::Ask => Some(Vec::new()),
            SplitPolicy::Exactly(positions) => {
                positions.iter().map(|position| payload(entry, spec.attempt, source as u32, *position)).collect()
            }
        });
        let Some(exact) = exact.collect::<Option<Vec<Vec<Bytes>>>>() else {
            return self.cannot_run(tm, spec.attempt, "a split that the plan does not have is to be read");
        };
        if self.task_managers.lacks_stage(tm, job, stage) {
            let parts = template.stage(stage).parts.clone();
            self.order(tm, ToTaskManager::Stage { job, stage, parts, settings });
        }
        self.order(tm, ToTaskManager::Deploy { spec, exact });
    }

    fn give_split(&mut self, tm: &TaskManagerId, attempt: AttemptId, source: u32, request: u64, split: Option<u32>) {
        let Some(entry) = self.jobs.get(attempt.task.job) else { return };
        let split = match split {
            None => None,
            Some(position) => match payload(entry, attempt, source, position) {
                Some(payload) => Some((position, payload)),
                None => return self.cannot_run(tm, attempt, "a split that the plan does not have was given"),
            },
        };
        self.order(tm, ToTaskManager::Split { attempt, source, request, split });
    }

    /// Follows a change of the plan, before any task of the stage is deployed.
    fn fuse(&mut self, job: JobId, stage: StageId, input: u32) {
        let Some(entry) = self.jobs.get_mut(job) else { return };
        if !Arc::make_mut(&mut entry.submission.template).fuse(stage, input as usize) {
            error!(%job, %stage, input, "the core fused stages that the plan does not have");
        }
    }

    /// A defect between core and template: the attempt fails, the process does not.
    fn cannot_run(&mut self, tm: &TaskManagerId, attempt: AttemptId, message: &str) {
        error!(%attempt, message);
        self.order(tm, ToTaskManager::Cancel { attempt });
        self.found.push_back(Event::TaskFailed { attempt, tm: tm.clone(), cause: internal(message.to_owned()) });
    }

    fn report(&mut self, report: Report, news: &Option<(AttemptId, AttemptNews)>, now: Time) {
        match report {
            Report::Job { job, state } => self.job_changed(job, state, now),
            Report::Stage { job, stage, progress } => {
                if let Some(entry) = self.jobs.get_mut(job) {
                    entry.set_progress(stage, progress);
                }
            }
            Report::Decision { job, decision } => {
                if let Some(entry) = self.jobs.get(job) {
                    info!(%job, stage = %decision.stage, rule = %decision.rule, measured = %decision.measured,
                        outcome = %decision.outcome, "decision");
                    entry.tell(thalweg_rpc::views::JobUpdate::Decision(decision));
                }
            }
            Report::Attempt { attempt, tm, state } => {
                let news = match news {
                    Some((of, news)) if *of == attempt => {
                        AttemptNews { rows: news.rows, bytes: news.bytes, cause: news.cause.clone() }
                    }
                    _ => AttemptNews::default(),
                };
                if let Some(entry) = self.jobs.get_mut(attempt.task.job) {
                    entry.attempt_changed(attempt, tm, state, news, now);
                }
            }
            Report::ResultReady { job, placement } => self.result_ready(job, &placement, now),
        }
    }

    fn job_changed(&mut self, job: JobId, state: JobState, now: Time) {
        let Some(entry) = self.jobs.get_mut(job) else { return };
        info!(%job, state = state_text(&state), "job changed");
        let ended = state.is_terminal();
        entry.set_state(state, now);
        if ended {
            self.jobs.ended(job);
        } else {
            self.jobs.resumed(job);
        }
    }

    fn result_ready(&mut self, job: JobId, placement: &Placement, now: Time) {
        let Some(entry) = self.jobs.get(job) else { return };
        let maps = placement.maps.iter().zip(0..).map(|(location, map)| ResultMap {
            map,
            attempt: location.attempt,
            tm: location.task_manager.clone(),
            address: self.task_managers.get(&location.task_manager).map(|linked| linked.data_address.clone()),
            inline: entry.inline(map, location.attempt),
        });
        let exchange = ExchangeKey { job, exchange: placement.exchange };
        let maps = ResultMaps { exchange, version: placement.version, maps: maps.collect() };
        entry.result.send_replace(ResultState::Ready(Arc::new(maps)));
        self.timers.set(Timer::ResultTtl(job), now + entry.submission.result_ttl);
    }
}

fn payload(entry: &JobEntry, attempt: AttemptId, source: u32, position: u32) -> Option<Bytes> {
    let stage = entry.submission.template.stages.get(attempt.task.stage.index())?;
    let split = stage.sources.get(source as usize)?.splits.get(position as usize)?;
    Some(Bytes::from_owner(split.payload.clone()))
}

fn state_text(state: &JobState) -> String {
    match state {
        JobState::Failed(failure) => format!("failed: {failure}"),
        other => format!("{other:?}"),
    }
}
