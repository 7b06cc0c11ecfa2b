//! Bars on a terminal: one per stage of the running job, with its tasks.
//!
//! Drawn only on standard error and only if that is a terminal; a job that is over within a moment draws nothing. A job that
//! cannot be watched has no bars; what is wrong with it shows in its result.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::time::Duration;

use futures::stream::{self, BoxStream, StreamExt};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use thalweg_client::format::table::visible;
use thalweg_client::format::units;
use thalweg_client::view::{JobEvent, JobState, Stage};
use thalweg_client::{Client, Error};
use thalweg_types::JobId;

/// Nobody wants to see bars flash.
const PATIENCE: Duration = Duration::from_millis(250);
const DRAWS_PER_SECOND: u8 = 10;
/// More stages than a terminal has lines are not drawn.
const BARS: usize = 24;

pub struct Progress {
    events: BoxStream<'static, Result<JobEvent, Error>>,
    bars: MultiProgress,
    stages: BTreeMap<u32, ProgressBar>,
    waiting: Option<ProgressBar>,
}

impl Progress {
    /// Of a job, to be driven while its result is awaited.
    pub fn of(client: &Client, job: JobId) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self::new(stream::pending().boxed(), ProgressDrawTarget::hidden());
        }
        let client = client.clone();
        let opened = async move {
            tokio::time::sleep(PATIENCE).await;
            client.watch_job(job)
        };
        Self::new(stream::once(opened).flatten().boxed(), ProgressDrawTarget::stderr_with_hz(DRAWS_PER_SECOND))
    }

    fn new(events: BoxStream<'static, Result<JobEvent, Error>>, target: ProgressDrawTarget) -> Self {
        Self { events, bars: MultiProgress::with_draw_target(target), stages: BTreeMap::new(), waiting: None }
    }

    /// Draws what happens, and never returns. Loses nothing when dropped.
    pub async fn drive(&mut self) {
        while let Some(Ok(event)) = self.events.next().await {
            match event {
                JobEvent::Job(job) => self.waiting(job.state == JobState::WaitingForSlots),
                JobEvent::Stage(stage) => self.stage(&stage),
                JobEvent::Decision(_) | JobEvent::Attempt { .. } => {}
            }
        }
        std::future::pending().await
    }

    /// Takes the bars off the screen.
    pub fn clear(&self) {
        // a terminal that cannot be written to shows no bars either
        let _ = self.bars.clear();
    }

    fn waiting(&mut self, waits: bool) {
        if let Some(bar) = self.waiting.take() {
            bar.finish_and_clear();
        }
        if waits {
            let bar = self.bars.add(ProgressBar::new_spinner());
            bar.set_message("waiting for a task slot");
            bar.tick();
            self.waiting = Some(bar);
        }
    }

    fn stage(&mut self, stage: &Stage) {
        if !self.stages.contains_key(&stage.stage) && self.stages.len() >= BARS {
            return;
        }
        let bars = &self.bars;
        let position = self.stages.range(..stage.stage).count();
        let bar = self
            .stages
            .entry(stage.stage)
            .or_insert_with(|| bars.insert(position, ProgressBar::new(0).with_style(style())));
        bar.set_prefix(visible(&format!("s{} {}", stage.stage, stage.name)));
        // a stage whose parallelism is not decided yet has one task at least
        bar.set_length(u64::from(stage.parallelism.max(1)));
        bar.set_position(u64::from(stage.finished));
        bar.set_message(format!("{}, {}", units::counted(stage.rows, "row"), units::bytes(stage.bytes)));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

fn style() -> ProgressStyle {
    ProgressStyle::with_template("{prefix:30!} [{bar:24}] {pos}/{len} tasks  {msg}")
        .expect("a test parses the template")
        .progress_chars("=> ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[tokio::test]
    async fn stages_get_one_bar_each_in_order() {
        let stage = |number, finished| {
            JobEvent::Stage(Stage {
                stage: number,
                name: "scan".into(),
                parallelism: 4,
                running: 1,
                finished,
                rows: 10,
                bytes: 2048,
                duration_ms: 0,
                network_bytes: 0,
                spilled_bytes: 0,
                cpu_nanos: 0,
                attempts: vec![],
                operators: vec![],
                inputs: vec![],
                runs_in: None,
                output: String::new(),
            })
        };
        let events = stream::iter([Ok(stage(2, 0)), Ok(stage(0, 1)), Ok(stage(0, 3))]).boxed();
        let mut progress = Progress::new(events, ProgressDrawTarget::hidden());
        assert!(progress.drive().now_or_never().is_none(), "driving never ends");
        assert_eq!(progress.stages.keys().copied().collect::<Vec<_>>(), [0, 2]);
        assert_eq!(progress.stages[&0].position(), 3);
        assert_eq!(progress.stages[&0].message(), "10 rows, 2.0 KB");
    }
}
