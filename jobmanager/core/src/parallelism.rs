//! How many tasks a stage gets and what each of them reads, decided from what its inputs measured.
//!
//! A pure function: sealed inputs, options and a few facts about the cluster in; ranges and readable decisions out. Policy:
//! - `Single`, a gather input, or nothing but broadcast inputs: one task that reads everything.
//! - hash inputs: bytes per subpartition, summed over all of them, packed greedily into contiguous ranges
//!   ([`packing`](crate::packing)); broadcast inputs do not count.
//! - otherwise (table sources): bytes of the splits over the budget; splits themselves are handed out while tasks run.
//! - a skewed subpartition of a join ([`skew`](crate::skew)) is kept apart and read by several tasks.
//! - then the *memory cut*: a range whose build side would not fit into half a slot's memory is divided further.
//!
//! Guarantees: at least one task; hash ranges tile the subpartitions; each pair of rows of two sides meets once. Does not look at clocks, at
//! other stages or at free slots.

use std::fmt::{self, Write as _};

use thalweg_graph::{ExchangeKind, InputRole, Parallelism, Stage};
use thalweg_types::{ExchangeId, Interval};

use crate::packing::{self, Packed, Rule};
use crate::skew::{self, Bounds, Division, HotInput, Part};
use crate::{Decision, JobOptions, Ownership, Rectangle, TaskRanges, Time};

/// Rows and raw bytes of one map in one subpartition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell {
    pub rows: u64,
    pub bytes: u64,
}

/// What each map of an exchange wrote.
pub trait MapOutputs: fmt::Debug {
    /// `None` if the map did not count.
    fn cell(&self, map: u32, subpartition: u32) -> Option<Cell>;
}

/// A sealed input.
#[derive(Debug, Clone, Copy)]
pub struct MeasuredInput<'a> {
    pub exchange: ExchangeId,
    pub kind: ExchangeKind,
    pub role: InputRole,
    /// Inputs with the same number are alternatives of one side.
    pub type_number: u32,
    /// A subpartition may be divided among tasks that each read all of the other sides.
    pub divisible: bool,
    /// Every task reads all of it.
    pub replicated: bool,
    /// Number of map outputs.
    pub maps: u32,
    /// Per subpartition, summed over maps.
    pub rows: &'a [u64],
    /// Raw bytes per subpartition, summed over maps.
    pub bytes: &'a [u64],
    pub outputs: &'a dyn MapOutputs,
}

impl MeasuredInput<'_> {
    pub fn is_build(&self) -> bool {
        self.role == InputRole::Build
    }

    /// Tasks read ranges of its subpartitions.
    pub fn is_cut(&self) -> bool {
        self.kind.is_hash() && !self.replicated
    }
}

/// What the cluster looks like at the time of the decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClusterFacts {
    /// Slots of all registered TaskManagers.
    pub slots: u32,
    /// Bytes of the smallest slot; 0 when unknown.
    pub smallest_slot_memory: u64,
}

/// The ranges of a stage's tasks, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Binding {
    pub ranges: Vec<TaskRanges>,
    pub decisions: Vec<Decision>,
}

/// Decides once and for all how a stage is cut.
pub fn bind(
    stage: &Stage,
    inputs: &[MeasuredInput<'_>],
    options: &JobOptions,
    cluster: ClusterFacts,
    now: Time,
) -> Binding {
    let decider = Decider { stage, inputs, options, cluster, now };
    let gathers = inputs.iter().any(|i| i.kind == ExchangeKind::Gather);
    let cut = inputs.iter().any(|i| i.is_cut());
    if stage.parallelism == Parallelism::Single || gathers {
        decider.whole("it must be a single task")
    } else if cut {
        decider.by_hash()
    } else if stage.sources.is_empty() {
        decider.whole("every task would read the same rows")
    } else {
        decider.by_splits()
    }
}

/// Wanted number of tasks: bounds of it, and whose wish it is.
struct Wish {
    lo: u32,
    hi: u32,
    whose: String,
}

struct Decider<'a> {
    stage: &'a Stage,
    inputs: &'a [MeasuredInput<'a>],
    options: &'a JobOptions,
    cluster: ClusterFacts,
    now: Time,
}

impl Decider<'_> {
    fn whole(&self, why: &str) -> Binding {
        let all = self.inputs.iter().find(|i| i.is_cut()).map_or(1, |i| i.kind.subpartitions());
        let decision = self.decision("parallelism", self.volumes(), format!("1 task: {why}"));
        Binding { ranges: self.ranges(&[Interval::new(0, all)]), decisions: vec![decision] }
    }

    fn by_hash(&self) -> Binding {
        let sizes = self.sums(|i| i.is_cut());
        let total = total(&sizes);
        let wish = self.wish();
        let budget = self.budget();
        let (packed, division) = self.pack(&sizes, &wish, budget);
        let measured = format!(
            "{}; {} bytes in {} subpartitions against {} bytes per task (execution.batch.adaptive.auto-parallelism.avg-data-volume-per-task), between {} and {} tasks ({})",
            self.volumes(),
            total,
            sizes.len(),
            budget,
            wish.lo,
            wish.hi,
            wish.whose
        );
        let how = match packed.rule {
            Rule::Budget if total == 0 => "all inputs are empty".to_owned(),
            Rule::Budget => "packed up to the budget".to_owned(),
            Rule::Lowered { limit } => format!("budget lowered to {limit} bytes to reach the least number"),
            Rule::Raised { limit } => format!("budget raised to {limit} bytes to stay within the largest number"),
            Rule::EvenByCount => "cut by number of subpartitions: no budget gives an allowed number".to_owned(),
        };
        let number = packed.ranges.len() + division.tasks() - division.hot.len();
        // what is divided has a decision of its own
        let whole: Vec<_> = packed.ranges.iter().filter(|r| !division.hot.contains_key(&r.start)).copied().collect();
        let outcome = format!("{}, {how}; {}", tasks(number), spread(&sizes, &whole));
        let mut decisions = vec![self.decision("parallelism", measured, outcome)];
        decisions.extend(self.skew_decision(&division));
        let (ranges, cut) = self.memory_cut(packed.ranges);
        decisions.extend(cut);
        let ranges = ranges.into_iter().flat_map(|range| match division.hot.get(&range.start) {
            Some(hot) => self.grid(range, hot),
            None => self.ranges(&[range]),
        });
        Binding { ranges: ranges.collect(), decisions }
    }

    /// Ranges of subpartitions, and which of them stand alone because they are divided.
    fn pack(&self, sizes: &[u64], wish: &Wish, budget: u64) -> (Packed, Division) {
        if total(sizes) == 0 && self.is_auto() {
            let everything = vec![Interval::new(0, sizes.len() as u32)];
            return (Packed { ranges: everything, rule: Rule::Budget }, Division::default());
        }
        // a number that is set makes a task's share
        let share = if self.is_auto() { budget } else { (total(sizes) / u64::from(wish.hi)).max(1) };
        let bounds = Bounds { share, room: self.room(), most_tasks: wish.hi as usize };
        let division = skew::divide(self.inputs, &self.options.skew, bounds);
        if !division.hot.is_empty() {
            let more = division.tasks() - division.hot.len();
            let fewest = division.fewest_ranges(sizes.len() as u32);
            let hi = (wish.hi as usize).saturating_sub(more).max(fewest);
            let lo = (wish.lo as usize).saturating_sub(more).clamp(fewest, hi);
            let packed = packing::pack_within(&apart(sizes, &division), budget, lo, hi);
            if division.hot.keys().all(|&at| packed.ranges.contains(&Interval::new(at, at + 1))) {
                return (packed, division);
            }
        }
        (packing::pack_within(sizes, budget, wish.lo as usize, wish.hi as usize), Division::default())
    }

    /// Bytes of a partitioned build side that one task has room for; 0 = unknown, or taken by broadcast build sides.
    fn room(&self) -> u64 {
        (self.cluster.smallest_slot_memory / 2).saturating_sub(self.replicated_build_bytes())
    }

    fn replicated_build_bytes(&self) -> u64 {
        let replicated = self.inputs.iter().filter(|i| i.is_build() && i.replicated);
        replicated.fold(0, |sum: u64, i| sum.saturating_add(total(i.bytes)))
    }

    /// The tasks of a divided subpartition: each part of one side with each part of the other, everything else read by all.
    fn grid(&self, range: Interval<u32>, hot: &[HotInput]) -> Vec<TaskRanges> {
        let whole = |i: &MeasuredInput<'_>| Part { maps: Interval::new(0, i.maps), rows: None, bytes: 0 };
        let parts_of = |at: usize| hot.get(at).map_or(1, |h| h.parts.len());
        let cells = (0..parts_of(0)).flat_map(|a| (0..parts_of(1)).map(move |b| [a, b]));
        let task = |cell: [usize; 2]| {
            let rectangles = |(position, input): (usize, &MeasuredInput<'_>)| {
                if !input.is_cut() {
                    return self.rectangle(input, range);
                }
                let axis = hot.iter().position(|h| h.input == position);
                let part = axis.map_or_else(|| whole(input), |axis| hot[axis].parts[cell[axis]]);
                // a part belongs to the first task along the other axes
                let first = (0..2).all(|other| Some(other) == axis || cell[other] == 0);
                let ownership = if first { Ownership::Own } else { Ownership::Replicate };
                let (maps, rows) = (part.maps, part.rows);
                vec![Rectangle { exchange: input.exchange, maps, subpartitions: range, rows, ownership }]
            };
            TaskRanges { inputs: self.inputs.iter().enumerate().map(rectangles).collect() }
        };
        cells.map(task).collect()
    }

    fn skew_decision(&self, division: &Division) -> Option<Decision> {
        if division.hot.is_empty() {
            return None;
        }
        const SHOWN: usize = 4;
        let mut measured = String::new();
        let (mut largest, mut read_again) = (0, 0u64);
        for (n, (subpartition, hot)) in division.hot.iter().enumerate() {
            for (axis, one) in hot.iter().enumerate() {
                let input = &self.inputs[one.input];
                if n < SHOWN {
                    let side = if input.is_build() { "build side" } else { "probe side" };
                    let _ = write!(
                        measured,
                        "{} ({side}): subpartition {subpartition} has {} bytes, median {}, more than {}; ",
                        input.exchange, one.bytes, one.median, one.limit
                    );
                }
                largest = one.parts.iter().map(|p| p.bytes).max().unwrap_or(0).max(largest);
                let others = hot.iter().enumerate().filter(|(a, _)| *a != axis);
                let times = others.map(|(_, o)| o.parts.len() as u64).product::<u64>() - 1;
                read_again = read_again.saturating_add(one.bytes.saturating_mul(times));
            }
            let tasks = hot.iter().map(|h| h.parts.len() as u64).product::<u64>();
            let whole = (0..).zip(self.inputs).filter(|(i, input)| input.is_cut() && hot.iter().all(|h| h.input != *i));
            for (_, input) in whole {
                let bytes = input.bytes.get(*subpartition as usize).copied().unwrap_or(0);
                read_again = read_again.saturating_add(bytes.saturating_mul(tasks - 1));
            }
        }
        if division.hot.len() > SHOWN {
            let _ = write!(measured, "and {} subpartitions more; ", division.hot.len() - SHOWN);
        }
        let _ = write!(
            measured,
            "hot is more than {} times the median and more than {} bytes (table.optimizer.skewed-join-optimization)",
            self.options.skew.factor, self.options.skew.threshold
        );
        let outcome = format!(
            "{} for {} hot subpartition(s) instead of one each, parts of at most {largest} bytes; {read_again} bytes are read more than once",
            tasks(division.tasks()),
            division.hot.len()
        );
        Some(self.decision("skewed-join", measured, outcome))
    }

    fn by_splits(&self) -> Binding {
        let splits = || self.stage.sources.iter().flat_map(|s| &s.splits);
        let number = splits().count() as u32;
        let budget = self.budget();
        // a split of unknown size counts as one task's share
        let bytes = splits().fold(0u64, |sum, s| sum.saturating_add(if s.bytes == 0 { budget } else { s.bytes }));
        let unknown = splits().filter(|s| s.bytes == 0).count();
        let (count, how) = match self.fixed() {
            Some((n, whose)) => (n, whose),
            None => {
                let by_bytes = bytes.div_ceil(budget);
                let most = self.options.default_source_parallelism.unwrap_or(self.options.max_parallelism);
                let hi = most.min(number).min(self.cluster.slots.max(1)).max(1);
                let lo = self.options.min_parallelism.clamp(1, hi);
                let count = by_bytes.clamp(u64::from(lo), u64::from(hi)) as u32;
                (count, format!("{bytes} bytes over {budget} gives {by_bytes}, kept between {lo} and {hi}"))
            }
        };
        let measured = format!(
            "{number} splits of {bytes} bytes ({unknown} of unknown size), {budget} bytes per task, {} slots registered; at most one task per split and slot",
            self.cluster.slots
        );
        let decision = self.decision("source-parallelism", measured, format!("{}: {how}", tasks(count as usize)));
        // there is no hash input: every task's range is the one subpartition of what it reads
        let ranges = vec![Interval::new(0, 1); count.max(1) as usize];
        Binding { ranges: self.ranges(&ranges), decisions: vec![decision] }
    }

    /// Divides ranges whose build side is too large for a slot.
    fn memory_cut(&self, ranges: Vec<Interval<u32>>) -> (Vec<Interval<u32>>, Option<Decision>) {
        let quota = self.cluster.smallest_slot_memory / 2;
        let replicated = self.replicated_build_bytes();
        let sizes = self.sums(|i| i.is_cut() && i.is_build());
        // cutting cannot make room for a replica that alone is too large
        if quota == 0 || replicated >= quota || total(&sizes) == 0 {
            return (ranges, None);
        }
        let room = quota - replicated;
        let mut cut = Vec::with_capacity(ranges.len());
        for range in &ranges {
            let part = &sizes[range.start as usize..range.end as usize];
            let shift = |r: Interval<u32>| Interval::new(r.start + range.start, r.end + range.start);
            cut.extend(packing::pack(part, room).into_iter().map(shift));
        }
        if cut.len() == ranges.len() {
            return (ranges, None);
        }
        let largest = cut.iter().map(|r| total(&sizes[r.start as usize..r.end as usize])).max().unwrap_or(0);
        let measured = format!(
            "build side of {} ranges: {}; half of the smallest slot's memory is {quota} bytes, {replicated} of them for broadcast build sides",
            ranges.len(),
            spread(&sizes, &ranges)
        );
        let mut outcome =
            format!("{} instead of {}, build side at most {largest} bytes", tasks(cut.len()), ranges.len());
        if largest > room {
            outcome.push_str("; a single subpartition is larger than the quota and stays whole");
        }
        (cut, Some(self.decision("memory-cut", measured, outcome)))
    }

    fn is_auto(&self) -> bool {
        self.fixed().is_none()
    }

    /// A number nobody has to decide, and whose it is.
    fn fixed(&self) -> Option<(u32, String)> {
        match self.stage.parallelism {
            Parallelism::Fixed(n) => Some((n.max(1), "set for this stage".to_owned())),
            Parallelism::Auto if !self.options.auto_parallelism => {
                let n = self.options.default_parallelism.unwrap_or(1).max(1);
                Some((n, "parallelism.default, automatic parallelism is off".to_owned()))
            }
            Parallelism::Auto | Parallelism::Single => None,
        }
    }

    fn wish(&self) -> Wish {
        match self.fixed() {
            Some((n, whose)) => Wish { lo: n, hi: n, whose },
            None => {
                let hi = self.options.max_parallelism.max(1);
                let lo = self.options.min_parallelism.clamp(1, hi);
                Wish { lo, hi, whose: "execution.batch.adaptive.auto-parallelism.{min,max}-parallelism".to_owned() }
            }
        }
    }

    fn budget(&self) -> u64 {
        self.options.avg_data_volume_per_task.max(1)
    }

    /// Bytes per subpartition, summed over the inputs that count. Empty without any.
    fn sums(&self, counts: impl Fn(&MeasuredInput<'_>) -> bool) -> Vec<u64> {
        let mut sums = Vec::new();
        for input in self.inputs.iter().filter(|i| counts(i)) {
            sums.resize(input.kind.subpartitions() as usize, 0u64);
            for (sum, bytes) in sums.iter_mut().zip(input.bytes) {
                *sum = sum.saturating_add(*bytes);
            }
        }
        sums
    }

    /// One task per interval; the intervals apply to hash inputs, every other input is read whole.
    fn ranges(&self, intervals: &[Interval<u32>]) -> Vec<TaskRanges> {
        let task = |&interval: &Interval<u32>| TaskRanges {
            inputs: self.inputs.iter().map(|input| self.rectangle(input, interval)).collect(),
        };
        intervals.iter().map(task).collect()
    }

    fn rectangle(&self, input: &MeasuredInput<'_>, interval: Interval<u32>) -> Vec<Rectangle> {
        let all = Interval::new(0, input.kind.subpartitions());
        let subpartitions = if input.is_cut() { interval } else { all };
        let ownership = if input.replicated { Ownership::Replicate } else { Ownership::Own };
        let maps = Interval::new(0, input.maps);
        vec![Rectangle { exchange: input.exchange, maps, subpartitions, rows: None, ownership }]
    }

    fn volumes(&self) -> String {
        if self.inputs.is_empty() {
            return "no inputs".to_owned();
        }
        let one = |i: &MeasuredInput<'_>| {
            let side = if i.is_build() { ", build side" } else { "" };
            let whole = if i.replicated && i.kind.is_hash() { ", read whole" } else { "" };
            format!(
                "{} ({}{side}{whole}): {} rows, {} bytes from {} maps",
                i.exchange,
                i.kind,
                total(i.rows),
                total(i.bytes),
                i.maps
            )
        };
        self.inputs.iter().map(one).collect::<Vec<_>>().join("; ")
    }

    fn decision(&self, rule: &str, measured: String, outcome: String) -> Decision {
        Decision { at: self.now, stage: self.stage.id, rule: rule.to_owned(), measured, outcome }
    }
}

/// The sizes with every hot subpartition too large to share a range with another one.
fn apart(sizes: &[u64], division: &Division) -> Vec<u64> {
    let wall = total(sizes).saturating_add(1);
    let mut apart = sizes.to_vec();
    for &at in division.hot.keys() {
        apart[at as usize] = wall;
    }
    apart
}

fn total(values: &[u64]) -> u64 {
    values.iter().fold(0, |sum, v| sum.saturating_add(*v))
}

fn tasks(n: usize) -> String {
    if n == 1 { "1 task".to_owned() } else { format!("{n} tasks") }
}

fn spread(sizes: &[u64], ranges: &[Interval<u32>]) -> String {
    let mut bytes: Vec<u64> = ranges.iter().map(|r| total(&sizes[r.start as usize..r.end as usize])).collect();
    bytes.sort_unstable();
    match (bytes.first(), bytes.last()) {
        (Some(min), Some(max)) => format!("bytes per range min {min}, median {}, max {max}", bytes[bytes.len() / 2]),
        _ => "no ranges".to_owned(),
    }
}

#[cfg(test)]
#[path = "parallelism_tests.rs"]
mod tests;
