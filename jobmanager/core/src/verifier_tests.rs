//! Bindings that must pass, and each way of being wrong.

use super::*;

const HASH4: ExchangeKind = ExchangeKind::Hash { subpartitions: 4 };

fn rect(x: u32, maps: (u32, u32), subs: (u32, u32), ownership: Ownership) -> Rectangle {
    Rectangle {
        exchange: ExchangeId(x),
        maps: Interval::new(maps.0, maps.1),
        subpartitions: Interval::new(subs.0, subs.1),
        rows: None,
        ownership,
    }
}

fn rows(x: u32, map: u32, sub: u32, cut: (u64, u64)) -> Rectangle {
    let whole = rect(x, (map, map + 1), (sub, sub + 1), Ownership::Own);
    Rectangle { rows: Some(Interval::new(cut.0, cut.1)), ..whole }
}

/// One input of 3 maps with 100 rows in each cell; the type number is the exchange's number.
fn input(x: u32, kind: ExchangeKind) -> SealedInput<'static> {
    let replicated = kind == ExchangeKind::Broadcast;
    SealedInput { exchange: ExchangeId(x), kind, type_number: x, replicated, maps: 3, rows: &|_, _| Some(100) }
}

fn one_input(rectangles: Vec<Vec<Rectangle>>) -> Vec<TaskRanges> {
    rectangles.into_iter().map(|list| TaskRanges { inputs: vec![list] }).collect()
}

fn join(tasks: Vec<(Vec<Rectangle>, Vec<Rectangle>)>) -> Vec<TaskRanges> {
    tasks.into_iter().map(|(l, r)| TaskRanges { inputs: vec![l, r] }).collect()
}

use Ownership::{Own, Replicate};

#[test]
fn intervals_over_all_maps_tile() {
    let tasks = one_input(vec![vec![rect(0, (0, 3), (0, 1), Own)], vec![rect(0, (0, 3), (1, 4), Own)]]);
    assert_eq!(verify(&[input(0, HASH4)], &tasks), Ok(()));
}

#[test]
fn a_gap_and_an_overlap_are_found() {
    let gap = one_input(vec![vec![rect(0, (0, 3), (0, 1), Own)], vec![rect(0, (0, 3), (2, 4), Own)]]);
    let found = verify(&[input(0, HASH4)], &gap).unwrap_err();
    assert!(
        matches!(found, Violation::Owners { owners: 0, subpartitions, .. } if subpartitions == Interval::new(1, 2))
    );
    let overlap = one_input(vec![
        vec![rect(0, (0, 3), (0, 2), Own)],
        vec![rect(0, (2, 3), (1, 2), Own), rect(0, (0, 3), (2, 4), Own)],
    ]);
    let found = verify(&[input(0, HASH4)], &overlap).unwrap_err();
    assert!(matches!(found, Violation::Owners { owners: 2, maps, .. } if maps == Interval::new(2, 3)));
}

#[test]
fn cuts_by_maps_tile() {
    let tasks = one_input(vec![vec![rect(0, (0, 2), (0, 4), Own)], vec![rect(0, (2, 3), (0, 4), Own)]]);
    assert_eq!(verify(&[input(0, HASH4)], &tasks), Ok(()));
}

#[test]
fn cuts_by_rows_tile_a_cell_and_may_end_past_it() {
    let rest = vec![rect(0, (1, 3), (0, 1), Own), rect(0, (0, 3), (1, 4), Own)];
    let cut = |a: (u64, u64), b: (u64, u64)| {
        let mut first = rest.clone();
        first.push(rows(0, 0, 0, a));
        one_input(vec![first, vec![rows(0, 0, 0, b)]])
    };
    assert_eq!(verify(&[input(0, HASH4)], &cut((0, 40), (40, 100))), Ok(()));
    assert_eq!(verify(&[input(0, HASH4)], &cut((0, 40), (40, u64::MAX))), Ok(()));
    let gap = verify(&[input(0, HASH4)], &cut((0, 40), (50, 100)));
    assert!(matches!(gap, Err(Violation::Owners { owners: 0, .. })));
    let twice = verify(&[input(0, HASH4)], &cut((0, 40), (30, 100)));
    assert!(matches!(twice, Err(Violation::Owners { owners: 2, .. })));
    let short = verify(&[input(0, HASH4)], &cut((0, 40), (40, 99)));
    assert!(matches!(short, Err(Violation::Owners { owners: 0, .. })));
}

#[test]
fn a_row_cut_over_several_cells_means_nothing() {
    let mut wide = rect(0, (0, 3), (0, 4), Own);
    wide.rows = Some(Interval::new(0, 10));
    let found = verify(&[input(0, HASH4)], &one_input(vec![vec![wide]]));
    assert!(matches!(found, Err(Violation::Outside { .. })));
}

#[test]
fn rectangles_must_lie_inside_their_own_exchange() {
    let outside = one_input(vec![vec![rect(0, (0, 4), (0, 4), Own)]]);
    assert!(matches!(verify(&[input(0, HASH4)], &outside), Err(Violation::Outside { .. })));
    let other = one_input(vec![vec![rect(1, (0, 3), (0, 4), Own)]]);
    assert!(matches!(verify(&[input(0, HASH4)], &other), Err(Violation::Exchange { .. })));
    assert_eq!(verify(&[input(0, HASH4)], &[]), Err(Violation::NoTask));
    assert!(matches!(verify(&[input(0, HASH4)], &one_input(vec![vec![]])), Err(Violation::Owners { owners: 0, .. })));
    assert!(matches!(verify(&[], &one_input(vec![vec![]])), Err(Violation::Inputs { .. })));
}

#[test]
fn every_task_reads_a_broadcast_whole() {
    let inputs = [input(0, HASH4), input(1, ExchangeKind::Broadcast)];
    let whole = || vec![rect(1, (0, 3), (0, 1), Replicate)];
    let good = join(vec![(vec![rect(0, (0, 3), (0, 2), Own)], whole()), (vec![rect(0, (0, 3), (2, 4), Own)], whole())]);
    assert_eq!(verify(&inputs, &good), Ok(()));
    let part = vec![rect(1, (0, 2), (0, 1), Replicate)];
    let bad = join(vec![(vec![rect(0, (0, 3), (0, 2), Own)], whole()), (vec![rect(0, (0, 3), (2, 4), Own)], part)]);
    assert!(matches!(verify(&inputs, &bad), Err(Violation::Replicated { task: 1, .. })));
}

#[test]
fn join_sides_cut_at_different_bounds_miss_pairs() {
    let bad = join(vec![
        (vec![rect(0, (0, 3), (0, 2), Own)], vec![rect(1, (0, 3), (0, 1), Own)]),
        (vec![rect(0, (0, 3), (2, 4), Own)], vec![rect(1, (0, 3), (1, 4), Own)]),
    ]);
    assert!(matches!(verify(&[input(0, HASH4), input(1, HASH4)], &bad), Err(Violation::Meetings { times: 0, .. })));
    // alternatives of one input need not meet
    let union = SealedInput { type_number: 0, ..input(1, HASH4) };
    assert_eq!(verify(&[input(0, HASH4), union], &bad), Ok(()));
}

#[test]
fn a_skew_cut_replicates_the_other_side() {
    let split = |other: Ownership| {
        join(vec![
            (vec![rect(0, (0, 1), (0, 4), Own)], vec![rect(1, (0, 3), (0, 4), Own)]),
            (vec![rect(0, (1, 3), (0, 4), Own)], vec![rect(1, (0, 3), (0, 4), other)]),
        ])
    };
    let inputs = [input(0, HASH4), input(1, HASH4)];
    assert_eq!(verify(&inputs, &split(Replicate)), Ok(()));
    assert!(matches!(verify(&inputs, &split(Own)), Err(Violation::Owners { owners: 2, .. })));
}

#[test]
fn a_skew_cut_by_rows_replicates_the_other_side() {
    let sealed = |x| SealedInput { maps: 1, ..input(x, ExchangeKind::Hash { subpartitions: 1 }) };
    let right = |ownership| vec![rect(1, (0, 1), (0, 1), ownership)];
    let good =
        join(vec![(vec![rows(0, 0, 0, (0, 60))], right(Own)), (vec![rows(0, 0, 0, (60, 100))], right(Replicate))]);
    assert_eq!(verify(&[sealed(0), sealed(1)], &good), Ok(()));
    let lonely = join(vec![(vec![rows(0, 0, 0, (0, 60))], right(Own)), (vec![rows(0, 0, 0, (60, 100))], vec![])]);
    assert!(matches!(verify(&[sealed(0), sealed(1)], &lonely), Err(Violation::Meetings { times: 0, .. })));
}

/// Both sides of one bucket cut: left maps {0} {1}, right maps {0} {1} {2}; cells are listed row by row and runs of them given to tasks.
fn grid_runs(runs: &[&[(u32, u32)]]) -> Vec<TaskRanges> {
    let mut left_owned = BTreeSet::new();
    let mut right_owned = BTreeSet::new();
    let own = |owned: &mut BTreeSet<u32>, x, map| {
        let ownership = if owned.insert(map) { Own } else { Replicate };
        rect(x, (map, map + 1), (0, 1), ownership)
    };
    let mut tasks = Vec::new();
    for run in runs {
        let lefts: BTreeSet<u32> = run.iter().map(|c| c.0).collect();
        let rights: BTreeSet<u32> = run.iter().map(|c| c.1).collect();
        let l = lefts.iter().map(|&m| own(&mut left_owned, 0, m)).collect();
        let r = rights.iter().map(|&m| own(&mut right_owned, 1, m)).collect();
        tasks.push((l, r));
    }
    join(tasks)
}

#[test]
fn a_run_that_is_no_full_rectangle_computes_pairs_twice() {
    let hash = ExchangeKind::Hash { subpartitions: 1 };
    let inputs = [SealedInput { maps: 2, ..input(0, hash) }, input(1, hash)];
    let bad = grid_runs(&[&[(0, 0), (0, 1)], &[(0, 2), (1, 0)], &[(1, 1)], &[(1, 2)]]);
    assert!(matches!(verify(&inputs, &bad), Err(Violation::Meetings { times: 2, .. })));
    let good = grid_runs(&[&[(0, 0), (0, 1)], &[(0, 2)], &[(1, 0), (1, 1), (1, 2)]]);
    assert_eq!(verify(&inputs, &good), Ok(()));
    let whole_rows = grid_runs(&[&[(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]]);
    assert_eq!(verify(&inputs, &whole_rows), Ok(()));
}

#[test]
fn of_three_sides_one_is_cut_and_the_others_are_replicated() {
    let inputs = [input(0, HASH4), input(1, HASH4), input(2, HASH4)];
    let whole = |x, ownership| vec![rect(x, (0, 3), (0, 4), ownership)];
    let task = |cut: (u32, u32), rest| TaskRanges {
        inputs: vec![vec![rect(0, cut, (0, 4), Own)], whole(1, rest), whole(2, rest)],
    };
    assert_eq!(verify(&inputs, &[task((0, 1), Own), task((1, 3), Replicate)]), Ok(()));
    let mut missing = [task((0, 1), Own), task((1, 3), Replicate)];
    missing[1].inputs[2].clear();
    assert!(matches!(verify(&inputs, &missing), Err(Violation::Meetings { times: 0, .. })));
}

#[test]
fn a_thousand_by_a_thousand_is_checked_quickly() {
    let sealed = SealedInput { maps: 1000, ..input(0, ExchangeKind::Hash { subpartitions: 1024 }) };
    let tasks = (0..1024).map(|i| vec![rect(0, (0, 1000), (i, i + 1), Own)]).collect();
    assert_eq!(verify(&[sealed], &one_input(tasks)), Ok(()));
}
