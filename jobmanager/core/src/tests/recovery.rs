//! A JobManager is lost and another one goes on; a TaskManager loses its link and comes back.

use thalweg_graph::Determinism;
use thalweg_types::{ExchangeId, ExchangeKey, JobId, LeaderEpoch, MapOutputKey, TaskManagerId};

use super::plans::{aggregate, chain};
use super::world::{MEMORY, PATIENCE, World};
use crate::*;

/// A chain of stages with 4 maps each, of which two stages have finished; the TaskManagers it ran on.
fn halfway() -> (World, [TaskManagerId; 2]) {
    let mut world = World::new(&chain(4, Determinism::Deterministic));
    let tms = [world.tm_up("a", 2), world.tm_up("b", 2)];
    world.submit(JobOptions::default());
    world.run_stage(0);
    world.run_stage(1);
    (world, tms)
}

fn bound(world: &World) -> Vec<Record> {
    world.records.iter().filter(|r| matches!(r, Record::Bound { .. })).cloned().collect()
}

fn deployed_stages(world: &World) -> Vec<u32> {
    world.deployed.iter().map(|task| task.attempt.task.stage.0).collect()
}

#[test]
fn nothing_that_finished_runs_again_when_its_output_is_there() {
    let (world, [a, b]) = halfway();
    let before = bound(&world);
    let mut next = world.next_leader();
    assert_eq!(next.core.jobs(), [next.job]);
    next.tm_back(&a);
    assert!(next.deployed.is_empty(), "the other one may have something too");
    next.tm_back(&b);
    next.run_calmly();
    assert_eq!(next.state(), JobState::Finished);
    assert!(deployed_stages(&next).iter().all(|&stage| stage == 2), "{:?}", deployed_stages(&next));
    assert!(next.deployed.iter().all(|task| task.epoch == LeaderEpoch(2)));
    assert_eq!(bound(&next)[..before.len()], before);
    let decision = next.decision("recovery").unwrap();
    assert!(decision.outcome.contains("are finished and do not run again"), "{}", decision.outcome);
    next.feed(Event::ReleaseResult { job: next.job });
    assert!(next.tms.values().all(|tm| tm.outputs.is_empty()));
}

#[test]
fn what_was_on_a_taskmanager_that_is_gone_runs_again_after_a_while() {
    let (world, [a, b]) = halfway();
    let lost = world.stage(1).attempts.iter().filter(|attempt| attempt.tm == b).count();
    assert!(lost > 0 && lost < 4);
    let mut next = world.next_leader();
    next.tms.remove(&b);
    next.tm_back(&a);
    next.advance_time(PATIENCE / 2);
    assert!(next.deployed.is_empty());
    next.advance_time(PATIENCE);
    next.run_calmly();
    assert_eq!(next.state(), JobState::Finished);
    assert_eq!(deployed_stages(&next).iter().filter(|&&stage| stage == 1).count(), lost);
    let retry = next.decision("retry").unwrap();
    assert!(retry.measured.contains("previous-worker.recovery.timeout"), "{}", retry.measured);
}

#[test]
fn a_taskmanager_that_was_started_anew_is_not_waited_for() {
    let (world, [a, _]) = halfway();
    let mut next = world.next_leader();
    next.tm_back(&a);
    next.tm_up("b", 2);
    assert!(!next.deployed.is_empty(), "the wait is over");
    next.run_calmly();
    assert_eq!(next.state(), JobState::Finished);
}

#[test]
fn a_result_that_nobody_has_read_is_there_again() {
    let mut world = World::new(&aggregate(4, 4).build());
    let a = world.tm_up("a", 2);
    world.submit(JobOptions::default());
    world.run_calmly();
    let mut next = world.next_leader();
    assert_eq!(next.state(), JobState::WaitingForSlots);
    next.tm_back(&a);
    assert_eq!(next.state(), JobState::Finished);
    assert_eq!(next.read_result().unwrap().len(), 4);
    assert!(next.deployed.is_empty());
}

#[test]
fn outputs_of_jobs_that_are_not_known_can_go() {
    let (world, [a, _]) = halfway();
    let mut next = world.next_leader();
    let exchange = ExchangeKey { job: JobId(99), exchange: ExchangeId(0) };
    let foreign = MapOutputKey { exchange, map: 0, attempt: 1 };
    let beyond = MapOutputKey { exchange: ExchangeKey { job: next.job, exchange: ExchangeId(77) }, map: 9, attempt: 1 };
    let mut out = Vec::new();
    let held = vec![foreign, beyond];
    next.core.handle(next.now, Event::TaskManagerUp { tm: a.clone(), slots: 2, slot_memory: MEMORY, held }, &mut out);
    assert_eq!(out.last(), Some(&Action::Retain { tm: a, outputs: vec![] }));
}

#[test]
fn a_job_submitted_meanwhile_does_not_wait() {
    let (world, [a, _]) = halfway();
    let mut next = world.next_leader();
    next.tm_back(&a);
    let job = JobId(8);
    let template = aggregate(1, 1).build();
    next.feed(Event::Submit { job, template, options: JobOptions::default() });
    assert_eq!(next.deployed.iter().map(|task| task.attempt.task.job).collect::<Vec<_>>(), [job]);
}

#[test]
fn a_job_can_be_cancelled_while_it_waits() {
    let (world, [a, b]) = halfway();
    let mut next = world.next_leader();
    next.feed(Event::Cancel { job: next.job });
    assert_eq!(next.state(), JobState::Cancelled);
    next.tm_back(&a);
    next.tm_back(&b);
    assert!(next.tms.values().all(|tm| tm.outputs.is_empty()), "nothing is retained");
    assert!(next.deployed.is_empty());
}

#[test]
fn an_ended_job_is_restored_as_ended() {
    let mut world = World::new(&aggregate(1, 1).build());
    world.tm_up("a", 1);
    world.submit(JobOptions::default());
    world.now = Time(PATIENCE);
    world.feed(Event::Cancel { job: world.job });
    let mut core = Core::restore(LeaderEpoch(2), world.records.clone());
    let view = core.job(world.job).unwrap();
    assert_eq!((view.state, view.ended_at), (JobState::Cancelled, Some(Time(PATIENCE))));
    let mut out = Vec::new();
    core.handle(Time(PATIENCE), Event::Restored { patience: PATIENCE }, &mut out);
    core.handle(Time(PATIENCE), world.events[0].clone(), &mut out);
    assert!(out.is_empty());
}

#[test]
fn a_lost_link_costs_what_ran_and_not_what_had_finished() {
    let mut world = World::new(&aggregate(8, 4).build());
    let a = world.tm_up("a", 2);
    world.tm_up("b", 2);
    world.submit(JobOptions::default());
    world.run_stage(0);
    let on_a = world.running().iter().filter(|(tm, _)| *tm == a).count();
    assert!(on_a > 0);
    let deployed = world.deployed.len();
    world.tm_back(&a);
    world.run_calmly();
    assert_eq!(world.state(), JobState::Finished);
    assert_eq!(world.deployed.len() - deployed, on_a);
    assert!(deployed_stages(&world)[deployed..].iter().all(|&stage| stage == 1));
}
