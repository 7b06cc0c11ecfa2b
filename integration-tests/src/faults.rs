//! Waits for the moment a fault is to hit, by following a job's events.
//!
//! Keeps, per stage, which task runs or finished where. No timing: the answer comes with the event that makes it true, and a
//! job that ends first is an error, so that a fault test cannot pass without its fault.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Duration;

use thalweg_proto::v1::{AttemptInfo, GetJobResponse, JobEvent, job_event::Event};

use crate::wire::Wire;

/// The latest attempt of each task, by stage and task index.
#[derive(Debug, Default)]
pub struct Progress {
    tasks: BTreeMap<(u32, u32), AttemptInfo>,
}

impl Progress {
    fn see(&mut self, event: JobEvent) {
        if let Some(Event::Attempt(event)) = event.event
            && let Some(attempt) = event.attempt
        {
            let latest = self.tasks.entry((event.stage, attempt.task)).or_insert_with(|| attempt.clone());
            if attempt.attempt >= latest.attempt {
                *latest = attempt;
            }
        }
    }

    fn in_state<'a>(&'a self, stage: u32, state: &'a str) -> impl Iterator<Item = &'a AttemptInfo> {
        self.tasks.range((stage, 0)..=(stage, u32::MAX)).map(|(_, a)| a).filter(move |a| a.state == state)
    }

    fn stages(&self) -> impl Iterator<Item = u32> {
        let mut stages: Vec<u32> = self.tasks.keys().map(|(stage, _)| *stage).collect();
        stages.dedup();
        stages.into_iter()
    }

    /// A TaskManager that holds a finished output of a stage another task of which still runs.
    pub fn finished_while_running(&self) -> Option<String> {
        self.stages().find_map(|stage| {
            let finished = self.in_state(stage, "finished").next()?;
            self.in_state(stage, RUNNING).next().map(|_| finished.task_manager.clone())
        })
    }

    /// Finished tasks by stage and index, with the attempt that counts.
    pub fn finished(&self) -> BTreeMap<(u32, u32), u32> {
        let finished = self.tasks.iter().filter(|(_, attempt)| attempt.state == "finished");
        finished.map(|(task, attempt)| (*task, attempt.attempt)).collect()
    }

    /// A TaskManager that runs a task now.
    pub fn running(&self) -> Option<String> {
        self.tasks.values().find(|a| a.state == RUNNING).map(|a| a.task_manager.clone())
    }
}

/// What an attempt is called from its deployment to its end.
const RUNNING: &str = "deploying";

/// Follows the job until `moment` has an answer; an error when the job ends before.
pub fn await_moment<T>(
    wire: &Wire,
    job_id: &str,
    limit: Duration,
    mut moment: impl FnMut(&Progress) -> Option<T>,
) -> Result<T, String> {
    let mut progress = Progress::default();
    let found = wire.watch(job_id, limit, |event| {
        progress.see(event);
        moment(&progress).map_or(ControlFlow::Continue(()), ControlFlow::Break)
    })?;
    found.ok_or_else(|| format!("job {job_id} ended before the moment to strike; last seen {progress:?}"))
}

/// Tasks of the job that were tried more than once, as (stage, task, attempts).
pub fn repeated_tasks(job: &GetJobResponse) -> Vec<(u32, u32, usize)> {
    let mut counts = BTreeMap::new();
    for stage in &job.stages {
        for attempt in &stage.attempts {
            *counts.entry((stage.stage, attempt.task)).or_insert(0usize) += 1;
        }
    }
    counts.into_iter().filter(|(_, n)| *n > 1).map(|((stage, task), n)| (stage, task, n)).collect()
}
