//! `thalweg jobs`: what ran, what runs, and why it runs the way it does.

use futures::TryStreamExt;
use serde::Serialize;
use thalweg_client::Client;
use thalweg_client::format::table::{Align, Table, visible};
use thalweg_client::format::units;
use thalweg_client::view::{Attempt, Decision, JobDetails, JobEvent, JobState, JobSummary, Stage};
use thalweg_types::JobId;

use crate::args::{JobsCommand, Remote};
use crate::commands::connect::connect;
use crate::commands::explain;
use crate::exit::CliError;
use crate::interrupt::Interrupts;
use crate::terminal::print;

pub async fn run(command: JobsCommand) -> Result<(), CliError> {
    match command {
        JobsCommand::List(remote) => {
            let jobs = client(&remote).await?.list_jobs().await?;
            print(&if remote.json { json(&jobs)? } else { list_text(&jobs) })
        }
        JobsCommand::Show { job, remote } => {
            let details = client(&remote).await?.get_job(job).await?;
            print(&if remote.json { json(&details)? } else { details_text(&details) })
        }
        JobsCommand::Explain { job, remote } => {
            let details = client(&remote).await?.get_job(job).await?;
            print(&if remote.json { json(&details)? } else { explain::text(&details) })
        }
        JobsCommand::Watch { job, remote } => watch(&client(&remote).await?, job, remote.json).await,
        JobsCommand::Cancel { job, remote } => {
            let state = client(&remote).await?.cancel_job(job).await?;
            #[derive(Serialize)]
            struct Cancelled {
                job_id: String,
                state: JobState,
            }
            let answer = Cancelled { job_id: job.to_string(), state };
            print(&if remote.json { json(&answer)? } else { format!("{job} {state}\n") })
        }
    }
}

async fn client(remote: &Remote) -> Result<Client, CliError> {
    connect(&remote.connection, &remote.settings).await
}

/// Prints events until the job has ended; a job that ended badly is an error.
async fn watch(client: &Client, job: JobId, as_json: bool) -> Result<(), CliError> {
    let mut interrupts = Interrupts::new().map_err(CliError::start)?;
    let mut events = client.watch_job(job);
    let mut last = None;
    loop {
        let event = tokio::select! {
            event = events.try_next() => event?,
            () = interrupts.next() => return Err(CliError::Interrupted),
        };
        let Some(event) = event else { break };
        print(&if as_json { json_line(&event)? } else { event_line(&event) })?;
        if let JobEvent::Job(summary) = event {
            last = Some(summary);
        }
    }
    match last {
        Some(JobSummary { state: state @ (JobState::Failed | JobState::Cancelled), failure, .. }) => {
            Err(CliError::JobEnded { job, state, failure })
        }
        _ => Ok(()),
    }
}

/// One JSON document for people and programs.
pub fn json(value: &impl Serialize) -> Result<String, CliError> {
    let text = serde_json::to_string_pretty(value).map_err(|error| CliError::Value(Box::new(error)))?;
    Ok(text + "\n")
}

fn json_line(value: &impl Serialize) -> Result<String, CliError> {
    let text = serde_json::to_string(value).map_err(|error| CliError::Value(Box::new(error)))?;
    Ok(text + "\n")
}

fn list_text(jobs: &[JobSummary]) -> String {
    let mut out = String::new();
    let mut table = Table::with_columns(&[
        ("job", Align::Left),
        ("state", Align::Left),
        ("submitted (UTC)", Align::Left),
        ("duration", Align::Right),
        ("tasks", Align::Right),
        ("statement", Align::Left),
    ]);
    for job in jobs {
        let cells = vec![
            job.job_id.to_string(),
            job.state.to_string(),
            units::utc_ms(job.submitted_at_ms),
            duration(job),
            format!("{}/{}", job.tasks_finished, job.tasks_total),
            visible(&job.statement),
        ];
        table.row(cells, &mut out);
    }
    table.end(&mut out);
    out
}

fn duration(job: &JobSummary) -> String {
    if job.state.is_terminal() { units::duration_ms(job.duration_ms) } else { String::new() }
}

fn details_text(job: &JobDetails) -> String {
    let summary = &job.summary;
    let mut out = format!(
        "job        {}\nstate      {}\nsubmitted  {} UTC\n",
        summary.job_id,
        summary.state,
        units::utc_ms(summary.submitted_at_ms)
    );
    if summary.state.is_terminal() {
        out += &format!("duration   {}\n", units::duration_ms(summary.duration_ms));
    }
    out += &format!("tasks      {} of {} finished\n", summary.tasks_finished, summary.tasks_total);
    out += &format!("statement  {}\n", visible(&summary.statement));
    if let Some(failure) = &summary.failure {
        out += &format!("failure    {}\n", visible(failure));
    }
    out += "\nstages\n";
    stages_text(&job.stages, &mut out);
    out += "\ndecisions\n";
    job.decisions.iter().for_each(|decision| out += &format!("  {}\n", decision_text(decision)));
    out += "\nattempts\n";
    attempts_text(&job.stages, &mut out);
    if !job.plan.is_empty() {
        out += "\nplan\n";
        job.plan.lines().for_each(|line| out += &format!("  {}\n", visible(line)));
    }
    out
}

fn stages_text(stages: &[Stage], out: &mut String) {
    let mut table = Table::with_columns(&[
        ("stage", Align::Left),
        ("name", Align::Left),
        ("tasks", Align::Right),
        ("running", Align::Right),
        ("rows in", Align::Right),
        ("rows out", Align::Right),
        ("bytes", Align::Right),
        ("network", Align::Right),
        ("spilled", Align::Right),
        ("cpu", Align::Right),
        ("duration", Align::Right),
    ]);
    for stage in stages {
        let rows_in: Vec<String> = stage.inputs.iter().map(|input| input.rows.to_string()).collect();
        let runs_in = stage.runs_in.map(|by| format!(" (runs in s{by})")).unwrap_or_default();
        let cells = vec![
            format!("s{}", stage.stage),
            visible(&stage.name) + &runs_in,
            format!("{}/{}", stage.finished, stage.parallelism),
            stage.running.to_string(),
            rows_in.join(" + "),
            stage.rows.to_string(),
            units::bytes(stage.bytes),
            units::bytes(stage.network_bytes),
            units::bytes(stage.spilled_bytes),
            units::duration_ms(stage.cpu_nanos / 1_000_000),
            units::duration_ms(stage.duration_ms),
        ];
        table.row(cells, out);
    }
    table.end(out);
}

fn attempts_text(stages: &[Stage], out: &mut String) {
    for stage in stages {
        for attempt in &stage.attempts {
            *out += &format!("  {}\n", attempt_text(stage.stage, attempt));
        }
    }
}

/// `+12 ms  s1  parallelism: 48 MB in 3 maps → 4 tasks`
pub(super) fn decision_text(decision: &Decision) -> String {
    format!(
        "+{}  s{}  {}: {} → {}",
        units::duration_ms(decision.at_ms),
        decision.stage,
        visible(&decision.rule),
        visible(&decision.measured),
        visible(&decision.outcome)
    )
}

/// `s1.0#1 on tm-1@ff finished: 10 rows, 1.0 KB, 12 ms`
fn attempt_text(stage: u32, attempt: &Attempt) -> String {
    let mut text = format!(
        "s{stage}.{}#{} on {} {}: {}, {}, {}",
        attempt.task,
        attempt.attempt,
        visible(&attempt.task_manager),
        visible(&attempt.state),
        units::counted(attempt.rows, "row"),
        units::bytes(attempt.bytes),
        units::duration_ms(attempt.duration_ms)
    );
    if !attempt.cause.is_empty() {
        text += &format!(" ({})", visible(&attempt.cause));
    }
    text
}

fn event_line(event: &JobEvent) -> String {
    let text = match event {
        JobEvent::Job(job) => {
            let failure = job.failure.as_deref().map(|text| format!(": {}", visible(text))).unwrap_or_default();
            format!("job       {}, {}/{} tasks{failure}", job.state, job.tasks_finished, job.tasks_total)
        }
        JobEvent::Stage(stage) => format!(
            "stage     s{} {}: {}/{} tasks finished, {} running, {}, {}",
            stage.stage,
            visible(&stage.name),
            stage.finished,
            stage.parallelism,
            stage.running,
            units::counted(stage.rows, "row"),
            units::bytes(stage.bytes)
        ),
        JobEvent::Decision(decision) => format!("decision  {}", decision_text(decision)),
        JobEvent::Attempt { stage, attempt } => format!("attempt   {}", attempt_text(*stage, attempt)),
    };
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_and_a_decision_are_one_line_each() {
        let attempt = Attempt {
            task: 0,
            attempt: 2,
            task_manager: "tm-1@ff".into(),
            state: "failed".into(),
            started_at_ms: 0,
            duration_ms: 12,
            rows: 1,
            bytes: 1024,
            cause: "division\nby zero".into(),
        };
        assert_eq!(attempt_text(1, &attempt), "s1.0#2 on tm-1@ff failed: 1 row, 1.0 KB, 12 ms (division\\nby zero)");
        let decision = Decision {
            at_ms: 7,
            stage: 1,
            rule: "parallelism".into(),
            measured: "48 MB".into(),
            outcome: "3 tasks".into(),
        };
        let line = event_line(&JobEvent::Decision(decision));
        assert_eq!(line, "decision  +7 ms  s1  parallelism: 48 MB → 3 tasks\n");
    }
}
