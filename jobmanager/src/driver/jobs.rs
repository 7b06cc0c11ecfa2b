//! What is kept of every job beside what the core keeps: texts, watchers, the result.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use thalweg_core::{AttemptState, AttemptView, JobState, JobView, StageProgress, Time};
use thalweg_rpc::Problem;
use thalweg_rpc::views::{JobBrief, JobUpdate};
use thalweg_types::{AttemptId, ErrorKind, FailureCause, JobId, StageId, TaskManagerId};
use tokio::sync::{broadcast, watch};

use super::{ResultHandle, ResultState, Submission, WATCH_BUFFER};

/// Bytes of results kept per job that came with finish reports; what does not fit is read from the TaskManagers.
const INLINE_LIMIT: usize = 8 << 20;

#[derive(Debug)]
pub(super) struct JobEntry {
    pub id: JobId,
    pub submission: Submission,
    pub submitted_at: Time,
    pub ended_at: Option<Time>,
    pub state: JobState,
    progress: BTreeMap<StageId, StageProgress>,
    started: BTreeMap<AttemptId, Time>,
    watchers: Option<broadcast::Sender<JobUpdate>>,
    pub result: watch::Sender<ResultState>,
    /// By (map, attempt) of the result exchange.
    inline: BTreeMap<(u32, u32), Bytes>,
    pub released: bool,
}

/// What is known of an attempt when the core reports its new state.
#[derive(Debug, Clone, Default)]
pub(super) struct AttemptNews {
    pub rows: u64,
    pub bytes: u64,
    pub cause: Option<FailureCause>,
}

impl JobEntry {
    pub fn new(id: JobId, submission: Submission, now: Time) -> Self {
        Self {
            id,
            submission,
            submitted_at: now,
            ended_at: None,
            state: JobState::WaitingForSlots,
            progress: BTreeMap::new(),
            started: BTreeMap::new(),
            watchers: None,
            result: watch::Sender::new(ResultState::Pending),
            inline: BTreeMap::new(),
            released: false,
        }
    }

    /// A job of an earlier leader.
    pub fn restored(id: JobId, submission: Submission, view: &JobView) -> Self {
        let mut entry = Self::new(id, submission, view.submitted_at);
        entry.progress = view.stages.iter().map(|stage| (stage.stage, stage.progress.clone())).collect();
        if view.state.is_terminal() {
            entry.set_state(view.state.clone(), view.ended_at.unwrap_or(view.submitted_at));
            // the data of a job that has ended is released
            entry.released = true;
            if view.state == JobState::Finished {
                entry.end_result(Problem::ResultGone { job: id });
            }
        }
        entry
    }

    pub fn brief(&self) -> JobBrief {
        JobBrief {
            job: self.id,
            state: self.state.clone(),
            statement: self.submission.statement.clone(),
            submitted_at: self.submitted_at,
            ended_at: self.ended_at,
            tasks_finished: self.progress.values().map(|stage| stage.finished).sum(),
            tasks_total: self.progress.values().map(|stage| stage.parallelism).sum(),
            recoverable: self.submission.recoverable,
        }
    }

    pub fn stage_name(&self, stage: StageId) -> Arc<str> {
        let stage = self.submission.template.stages.get(stage.index());
        stage.map_or_else(|| "".into(), |stage| stage.name.as_str().into())
    }

    pub fn set_state(&mut self, state: JobState, now: Time) {
        self.ended_at = state.is_terminal().then_some(self.ended_at.unwrap_or(now));
        match &state {
            JobState::Failed(failure) => {
                self.end_result(Problem::JobFailed { job: self.id, failure: failure.clone() });
            }
            JobState::Cancelled => self.end_result(Problem::JobCancelled { job: self.id }),
            JobState::WaitingForSlots | JobState::Running | JobState::Finished => {}
        }
        self.state = state;
        self.tell(JobUpdate::Job(self.brief()));
        if self.state.is_terminal() {
            // the watchers' streams end after what was told last
            self.watchers = None;
        }
    }

    pub fn set_progress(&mut self, stage: StageId, progress: StageProgress) {
        if self.is_watched() {
            self.tell(JobUpdate::Stage { stage, name: self.stage_name(stage), progress: progress.clone() });
        }
        self.progress.insert(stage, progress);
    }

    pub fn attempt_changed(
        &mut self,
        attempt: AttemptId,
        tm: TaskManagerId,
        state: AttemptState,
        news: AttemptNews,
        now: Time,
    ) {
        let started_at = match state {
            AttemptState::Deploying => *self.started.entry(attempt).or_insert(now),
            _ => self.started.remove(&attempt).unwrap_or(now),
        };
        if self.is_watched() {
            let ended_at = (state != AttemptState::Deploying).then_some(now);
            let AttemptNews { rows, bytes, cause } = news;
            let view = AttemptView { attempt, tm, state, started_at, ended_at, rows, bytes, cause };
            self.tell(JobUpdate::Attempt { stage: attempt.task.stage, attempt: view });
        }
    }

    pub fn tell(&self, update: JobUpdate) {
        if let Some(watchers) = &self.watchers {
            // an error says that nobody listens
            let _ = watchers.send(update);
        }
    }

    fn is_watched(&self) -> bool {
        self.watchers.as_ref().is_some_and(|watchers| watchers.receiver_count() > 0)
    }

    /// `None` when the job has ended.
    pub fn watch(&mut self) -> Option<broadcast::Receiver<JobUpdate>> {
        if self.state.is_terminal() {
            return None;
        }
        let watchers = self.watchers.get_or_insert_with(|| broadcast::channel(WATCH_BUFFER).0);
        Some(watchers.subscribe())
    }

    pub fn keep_inline(&mut self, attempt: AttemptId, rows: Bytes) {
        let kept: usize = self.inline.values().map(Bytes::len).sum();
        let is_result = self.submission.template.stages.last().is_some_and(|stage| stage.id == attempt.task.stage);
        if is_result && !self.released && kept + rows.len() <= INLINE_LIMIT {
            self.inline.insert((attempt.task.index, attempt.attempt), rows);
        }
    }

    pub fn inline(&self, map: u32, attempt: u32) -> Option<Bytes> {
        self.inline.get(&(map, attempt)).cloned()
    }

    /// There is no result, or no longer one.
    pub fn end_result(&mut self, why: Problem) {
        self.inline.clear();
        self.result.send_replace(ResultState::None(why));
    }

    pub fn result_handle(&self) -> ResultHandle {
        ResultHandle {
            schema: self.submission.schema.clone(),
            max_size: self.submission.result_max_size,
            state: self.result.subscribe(),
        }
    }
}

/// What a task's own failure was, when the driver finds it before any task could run.
pub(super) fn internal(message: String) -> FailureCause {
    FailureCause::Task { kind: ErrorKind::Internal, message }
}

/// All jobs that are known, and in which order those that ended are forgotten.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    entries: BTreeMap<JobId, JobEntry>,
    ended: VecDeque<JobId>,
}

impl Jobs {
    pub fn insert(&mut self, entry: JobEntry) {
        self.entries.insert(entry.id, entry);
    }

    pub fn get(&self, job: JobId) -> Option<&JobEntry> {
        self.entries.get(&job)
    }

    pub fn get_mut(&mut self, job: JobId) -> Option<&mut JobEntry> {
        self.entries.get_mut(&job)
    }

    pub fn require(&self, job: JobId) -> Result<&JobEntry, Problem> {
        self.get(job).ok_or_else(|| Problem::NotFound { what: "job".into(), id: job.to_string() })
    }

    pub fn iter(&self) -> impl Iterator<Item = &JobEntry> {
        self.entries.values()
    }

    pub fn running(&self) -> usize {
        self.entries.values().filter(|entry| !entry.state.is_terminal()).count()
    }

    /// Notes that a job ended.
    pub fn ended(&mut self, job: JobId) {
        if !self.ended.contains(&job) {
            self.ended.push_back(job);
        }
    }

    /// It runs again: a part of its result was lost.
    pub fn resumed(&mut self, job: JobId) {
        self.ended.retain(|ended| *ended != job);
    }

    /// The oldest ended job, if more than `limit` have ended.
    pub fn surplus(&self, limit: usize) -> Option<JobId> {
        (self.ended.len() > limit).then(|| self.ended.front().copied()).flatten()
    }

    pub fn remove(&mut self, job: JobId) {
        self.entries.remove(&job);
        self.ended.retain(|ended| *ended != job);
    }
}
