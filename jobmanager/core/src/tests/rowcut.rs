//! Consumers that read only some rows of a cell, bound by hand through a record.

use std::sync::Arc;

use proptest::prelude::*;
use thalweg_graph::{Determinism, ExchangeKind, InputRole, Parallelism, PlanTemplate};
use thalweg_types::{ExchangeId, FailureCause, Interval, StageId};

use super::plans::PlanBuilder;
use super::random::{Dice, Trouble, check_consistent, finish, release, step};
use super::world::World;
use crate::*;

const ONE: ExchangeKind = ExchangeKind::Hash { subpartitions: 1 };

fn template(determinism: Determinism) -> Arc<PlanTemplate> {
    PlanBuilder::default()
        .stage(&[&[1]], &[], ONE)
        .parallelism(Parallelism::Fixed(1))
        .determinism(determinism)
        .stage(&[], &[(0, InputRole::Probe)], ExchangeKind::Result)
        .parallelism(Parallelism::Fixed(3))
        .build()
}

fn cut(rows: (u64, u64)) -> TaskRanges {
    let one = Interval::new(0, 1);
    let rows = Some(Interval::new(rows.0, rows.1));
    let rectangle =
        Rectangle { exchange: ExchangeId(0), maps: one, subpartitions: one, rows, ownership: Ownership::Own };
    TaskRanges { inputs: vec![vec![rectangle]] }
}

/// A job whose one map has finished and whose three consumers share its one cell by rows.
fn world(determinism: Determinism) -> World {
    let template = template(determinism);
    let mut first = World::new(&template);
    first.tm_up("a", 1);
    first.submit(JobOptions::default());
    first.records.push(Record::Bound {
        job: first.job,
        stage: StageId(1),
        ranges: vec![cut((0, 5)), cut((5, 10)), cut((10, u64::MAX))],
        decisions: vec![],
    });
    let mut world = first.next_leader();
    world.tms.clear();
    world.tm_up("a", 1);
    world.tm_up("b", 2);
    world.run_stage(0);
    assert_eq!(world.running_in(1).len(), 3);
    world
}

/// One consumer finishes, another one cannot read the map.
fn finish_one_lose_one(world: &mut World) {
    let (tm, attempt) = world.running_in(1)[0].clone();
    world.run(&tm, attempt);
    assert_eq!(world.stage(1).progress.finished, 1);
    let (tm, attempt) = world.running_in(1)[0].clone();
    let cause = FailureCause::PartitionLost {
        exchange: ExchangeId(0),
        map: 0,
        attempt: 1,
        from: tm.clone(),
        detail: "gone".into(),
    };
    world.fail(&tm, attempt, cause);
}

#[test]
fn rows_of_a_cell_are_shared_without_a_rest() {
    let mut world = world(Determinism::OrderFree);
    world.run_calmly();
    assert_eq!(world.state(), JobState::Finished);
}

#[test]
fn an_order_free_rerun_restarts_all_who_cut_by_rows() {
    let mut world = world(Determinism::OrderFree);
    finish_one_lose_one(&mut world);
    assert_eq!(world.stage(1).progress.finished, 0, "its rows may be other ones in the new order");
    let decision = world.decision("restart-consumers").unwrap();
    assert!(decision.measured.contains("row ranges"), "{}", decision.measured);
    world.run_calmly();
    assert_eq!(world.state(), JobState::Finished);
    assert_eq!(world.attempts_of(1).iter().filter(|a| a.2 == AttemptState::Finished).count(), 3);
}

#[test]
fn a_deterministic_rerun_restarts_nobody_who_finished() {
    let mut world = world(Determinism::Deterministic);
    finish_one_lose_one(&mut world);
    assert_eq!(world.stage(1).progress.finished, 1);
    world.run_calmly();
    assert_eq!(world.state(), JobState::Finished);
    assert_eq!(world.attempts_of(0), [(0, 1, AttemptState::Reset), (0, 2, AttemptState::Finished)]);
}

#[test]
fn a_random_rerun_restarts_all() {
    let mut world = world(Determinism::Random);
    finish_one_lose_one(&mut world);
    assert_eq!(world.stage(1).progress.finished, 0);
    world.run_calmly();
    assert_eq!(world.state(), JobState::Finished);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_trouble_never_mixes_orders(seed in any::<u64>()) {
        let mut dice = Dice(seed);
        let kinds = [Determinism::Deterministic, Determinism::OrderFree, Determinism::Random];
        let mut world = world(kinds[dice.below(3)]);
        let mut trouble = Trouble { downs: dice.below(4), failures: dice.below(3), vanishing: dice.below(4) };
        for _ in 0..dice.below(150) {
            step(&mut world, &mut dice, &mut trouble);
        }
        finish(&mut world);
        check_consistent(&world);
        release(&mut world);
    }
}
