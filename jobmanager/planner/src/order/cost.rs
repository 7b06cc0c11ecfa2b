//! What an order of joins is expected to cost, in rows that an operator touches.
//!
//! A row is put into a hash table for twice the price of looking one up. A side that fits the broadcast limit is sent to every
//! task, the other side then runs on in the task that has it; without that, both sides are written, sent and read, [`MOVED_BYTES`]
//! for the price of a row, but for one that lies in the right partitions already.

use std::sync::Arc;

use datafusion::common::{JoinType, NullEquality};
use datafusion::error::Result;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Filter, Join, JoinConstraint, LogicalPlan};

use super::graph::{Graph, Set};
use super::region::Tree;

/// Per row of a hash table's input.
const BUILD: f64 = 2.0;
const PROBE: f64 = 1.0;
/// A probe that is one of several in a pipeline.
const PIPELINED_PROBE: f64 = 0.5;
/// Bytes that pass an exchange for the price of a row.
const MOVED_BYTES: f64 = 64.0;
/// Costs stay finite and comparable.
const MOST_ROWS: f64 = 1e100;

#[derive(Debug, Clone)]
pub(super) struct Costed {
    pub(super) set: Set,
    pub(super) tree: Tree,
    pub(super) rows: f64,
    pub(super) cost: f64,
    /// Bytes of a row.
    width: f64,
    /// The classes by whose members the rows are partitioned.
    partitioned: Option<u64>,
}

impl Costed {
    /// Whether nothing that could be put on top would be cheaper over `other`.
    pub(super) fn makes_useless(&self, other: &Costed) -> bool {
        self.cost <= other.cost && (other.partitioned.is_none() || other.partitioned == self.partitioned)
    }

    fn bytes(&self) -> f64 {
        self.rows * self.width
    }

    /// Of two sides the one that is less is put into the hash table.
    fn size(&self) -> (f64, f64, Option<u64>) {
        (self.bytes(), self.rows, self.partitioned)
    }
}

pub(super) struct CostModel<'a> {
    graph: &'a Graph,
    broadcast_bytes: f64,
}

impl<'a> CostModel<'a> {
    pub(super) fn new(graph: &'a Graph, broadcast_bytes: u64) -> Self {
        CostModel { graph, broadcast_bytes: broadcast_bytes as f64 }
    }

    pub(super) fn relation(&self, at: usize) -> Costed {
        let set = 1 << at;
        let estimate = &self.graph.relations[at].estimate;
        let rows = self.rows(set);
        Costed { set, tree: Tree::Relation(at), rows, cost: 0.0, width: estimate.width(), partitioned: None }
    }

    /// The rows that a set of relations gives, whatever the order of its joins: the product of their rows over the domains of what
    /// they are joined by. Several classes that two relations have in common are one composite key, with no more values than
    /// either has rows.
    fn rows(&self, set: Set) -> f64 {
        let relations = &self.graph.relations;
        let (mut rows, mut joined) = (1.0f64, vec![]);
        for at in self.graph.members(set) {
            let relation = &relations[at];
            if let Some(reduction) = &relation.reduction {
                rows *= if set == 1 << at { relation.estimate.rows } else { reduction.keeps };
                continue;
            }
            rows *= relation.estimate.rows;
            let held = |other: usize, class: usize| self.graph.classes[class].members.iter().any(|(r, _)| *r == other);
            let shared: Vec<usize> =
                self.graph.classes_of(at).filter(|&class| joined.iter().any(|&other| held(other, class))).collect();
            let mut domain: f64 = shared.iter().map(|&class| self.domain(class, at, &joined)).product();
            if shared.len() > 1 {
                let holders = joined.iter().filter(|&&other| shared.iter().all(|&class| held(other, class)));
                for &other in holders {
                    let most = relations[other].estimate.unfiltered.min(relation.estimate.unfiltered);
                    domain = domain.min(most);
                }
            }
            rows /= domain.max(1.0);
            joined.push(at);
        }
        (rows * self.graph.selectivity(set)).clamp(1.0, MOST_ROWS)
    }

    /// Values that a relation's member of a class can meet in those that are joined. Of bounds, the largest of a class does not
    /// count, in whatever order its members are joined.
    fn domain(&self, class: usize, at: usize, joined: &[usize]) -> f64 {
        let class = &self.graph.classes[class];
        let of = |relations: &[usize]| {
            let members = class.members.iter().zip(&class.distinct).filter(|((r, _), _)| relations.contains(r));
            members.map(|(_, &distinct)| distinct).fold(1.0, f64::max)
        };
        of(&[at]).min(of(joined))
    }

    /// Whether some relation outside of the set may be joined on these classes.
    fn used_later(&self, set: Set, classes: u64) -> bool {
        let others = self.graph.members(self.graph.all() & !set);
        others.into_iter().any(|at| match &self.graph.relations[at].reduction {
            Some(reduction) => reduction.classes == Some(classes),
            None => {
                let own = self.graph.classes_of(at).filter(|&c| c < 64).fold(0u64, |own, c| own | 1 << c);
                classes & !own == 0
            }
        })
    }

    /// Two disjoint parts joined; `None` if a reduction would have to run before what it reduces is there.
    pub(super) fn join(&self, a: &Costed, b: &Costed) -> Option<Costed> {
        let set = a.set | b.set;
        let (kept, reduction) = match (self.graph.lone_reduction(a.set), self.graph.lone_reduction(b.set)) {
            (None, None) => (None, None),
            (None, Some(reduction)) => (Some((a, b)), Some(reduction)),
            (Some(reduction), None) => (Some((b, a)), Some(reduction)),
            (Some(_), Some(_)) => return None,
        };
        if let (Some((reduced, _)), Some(reduction)) = (kept, reduction)
            && reduction.needs & !reduced.set != 0
        {
            return None;
        }
        let (a, b) = kept.unwrap_or((a, b));
        let (build, probe) = if a.size() <= b.size() { (a, b) } else { (b, a) };
        let rows = self.rows(set);
        let (keyed, classes) = match reduction {
            Some(reduction) => (!reduction.join.on.is_empty(), reduction.classes),
            None => {
                let between = self.graph.between(a.set, b.set);
                (!between.keys.is_empty(), between.classes)
            }
        };
        // a side whose own rows come out cannot be sent to more than one task
        let replicable = kept.is_none_or(|(reduced, _)| reduced.set != build.set);
        let mut cost = a.cost + b.cost + rows;
        let partitioned;
        if !keyed {
            cost += build.rows * probe.rows;
            partitioned = probe.partitioned;
        } else if replicable && build.bytes() <= self.broadcast_bytes {
            cost += BUILD * build.rows + PIPELINED_PROBE * probe.rows;
            partitioned = probe.partitioned;
        } else {
            let there = |side: &Costed| classes.is_some() && side.partitioned == classes;
            let moved: f64 = [a, b].into_iter().filter(|side| !there(side)).map(Costed::bytes).sum();
            cost += BUILD * build.rows + PROBE * probe.rows + moved / MOVED_BYTES;
            partitioned = classes;
        }
        let (left, right) = kept.unwrap_or((build, probe));
        let width = if kept.is_some() { left.width } else { left.width + right.width };
        let tree = Tree::join(left.tree.clone(), right.tree.clone());
        let partitioned = partitioned.filter(|&classes| self.used_later(set, classes));
        Some(Costed { set, tree, rows, cost, width, partitioned })
    }

    /// A tree in which every reduction stands over what it needs.
    pub(super) fn of(&self, tree: &Tree) -> Costed {
        match tree {
            Tree::Relation(at) => self.relation(*at),
            Tree::Join(left, right) => {
                let (left, right) = (self.of(left), self.of(right));
                let impossible = Costed { set: left.set | right.set, cost: f64::INFINITY, ..left.clone() };
                self.join(&left, &right).unwrap_or(impossible)
            }
        }
    }

    /// The plan of a tree: every condition at the lowest join that has what it needs, the smaller side of an inner join left.
    pub(super) fn build(&self, tree: &Tree) -> Result<LogicalPlan> {
        Ok(self.build_part(tree)?.0)
    }

    fn build_part(&self, tree: &Tree) -> Result<(LogicalPlan, Set)> {
        let (left, right) = match tree {
            Tree::Relation(at) => {
                let plan = self.graph.relations[*at].plan.clone();
                let plan = match conjunction(self.graph.filters_of(*at).cloned()) {
                    Some(predicate) => LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(plan))?),
                    None => plan,
                };
                return Ok((plan, 1 << at));
            }
            Tree::Join(left, right) => (self.build_part(left)?, self.build_part(right)?),
        };
        let set = left.1 | right.1;
        let (on, filter, join_type) = match self.graph.lone_reduction(right.1) {
            Some(reduction) => {
                let join = &reduction.join;
                (join.on.clone(), join.filter.clone(), join.join_type)
            }
            None => {
                let between = self.graph.between(left.1, right.1);
                (between.keys, conjunction(between.filters), JoinType::Inner)
            }
        };
        let join = Join::try_new(
            Arc::new(left.0),
            Arc::new(right.0),
            on,
            filter,
            join_type,
            JoinConstraint::On,
            NullEquality::NullEqualsNothing,
            false,
        )?;
        Ok((LogicalPlan::Join(join), set))
    }
}
