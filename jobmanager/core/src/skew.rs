//! Which subpartitions of a join's sides are skewed, and into what parts they are divided.
//!
//! A side may be divided if every operator between its exchange and the stage's output treats its rows one by one, as long as
//! each of them meets the whole other side ([`divisible`](thalweg_graph::StageInput::divisible), decided by the planner). The
//! parts of a hot subpartition are runs of maps; a map that alone is too large is cut by rows. Two hot sides of one
//! subpartition make a grid: each part of one meets each part of the other in exactly one task.
//!
//! Definition of hot, options and the target of a part are those of Flink's adaptive skewed join optimization; cutting by rows
//! and grids that never compute a pair twice are not.
//!
//! Pure functions of sizes. Guarantees: the parts of a subpartition tile it; at most two inputs of a subpartition are divided.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thalweg_types::Interval;

use crate::parallelism::{MapOutputs, MeasuredInput};

/// `table.optimizer.skewed-join-optimization.*`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SkewOptions {
    pub enabled: bool,
    /// Multiple of the median above which a subpartition is hot; at least 1.
    pub factor: f64,
    /// Bytes that a hot subpartition has more than.
    pub threshold: u64,
}

impl Default for SkewOptions {
    fn default() -> Self {
        Self { enabled: true, factor: 4.0, threshold: 256 << 20 }
    }
}

/// A part of one subpartition of one input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    pub maps: Interval<u32>,
    /// Of the only map in `maps`; the last part of a map has no end, so that it takes what a re-run may have more.
    pub rows: Option<Interval<u64>>,
    pub bytes: u64,
}

/// What was measured about a hot subpartition of one input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HotInput {
    /// Position among the inputs of the stage.
    pub input: usize,
    pub bytes: u64,
    pub median: u64,
    /// Bytes above which it is hot.
    pub limit: u64,
    /// At least two.
    pub parts: Vec<Part>,
}

/// Hot subpartitions and how their inputs are divided: one or two of them each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Division {
    pub hot: BTreeMap<u32, Vec<HotInput>>,
}

impl Division {
    /// Tasks that read hot subpartitions.
    pub fn tasks(&self) -> usize {
        self.hot.values().map(|inputs| tasks_of(inputs)).sum()
    }

    /// Fewest ranges that keep every hot subpartition apart from the others.
    pub fn fewest_ranges(&self, subpartitions: u32) -> usize {
        let mut ranges = self.hot.len();
        let mut next = 0;
        for &at in self.hot.keys() {
            ranges += usize::from(at > next);
            next = at + 1;
        }
        ranges + usize::from(subpartitions > next)
    }
}

fn tasks_of(inputs: &[HotInput]) -> usize {
    inputs.iter().map(|i| i.parts.len()).product()
}

/// What a division must keep to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Bytes that a task should read.
    pub share: u64,
    /// Bytes of a build side that a task has room for.
    pub room: u64,
    /// Tasks of the stage.
    pub most_tasks: usize,
}

/// Divides what is hot. Parts grow until the stage has no more than `bounds.most_tasks` tasks.
pub(crate) fn divide(inputs: &[MeasuredInput<'_>], options: &SkewOptions, bounds: Bounds) -> Division {
    let found = find_hot(inputs, options);
    let Some(subpartitions) = inputs.iter().filter(|i| i.is_cut()).map(|i| i.kind.subpartitions()).max() else {
        return Division::default();
    };
    let mut growth = 1.0;
    loop {
        let division = cut(inputs, &found, bounds, growth);
        let needed = division.tasks() + division.fewest_ranges(subpartitions) - division.hot.len();
        if division.hot.is_empty() || needed <= bounds.most_tasks {
            return division;
        }
        growth *= 1.25; // ends: at some size every part is the whole
    }
}

struct Found {
    subpartition: u32,
    input: usize,
    bytes: u64,
    median: u64,
    limit: u64,
    /// Mean of the input's other subpartitions.
    mean: u64,
}

/// At most two inputs of a subpartition, the largest ones.
fn find_hot(inputs: &[MeasuredInput<'_>], options: &SkewOptions) -> Vec<Found> {
    let hashes = || inputs.iter().filter(|i| i.is_cut());
    let first = hashes().next().map(|i| i.type_number);
    let is_join = hashes().any(|i| Some(i.type_number) != first);
    if !options.enabled || !is_join {
        return Vec::new();
    }
    let mut found: Vec<Found> = Vec::new();
    for (position, input) in inputs.iter().enumerate().filter(|(_, i)| i.is_cut() && i.divisible) {
        let median = median(input.bytes).max(1);
        let limit = ((median as f64 * options.factor) as u64).max(options.threshold);
        let (cold, count) = input
            .bytes
            .iter()
            .filter(|&&b| b <= limit)
            .fold((0u64, 0u64), |(sum, n), b| (sum.saturating_add(*b), n + 1));
        let mean = cold.checked_div(count).unwrap_or(0);
        let hot = (0u32..).zip(input.bytes).filter(|(_, bytes)| **bytes > limit);
        found.extend(hot.map(|(subpartition, &bytes)| Found {
            subpartition,
            input: position,
            bytes,
            median,
            limit,
            mean,
        }));
    }
    found.sort_by_key(|f| (f.subpartition, std::cmp::Reverse(f.bytes), f.input));
    let mut kept: Vec<Found> = Vec::new();
    for candidate in found {
        let before = kept.iter().rev().take_while(|k| k.subpartition == candidate.subpartition).count();
        if before < 2 {
            kept.push(candidate);
        }
    }
    kept
}

fn cut(inputs: &[MeasuredInput<'_>], found: &[Found], bounds: Bounds, growth: f64) -> Division {
    let mut division = Division::default();
    for f in found {
        let input = &inputs[f.input];
        let mut target = bounds.share.max(f.mean).max(1);
        if input.is_build() && bounds.room > 0 {
            target = target.min(bounds.room);
        }
        let target = (target as f64 * growth).min(u64::MAX as f64) as u64;
        let parts = parts(input.outputs, input.maps, f.subpartition, target);
        if parts.len() > 1 {
            let hot = HotInput { input: f.input, bytes: f.bytes, median: f.median, limit: f.limit, parts };
            division.hot.entry(f.subpartition).or_default().push(hot);
        }
    }
    division
}

/// Runs of maps of fewer than `target` bytes, or of one map; a map of at least twice the target is cut by rows. Empty if a map
/// did not count.
fn parts(outputs: &dyn MapOutputs, maps: u32, subpartition: u32, target: u64) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    let mut open: Option<Part> = None;
    for map in 0..maps {
        let Some(cell) = outputs.cell(map, subpartition) else { return Vec::new() };
        let pieces = (cell.bytes / target).min(cell.rows);
        if pieces >= 2 {
            parts.extend(open.take());
            parts.extend((0..pieces).map(|i| {
                let share = |total: u64, at: u64| (u128::from(total) * u128::from(at) / u128::from(pieces)) as u64;
                let end = if i + 1 == pieces { u64::MAX } else { share(cell.rows, i + 1) };
                Part {
                    maps: Interval::new(map, map + 1),
                    rows: Some(Interval::new(share(cell.rows, i), end)),
                    bytes: share(cell.bytes, i + 1) - share(cell.bytes, i),
                }
            }));
            continue;
        }
        match &mut open {
            Some(part) if part.bytes.saturating_add(cell.bytes) < target => {
                part.bytes += cell.bytes;
                part.maps.end = map + 1;
            }
            _ => {
                parts.extend(open.take());
                open = Some(Part { maps: Interval::new(map, map + 1), rows: None, bytes: cell.bytes });
            }
        }
    }
    parts.extend(open);
    parts
}

/// Of an even number, the integer mean of the two in the middle.
fn median(values: &[u64]) -> u64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    match (sorted.len(), sorted.len() / 2) {
        (0, _) => 0,
        (n, middle) if n % 2 == 1 => sorted[middle],
        (_, middle) => sorted[middle - 1] / 2 + sorted[middle] / 2 + (sorted[middle - 1] % 2 + sorted[middle] % 2) / 2,
    }
}

#[cfg(test)]
#[path = "skew_tests.rs"]
mod tests;
