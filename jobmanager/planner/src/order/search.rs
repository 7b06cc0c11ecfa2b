//! The cheapest order of the joins of a region.
//!
//! Up to a number of relations by dynamic programming over the connected pairs of connected sets, none of them twice (DPhyp:
//! Moerkotte and Neumann, "Dynamic programming strikes back", SIGMOD 2008); beyond it, or when there are too many sets or no
//! connection, by always making the smallest join next (Fegaras, "A new heuristic for optimizing large queries", DEXA 1998).

use std::collections::HashMap;

use super::cost::{CostModel, Costed};
use super::graph::{Graph, Set};

/// Sets and joins that are looked at before the search becomes greedy: a tenth of a second.
const MAX_STEPS: usize = 50_000;

pub(super) fn best(graph: &Graph, costs: &CostModel, bushy_threshold: usize) -> Option<Costed> {
    let bushy = if graph.relations.len() <= bushy_threshold { exhaustive(graph, costs) } else { None };
    bushy.or_else(|| greedy(graph, costs))
}

fn exhaustive(graph: &Graph, costs: &CostModel) -> Option<Costed> {
    let relations = graph.relations.len();
    let best = (0..relations).map(|at| (1 << at, Candidates::of(costs.relation(at)))).collect();
    let mut search = Search { edges: graph.edges(), costs, best, steps: 0 };
    for at in (0..relations).rev() {
        let first = 1 << at;
        search.with_complements(first);
        search.grow(first, up_to(first));
    }
    if search.exhausted() {
        return None;
    }
    search.best.remove(&graph.all())?.cheapest()
}

/// All relations up to the least one of the set, it included.
fn up_to(set: Set) -> Set {
    let least = set & set.wrapping_neg();
    least | (least - 1)
}

struct Search<'a> {
    edges: Vec<(Set, Set)>,
    costs: &'a CostModel<'a>,
    best: HashMap<Set, Candidates>,
    steps: usize,
}

impl Search<'_> {
    fn exhausted(&self) -> bool {
        self.steps > MAX_STEPS
    }

    fn known(&self, set: Set) -> bool {
        self.best.get(&set).is_some_and(|candidates| !candidates.0.is_empty())
    }

    /// The relations next to a set, one for each hyperedge, without those that are excluded.
    fn neighbours(&self, set: Set, excluded: Set) -> Set {
        let mut neighbours = 0;
        for &(a, b) in &self.edges {
            for (from, to) in [(a, b), (b, a)] {
                if from & !set == 0 && to & (set | excluded) == 0 {
                    neighbours |= to & to.wrapping_neg();
                }
            }
        }
        neighbours
    }

    fn connected(&self, left: Set, right: Set) -> bool {
        self.edges.iter().any(|&(a, b)| (a & !left == 0 && b & !right == 0) || (b & !left == 0 && a & !right == 0))
    }

    /// Every connected set that contains this one and nothing excluded, each joined with its complements.
    fn grow(&mut self, set: Set, excluded: Set) {
        let neighbours = self.neighbours(set, excluded);
        for more in subsets(neighbours) {
            self.steps += 1;
            if self.exhausted() {
                return;
            }
            if self.known(set | more) {
                self.with_complements(set | more);
            }
        }
        for more in subsets(neighbours) {
            if self.exhausted() {
                return;
            }
            self.grow(set | more, excluded | neighbours);
        }
    }

    fn with_complements(&mut self, set: Set) {
        let excluded = set | up_to(set);
        let neighbours = self.neighbours(set, excluded);
        let mut left = neighbours;
        while left != 0 && !self.exhausted() {
            let start = 1 << (63 - left.leading_zeros());
            left &= !start;
            if self.connected(set, start) {
                self.pair(set, start);
            }
            self.grow_complement(set, start, excluded | (neighbours & up_to(start)));
        }
    }

    fn grow_complement(&mut self, set: Set, complement: Set, excluded: Set) {
        let neighbours = self.neighbours(complement, excluded);
        for more in subsets(neighbours) {
            self.steps += 1;
            if self.exhausted() {
                return;
            }
            let grown = complement | more;
            if self.known(grown) && self.connected(set, grown) {
                self.pair(set, grown);
            }
        }
        for more in subsets(neighbours) {
            if self.exhausted() {
                return;
            }
            self.grow_complement(set, complement | more, excluded | neighbours);
        }
    }

    fn pair(&mut self, left: Set, right: Set) {
        let (Some(l), Some(r)) = (self.best.get(&left), self.best.get(&right)) else { return };
        let joined: Vec<Costed> = l.joined(r, self.costs).collect();
        self.steps += joined.len();
        self.best.entry(left | right).or_default().extend(joined);
    }
}

/// Trees over the same relations of which one may be the best to go on from: the cheapest, and dearer ones whose rows are
/// partitioned in other ways, which may save an exchange above.
#[derive(Debug, Default)]
pub(super) struct Candidates(Vec<Costed>);

impl Candidates {
    pub(super) fn of(only: Costed) -> Self {
        Candidates(vec![only])
    }

    pub(super) fn extend(&mut self, more: impl IntoIterator<Item = Costed>) {
        for new in more {
            if !self.0.iter().any(|known| known.makes_useless(&new)) {
                self.0.retain(|known| !new.makes_useless(known));
                self.0.push(new);
            }
        }
    }

    pub(super) fn joined<'a>(
        &'a self,
        other: &'a Candidates,
        costs: &'a CostModel,
    ) -> impl Iterator<Item = Costed> + 'a {
        self.0.iter().flat_map(move |l| other.0.iter().filter_map(move |r| costs.join(l, r)))
    }

    pub(super) fn cheapest(self) -> Option<Costed> {
        self.0.into_iter().min_by(|a, b| a.cost.total_cmp(&b.cost))
    }
}

/// All but the empty one, smaller ones before those that contain them.
fn subsets(set: Set) -> impl Iterator<Item = Set> {
    let mut next = set & set.wrapping_neg();
    std::iter::from_fn(move || {
        let subset = next;
        if subset == 0 {
            return None;
        }
        next = subset.wrapping_sub(set) & set;
        Some(subset)
    })
}

fn greedy(graph: &Graph, costs: &CostModel) -> Option<Costed> {
    let edges = graph.edges();
    let connects =
        |a: Set, b: Set| edges.iter().any(|&(l, r)| (l & !a == 0 && r & !b == 0) || (l & !b == 0 && r & !a == 0));
    let mut parts: Vec<Costed> = (0..graph.relations.len()).map(|at| costs.relation(at)).collect();
    while parts.len() > 1 {
        let mut found: Option<(bool, usize, usize, Costed)> = None;
        for a in 0..parts.len() {
            for b in a + 1..parts.len() {
                let apart = !connects(parts[a].set, parts[b].set);
                if found.as_ref().is_some_and(|(best_apart, ..)| apart && !best_apart) {
                    continue;
                }
                let Some(joined) = costs.join(&parts[a], &parts[b]) else { continue };
                let better = |(best_apart, _, _, best): &(bool, usize, usize, Costed)| {
                    (apart, joined.rows, joined.cost) < (*best_apart, best.rows, best.cost)
                };
                if found.as_ref().is_none_or(better) {
                    found = Some((apart, a, b, joined));
                }
            }
        }
        let (_, a, b, joined) = found?;
        parts.swap_remove(b);
        parts[a] = joined;
    }
    parts.pop()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subsets_are_all_of_them_once() {
        let all: Vec<Set> = subsets(0b1011).collect();
        assert_eq!(all, [0b1, 0b10, 0b11, 0b1000, 0b1001, 0b1010, 0b1011]);
        assert_eq!(subsets(0).count(), 0);
        assert_eq!(subsets(1 << 63).collect::<Vec<_>>(), [1 << 63]);
    }

    #[test]
    fn what_comes_before_the_least_is_excluded() {
        assert_eq!(up_to(0b0100), 0b0111);
        assert_eq!(up_to(0b1100), 0b0111);
        assert_eq!(up_to(1), 1);
    }
}
