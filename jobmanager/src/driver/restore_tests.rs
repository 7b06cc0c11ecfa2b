//! A driver is lost, and another one goes on from what it wrote down.

use std::path::Path;
use std::time::Duration;

use thalweg_config::{Config, HighAvailability, HighAvailabilityType};
use thalweg_core::JobState;
use thalweg_rpc::Problem;
use thalweg_rpc::link::{TaskManagerEnd, ToTaskManager, in_process};
use thalweg_rpc::views::JobBrief;
use thalweg_runtime::OwnedTask;
use tokio::time::timeout;

use super::{Driver, DriverOptions, ResultState};
use crate::ha::Storage;
use crate::link::Links;
use crate::testing::{FakeTaskManager, PATIENCE, aggregate, driver_options, scan, submission};

struct Leader {
    driver: Driver,
    links: Links,
    task: OwnedTask<()>,
    storage: Storage,
}

impl Leader {
    fn start(dir: &Path) -> Self {
        let kind = HighAvailabilityType::Filesystem;
        let config = HighAvailability { kind, ..Config::default().high_availability };
        let storage = Storage::open(&config, dir).unwrap();
        let (driver, task) = super::start(DriverOptions {
            epoch: storage.leader.epoch,
            journal: Some(storage.journal().unwrap()),
            restored: storage.load().unwrap(),
            ..driver_options()
        });
        Self { links: Links::new(driver.clone(), PATIENCE), driver, task, storage }
    }

    fn link(&self) -> TaskManagerEnd {
        let (ours, theirs) = in_process();
        self.links.start(ours, true);
        theirs
    }

    /// Gone in the middle of whatever it did.
    async fn die(self) {
        let Self { driver, links, task, storage } = self;
        task.abort();
        let _ = timeout(PATIENCE, task).await.expect("it ends");
        drop((links, driver, storage));
    }
}

#[tokio::test]
async fn the_next_leader_goes_on_with_what_has_finished() {
    let dir = tempfile::tempdir().unwrap();
    let first = Leader::start(dir.path());
    let mut tm = FakeTaskManager::register(first.link(), "a", 1, 1).await;
    let job = first.driver.submit(submission(aggregate(3, 2))).await.unwrap();
    // all of the first stage, and the second one is about to begin
    let reads = |order: &ToTaskManager| matches!(order, ToTaskManager::Place { .. });
    tm.serve_until(reads).await;
    let before = first.driver.job(job).await.unwrap();
    assert_eq!(before.brief.tasks_finished, 3);
    let outputs = std::mem::take(&mut tm.outputs);
    assert_eq!(outputs.len(), 3);
    first.die().await;

    let second = Leader::start(dir.path());
    let restored = second.driver.job(job).await.unwrap();
    assert_eq!((restored.brief.tasks_finished, &*restored.brief.statement), (3, "SELECT n FROM t"));
    assert_eq!(restored.view.decisions, before.view.decisions[..restored.view.decisions.len()]);
    let mut tm = FakeTaskManager::register_again(second.link(), "a", 1, 1, outputs.clone()).await;
    assert_eq!(tm.next().await, Some(ToTaskManager::Retain { outputs }));
    let tm = tokio::spawn(tm.serve());
    let mut result = second.driver.result(job).await.unwrap();
    let ready = result.state.wait_for(|state| matches!(state, ResultState::Ready(_)));
    timeout(PATIENCE, ready).await.expect("it finishes").unwrap();
    let details = second.driver.job(job).await.unwrap();
    assert_eq!(details.brief.state, JobState::Finished);
    assert!(details.view.stages[0].attempts.iter().all(|attempt| attempt.attempt.attempt == 1), "nothing ran twice");
    assert!(details.view.decisions.iter().any(|decision| decision.rule == "recovery"));
    drop(second);
    tm.abort();
}

#[tokio::test]
async fn an_ended_job_is_remembered_and_one_without_recovery_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let first = Leader::start(dir.path());
    let cancelled = first.driver.submit(submission(scan(1))).await.unwrap();
    let waits = first.driver.submit(submission(scan(1))).await.unwrap();
    let lost = super::Submission { recoverable: false, ..submission(scan(1)) };
    let lost = first.driver.submit(lost).await.unwrap();
    assert_eq!(first.driver.cancel(cancelled).await.unwrap(), JobState::Cancelled);
    let briefs = first.driver.jobs().await.unwrap();
    first.die().await;

    let second = Leader::start(dir.path());
    let seen = |briefs: Vec<JobBrief>| -> Vec<_> { briefs.into_iter().map(|b| (b.job, b.state, b.ended_at)).collect() };
    let mut expected = seen(briefs);
    expected.retain(|(job, ..)| *job != lost);
    assert_eq!(seen(second.driver.jobs().await.unwrap()), expected);
    let mut result = second.driver.result(cancelled).await.unwrap();
    let state = result.state.borrow_and_update().clone();
    assert!(matches!(state, ResultState::None(Problem::JobCancelled { .. })), "{state:?}");
    assert_eq!(second.driver.cancel(waits).await.unwrap(), JobState::Cancelled);
    second.die().await;
}

#[tokio::test]
async fn a_taskmanager_that_does_not_come_back_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let first = Leader::start(dir.path());
    let mut tm = FakeTaskManager::register(first.link(), "a", 1, 1).await;
    let job = first.driver.submit(submission(aggregate(2, 1))).await.unwrap();
    tm.serve_until(|order| matches!(order, ToTaskManager::Place { .. })).await;
    first.die().await;

    let second = Leader::start(dir.path());
    // the same place, another process
    let tm = tokio::spawn(FakeTaskManager::register(second.link(), "a", 2, 1).await.serve());
    let mut result = second.driver.result(job).await.unwrap();
    let ready = result.state.wait_for(|state| matches!(state, ResultState::Ready(_)));
    timeout(Duration::from_secs(10), ready).await.expect("nobody is waited for").unwrap();
    let details = second.driver.job(job).await.unwrap();
    assert_eq!(details.view.stages[0].progress.finished, 2);
    assert!(details.view.decisions.iter().any(|decision| decision.rule == "retry"));
    drop(second);
    tm.abort();
}
