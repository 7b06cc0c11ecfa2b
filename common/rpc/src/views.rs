//! What people are shown: the scheduler's views as messages of the public API.
//!
//! Decides how monotonic time becomes wall time and how a long text becomes one line; nothing else.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thalweg_core::{
    AttemptState, AttemptView, Decision, InputView, JobState, JobView, OutputView, StageProgress, StageView, Time,
};
use thalweg_graph::{ExchangeKind, OperatorMetrics};
use thalweg_proto::v1;
use thalweg_types::{JobId, StageId};

use crate::error::shortened;

const STATEMENT_LIMIT: usize = 160;

/// Where the JobManager's monotonic clock stands on the wall clock.
#[derive(Debug, Clone, Copy)]
pub struct WallClock {
    /// Unix time in milliseconds at `Time` zero.
    pub start_ms: u64,
    pub now: Time,
}

impl WallClock {
    fn unix_ms(&self, time: Time) -> u64 {
        self.start_ms.saturating_add(millis(time.0))
    }

    /// How long something took, or takes so far.
    fn duration_ms(&self, from: Time, to: Option<Time>) -> u64 {
        millis(to.unwrap_or(self.now).0.saturating_sub(from.0))
    }
}

/// A job in one line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobBrief {
    pub job: JobId,
    pub state: JobState,
    /// The query's text as it was given.
    pub statement: Arc<str>,
    pub submitted_at: Time,
    pub ended_at: Option<Time>,
    pub tasks_finished: u32,
    /// Tasks decided so far.
    pub tasks_total: u32,
    /// It goes on after a loss of the JobManager.
    pub recoverable: bool,
}

/// What a watcher of a job is told.
#[derive(Debug, Clone, PartialEq)]
pub enum JobUpdate {
    Job(JobBrief),
    Stage { stage: StageId, name: Arc<str>, progress: StageProgress },
    Decision(Decision),
    Attempt { stage: StageId, attempt: AttemptView },
}

pub fn job_state(state: &JobState) -> v1::JobState {
    match state {
        JobState::WaitingForSlots => v1::JobState::WaitingForSlots,
        JobState::Running => v1::JobState::Running,
        JobState::Finished => v1::JobState::Finished,
        JobState::Cancelled => v1::JobState::Cancelled,
        JobState::Failed(_) => v1::JobState::Failed,
    }
}

pub fn job_summary(job: &JobBrief, clock: WallClock) -> v1::JobSummary {
    let failure = match &job.state {
        JobState::Failed(failure) => failure.to_string(),
        _ => String::new(),
    };
    v1::JobSummary {
        job_id: job.job.to_string(),
        state: job_state(&job.state).into(),
        statement: one_line(&job.statement),
        submitted_at_ms: clock.unix_ms(job.submitted_at),
        duration_ms: if job.ended_at.is_some() { clock.duration_ms(job.submitted_at, job.ended_at) } else { 0 },
        tasks_finished: job.tasks_finished,
        tasks_total: job.tasks_total,
        failure,
        recoverable: job.recoverable,
    }
}

/// Everything about a job. `plan` is the EXPLAIN text it was submitted with.
pub fn job_response(job: &JobBrief, view: &JobView, plan: &str, clock: WallClock) -> v1::GetJobResponse {
    v1::GetJobResponse {
        summary: Some(job_summary(job, clock)),
        stages: view.stages.iter().map(|stage| stage_info(stage, clock)).collect(),
        decisions: view.decisions.iter().map(|d| decision_info(d, view.submitted_at)).collect(),
        plan: plan.to_owned(),
    }
}

fn stage_info(stage: &StageView, clock: WallClock) -> v1::StageInfo {
    v1::StageInfo {
        duration_ms: stage.started_at.map_or(0, |start| clock.duration_ms(start, stage.finished_at)),
        network_bytes: stage.network_bytes(),
        spilled_bytes: stage.spilled_bytes,
        cpu_nanos: stage.cpu_nanos,
        attempts: stage.attempts.iter().map(|attempt| attempt_info(attempt, clock)).collect(),
        operators: stage.operators.iter().map(operator_info).collect(),
        inputs: stage.inputs.iter().map(input_info).collect(),
        runs_in: stage.runs_in.map(|stage| stage.0),
        output: output_text(&stage.output),
        ..stage_progress(stage.stage, &stage.name, &stage.progress)
    }
}

fn stage_progress(stage: StageId, name: &str, progress: &StageProgress) -> v1::StageInfo {
    v1::StageInfo {
        stage: stage.0,
        name: name.to_owned(),
        parallelism: progress.parallelism,
        running: progress.running,
        finished: progress.finished,
        rows: progress.rows,
        bytes: progress.bytes,
        ..Default::default()
    }
}

fn input_info(input: &InputView) -> v1::StageInputInfo {
    v1::StageInputInfo {
        producer: input.producer.0,
        replicated: input.replicated,
        rows: input.rows,
        network_bytes: input.network_bytes,
    }
}

fn output_text(output: &OutputView) -> String {
    match output.kind {
        ExchangeKind::Hash { .. } => format!("hash ({})", output.keys),
        ExchangeKind::Gather => "gather".to_owned(),
        ExchangeKind::Broadcast => "broadcast".to_owned(),
        ExchangeKind::Result => "result".to_owned(),
    }
}

fn attempt_info(attempt: &AttemptView, clock: WallClock) -> v1::AttemptInfo {
    let state = match attempt.state {
        AttemptState::Deploying => "deploying",
        AttemptState::Finished => "finished",
        AttemptState::Failed => "failed",
        AttemptState::Cancelled => "cancelled",
        AttemptState::Reset => "reset",
    };
    v1::AttemptInfo {
        task: attempt.attempt.task.index,
        attempt: attempt.attempt.attempt,
        task_manager: attempt.tm.to_string(),
        state: state.to_owned(),
        started_at_ms: clock.unix_ms(attempt.started_at),
        duration_ms: clock.duration_ms(attempt.started_at, attempt.ended_at),
        rows: attempt.rows,
        bytes: attempt.bytes,
        cause: attempt.cause.as_ref().map(ToString::to_string).unwrap_or_default(),
    }
}

fn operator_info(operator: &OperatorMetrics) -> v1::OperatorInfo {
    v1::OperatorInfo {
        depth: operator.depth,
        name: operator.name.clone(),
        output_rows: operator.output_rows,
        elapsed_nanos: operator.elapsed_nanos,
        spilled_bytes: operator.spilled_bytes,
        filtered_rows: operator.filtered_rows,
    }
}

fn decision_info(decision: &Decision, submitted_at: Time) -> v1::DecisionInfo {
    v1::DecisionInfo {
        at_ms: millis(decision.at.0.saturating_sub(submitted_at.0)),
        stage: decision.stage.0,
        rule: decision.rule.clone(),
        measured: decision.measured.clone(),
        outcome: decision.outcome.clone(),
    }
}

/// A watcher's update. `submitted_at` is the job's.
pub fn job_event(update: &JobUpdate, submitted_at: Time, clock: WallClock) -> v1::JobEvent {
    use v1::job_event::Event;
    let event = match update {
        JobUpdate::Job(job) => Event::Job(job_summary(job, clock)),
        JobUpdate::Stage { stage, name, progress } => Event::Stage(stage_progress(*stage, name, progress)),
        JobUpdate::Decision(decision) => Event::Decision(decision_info(decision, submitted_at)),
        JobUpdate::Attempt { stage, attempt } => {
            Event::Attempt(v1::AttemptEvent { stage: stage.0, attempt: Some(attempt_info(attempt, clock)) })
        }
    };
    v1::JobEvent { event: Some(event) }
}

/// Everything known about a job as the updates that would have told it.
pub fn catch_up(job: &JobBrief, view: &JobView) -> Vec<JobUpdate> {
    let mut updates = vec![JobUpdate::Job(JobBrief { state: JobState::Running, ended_at: None, ..job.clone() })];
    if !job.state.is_terminal() {
        updates[0] = JobUpdate::Job(job.clone());
    }
    for stage in &view.stages {
        let name: Arc<str> = stage.name.as_str().into();
        updates.push(JobUpdate::Stage { stage: stage.stage, name, progress: stage.progress.clone() });
    }
    updates.extend(view.decisions.iter().cloned().map(JobUpdate::Decision));
    if job.state.is_terminal() {
        updates.push(JobUpdate::Job(job.clone()));
    }
    updates
}

/// The text in one line, its white space collapsed, shortened.
pub fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ");
    if line.len() <= STATEMENT_LIMIT { line } else { shortened(&line, STATEMENT_LIMIT) }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_core::JobFailure;

    fn brief(state: JobState) -> JobBrief {
        JobBrief {
            job: JobId(1),
            state,
            statement: "SELECT\n  1".into(),
            submitted_at: Time(Duration::from_millis(500)),
            ended_at: Some(Time(Duration::from_millis(750))),
            tasks_finished: 1,
            tasks_total: 2,
            recoverable: false,
        }
    }

    #[test]
    fn a_summary_has_wall_time_one_line_and_the_failure() {
        let clock = WallClock { start_ms: 10_000, now: Time(Duration::from_secs(9)) };
        let failed = JobState::Failed(JobFailure::InvalidPlan { message: "no stage".into() });
        let summary = job_summary(&brief(failed), clock);
        assert_eq!(summary.submitted_at_ms, 10_500);
        assert_eq!(summary.duration_ms, 250);
        assert_eq!(summary.statement, "SELECT 1");
        assert_eq!(summary.failure, "invalid plan: no stage");
        assert_eq!(summary.state(), v1::JobState::Failed);
        let running = JobBrief { ended_at: None, ..brief(JobState::Running) };
        assert_eq!(job_summary(&running, clock).duration_ms, 0);
    }

    #[test]
    fn a_late_watcher_is_told_everything_and_the_end_last() {
        let view = JobView {
            job: JobId(1),
            state: JobState::Finished,
            submitted_at: Time::default(),
            ended_at: None,
            stages: vec![],
            decisions: vec![Decision {
                at: Time::default(),
                stage: StageId(0),
                rule: "r".into(),
                measured: "m".into(),
                outcome: "o".into(),
            }],
        };
        let updates = catch_up(&brief(JobState::Finished), &view);
        assert_eq!(updates.len(), 3);
        assert!(matches!(&updates[0], JobUpdate::Job(b) if !b.state.is_terminal()));
        assert!(matches!(&updates[2], JobUpdate::Job(b) if b.state == JobState::Finished));
    }
}
