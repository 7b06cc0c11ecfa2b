//! EXPLAIN ANALYZE: runs the query, throws its rows away and says what was measured.

use std::fmt::Write as _;
use std::time::Duration;

use thalweg_core::{Decision, JobView, StageView, Time};
use thalweg_rpc::Problem;
use thalweg_runtime::spawn_owned;
use thalweg_types::JobId;

use crate::driver::{Driver, JobDetails, ResultState, Submission};

/// Cancels the job when nobody waits for it any more.
struct CancelOnDrop {
    driver: Driver,
    job: JobId,
    armed: bool,
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if self.armed {
            let (driver, job) = (self.driver.clone(), self.job);
            spawn_owned("cancel", async move { driver.cancel(job).await.map(|_| ()) }).detach();
        }
    }
}

pub(super) async fn run(driver: &Driver, submission: Submission) -> Result<Vec<String>, Problem> {
    let job = driver.submit(submission).await?;
    let mut guard = CancelOnDrop { driver: driver.clone(), job, armed: true };
    let mut result = driver.result(job).await?;
    let state = result.state.wait_for(|state| !matches!(state, ResultState::Pending)).await;
    let state = state.map_err(|_| Problem::ShuttingDown)?.clone();
    guard.armed = false;
    if let ResultState::None(problem) = state {
        return Err(problem);
    }
    let details = driver.job(job).await?;
    driver.release_result(job).await?;
    Ok(render(&details))
}

pub(super) fn render(details: &JobDetails) -> Vec<String> {
    let view = &details.view;
    let took = view.ended_at.or(details.brief.ended_at).map(|end| end.0.saturating_sub(view.submitted_at.0));
    let mut lines = vec![format!("job {} took {}", view.job, took.map_or("?".to_owned(), duration))];
    for stage in &view.stages {
        stage_lines(stage, &mut lines);
    }
    if !view.decisions.is_empty() {
        lines.push("decisions".to_owned());
        lines.extend(view.decisions.iter().map(|decision| decision_line(decision, view)));
    }
    lines
}

fn stage_lines(stage: &StageView, lines: &mut Vec<String>) {
    if let Some(by) = stage.runs_in {
        lines.push(format!("stage {} {}: {by} runs its operators", stage.stage, stage.name));
        return;
    }
    let time = match (stage.started_at, stage.finished_at) {
        (Some(start), Some(end)) => duration(end.0.saturating_sub(start.0)),
        _ => "?".to_owned(),
    };
    lines.push(format!("stage {} {}", stage.stage, stage.name));
    let progress = &stage.progress;
    let mut facts =
        format!("  parallelism {}, {time}, out {} rows {}", progress.parallelism, progress.rows, bytes(progress.bytes));
    let mut more = |label: &str, text: String| {
        let _ = write!(facts, ", {label} {text}");
    };
    if !stage.inputs.is_empty() {
        more("in", format!("{} rows", stage.rows_read()));
    }
    if stage.network_bytes() > 0 {
        more("network", bytes(stage.network_bytes()));
    }
    if stage.spilled_bytes > 0 {
        more("spilled", bytes(stage.spilled_bytes));
    }
    if stage.cpu_nanos > 0 {
        more("cpu", duration(Duration::from_nanos(stage.cpu_nanos)));
    }
    if stage.attempts.len() > progress.parallelism as usize {
        more("attempts", stage.attempts.len().to_string());
    }
    lines.push(facts);
    for operator in &stage.operators {
        let indent = "  ".repeat(operator.depth.min(100) as usize + 2);
        let mut more = String::new();
        if operator.filtered_rows > 0 {
            let _ = write!(more, ", {} filtered", operator.filtered_rows);
        }
        if operator.spilled_bytes > 0 {
            let _ = write!(more, ", spilled {}", bytes(operator.spilled_bytes));
        }
        let time = duration(Duration::from_nanos(operator.elapsed_nanos));
        lines.push(format!("{indent}{}: {} rows, {time}{more}", operator.name, operator.output_rows));
    }
}

fn decision_line(decision: &Decision, view: &JobView) -> String {
    let Decision { at: Time(at), stage, rule, measured, outcome } = decision;
    let at = duration(at.saturating_sub(view.submitted_at.0));
    format!("  at {at} {stage} {rule}: {measured} → {outcome}")
}

fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    if seconds >= 1.0 {
        format!("{seconds:.2} s")
    } else if seconds >= 0.001 {
        format!("{:.1} ms", seconds * 1e3)
    } else {
        format!("{:.0} µs", seconds * 1e6)
    }
}

fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KB", "MB", "GB", "TB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}
