//! Joins whose streamed side waits for the other one.

use std::sync::Arc;
use std::time::Duration;

use thalweg_graph::{ExchangeKind, InputRole, PlanTemplate};
use thalweg_types::StageId;

use super::plans::{HASH8, PlanBuilder};
use super::random::{check_consistent, finish, release};
use super::world::World;
use crate::*;

const SMALL: u64 = 1 << 30;

/// s0 is built, s1 streamed, s2 joins them for the client.
fn join() -> Arc<PlanTemplate> {
    PlanBuilder::default()
        .stage(&[&[5000, 5000]], &[], HASH8)
        .stage(&[&[9000, 9000, 9000, 9000]], &[], HASH8)
        .stage(&[], &[(0, InputRole::Build), (1, InputRole::Probe)], ExchangeKind::Result)
        .divisible()
        .build()
}

/// s4 joins s1 with s3, which joins s0 with s2.
fn chain() -> Arc<PlanTemplate> {
    PlanBuilder::default()
        .stage(&[&[5000]], &[], HASH8)
        .stage(&[&[5000]], &[], HASH8)
        .stage(&[&[90_000, 90_000]], &[], HASH8)
        .stage(&[], &[(0, InputRole::Build), (2, InputRole::Probe)], HASH8)
        .divisible()
        .stage(&[], &[(1, InputRole::Build), (3, InputRole::Probe)], ExchangeKind::Result)
        .divisible()
        .build()
}

fn start(template: &Arc<PlanTemplate>, limit: u64) -> World {
    let mut world = World::new(template);
    world.tm_up("a", 1);
    world.tm_up("b", 1);
    let broadcast = BroadcastOptions { limit };
    world.submit(JobOptions { broadcast, avg_data_volume_per_task: 1000, ..JobOptions::default() });
    world
}

fn parallelism(world: &World) -> Vec<u32> {
    let stages = 0..world.template.stages.len();
    stages.map(|s| world.stage(s).progress.parallelism).collect()
}

fn end(mut world: World) {
    finish(&mut world);
    check_consistent(&world);
    release(&mut world);
}

#[test]
fn a_small_side_is_read_whole_by_tasks_that_scan_the_other() {
    let mut world = start(&join(), SMALL);
    assert_eq!(parallelism(&world), [2, 0, 0], "s1 is held");
    world.run_stage(0);
    assert_eq!(parallelism(&world), [2, 0, 2]);
    let task = world.deployed.last().unwrap().clone();
    assert_eq!((task.attempt.task.stage, task.splits.len(), task.inputs.len()), (StageId(2), 1, 1));
    assert!(task.inputs[0].shared);
    assert_eq!((task.inputs[0].maps.len(), task.inputs[0].subpartitions.len()), (2, 8));
    let decision = world.decision("broadcast-join").unwrap();
    assert!(decision.outcome.contains("x1 is never written"), "{}", decision.outcome);
    assert_eq!(world.stage(1).runs_in, Some(StageId(2)));
    let read: Vec<_> = world.stage(2).inputs.iter().map(|i| (i.producer, i.replicated)).collect();
    assert_eq!(read, [(StageId(0), true)]);
    end(world);
}

#[test]
fn a_chain_of_joins_becomes_one_stage() {
    let mut world = start(&chain(), SMALL);
    assert_eq!(parallelism(&world), [1, 1, 0, 0, 0]);
    world.run_stage(1);
    world.run_stage(0);
    assert_eq!(parallelism(&world), [1, 1, 0, 0, 2]);
    end(world);
}

#[test]
fn a_side_too_large_lets_the_other_start_before_it_is_finished() {
    let mut world = start(&join(), 1000);
    let (tm, attempt) = world.running_in(0)[0].clone();
    world.feed(Event::Progress { attempt, tm, rows: 10, bytes: 1000, busy_nanos: 1 });
    assert!(world.decision("broadcast-join").is_none());
    let (tm, attempt) = world.running_in(0)[1].clone();
    world.feed(Event::Progress { attempt, tm, rows: 1, bytes: 1, busy_nanos: 1 });
    let decision = world.decision("broadcast-join").unwrap();
    assert!(decision.measured.contains("1001 bytes so far"), "{}", decision.measured);
    assert_eq!(parallelism(&world), [2, 2, 0]);
    end(world);
}

#[test]
fn idle_slots_are_not_kept_from_working() {
    let mut world = start(&join(), SMALL);
    world.tm_up("c", 1);
    world.advance_time(Duration::from_millis(499));
    assert_eq!(parallelism(&world), [2, 0, 0]);
    world.advance_time(Duration::from_millis(1));
    assert_eq!(parallelism(&world), [2, 3, 0]);
    assert!(world.decision("broadcast-join").unwrap().measured.contains("nothing else to do"));
    end(world);
}

#[test]
fn busy_slots_may_keep_it_waiting() {
    let mut world = start(&join(), SMALL);
    world.advance_time(Duration::from_secs(60));
    assert_eq!(parallelism(&world), [2, 0, 0]);
    end(world);
}

#[test]
fn a_lost_small_side_is_made_again() {
    let mut world = start(&join(), SMALL);
    world.run_stage(0);
    let (tm, attempt) = world.running_in(2)[0].clone();
    world.run(&tm, attempt);
    let other = world.running_in(2)[0].0.clone();
    world.tm_down(&other);
    assert_eq!(world.running_in(0).len(), 1, "one map of x0 was there");
    end(world);
}

#[test]
fn a_new_leader_keeps_the_join() {
    let template = chain();
    let mut world = start(&template, SMALL);
    world.run_stage(0);
    world.run_stage(1);
    let records = &world.records;
    assert_eq!(records.iter().filter(|r| matches!(r, Record::Fused { .. })).count(), 2);
    let mut next = world.next_leader();
    next.tms.clear();
    next.tm_up("d", 2);
    assert_eq!(next.core.job(next.job).unwrap().decisions.iter().filter(|d| d.rule == "broadcast-join").count(), 2);
    end(next);
}
