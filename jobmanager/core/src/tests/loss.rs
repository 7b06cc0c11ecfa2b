//! A TaskManager or an output is lost.

use thalweg_graph::Determinism;
use thalweg_types::{FailureCause, TaskManagerId};

use super::plans::{aggregate, chain};
use super::world::World;
use crate::*;

fn two_by_two(world: &mut World) -> [TaskManagerId; 2] {
    [world.tm_up("a", 2), world.tm_up("b", 2)]
}

fn held_by(world: &World, stage: usize, tm: &TaskManagerId) -> Vec<u32> {
    let views = world.stage(stage).attempts;
    views.iter().filter(|v| v.tm == *tm && v.state == AttemptState::Finished).map(|v| v.attempt.task.index).collect()
}

fn lose(
    world: &mut World,
    (tm, attempt): (TaskManagerId, thalweg_types::AttemptId),
    map: u32,
    map_attempt: u32,
) -> Event {
    let exchange = world.deployed.iter().find(|t| t.attempt == attempt).unwrap().inputs[0].exchange;
    let cause =
        FailureCause::PartitionLost { exchange, map, attempt: map_attempt, from: tm.clone(), detail: "gone".into() };
    world.fail(&tm, attempt, cause.clone());
    Event::TaskFailed { attempt, tm, cause }
}

#[test]
fn a_calm_run_finishes_and_leaves_nothing_behind() {
    let mut world = World::new(&aggregate(8, 4).build());
    two_by_two(&mut world);
    world.submit(JobOptions::default());
    assert_eq!(world.state(), JobState::Running);
    world.run_calmly();
    assert_eq!(world.state(), JobState::Finished);
    assert_eq!(world.read_result().unwrap().len(), 4);
    assert!(world.stage(0).attempts.iter().all(|a| a.attempt.attempt == 1 && a.state == AttemptState::Finished));
    assert!(!world.released.is_empty(), "the first exchange is dropped once it is read");
    world.feed(Event::ReleaseResult { job: world.job });
    assert!(world.tms.values().all(|t| t.outputs.is_empty() && t.placed.is_empty()));
    world.core.forget(world.job);
    assert!(world.core.jobs().is_empty());
}

#[test]
fn a_lost_taskmanager_makes_only_its_own_maps_run_again() {
    let mut world = World::new(&aggregate(8, 4).build());
    let [a, _b] = two_by_two(&mut world);
    world.submit(JobOptions::default());
    world.run_stage(0);
    assert_eq!(world.running_in(1).len(), 4, "reducers have started");
    let held = held_by(&world, 0, &a);
    assert!(!held.is_empty() && held.len() < 8);
    world.tm_down(&a);
    world.run_calmly();
    assert_eq!(world.state(), JobState::Finished);
    for view in world.stage(0).attempts {
        let lost = held.contains(&view.attempt.task.index);
        let expected = if !lost || view.attempt.attempt == 2 { AttemptState::Finished } else { AttemptState::Reset };
        assert_eq!(view.state, expected, "{:?}", view.attempt);
        assert!(view.attempt.attempt <= if lost { 2 } else { 1 });
    }
    assert!(world.decision("retry").unwrap().measured.contains("lost"));
    assert!(world.read_result().is_ok());
}

#[test]
fn a_registration_with_the_same_name_means_the_old_process_is_gone() {
    let mut world = World::new(&aggregate(4, 2).build());
    world.tm_up("a", 2);
    world.submit(JobOptions::default());
    world.run_stage(0);
    world.tm_up("a", 2);
    assert_eq!(world.core.task_managers().len(), 1);
    assert_eq!(world.running_in(0).len(), 2, "its maps run again");
    world.run_calmly();
    assert_eq!(world.state(), JobState::Finished);
}

#[test]
fn a_taskmanager_that_registers_again_has_stopped_what_it_ran() {
    let mut world = World::new(&aggregate(4, 2).build());
    let a = world.tm_up("a", 2);
    world.submit(JobOptions::default());
    world.tm_back(&a);
    let states: Vec<_> =
        world.attempts_of(0).into_iter().map(|(task, attempt, state)| (attempt, task, state)).collect();
    let (failed, deploying) = (AttemptState::Failed, AttemptState::Deploying);
    assert_eq!(states[..2], [(1, 0, failed), (2, 0, deploying)]);
    assert_eq!(world.core.task_managers()[0].free, 0);
}

#[test]
fn a_partition_that_cannot_be_read_runs_again_and_does_not_count_against_its_reader() {
    let mut world = World::new(&aggregate(4, 2).build());
    two_by_two(&mut world);
    world.submit(JobOptions { max_attempts: 1, ..JobOptions::default() });
    world.run_stage(0);
    let readers = world.running_in(1);
    let first_version = world.deployed.last().unwrap().inputs[0].placement;
    let event = lose(&mut world, readers[0].clone(), 2, 1);
    assert_eq!(world.cancels, [readers[1].1], "the other reader was told of the lost attempt too");
    let rerun: Vec<_> = world.running_in(0).into_iter().map(|(_, a)| (a.task.index, a.attempt)).collect();
    assert_eq!(rerun, [(2, 2)]);
    assert_eq!(world.attempts_of(0).iter().filter(|a| a.2 == AttemptState::Reset).count(), 1);
    let records = world.records.len();
    world.feed(event);
    assert_eq!(world.records.len(), records, "the same report again changes nothing");
    world.run_calmly();
    assert_eq!(world.state(), JobState::Finished);
    let specs: Vec<_> = world.deployed.iter().filter(|t| t.attempt.task.stage.0 == 1).collect();
    assert_eq!(specs.len(), 4);
    assert!(specs[2..].iter().all(|t| t.inputs[0].placement > first_version));
    let retry = world.decision("retry").unwrap();
    assert!(retry.measured.contains("partition lost: x0.2#1"), "{}", retry.measured);
}

#[test]
fn a_rerun_reads_the_recorded_splits_in_their_order() {
    let mut world = World::new(&aggregate(2, 1).build());
    world.tm_up("a", 2);
    world.submit(JobOptions::default());
    let running = world.running();
    let (tm, first) = running[0].clone();
    world.ask(&tm, running[1].1);
    world.ask(&tm, first);
    world.run_stage(0);
    let splits = |r: &Record| match r {
        Record::Finished { attempt, splits, .. } if *attempt == first => Some(splits.clone()),
        _ => None,
    };
    let read = world.records.iter().find_map(splits).unwrap();
    let reader = world.running_in(1)[0].clone();
    lose(&mut world, reader, first.task.index, 1);
    let spec = world.deployed.last().unwrap();
    assert_eq!(spec.attempt.attempt, 2);
    assert_eq!(spec.splits, [thalweg_graph::SplitPolicy::Exactly(read[0].clone())]);
}

#[test]
fn reruns_go_before_first_runs() {
    let mut world = World::new(&aggregate(4, 8).build());
    let a = world.tm_up("a", 2);
    world.tm_up("b", 2);
    world.submit(JobOptions::default());
    world.run_stage(0);
    world.tm_down(&a);
    for (tm, attempt) in world.stopping() {
        world.stop(&tm, attempt);
    }
    assert_eq!(world.running_in(0).len(), 2);
    assert!(world.running_in(1).is_empty());
}

#[test]
fn what_nobody_needs_any_more_does_not_run_again() {
    let mut world = World::new(&chain(4, Determinism::Deterministic));
    let [a, _b] = two_by_two(&mut world);
    world.submit(JobOptions::default());
    world.run_stage(0);
    world.run_stage(1);
    let (tm, attempt) = world.running_in(2)[0].clone();
    world.run(&tm, attempt);
    let middle = held_by(&world, 1, &a).len();
    let deployed = world.deployed.len();
    world.tm_down(&a);
    world.run_calmly();
    assert_eq!(world.state(), JobState::Finished);
    let again = |stage| world.deployed[deployed..].iter().filter(|t| t.attempt.task.stage.0 == stage).count();
    assert_eq!(again(1), middle, "lost maps of the middle stage are needed");
    assert_eq!(again(0), 4, "and they need all of the exchange that had been released");
}

#[test]
fn a_random_producer_makes_finished_readers_run_again_too() {
    for determinism in [Determinism::Deterministic, Determinism::OrderFree, Determinism::Random] {
        let mut world = World::new(&aggregate(8, 8).build());
        let mut template = (*world.template).clone();
        template.stages[0].determinism = determinism;
        world.template = std::sync::Arc::new(template);
        let [a, b] = two_by_two(&mut world);
        world.submit(JobOptions::default());
        world.run_stage(0);
        for _ in 0..3 {
            let (tm, attempt) = world.running_in(1).into_iter().find(|(tm, _)| *tm == b).unwrap();
            world.run(&tm, attempt);
        }
        let finished = world.stage(1).progress.finished;
        assert_eq!(finished, 3);
        world.tm_down(&a);
        let kept = world.stage(1).progress.finished;
        let restarted = determinism == Determinism::Random;
        assert_eq!(kept, if restarted { 0 } else { 3 }, "{determinism:?}");
        assert_eq!(world.decision("restart-consumers").is_some(), restarted);
        world.run_calmly();
        assert_eq!(world.state(), JobState::Finished);
    }
}

#[test]
fn a_restart_reaches_everything_computed_from_it() {
    let mut world = World::new(&chain(4, Determinism::Deterministic));
    let mut template = (*world.template).clone();
    template.stages[0].determinism = Determinism::Random;
    world.template = std::sync::Arc::new(template);
    let [a, b] = two_by_two(&mut world);
    world.submit(JobOptions::default());
    world.run_stage(0);
    world.run_stage(1);
    let (tm, attempt) = world.running_in(2).into_iter().find(|(tm, _)| *tm == b).unwrap();
    world.run(&tm, attempt);
    assert_eq!(world.stage(2).progress.finished, 1);
    // the middle stage loses maps; to run them again the random first stage runs again as a whole
    world.tm_down(&a);
    assert_eq!(world.stage(1).progress.finished, 0);
    assert_eq!(world.stage(2).progress.finished, 0, "what was finished came from the first version");
    world.run_calmly();
    assert_eq!(world.state(), JobState::Finished);
}

#[test]
fn a_lost_result_is_made_again_until_it_is_released() {
    let mut world = World::new(&aggregate(4, 4).build());
    let [a, _b] = two_by_two(&mut world);
    world.submit(JobOptions::default());
    world.run_calmly();
    let first = world.result.clone().unwrap();
    world.tm_down(&a);
    assert_eq!(world.state(), JobState::Running);
    world.run_calmly();
    assert_eq!(world.state(), JobState::Finished);
    let second = world.result.clone().unwrap();
    assert!(second.version > first.version);
    assert!(world.read_result().is_ok());

    let at = second.maps[3].clone();
    let lost =
        Event::ResultLost { job: world.job, map: 3, attempt: at.attempt, from: at.task_manager, detail: "gone".into() };
    world.feed(lost.clone());
    assert_eq!(world.state(), JobState::Running);
    world.run_calmly();
    let third = world.result.clone().unwrap();
    assert!(third.version > second.version && third.maps[..3] == second.maps[..3]);
    let records = world.records.len();
    world.feed(lost);
    assert_eq!((world.state(), world.records.len()), (JobState::Finished, records), "an old loss changes nothing");
    world.feed(Event::ReleaseResult { job: world.job });
    assert!(matches!(world.records.last(), Some(Record::Ended { state: JobState::Finished, .. })));
    assert!(world.tms.values().all(|t| t.outputs.is_empty()));
}

#[test]
fn a_reader_that_has_everything_ends_a_job_that_is_making_it_again() {
    let mut world = World::new(&aggregate(4, 4).build());
    let [a, _b] = two_by_two(&mut world);
    world.submit(JobOptions::default());
    world.run_calmly();
    world.tm_down(&a);
    assert_eq!(world.state(), JobState::Running);
    world.feed(Event::ReleaseResult { job: world.job });
    assert_eq!(world.state(), JobState::Finished);
    assert!(world.running().is_empty());
}
