//! One case per rule, and random inputs against the verifier.

use std::sync::Arc;

use proptest::prelude::*;
use thalweg_graph::{Determinism, Source, Split, StageInput};
use thalweg_types::StageId;

use super::*;
use crate::verifier::{SealedInput, verify};

fn stage(parallelism: Parallelism, splits: &[u64]) -> Stage {
    let split = |&bytes: &u64| Split { bytes, payload: Arc::from([]) };
    let sources = match splits {
        [] => Vec::new(),
        _ => vec![Source { name: "t".to_owned(), splits: splits.iter().map(split).collect() }],
    };
    Stage {
        id: StageId(3),
        name: "test".to_owned(),
        parts: vec![],
        sources,
        inputs: Vec::<StageInput>::new(),
        output: ExchangeId(3),
        parallelism,
        determinism: Determinism::Deterministic,
        fused_into: None,
    }
}

/// Maps that did not count.
#[derive(Debug)]
struct Uncounted;

impl MapOutputs for Uncounted {
    fn cell(&self, _: u32, _: u32) -> Option<Cell> {
        None
    }
}

fn hash<'a>(x: u32, role: InputRole, bytes: &'a [u64]) -> MeasuredInput<'a> {
    let kind = ExchangeKind::Hash { subpartitions: bytes.len() as u32 };
    MeasuredInput {
        exchange: ExchangeId(x),
        kind,
        role,
        type_number: x,
        divisible: false,
        replicated: false,
        maps: 2,
        rows: bytes,
        bytes,
        outputs: &Uncounted,
    }
}

fn whole<'a>(x: u32, kind: ExchangeKind, bytes: &'a [u64]) -> MeasuredInput<'a> {
    MeasuredInput { kind, replicated: kind == ExchangeKind::Broadcast, ..hash(x, InputRole::Build, bytes) }
}

fn options(volume: u64) -> JobOptions {
    JobOptions { avg_data_volume_per_task: volume, ..JobOptions::default() }
}

const CLUSTER: ClusterFacts = ClusterFacts { slots: 4, smallest_slot_memory: 1 << 40 };

fn decide(stage: &Stage, inputs: &[MeasuredInput<'_>], options: &JobOptions, cluster: ClusterFacts) -> Binding {
    bind(stage, inputs, options, cluster, Time::default())
}

fn cuts(binding: &Binding, input: usize) -> Vec<(u32, u32)> {
    binding
        .ranges
        .iter()
        .map(|r| (r.inputs[input][0].subpartitions.start, r.inputs[input][0].subpartitions.end))
        .collect()
}

const SIZES: [u64; 6] = [10, 20, 30, 40, 50, 60];

#[test]
fn hash_ranges_are_packed_by_bytes() {
    let input = hash(0, InputRole::Probe, &SIZES);
    let auto = stage(Parallelism::Auto, &[]);
    assert_eq!(cuts(&decide(&auto, &[input], &options(100), CLUSTER), 0), [(0, 4), (4, 5), (5, 6)]);
    let at_least = JobOptions { min_parallelism: 4, ..options(100) };
    assert_eq!(cuts(&decide(&auto, &[input], &at_least, CLUSTER), 0), [(0, 3), (3, 4), (4, 5), (5, 6)]);
    let at_most = JobOptions { max_parallelism: 2, ..options(100) };
    let binding = decide(&auto, &[input], &at_most, CLUSTER);
    assert_eq!(cuts(&binding, 0), [(0, 4), (4, 6)]);
    let decision = &binding.decisions[0];
    assert_eq!((decision.rule.as_str(), decision.stage), ("parallelism", StageId(3)));
    assert!(
        decision.measured.contains("210 bytes in 6 subpartitions against 100 bytes per task"),
        "{}",
        decision.measured
    );
    assert!(
        decision.outcome.contains("raised to 110 bytes") && decision.outcome.contains("min 100"),
        "{}",
        decision.outcome
    );
}

#[test]
fn both_sides_of_a_join_count_and_are_cut_alike() {
    let left = hash(0, InputRole::Build, &[10, 0, 0, 10]);
    let right = hash(1, InputRole::Probe, &[0, 10, 10, 0]);
    let binding = decide(&stage(Parallelism::Auto, &[]), &[left, right], &options(20), CLUSTER);
    assert_eq!(cuts(&binding, 0), [(0, 2), (2, 4)]);
    assert_eq!(cuts(&binding, 0), cuts(&binding, 1));
}

#[test]
fn a_set_number_is_balanced_by_bytes_and_never_exceeds_the_subpartitions() {
    let input = hash(0, InputRole::Probe, &[100, 1, 1, 1]);
    let binding = decide(&stage(Parallelism::Fixed(2), &[]), &[input], &options(1 << 30), CLUSTER);
    assert_eq!(cuts(&binding, 0), [(0, 1), (1, 4)]);
    let binding = decide(&stage(Parallelism::Fixed(100), &[]), &[input], &options(1 << 30), CLUSTER);
    assert_eq!(binding.ranges.len(), 4);
    let empty = hash(0, InputRole::Probe, &[0; 4]);
    let binding = decide(&stage(Parallelism::Fixed(2), &[]), &[empty], &options(1 << 30), CLUSTER);
    assert_eq!(cuts(&binding, 0), [(0, 2), (2, 4)]);
}

#[test]
fn empty_inputs_still_get_one_task() {
    let empty = hash(0, InputRole::Probe, &[0; 4]);
    let at_least = JobOptions { min_parallelism: 3, ..options(100) };
    let binding = decide(&stage(Parallelism::Auto, &[]), &[empty], &at_least, CLUSTER);
    assert_eq!(cuts(&binding, 0), [(0, 4)]);
}

#[test]
fn without_automatic_parallelism_the_default_counts() {
    let input = hash(0, InputRole::Probe, &SIZES);
    let off = JobOptions { auto_parallelism: false, default_parallelism: Some(3), ..options(1) };
    assert_eq!(decide(&stage(Parallelism::Auto, &[]), &[input], &off, CLUSTER).ranges.len(), 3);
    assert_eq!(decide(&stage(Parallelism::Auto, &[1; 9]), &[], &off, CLUSTER).ranges.len(), 3);
    assert_eq!(decide(&stage(Parallelism::Single, &[]), &[input], &off, CLUSTER).ranges.len(), 1);
    let unset = JobOptions { default_parallelism: None, ..off };
    assert_eq!(decide(&stage(Parallelism::Auto, &[]), &[input], &unset, CLUSTER).ranges.len(), 1);
}

#[test]
fn single_gather_and_broadcast_only_stages_are_one_task_that_reads_all() {
    let input = hash(0, InputRole::Probe, &SIZES);
    let binding = decide(&stage(Parallelism::Single, &[]), &[input], &options(1), CLUSTER);
    assert_eq!(cuts(&binding, 0), [(0, 6)]);
    let gather = whole(0, ExchangeKind::Gather, &[999]);
    assert_eq!(decide(&stage(Parallelism::Single, &[]), &[gather], &options(1), CLUSTER).ranges.len(), 1);
    let broadcast = whole(0, ExchangeKind::Broadcast, &[999]);
    let binding = decide(&stage(Parallelism::Fixed(5), &[]), &[broadcast], &options(1), CLUSTER);
    assert_eq!(binding.ranges.len(), 1, "five tasks would give every row five times");
    assert_eq!(binding.ranges[0].inputs[0][0].ownership, Ownership::Replicate);
}

#[test]
fn sources_get_a_task_per_budget_within_splits_and_slots() {
    let auto = |splits: &[u64], options: &JobOptions, cluster| {
        decide(&stage(Parallelism::Auto, splits), &[], options, cluster).ranges.len()
    };
    assert_eq!(auto(&[100; 10], &options(500), CLUSTER), 2);
    assert_eq!(auto(&[100; 10], &options(1), CLUSTER), 4, "as many as there are slots");
    assert_eq!(auto(&[100; 3], &options(1), CLUSTER), 3, "as many as there are splits");
    let no_slots = ClusterFacts { slots: 0, smallest_slot_memory: 0 };
    assert_eq!(auto(&[100; 3], &options(1), no_slots), 1);
    let source_limit = JobOptions { default_source_parallelism: Some(2), ..options(1) };
    assert_eq!(auto(&[100; 10], &source_limit, CLUSTER), 2);
    let at_least = JobOptions { min_parallelism: 3, ..options(1 << 30) };
    assert_eq!(auto(&[100; 10], &at_least, CLUSTER), 3);
    assert_eq!(auto(&[0; 10], &options(100), CLUSTER), 4, "a split of unknown size is a task's share");
    assert_eq!(decide(&stage(Parallelism::Fixed(7), &[1]), &[], &options(1), CLUSTER).ranges.len(), 7);
    let mut none = stage(Parallelism::Auto, &[1]);
    none.sources[0].splits.clear();
    assert_eq!(decide(&none, &[], &options(1), CLUSTER).ranges.len(), 1, "no split at all is one task");
}

#[test]
fn a_broadcast_beside_a_source_does_not_count() {
    let broadcast = whole(0, ExchangeKind::Broadcast, &[1 << 40]);
    let binding = decide(&stage(Parallelism::Auto, &[10, 10]), &[broadcast], &options(10), CLUSTER);
    assert_eq!(binding.ranges.len(), 2);
    assert!(binding.ranges.iter().all(|r| r.inputs[0][0].ownership == Ownership::Replicate));
}

#[test]
fn build_sides_too_large_for_a_slot_are_cut_even_beyond_the_maximum() {
    let build = hash(0, InputRole::Build, &[40, 40, 40, 40]);
    let probe = hash(1, InputRole::Probe, &[1000, 0, 0, 0]);
    let one = JobOptions { max_parallelism: 1, ..options(1 << 30) };
    let cluster = ClusterFacts { slots: 4, smallest_slot_memory: 200 };
    let binding = decide(&stage(Parallelism::Auto, &[]), &[build, probe], &one, cluster);
    assert_eq!(cuts(&binding, 0), [(0, 2), (2, 4)], "half of 200 holds two subpartitions");
    assert_eq!(binding.decisions[1].rule, "memory-cut");
    assert!(binding.decisions[1].outcome.contains("2 tasks instead of 1"), "{}", binding.decisions[1].outcome);

    let replica = MeasuredInput { exchange: ExchangeId(2), ..whole(2, ExchangeKind::Broadcast, &[60]) };
    let binding = decide(&stage(Parallelism::Auto, &[]), &[build, probe, replica], &one, cluster);
    assert_eq!(binding.ranges.len(), 4, "a broadcast build side takes its part of the room");

    let huge = MeasuredInput { exchange: ExchangeId(2), ..whole(2, ExchangeKind::Broadcast, &[600]) };
    let binding = decide(&stage(Parallelism::Auto, &[]), &[build, probe, huge], &one, cluster);
    assert_eq!(binding.ranges.len(), 1, "no cut makes room for a replica that alone is too large");
}

#[test]
fn one_subpartition_too_large_stays_whole() {
    let build = hash(0, InputRole::Build, &[10, 500, 10]);
    let cluster = ClusterFacts { slots: 4, smallest_slot_memory: 200 };
    let binding = decide(&stage(Parallelism::Auto, &[]), &[build], &options(1 << 30), cluster);
    assert_eq!(cuts(&binding, 0), [(0, 1), (1, 2), (2, 3)]);
    assert!(binding.decisions[1].outcome.contains("stays whole"));
}

proptest! {
    #[test]
    fn every_binding_passes_the_verifier(
        left in proptest::collection::vec(0u64..100, 16),
        right in proptest::collection::vec(0u64..100, 16),
        volume in 1u64..2000, lo in 1u32..8, extra in 0u32..8, memory in 0u64..600, wish in 0u32..20, broadcast in any::<bool>(),
    ) {
        let parallelism = match wish { 0 => Parallelism::Single, 1..=9 => Parallelism::Fixed(wish), _ => Parallelism::Auto };
        let options = JobOptions { min_parallelism: lo, max_parallelism: lo + extra, ..options(volume) };
        let mut inputs = vec![hash(0, InputRole::Build, &left), hash(1, InputRole::Probe, &right)];
        let replica = [50];
        if broadcast {
            inputs.push(whole(2, ExchangeKind::Broadcast, &replica));
        }
        let cluster = ClusterFacts { slots: 3, smallest_slot_memory: memory };
        let binding = decide(&stage(parallelism, &[]), &inputs, &options, cluster);
        let sealed: Vec<SealedInput<'_>> = inputs.iter().map(|i| SealedInput {
            exchange: i.exchange, kind: i.kind, type_number: i.exchange.0, replicated: i.replicated, maps: i.maps, rows: &|_, _| None,
        }).collect();
        prop_assert_eq!(verify(&sealed, &binding.ranges), Ok(()));
        if memory == 0 && parallelism == Parallelism::Auto && left.iter().chain(&right).any(|&b| b > 0) {
            prop_assert!((lo..=lo + extra).contains(&(binding.ranges.len() as u32)));
        }
    }
}

/// Bytes per map and subpartition; a row has ten bytes.
#[derive(Debug)]
struct Matrix(Vec<Vec<u64>>);

impl MapOutputs for Matrix {
    fn cell(&self, map: u32, subpartition: u32) -> Option<Cell> {
        let bytes = self.0[map as usize][subpartition as usize];
        Some(Cell { rows: bytes / 10, bytes })
    }
}

impl Matrix {
    fn sums(&self) -> Vec<u64> {
        (0..self.0[0].len()).map(|s| self.0.iter().map(|map| map[s]).sum()).collect()
    }

    fn side<'a>(&'a self, x: u32, role: InputRole, bytes: &'a [u64]) -> MeasuredInput<'a> {
        MeasuredInput { divisible: true, maps: self.0.len() as u32, outputs: self, ..hash(x, role, bytes) }
    }
}

fn verified(inputs: &[MeasuredInput<'_>], binding: &Binding) -> Result<(), crate::verifier::Violation> {
    let rows: Vec<_> = inputs.iter().map(|i| move |map, sub| i.outputs.cell(map, sub).map(|c| c.rows)).collect();
    let sealed: Vec<SealedInput<'_>> = inputs
        .iter()
        .zip(&rows)
        .map(|(i, rows)| SealedInput {
            exchange: i.exchange,
            kind: i.kind,
            type_number: i.type_number,
            replicated: i.replicated,
            maps: i.maps,
            rows,
        })
        .collect();
    verify(&sealed, &binding.ranges)
}

fn skewed(volume: u64, factor: f64, threshold: u64) -> JobOptions {
    JobOptions { skew: crate::SkewOptions { enabled: true, factor, threshold }, ..options(volume) }
}

#[test]
fn a_hot_subpartition_gets_tasks_of_its_own() {
    let probe = Matrix(vec![vec![20, 20, 300, 20]; 4]);
    let build = Matrix(vec![vec![30, 30, 30, 30]]);
    let (p, b) = (probe.sums(), build.sums());
    let inputs = [build.side(0, InputRole::Build, &b), probe.side(1, InputRole::Probe, &p)];
    let binding = decide(&stage(Parallelism::Auto, &[]), &inputs, &skewed(300, 4.0, 100), CLUSTER);
    assert_eq!(verified(&inputs, &binding), Ok(()));
    let hot: Vec<_> = binding.ranges.iter().filter(|r| r.inputs[1][0].subpartitions == Interval::new(2, 3)).collect();
    assert_eq!(hot.len(), 4, "{binding:?}");
    assert!(hot.iter().all(|r| r.inputs[0][0].maps == Interval::new(0, 1)), "the build side is read whole by each");
    let decision = binding.decisions.iter().find(|d| d.rule == "skewed-join").unwrap();
    assert!(
        decision.measured.contains("subpartition 2 has 1200 bytes, median 80, more than 320"),
        "{}",
        decision.measured
    );
    assert!(decision.outcome.contains("4 tasks for 1 hot"), "{}", decision.outcome);
    assert!(decision.outcome.contains("90 bytes are read more than once"), "{}", decision.outcome);

    let off = JobOptions { skew: crate::SkewOptions { enabled: false, ..skewed(300, 4.0, 100).skew }, ..options(300) };
    assert_eq!(decide(&stage(Parallelism::Auto, &[]), &inputs, &off, CLUSTER).decisions.len(), 1);
}

#[test]
fn a_number_that_is_set_is_kept_and_the_hot_subpartition_gets_most_of_it() {
    let probe = Matrix(vec![vec![20, 20, 300, 20]; 4]);
    let build = Matrix(vec![vec![30, 30, 30, 30]]);
    let (p, b) = (probe.sums(), build.sums());
    let inputs = [build.side(0, InputRole::Build, &b), probe.side(1, InputRole::Probe, &p)];
    let binding = decide(&stage(Parallelism::Fixed(6), &[]), &inputs, &skewed(300, 4.0, 100), CLUSTER);
    assert_eq!(verified(&inputs, &binding), Ok(()));
    assert_eq!(binding.ranges.len(), 6);
    assert!(binding.decisions.iter().any(|d| d.rule == "skewed-join"), "{binding:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn every_skewed_binding_passes_the_verifier(
        left in proptest::collection::vec(proptest::collection::vec(0u64..200, 6), 1..6),
        right in proptest::collection::vec(proptest::collection::vec(0u64..200, 6), 1..6),
        third in proptest::option::of(proptest::collection::vec(proptest::collection::vec(0u64..200, 6), 1..4)),
        hot in proptest::collection::vec((0usize..3, 0usize..6, 0usize..6, 500u64..20_000), 0..4),
        divisible in proptest::array::uniform3(any::<bool>()),
        volume in 1u64..3000, hi in 1u32..40, memory in 0u64..6000, fixed in 0u32..30, factor in 1.0f64..5.0,
    ) {
        let mut sides = vec![Matrix(left), Matrix(right)];
        sides.extend(third.map(Matrix));
        for (side, map, subpartition, bytes) in hot {
            let side = side % sides.len();
            let maps = sides[side].0.len();
            sides[side].0[map % maps][subpartition] += bytes;
        }
        let sums: Vec<_> = sides.iter().map(Matrix::sums).collect();
        let roles = [InputRole::Build, InputRole::Probe, InputRole::Build];
        let inputs: Vec<_> = (0..sides.len())
            .map(|i| MeasuredInput { divisible: divisible[i], ..sides[i].side(i as u32, roles[i], &sums[i]) })
            .collect();
        let parallelism = if fixed == 0 { Parallelism::Auto } else { Parallelism::Fixed(fixed) };
        let options = JobOptions { max_parallelism: hi, ..skewed(volume, factor, 300) };
        let cluster = ClusterFacts { slots: 3, smallest_slot_memory: memory };
        let binding = decide(&stage(parallelism, &[]), &inputs, &options, cluster);
        prop_assert_eq!(verified(&inputs, &binding), Ok(()));
        if memory == 0 {
            let most = if fixed == 0 { hi } else { fixed };
            prop_assert!(binding.ranges.len() <= most as usize, "{} tasks of {}", binding.ranges.len(), most);
        }
    }
}
