//! The rectangle verifier: does a binding read every row once, and does every pair of join rows meet once?
//!
//! Pure check of a decision, independent of how it was taken. Guarantees for a binding that passes:
//! - own rectangles of each hash or gather input tile its exchange (maps × subpartitions × rows) exactly once;
//! - every task reads a replicated input whole;
//! - of hash inputs that are sides of joins (their type numbers differ), each combination of rows, one of each side, of the same
//!   subpartition is read together by exactly one task.
//!
//! Does not judge balance. Row cuts are intervals of positions inside one (map × subpartition) cell; the last cut may end past the
//! cell's last row.
//!
//! Method: the subpartition axis is cut at every bound that occurs; inside one such *strip* each input's maps and row cuts are
//! reduced to *atoms* that no rectangle divides, and readers of atoms (and of combinations of atoms) are counted.

use std::collections::{BTreeMap, BTreeSet};

use thalweg_graph::ExchangeKind;
use thalweg_types::{ExchangeId, Interval};

use crate::{Ownership, Rectangle, TaskRanges};

/// One input of the stage as it was sealed.
pub struct SealedInput<'a> {
    pub exchange: ExchangeId,
    pub kind: ExchangeKind,
    pub type_number: u32,
    /// Every task reads all of it.
    pub replicated: bool,
    /// Number of map outputs.
    pub maps: u32,
    /// Rows of one (map, subpartition) cell; `None` when unknown. Asked only about cells that are cut by rows.
    pub rows: &'a dyn Fn(u32, u32) -> Option<u64>,
}

/// What is wrong with a binding. Always a defect of the decision.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    #[error("a stage needs at least one task")]
    NoTask,
    #[error("task {task} has rectangles for {found} inputs, expected {expected}")]
    Inputs { task: usize, found: usize, expected: usize },
    #[error("task {task} has a rectangle of {found} where input {exchange} stands")]
    Exchange { task: usize, exchange: ExchangeId, found: ExchangeId },
    #[error("task {task}: a rectangle of {exchange} lies outside of it or cuts rows of more than one cell")]
    Outside { task: usize, exchange: ExchangeId },
    #[error("task {task} does not read {exchange} whole, once, as a replica")]
    Replicated { task: usize, exchange: ExchangeId },
    #[error("maps {maps} × subpartitions {subpartitions} of {exchange} have {owners} owners, expected 1")]
    Owners { exchange: ExchangeId, maps: Interval<u32>, subpartitions: Interval<u32>, owners: usize },
    #[error("rows of {} meet {times} times in subpartitions {subpartitions}, expected once", described(.sides))]
    Meetings { sides: Vec<(ExchangeId, Interval<u32>)>, subpartitions: Interval<u32>, times: usize },
}

fn described(sides: &[(ExchangeId, Interval<u32>)]) -> String {
    let side = |(exchange, maps): &(ExchangeId, Interval<u32>)| format!("{exchange} maps {maps}");
    sides.iter().map(side).collect::<Vec<_>>().join(" and ")
}

/// Checks everything the module header promises.
pub fn verify(inputs: &[SealedInput<'_>], tasks: &[TaskRanges]) -> Result<(), Violation> {
    if tasks.is_empty() {
        return Err(Violation::NoTask);
    }
    check_shape(inputs, tasks)?;
    let strips = strips(inputs, tasks);
    let owned: Vec<usize> = (0..inputs.len()).filter(|&i| !inputs[i].replicated).collect();
    for strip in &strips {
        let views: Vec<StripView> = owned.iter().map(|&i| StripView::new(i, &inputs[i], strip)).collect();
        for view in &views {
            view.check_owners(inputs, strip.subpartitions)?;
        }
        check_meetings(inputs, &views, strip.subpartitions)?;
    }
    Ok(())
}

fn check_shape(inputs: &[SealedInput<'_>], tasks: &[TaskRanges]) -> Result<(), Violation> {
    for (task, ranges) in tasks.iter().enumerate() {
        if ranges.inputs.len() != inputs.len() {
            return Err(Violation::Inputs { task, found: ranges.inputs.len(), expected: inputs.len() });
        }
        for (input, rectangles) in inputs.iter().zip(&ranges.inputs) {
            let all = Interval::new(0, input.kind.subpartitions());
            let maps = Interval::new(0, input.maps);
            for r in rectangles {
                if r.exchange != input.exchange {
                    return Err(Violation::Exchange { task, exchange: input.exchange, found: r.exchange });
                }
                let cuts_many = r.rows.is_some() && (r.maps.len() != 1 || r.subpartitions.len() != 1);
                if !maps.covers(&r.maps) || !all.covers(&r.subpartitions) || cuts_many {
                    return Err(Violation::Outside { task, exchange: input.exchange });
                }
            }
            if input.replicated {
                let whole = |r: &Rectangle| {
                    r.maps == maps && r.subpartitions == all && r.rows.is_none() && r.ownership == Ownership::Replicate
                };
                if rectangles.len() != 1 || !rectangles.iter().all(whole) {
                    return Err(Violation::Replicated { task, exchange: input.exchange });
                }
            }
        }
    }
    Ok(())
}

/// A run of subpartitions that no rectangle's bound divides, with all rectangles over it.
struct Strip<'a> {
    subpartitions: Interval<u32>,
    /// Per input: (task, rectangle).
    readers: Vec<Vec<(usize, &'a Rectangle)>>,
}

fn strips<'a>(inputs: &[SealedInput<'_>], tasks: &'a [TaskRanges]) -> Vec<Strip<'a>> {
    let mut bounds = BTreeSet::new();
    for input in inputs.iter().filter(|i| !i.replicated) {
        bounds.extend([0, input.kind.subpartitions()]);
    }
    let rectangles = || {
        tasks.iter().enumerate().flat_map(move |(task, ranges)| {
            ranges.inputs.iter().enumerate().flat_map(move |(input, list)| list.iter().map(move |r| (task, input, r)))
        })
    };
    for (_, input, r) in rectangles() {
        if !inputs[input].replicated && !r.subpartitions.is_empty() && !r.maps.is_empty() {
            bounds.extend([r.subpartitions.start, r.subpartitions.end]);
        }
    }
    let bounds: Vec<u32> = bounds.into_iter().collect();
    let mut strips: Vec<Strip<'_>> = bounds
        .windows(2)
        .map(|w| Strip { subpartitions: Interval::new(w[0], w[1]), readers: vec![Vec::new(); inputs.len()] })
        .collect();
    for (task, input, r) in rectangles() {
        if inputs[input].replicated || r.subpartitions.is_empty() || r.maps.is_empty() {
            continue;
        }
        let first = bounds.partition_point(|&b| b < r.subpartitions.start);
        let end = bounds.partition_point(|&b| b < r.subpartitions.end);
        for strip in &mut strips[first..end] {
            strip.readers[input].push((task, r));
        }
    }
    strips
}

/// A piece of one input inside a strip that no rectangle divides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Atom {
    maps: Interval<u32>,
    rows: Option<Interval<u64>>,
}

impl Atom {
    fn is_in(&self, r: &Rectangle) -> bool {
        let rows_in = match (r.rows, self.rows) {
            (None, _) => true,
            (Some(cut), Some(rows)) => cut.covers(&rows),
            (Some(_), None) => false,
        };
        r.maps.covers(&self.maps) && rows_in
    }
}

/// One input inside one strip: its atoms, and which tasks read and own each of them.
struct StripView {
    input: usize,
    atoms: Vec<Atom>,
    owners: Vec<usize>,
    readers: Vec<BTreeSet<usize>>,
}

impl StripView {
    fn new(input: usize, sealed: &SealedInput<'_>, strip: &Strip<'_>) -> Self {
        // a gather input has one subpartition only: further strips do not exist for it
        let inside = strip.subpartitions.end <= sealed.kind.subpartitions();
        let list = &strip.readers[input];
        let atoms = if inside { atoms(sealed, strip.subpartitions, list) } else { Vec::new() };
        let mut owners = vec![0; atoms.len()];
        let mut readers = vec![BTreeSet::new(); atoms.len()];
        for (a, atom) in atoms.iter().enumerate() {
            for (task, r) in list.iter().filter(|(_, r)| atom.is_in(r)) {
                owners[a] += usize::from(r.ownership == Ownership::Own);
                readers[a].insert(*task);
            }
        }
        Self { input, atoms, owners, readers }
    }

    fn check_owners(&self, inputs: &[SealedInput<'_>], subpartitions: Interval<u32>) -> Result<(), Violation> {
        for (atom, &owners) in self.atoms.iter().zip(&self.owners) {
            if owners != 1 {
                let exchange = inputs[self.input].exchange;
                return Err(Violation::Owners { exchange, maps: atom.maps, subpartitions, owners });
            }
        }
        Ok(())
    }
}

fn atoms(sealed: &SealedInput<'_>, subpartitions: Interval<u32>, list: &[(usize, &Rectangle)]) -> Vec<Atom> {
    let mut bounds = BTreeSet::from([0, sealed.maps]);
    for (_, r) in list {
        bounds.extend([r.maps.start, r.maps.end]);
    }
    let bounds: Vec<u32> = bounds.into_iter().collect();
    let mut atoms = Vec::new();
    for w in bounds.windows(2) {
        let maps = Interval::new(w[0], w[1]);
        let cuts: Vec<Interval<u64>> =
            list.iter().filter(|(_, r)| r.maps == maps).filter_map(|(_, r)| r.rows).collect();
        if cuts.is_empty() {
            atoms.push(Atom { maps, rows: None });
            continue;
        }
        let known = (sealed.rows)(maps.start, subpartitions.start);
        let end = known.unwrap_or_else(|| cuts.iter().map(|c| c.end).max().unwrap_or(0));
        let mut row_bounds = BTreeSet::from([0, end]);
        row_bounds.extend(cuts.iter().flat_map(|c| [c.start.min(end), c.end.min(end)]));
        let row_bounds: Vec<u64> = row_bounds.into_iter().collect();
        atoms.extend(row_bounds.windows(2).map(|w| Atom { maps, rows: Some(Interval::new(w[0], w[1])) }));
    }
    atoms
}

/// One atom of each side, and the tasks that read all of them.
struct Meeting {
    sides: Vec<(ExchangeId, Interval<u32>)>,
    tasks: BTreeSet<usize>,
}

fn check_meetings(
    inputs: &[SealedInput<'_>],
    views: &[StripView],
    subpartitions: Interval<u32>,
) -> Result<(), Violation> {
    let mut by_side: BTreeMap<u32, Vec<Meeting>> = BTreeMap::new();
    for view in views.iter().filter(|v| inputs[v.input].kind.is_hash()) {
        let input = &inputs[view.input];
        let alone = view
            .atoms
            .iter()
            .zip(&view.readers)
            .map(|(atom, readers)| Meeting { sides: vec![(input.exchange, atom.maps)], tasks: readers.clone() });
        by_side.entry(input.type_number).or_default().extend(alone);
    }
    if by_side.len() < 2 {
        return Ok(());
    }
    let meet = |left: &Meeting, right: &Meeting| Meeting {
        sides: [left.sides.as_slice(), &right.sides].concat(),
        tasks: left.tasks.intersection(&right.tasks).copied().collect(),
    };
    let all = by_side
        .into_values()
        .reduce(|met, side| met.iter().flat_map(|l| side.iter().map(move |r| meet(l, r))).collect());
    match all.unwrap_or_default().into_iter().find(|meeting| meeting.tasks.len() != 1) {
        Some(Meeting { sides, tasks }) => Err(Violation::Meetings { sides, subpartitions, times: tasks.len() }),
        None => Ok(()),
    }
}

#[cfg(test)]
#[path = "verifier_tests.rs"]
mod tests;
