//! What a cluster shows of itself and its jobs, as plain data. Serialised, it is the JSON of `--json`.
//!
//! Guarantees: an id was checked, a state is a known one; field names are those of the gRPC API.

use serde::Serialize;
use thalweg_proto::v1;
use thalweg_rpc::Malformed;
use thalweg_types::JobId;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClusterOverview {
    pub version: String,
    pub uptime_ms: u64,
    pub task_managers: Vec<TaskManager>,
    pub slots_total: u32,
    pub slots_free: u32,
    pub jobs_running: u32,
    pub jobs_finished: u32,
    pub jobs_failed: u32,
    pub jobs_cancelled: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TaskManager {
    pub id: String,
    /// host:port of its Flight data plane.
    pub data_address: String,
    pub slots_total: u32,
    pub slots_free: u32,
    pub managed_memory_bytes: u64,
    pub last_heartbeat_ms_ago: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobState {
    WaitingForSlots,
    Running,
    Finished,
    Cancelled,
    Failed,
}

impl JobState {
    /// The word that people and scripts read.
    pub fn as_str(self) -> &'static str {
        match self {
            JobState::WaitingForSlots => "waiting-for-slots",
            JobState::Running => "running",
            JobState::Finished => "finished",
            JobState::Cancelled => "cancelled",
            JobState::Failed => "failed",
        }
    }

    pub fn is_terminal(self) -> bool {
        matches!(self, JobState::Finished | JobState::Cancelled | JobState::Failed)
    }
}

impl std::fmt::Display for JobState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JobSummary {
    #[serde(serialize_with = "as_text")]
    pub job_id: JobId,
    pub state: JobState,
    /// The query's text in one line.
    pub statement: String,
    /// Unix time, milliseconds.
    pub submitted_at_ms: u64,
    /// 0 while it runs.
    pub duration_ms: u64,
    pub tasks_finished: u32,
    /// Tasks decided so far.
    pub tasks_total: u32,
    /// Set when the job failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// It goes on after a loss of the JobManager.
    pub recoverable: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JobDetails {
    pub summary: JobSummary,
    pub stages: Vec<Stage>,
    pub decisions: Vec<Decision>,
    /// The EXPLAIN text the job was submitted with.
    pub plan: String,
}

/// Counts are sums over the stage's tasks.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stage {
    pub stage: u32,
    pub name: String,
    /// 0 until decided.
    pub parallelism: u32,
    pub running: u32,
    pub finished: u32,
    pub rows: u64,
    pub bytes: u64,
    pub duration_ms: u64,
    pub network_bytes: u64,
    pub spilled_bytes: u64,
    pub cpu_nanos: u64,
    pub attempts: Vec<Attempt>,
    pub operators: Vec<Operator>,
    pub inputs: Vec<Input>,
    /// The stage whose tasks run this one's operators; set when it was decided that this one never runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runs_in: Option<u32>,
    /// How its rows are distributed: hash (keys), gather, broadcast or result.
    pub output: String,
}

/// What a stage reads of another.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Input {
    pub producer: u32,
    /// Every task reads all of it, so that its rows count once for each task.
    pub replicated: bool,
    pub rows: u64,
    pub network_bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Attempt {
    pub task: u32,
    pub attempt: u32,
    pub task_manager: String,
    /// deploying, finished, failed, cancelled, reset
    pub state: String,
    pub started_at_ms: u64,
    pub duration_ms: u64,
    pub rows: u64,
    pub bytes: u64,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cause: String,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Operator {
    pub depth: u32,
    pub name: String,
    pub output_rows: u64,
    pub elapsed_nanos: u64,
    pub spilled_bytes: u64,
    /// Rows that runtime filters removed of a scan.
    pub filtered_rows: u64,
}

/// One decision taken while the job ran.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Decision {
    /// Milliseconds since the job was submitted.
    pub at_ms: u64,
    pub stage: u32,
    pub rule: String,
    pub measured: String,
    pub outcome: String,
}

/// What a watcher is told. As JSON: an object with one property, named after the variant.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobEvent {
    Job(JobSummary),
    /// Without attempts and operators.
    Stage(Stage),
    Decision(Decision),
    Attempt {
        stage: u32,
        attempt: Attempt,
    },
}

fn as_text<S: serde::Serializer>(id: &JobId, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(id)
}

/// The id in an answer.
pub(crate) fn job_id(text: &str) -> Result<JobId, Malformed> {
    text.parse().map_err(|_| Malformed::Value {
        field: "job_id",
        found: format!("{text:?}"),
        expected: "32 hex digits",
    })
}

pub(crate) fn job_state(state: i32) -> Result<JobState, Malformed> {
    match v1::JobState::try_from(state) {
        Ok(v1::JobState::WaitingForSlots) => Ok(JobState::WaitingForSlots),
        Ok(v1::JobState::Running) => Ok(JobState::Running),
        Ok(v1::JobState::Finished) => Ok(JobState::Finished),
        Ok(v1::JobState::Cancelled) => Ok(JobState::Cancelled),
        Ok(v1::JobState::Failed) => Ok(JobState::Failed),
        Ok(v1::JobState::Unspecified) | Err(_) => {
            Err(Malformed::Value { field: "state", found: state.to_string(), expected: "a job state" })
        }
    }
}

impl TryFrom<v1::JobSummary> for JobSummary {
    type Error = Malformed;

    fn try_from(job: v1::JobSummary) -> Result<Self, Malformed> {
        Ok(JobSummary {
            job_id: job_id(&job.job_id)?,
            state: job_state(job.state)?,
            statement: job.statement,
            submitted_at_ms: job.submitted_at_ms,
            duration_ms: job.duration_ms,
            tasks_finished: job.tasks_finished,
            tasks_total: job.tasks_total,
            failure: Some(job.failure).filter(|text| !text.is_empty()),
            recoverable: job.recoverable,
        })
    }
}

impl TryFrom<v1::GetJobResponse> for JobDetails {
    type Error = Malformed;

    fn try_from(job: v1::GetJobResponse) -> Result<Self, Malformed> {
        Ok(JobDetails {
            summary: job.summary.ok_or(Malformed::Missing("summary"))?.try_into()?,
            stages: job.stages.into_iter().map(Stage::from).collect(),
            decisions: job.decisions.into_iter().map(Decision::from).collect(),
            plan: job.plan,
        })
    }
}

impl From<v1::StageInfo> for Stage {
    fn from(stage: v1::StageInfo) -> Self {
        Stage {
            stage: stage.stage,
            name: stage.name,
            parallelism: stage.parallelism,
            running: stage.running,
            finished: stage.finished,
            rows: stage.rows,
            bytes: stage.bytes,
            duration_ms: stage.duration_ms,
            network_bytes: stage.network_bytes,
            spilled_bytes: stage.spilled_bytes,
            cpu_nanos: stage.cpu_nanos,
            attempts: stage.attempts.into_iter().map(Attempt::from).collect(),
            operators: stage.operators.into_iter().map(Operator::from).collect(),
            inputs: stage.inputs.into_iter().map(Input::from).collect(),
            runs_in: stage.runs_in,
            output: stage.output,
        }
    }
}

impl From<v1::StageInputInfo> for Input {
    fn from(input: v1::StageInputInfo) -> Self {
        Input {
            producer: input.producer,
            replicated: input.replicated,
            rows: input.rows,
            network_bytes: input.network_bytes,
        }
    }
}

impl From<v1::AttemptInfo> for Attempt {
    fn from(attempt: v1::AttemptInfo) -> Self {
        Attempt {
            task: attempt.task,
            attempt: attempt.attempt,
            task_manager: attempt.task_manager,
            state: attempt.state,
            started_at_ms: attempt.started_at_ms,
            duration_ms: attempt.duration_ms,
            rows: attempt.rows,
            bytes: attempt.bytes,
            cause: attempt.cause,
        }
    }
}

impl From<v1::OperatorInfo> for Operator {
    fn from(operator: v1::OperatorInfo) -> Self {
        Operator {
            depth: operator.depth,
            name: operator.name,
            output_rows: operator.output_rows,
            elapsed_nanos: operator.elapsed_nanos,
            spilled_bytes: operator.spilled_bytes,
            filtered_rows: operator.filtered_rows,
        }
    }
}

impl From<v1::DecisionInfo> for Decision {
    fn from(decision: v1::DecisionInfo) -> Self {
        Decision {
            at_ms: decision.at_ms,
            stage: decision.stage,
            rule: decision.rule,
            measured: decision.measured,
            outcome: decision.outcome,
        }
    }
}

impl TryFrom<v1::JobEvent> for JobEvent {
    type Error = Malformed;

    fn try_from(event: v1::JobEvent) -> Result<Self, Malformed> {
        use v1::job_event::Event;
        Ok(match event.event.ok_or(Malformed::Missing("event"))? {
            Event::Job(job) => JobEvent::Job(job.try_into()?),
            Event::Stage(stage) => JobEvent::Stage(stage.into()),
            Event::Decision(decision) => JobEvent::Decision(decision.into()),
            Event::Attempt(v1::AttemptEvent { stage, attempt }) => {
                JobEvent::Attempt { stage, attempt: attempt.ok_or(Malformed::Missing("attempt"))?.into() }
            }
        })
    }
}

impl From<v1::GetOverviewResponse> for ClusterOverview {
    fn from(cluster: v1::GetOverviewResponse) -> Self {
        let task_manager = |tm: v1::TaskManagerInfo| TaskManager {
            id: tm.id,
            data_address: tm.data_address,
            slots_total: tm.slots_total,
            slots_free: tm.slots_free,
            managed_memory_bytes: tm.managed_memory_bytes,
            last_heartbeat_ms_ago: tm.last_heartbeat_ms_ago,
        };
        ClusterOverview {
            version: cluster.version,
            uptime_ms: cluster.uptime_ms,
            task_managers: cluster.task_managers.into_iter().map(task_manager).collect(),
            slots_total: cluster.slots_total,
            slots_free: cluster.slots_free,
            jobs_running: cluster.jobs_running,
            jobs_finished: cluster.jobs_finished,
            jobs_failed: cluster.jobs_failed,
            jobs_cancelled: cluster.jobs_cancelled,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_id_or_no_state_is_refused() {
        let good = v1::JobSummary { job_id: "0".repeat(32), state: 3, ..Default::default() };
        let job = JobSummary::try_from(good.clone()).unwrap();
        assert_eq!((job.state, job.failure), (JobState::Finished, None));
        assert!(JobSummary::try_from(v1::JobSummary { state: 0, ..good.clone() }).is_err());
        assert!(JobSummary::try_from(v1::JobSummary { state: 99, ..good.clone() }).is_err());
        assert!(JobSummary::try_from(v1::JobSummary { job_id: "x".into(), ..good }).is_err());
        assert!(JobEvent::try_from(v1::JobEvent { event: None }).is_err());
    }

    #[test]
    fn an_event_is_an_object_with_the_name_of_its_kind() {
        let event = JobEvent::Decision(Decision {
            at_ms: 7,
            stage: 1,
            rule: "parallelism".into(),
            measured: "3 mb".into(),
            outcome: "1 task".into(),
        });
        let json = serde_json::to_string(&event).unwrap();
        let expected =
            r#"{"decision":{"at_ms":7,"stage":1,"rule":"parallelism","measured":"3 mb","outcome":"1 task"}}"#;
        assert_eq!(json, expected);
    }
}
