//! Failures of attempts: budgets, back-off, first cause.

use std::time::Duration;

use thalweg_types::{ErrorKind, ExchangeId, FailureCause};

use super::plans::aggregate;
use super::world::{World, io_error};
use crate::*;

fn world(slots: u32) -> World {
    let mut world = World::new(&aggregate(2, 2).build());
    world.tm_up("a", slots);
    world.submit(JobOptions::default());
    world
}

fn cause(kind: ErrorKind, message: &str) -> FailureCause {
    FailureCause::Task { kind, message: message.to_owned() }
}

#[test]
fn a_failed_attempt_is_followed_by_another_after_a_growing_wait() {
    let mut world = world(2);
    for wait in [100, 200, 400] {
        let (tm, attempt) = world.running().into_iter().find(|(_, a)| a.task.index == 0).unwrap();
        world.fail(&tm, attempt, io_error());
        let running = |world: &World| world.running().iter().any(|(_, a)| a.task.index == 0);
        world.advance_time(Duration::from_millis(wait - 1));
        assert!(!running(&world));
        world.advance_time(Duration::from_millis(1));
        assert!(running(&world), "after {wait} ms");
    }
    let (tm, attempt) = world.running().into_iter().find(|(_, a)| a.task.index == 0).unwrap();
    assert_eq!(attempt.attempt, 4);
    world.fail(&tm, attempt, cause(ErrorKind::Io, "for the last time"));
    let expected = JobFailure::Task { attempt, cause: cause(ErrorKind::Io, "for the last time") };
    assert_eq!(world.state(), JobState::Failed(expected));
}

#[test]
fn the_wait_has_an_end() {
    use crate::job::backoff;
    assert_eq!(backoff(1), Duration::from_millis(100));
    assert_eq!(backoff(6), Duration::from_millis(3200));
    assert_eq!(backoff(7), Duration::from_secs(5));
    assert_eq!(backoff(u32::MAX), Duration::from_secs(5));
}

#[test]
fn bad_data_fails_the_job_at_once_and_the_first_cause_is_kept() {
    let mut world = world(2);
    let running = world.running();
    let (tm, attempt) = running[0].clone();
    let bad = cause(ErrorKind::Data, "cannot cast 'x' to int");
    world.fail(&tm, attempt, bad.clone());
    let failed = JobState::Failed(JobFailure::Task { attempt, cause: bad });
    assert_eq!(world.state(), failed);
    assert_eq!(world.cancels, [running[1].1], "the other one is told to stop");
    world.feed(Event::TaskFailed { attempt: running[1].1, tm, cause: cause(ErrorKind::Data, "another") });
    assert_eq!(world.state(), failed);
    assert!(matches!(world.records.last(), Some(Record::Ended { .. })));
}

#[test]
fn an_attempt_stopped_by_nobody_is_tried_again() {
    let mut world = world(1);
    let (tm, attempt) = world.running()[0].clone();
    world.fail(&tm, attempt, cause(ErrorKind::Cancelled, "shutting down"));
    world.run_calmly();
    assert_eq!(world.state(), JobState::Finished);
}

#[test]
fn lost_taskmanagers_use_up_no_attempts() {
    let mut world = world(1);
    for _ in 0..10 {
        let (tm, _) = world.running()[0].clone();
        world.tm_down(&tm);
        world.tm_up("a", 1);
    }
    assert_eq!(world.running()[0].1.attempt, 11);
    world.run_calmly();
    assert_eq!(world.state(), JobState::Finished);
}

#[test]
fn a_taskmanager_that_takes_no_tasks_is_not_asked_for_ever() {
    let mut world = world(1);
    let mut failures = 0;
    while !world.state().is_terminal() {
        match world.running().first().cloned() {
            Some((tm, attempt)) => {
                failures += 1;
                let lost = FailureCause::TaskManagerLost { task_manager: tm.clone(), detail: "deploy refused".into() };
                world.fail(&tm, attempt, lost);
            }
            None => assert!(world.ring()),
        }
    }
    assert!(matches!(world.state(), JobState::Failed(JobFailure::Task { .. })));
    assert!((17..=34).contains(&failures), "bounded per task: {failures}");
}

#[test]
fn a_partition_that_is_lost_again_and_again_fails_the_job() {
    let mut world = world(2);
    let mut losses = 0;
    while !world.state().is_terminal() {
        for (tm, attempt) in world.stopping() {
            world.stop(&tm, attempt);
        }
        world.run_stage(0);
        let Some((tm, attempt)) = world.running_in(1).first().cloned() else {
            assert!(world.ring());
            continue;
        };
        let key = world.deployed.last().unwrap().inputs[0].exchange;
        let map_attempt = world.stage(0).attempts.iter().rfind(|a| a.attempt.task.index == 1).unwrap().attempt;
        losses += 1;
        let lost = FailureCause::PartitionLost {
            exchange: key,
            map: 1,
            attempt: map_attempt.attempt,
            from: tm.clone(),
            detail: "checksum mismatch".into(),
        };
        world.fail(&tm, attempt, lost);
    }
    assert_eq!(losses, 17);
    let JobState::Failed(JobFailure::Task { cause, .. }) = world.state() else { panic!() };
    assert!(matches!(cause, FailureCause::PartitionLost { map: 1, .. }));
}

#[test]
fn a_lost_partition_of_an_exchange_it_does_not_read_is_nonsense() {
    let mut world = world(1);
    let mut tries = 0;
    while !world.state().is_terminal() {
        let Some((tm, attempt)) = world.running().first().cloned() else {
            assert!(world.ring());
            continue;
        };
        tries += 1;
        let exchange = ExchangeId(77);
        let lost =
            FailureCause::PartitionLost { exchange, map: 0, attempt: 1, from: tm.clone(), detail: String::new() };
        world.fail(&tm, attempt, lost);
    }
    assert!(tries <= 34, "bounded: {tries}");
}
