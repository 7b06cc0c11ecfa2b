//! The driver with the real core and TaskManagers that compute nothing.

use std::time::Duration;

use thalweg_core::{JobFailure, JobState};
use thalweg_rpc::Problem;
use thalweg_rpc::link::{FromTaskManager, TaskManagerEnd, ToTaskManager, in_process};
use thalweg_rpc::views::JobUpdate;
use thalweg_runtime::OwnedTask;
use thalweg_types::{ErrorKind, JobId};
use tokio::sync::watch;
use tokio::time::timeout;

use super::{Driver, HISTORY, ResultState};
use crate::link::Links;
use crate::testing::{FakeTaskManager, PATIENCE, aggregate, driver_options, registration, scan, submission};

struct Rig {
    driver: Driver,
    links: Links,
    _task: OwnedTask<()>,
}

fn rig() -> Rig {
    let (driver, task) = super::start(driver_options());
    Rig { links: Links::new(driver.clone(), PATIENCE), driver, _task: task }
}

impl Rig {
    fn link(&self) -> TaskManagerEnd {
        let (ours, theirs) = in_process();
        self.links.start(ours, true);
        theirs
    }

    async fn tm(&self, name: &str, incarnation: u64, slots: u32) -> FakeTaskManager {
        FakeTaskManager::register(self.link(), name, incarnation, slots).await
    }

    async fn settled(&self, job: JobId) -> ResultState {
        settled(&mut self.driver.result(job).await.unwrap().state).await
    }
}

async fn settled(state: &mut watch::Receiver<ResultState>) -> ResultState {
    let settled = state.wait_for(|state| !matches!(state, ResultState::Pending));
    timeout(PATIENCE, settled).await.expect("the job ends").unwrap().clone()
}

#[tokio::test]
async fn a_job_runs_over_two_task_managers_and_its_result_is_there() {
    let rig = rig();
    let tms = [rig.tm("a", 1, 2).await, rig.tm("b", 1, 2).await].map(|tm| tokio::spawn(tm.serve()));
    let job = rig.driver.submit(submission(aggregate(4, 3))).await.unwrap();
    let ResultState::Ready(maps) = rig.settled(job).await else { panic!("no result") };
    assert_eq!(maps.maps.len(), 3);
    assert!(maps.maps.iter().all(|map| map.inline.is_some() && map.address.as_deref() == Some("localhost:1")));

    let details = rig.driver.job(job).await.unwrap();
    assert_eq!(details.brief.state, JobState::Finished);
    assert_eq!((details.brief.tasks_finished, details.brief.tasks_total), (7, 7));
    assert_eq!(&*details.plan, "the plan");
    assert_eq!(details.view.stages[1].rows_read(), 32);

    drop(rig);
    for tm in tms {
        let told = timeout(PATIENCE, tm).await.unwrap().unwrap();
        check_orders(&told);
    }
}

/// The fragment before the first task and once; the placement before the first task that reads it; payloads as in the plan.
fn check_orders(told: &[ToTaskManager]) {
    let mut stages = Vec::new();
    let mut placed = Vec::new();
    for order in told {
        match order {
            ToTaskManager::Stage { stage, parts, settings, .. } => {
                assert!(!stages.contains(stage), "{stage} was sent twice");
                assert_eq!(*parts[0].fragment, *format!("fragment {}", stage.0).as_bytes());
                assert_eq!(settings[0].0, "table.local-time-zone");
                stages.push(*stage);
            }
            ToTaskManager::Place { placement, addresses, .. } => {
                assert!(!addresses.is_empty());
                placed.push((placement.exchange, placement.version));
            }
            ToTaskManager::Deploy { spec, exact } => {
                assert!(stages.contains(&spec.attempt.task.stage), "a task before its stage");
                assert_eq!(exact.len(), spec.splits.len());
                for input in &spec.inputs {
                    assert!(placed.contains(&(input.exchange, input.placement)), "a task before its input's placement");
                }
            }
            ToTaskManager::Split { split: Some((position, payload)), .. } => {
                assert_eq!(payload, format!("split {position}").as_bytes());
            }
            _ => {}
        }
    }
    assert!(!stages.is_empty());
}

#[tokio::test]
async fn a_watcher_is_told_everything_until_the_end() {
    let rig = rig();
    let job = rig.driver.submit(submission(scan(2))).await.unwrap();
    let watch = rig.driver.watch(job).await.unwrap();
    assert!(matches!(&watch.so_far[0], JobUpdate::Job(brief) if brief.state == JobState::WaitingForSlots));
    let tm = tokio::spawn(rig.tm("a", 1, 2).await.serve());
    let mut updates = watch.updates.expect("the job runs");
    let mut seen = Vec::new();
    while let Ok(update) = timeout(PATIENCE, updates.recv()).await.expect("the end") {
        seen.push(update);
    }
    assert!(matches!(seen.last(), Some(JobUpdate::Job(brief)) if brief.state == JobState::Finished));
    let attempts = seen.iter().filter(|update| {
        matches!(update, JobUpdate::Attempt { attempt, .. }
            if attempt.state == thalweg_core::AttemptState::Finished && attempt.rows == 1)
    });
    assert_eq!(attempts.count(), 2);
    // who comes late is told the same end
    let late = rig.driver.watch(job).await.unwrap();
    assert!(late.updates.is_none());
    assert!(matches!(late.so_far.last(), Some(JobUpdate::Job(brief)) if brief.state == JobState::Finished));
    tm.abort();
}

#[tokio::test]
async fn a_cancelled_job_stops_its_tasks() {
    let rig = rig();
    let mut tm = rig.tm("a", 1, 1).await;
    let job = rig.driver.submit(submission(scan(1))).await.unwrap();
    let spec = tm.next_deploy().await;
    assert_eq!(rig.driver.cancel(job).await.unwrap(), JobState::Cancelled);
    tm.serve_until(|order| *order == ToTaskManager::Cancel { attempt: spec.attempt }).await;
    tm.serve_until(|order| *order == ToTaskManager::ReleaseJob { job }).await;
    assert!(matches!(rig.settled(job).await, ResultState::None(Problem::JobCancelled { .. })));
    assert_eq!(rig.driver.cancel(job).await.unwrap(), JobState::Cancelled, "once more changes nothing");
}

#[tokio::test]
async fn a_failed_job_says_why() {
    let rig = rig();
    let mut tm = rig.tm("a", 1, 1).await;
    let job = rig.driver.submit(submission(scan(1))).await.unwrap();
    let spec = tm.next_deploy().await;
    tm.fail(spec.attempt, ErrorKind::Data, "cannot cast 'x'").await;
    let ResultState::None(problem) = rig.settled(job).await else { panic!("a result") };
    assert!(matches!(&problem, Problem::JobFailed { failure: JobFailure::Task { .. }, .. }));
    assert!(problem.to_string().contains("cannot cast 'x'"), "{problem}");
}

#[tokio::test]
async fn a_lost_task_manager_is_replaced() {
    let rig = rig();
    let mut first = rig.tm("a", 1, 1).await;
    let job = rig.driver.submit(submission(scan(1))).await.unwrap();
    let lost = first.next_deploy().await;
    let mut second = rig.tm("b", 1, 1).await;
    drop(first);
    let again = second.next_deploy().await;
    assert_eq!(again.attempt.task, lost.attempt.task);
    assert_ne!(again.attempt, lost.attempt);
    assert_eq!(rig.driver.cluster_size().slots, 1);
    rig.driver.cancel(job).await.unwrap();
}

#[tokio::test]
async fn a_task_manager_that_leaves_is_gone_at_once() {
    let rig = rig();
    let tm = rig.tm("a", 1, 1).await;
    tm.end.tx.send(FromTaskManager::Leaving { detail: "stopped".into() }).await.unwrap();
    timeout(PATIENCE, rig.driver.wait_for_cluster(|size| size.slots == 0)).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_new_incarnation_replaces_the_old_link() {
    let rig = rig();
    let mut old = rig.tm("a", 1, 1).await;
    let _new = rig.tm("a", 2, 3).await;
    assert_eq!(old.next().await, None, "its link ends");
    assert_eq!(rig.driver.cluster_size().slots, 3);
    // the end of the old link is no news about the new one
    drop(old);
    let overview = rig.driver.overview().await.unwrap();
    assert_eq!(overview.task_managers.len(), 1);
    assert_eq!(overview.task_managers[0].tm.incarnation, 2);
}

#[tokio::test]
async fn wrong_registrations_are_refused() {
    let rig = rig();
    let _tm = rig.tm("a", 1, 1).await;
    let other_release = match registration("b", 1, 1, "localhost:1") {
        FromTaskManager::Register {
            resource, incarnation, data_address, slots, managed_memory, slot_memory, ..
        } => FromTaskManager::Register {
            resource,
            incarnation,
            data_address,
            slots,
            managed_memory,
            slot_memory,
            version: "0.0.0".into(),
            held: Vec::new(),
        },
        _ => unreachable!(),
    };
    for first in [other_release, FromTaskManager::Heartbeat] {
        let mut end = rig.link();
        end.tx.send(first).await.unwrap();
        let answer = timeout(PATIENCE, end.rx.recv()).await.unwrap();
        assert!(matches!(answer, Some(ToTaskManager::Refused { .. })), "{answer:?}");
        assert_eq!(timeout(PATIENCE, end.rx.recv()).await.unwrap(), None);
    }
    assert_eq!(rig.driver.cluster_size().slots, 1);
}

#[tokio::test]
async fn a_task_manager_that_lost_its_link_replaces_it() {
    let rig = rig();
    let mut old = rig.tm("a", 1, 1).await;
    let job = rig.driver.submit(submission(scan(1))).await.unwrap();
    let ran = old.next_deploy().await;
    let mut new = rig.tm("a", 1, 1).await;
    assert_eq!(old.next().await, None, "its link ends");
    let again = new.next_deploy().await;
    assert_eq!((again.attempt.task, again.attempt.attempt), (ran.attempt.task, 2));
    rig.driver.cancel(job).await.unwrap();
}

#[tokio::test]
async fn a_result_nobody_reads_is_dropped_after_its_time() {
    let rig = rig();
    let mut tm = rig.tm("a", 1, 1).await;
    let short = super::Submission { result_ttl: Duration::from_millis(50), ..submission(scan(1)) };
    let job = rig.driver.submit(short).await.unwrap();
    let mut result = rig.driver.result(job).await.unwrap();
    tm.serve_until(|order| *order == ToTaskManager::ReleaseJob { job }).await;
    let gone = result.state.wait_for(|state| matches!(state, ResultState::None(_)));
    let state = timeout(PATIENCE, gone).await.unwrap().unwrap().clone();
    assert!(matches!(state, ResultState::None(Problem::ResultGone { .. })));
}

#[tokio::test]
async fn only_the_last_jobs_are_remembered() {
    let rig = rig();
    let tm = tokio::spawn(rig.tm("a", 1, 4).await.serve());
    let mut jobs = Vec::new();
    for _ in 0..HISTORY + 3 {
        let job = rig.driver.submit(submission(scan(1))).await.unwrap();
        assert!(matches!(rig.settled(job).await, ResultState::Ready(_)));
        jobs.push(job);
    }
    assert_eq!(rig.driver.jobs().await.unwrap().len(), HISTORY);
    let forgotten = rig.driver.job(jobs[0]).await.unwrap_err();
    assert!(forgotten.to_string().contains(&jobs[0].to_string()), "{forgotten}");
    assert!(rig.driver.job(jobs[HISTORY + 2]).await.is_ok());
    tm.abort();
}

#[tokio::test]
async fn a_lost_result_is_made_again() {
    let rig = rig();
    let tm = tokio::spawn(rig.tm("a", 1, 1).await.serve());
    let job = rig.driver.submit(submission(scan(1))).await.unwrap();
    let ResultState::Ready(first) = rig.settled(job).await else { panic!("no result") };
    rig.driver.result_lost(job, first.version, &first.maps[0], "gone".into()).await.unwrap();
    let mut result = rig.driver.result(job).await.unwrap();
    let newer = |state: &ResultState| matches!(state, ResultState::Ready(maps) if maps.version != first.version);
    let state = timeout(PATIENCE, result.state.wait_for(newer)).await.expect("made again").unwrap().clone();
    let ResultState::Ready(second) = state else { panic!("no result") };
    assert_ne!(second.maps[0].attempt, first.maps[0].attempt);
    // the old version lost is no news
    rig.driver.result_lost(job, first.version, &first.maps[0], "gone".into()).await.unwrap();
    assert!(matches!(rig.settled(job).await, ResultState::Ready(_)));
    tm.abort();
}
