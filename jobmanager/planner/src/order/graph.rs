//! Relations and the conditions between them, as sets.

use std::collections::HashMap;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Column, JoinType, TableReference};
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::Expr;

use super::estimate::{Estimate, estimate};
use super::fallible::may_fail;
use super::region::{Conjunct, Reduction, Region, Role, Tree, as_column, equality};
use super::selectivity::{self, selectivity_of_join_condition};

/// A set of relations, by position.
pub(super) type Set = u64;

#[derive(Debug)]
pub(super) struct Relation {
    pub(super) plan: LogicalPlan,
    pub(super) estimate: Estimate,
    pub(super) reduction: Option<ReductionNode>,
}

/// A relation that only removes rows of others.
#[derive(Debug)]
pub(super) struct ReductionNode {
    pub(super) join: Reduction,
    /// Relations whose columns decide.
    pub(super) needs: Set,
    /// Classes of the columns it compares, if it compares columns only.
    pub(super) classes: Option<u64>,
    /// Share of the rows that stay.
    pub(super) keeps: f64,
}

/// Columns, one each of several relations, that are equal in every row.
#[derive(Debug)]
pub(super) struct Class {
    pub(super) members: Vec<(usize, Column)>,
    /// Of each member: its distinct values at most, before it is filtered.
    pub(super) distinct: Vec<f64>,
}

/// A condition that is not an equality of columns in a class.
#[derive(Debug)]
struct Predicate {
    expr: Expr,
    relations: Set,
    /// Of an equality, if its sides belong to different relations.
    sides: Option<(Set, Set)>,
    selectivity: f64,
}

#[derive(Debug)]
pub(super) struct Graph {
    pub(super) relations: Vec<Relation>,
    pub(super) classes: Vec<Class>,
    predicates: Vec<Predicate>,
}

/// What holds between two disjoint sets, and not within either.
#[derive(Debug, Default)]
pub(super) struct Between {
    /// An expression over the first set and one over the second.
    pub(super) keys: Vec<(Expr, Expr)>,
    /// The classes of the keys; `None` if some key is more than a column.
    pub(super) classes: Option<u64>,
    pub(super) filters: Vec<Expr>,
}

impl Graph {
    /// `None`: something about the region is not understood, or nothing is known of a table.
    pub(super) fn new(region: Region) -> Option<Self> {
        let columns = Columns::of(&region)?;
        let mut relations = vec![];
        let mut roles = vec![];
        for relation in region.relations {
            let estimate = estimate(&relation.plan)?;
            relations.push(Relation { plan: relation.plan, estimate, reduction: None });
            roles.push(relation.role);
        }
        let mut graph = Graph { relations, classes: vec![], predicates: vec![] };
        for conjunct in region.conjuncts {
            graph.add_conjunct(conjunct, &columns)?;
        }
        graph.close_classes(&columns);
        graph.combine_filters();
        for (at, role) in roles.into_iter().enumerate() {
            if let Role::Reduces(join) = role {
                graph.relations[at].reduction = Some(graph.reduction(at, join, &columns)?);
            }
        }
        Some(graph)
    }

    fn add_conjunct(&mut self, Conjunct { expr, written_over }: Conjunct, columns: &Columns) -> Option<()> {
        if let Some((left, right)) = equality(&expr) {
            let pair = as_column(left).zip(as_column(right));
            if let Some((left, right)) = pair
                && self.add_to_class(left, right, columns)?
            {
                return Some(());
            }
        }
        let mut relations = columns.relations(&expr)?;
        let sides = match equality(&expr) {
            Some((left, right)) => Some((columns.relations(left)?, columns.relations(right)?)),
            None => None,
        };
        let sides = sides.filter(|(left, right)| *left != 0 && *right != 0 && left & right == 0);
        if relations == 0 {
            return None;
        }
        let selectivity = match sides {
            Some(_) => {
                let (left, right) = equality(&expr)?;
                1.0 / self.distinct(left, columns).min(self.distinct(right, columns))
            }
            None if relations.count_ones() == 1 => {
                let only = relations.trailing_zeros() as usize;
                selectivity::of(&expr, &self.relations[only].estimate, self.relations[only].plan.schema())
            }
            None => selectivity_of_join_condition(&expr),
        };
        let mut sides = sides;
        if relations != written_over && may_fail(&expr, &|column| self.data_type(column, columns)) {
            // it sees no row that it does not see as written
            relations |= written_over;
            sides = None;
        }
        self.predicates.push(Predicate { expr, relations, sides, selectivity });
        Some(())
    }

    fn data_type(&self, column: &Column, columns: &Columns) -> Option<DataType> {
        let (relation, at) = columns.find(column)?;
        Some(self.relations[relation].plan.schema().field(at).data_type().clone())
    }

    /// Values of an expression at most: those of its column if it is one, whatever it is cast to.
    fn distinct(&self, expr: &Expr, columns: &Columns) -> f64 {
        let column = match expr {
            Expr::Cast(cast) => as_column(&cast.expr),
            other => as_column(other),
        };
        if let Some((relation, at)) = column.and_then(|column| columns.find(column)) {
            return self.relations[relation].estimate.columns[at].distinct;
        }
        let rows = |r: usize| self.relations[r].estimate.unfiltered;
        self.members(columns.relations(expr).unwrap_or(0)).map(rows).fold(1.0, f64::max)
    }

    /// Conditions on one relation are estimated together: the first of them stands for all.
    fn combine_filters(&mut self) {
        for at in 0..self.relations.len() {
            let own: Vec<usize> =
                (0..self.predicates.len()).filter(|&p| self.predicates[p].relations == 1 << at).collect();
            let Some((first, others)) = own.split_first() else { continue };
            let conjuncts: Vec<&Expr> = own.iter().map(|&p| &self.predicates[p].expr).collect();
            let relation = &self.relations[at];
            let share = selectivity::of_all(&conjuncts, &relation.estimate, relation.plan.schema());
            self.predicates[*first].selectivity = share;
            others.iter().for_each(|&p| self.predicates[p].selectivity = 1.0);
        }
    }

    /// Whether the equality is said by a class. Not where two columns of one relation would meet in it, or where equal is not the
    /// same as identical.
    fn add_to_class(&mut self, left: &Column, right: &Column, columns: &Columns) -> Option<bool> {
        let (l, r) = (columns.find(left)?, columns.find(right)?);
        let data_type = |(relation, at): (usize, usize)| self.relations[relation].plan.schema().field(at).data_type();
        if data_type(l) != data_type(r) || data_type(l).is_floating() || l.0 == r.0 {
            return Some(false);
        }
        let class_of = |column: &Column| self.classes.iter().position(|c| c.members.iter().any(|(_, m)| m == column));
        let clash = |class: &Class, relation: usize| class.members.iter().any(|(r, _)| *r == relation);
        let (left_member, right_member) = ((l.0, left.clone()), (r.0, right.clone()));
        match (class_of(left), class_of(right)) {
            (None, None) => {
                self.classes.push(Class { members: vec![left_member, right_member], distinct: vec![] });
            }
            (Some(class), None) if !clash(&self.classes[class], r.0) => self.classes[class].members.push(right_member),
            (None, Some(class)) if !clash(&self.classes[class], l.0) => self.classes[class].members.push(left_member),
            (Some(a), Some(b)) if a == b => {}
            (Some(a), Some(b)) => {
                if self.classes[b].members.iter().any(|(relation, _)| clash(&self.classes[a], *relation)) {
                    return Some(false);
                }
                let moved = self.classes.swap_remove(b).members;
                // the last class has taken the place of `b`
                let a = if a == self.classes.len() { b } else { a };
                self.classes[a].members.extend(moved);
            }
            _ => return Some(false),
        }
        Some(true)
    }

    fn close_classes(&mut self, columns: &Columns) {
        for class in &mut self.classes {
            let distinct = class.members.iter().map(|(relation, column)| {
                let known = columns.find(column).map(|(_, at)| self.relations[*relation].estimate.columns[at].distinct);
                known.unwrap_or(1.0).max(1.0)
            });
            class.distinct = distinct.collect();
        }
    }

    fn reduction(&mut self, at: usize, join: Reduction, columns: &Columns) -> Option<ReductionNode> {
        let own = 1 << at;
        let mut needs = 0;
        for expr in join.on.iter().flat_map(|(l, r)| [l, r]).chain(&join.filter) {
            needs |= columns.relations(expr)?;
        }
        needs &= !own;
        let conditions = join.on.iter().flat_map(|(l, r)| [l, r]).chain(&join.filter);
        let fails = conditions.into_iter().any(|expr| may_fail(expr, &|column| self.data_type(column, columns)));
        if needs == 0 || fails {
            needs |= join.written_over;
        }
        let reduced = |set: Set| self.members(set).any(|r| self.relations[r].reduction.is_some());
        if reduced(needs & !join.written_over) {
            return None;
        }
        let keeps = selectivity::kept_by(&join, &self.relations[at], |column| {
            let (relation, at) = columns.find(column)?;
            Some((&self.relations[relation].estimate, at))
        });
        let mut classes = Some(0);
        for (left, _) in &join.on {
            let class = as_column(left).and_then(|column| self.class_or_new(column, columns));
            classes = classes.zip(class).map(|(classes, class)| classes | 1 << class);
        }
        Some(ReductionNode { join, needs, classes, keeps })
    }

    /// The class of a column, to tell whether rows are partitioned by it; `None` when there are too many.
    fn class_or_new(&mut self, column: &Column, columns: &Columns) -> Option<usize> {
        let known = self.classes.iter().position(|c| c.members.iter().any(|(_, m)| m == column));
        let class = known.unwrap_or(self.classes.len());
        if known.is_none() {
            let (relation, at) = columns.find(column)?;
            let distinct = self.relations[relation].estimate.columns[at].distinct;
            self.classes.push(Class { members: vec![(relation, column.clone())], distinct: vec![distinct] });
        }
        (class < 64).then_some(class)
    }

    pub(super) fn members(&self, set: Set) -> impl Iterator<Item = usize> + use<> {
        (0..self.relations.len()).filter(move |&relation| set & (1 << relation) != 0)
    }

    pub(super) fn all(&self) -> Set {
        u64::MAX >> (64 - self.relations.len())
    }

    /// The class members that belong to one relation.
    pub(super) fn classes_of(&self, relation: usize) -> impl Iterator<Item = usize> {
        let classes = self.classes.iter().enumerate();
        classes.filter(move |(_, c)| c.members.iter().any(|(r, _)| *r == relation)).map(|(at, _)| at)
    }

    /// The reduction that a set consists of, if it is one and has not been joined with what it reduces.
    pub(super) fn lone_reduction(&self, set: Set) -> Option<&ReductionNode> {
        if set.count_ones() != 1 {
            return None;
        }
        self.relations[set.trailing_zeros() as usize].reduction.as_ref()
    }

    /// Which sets are connected by what: the hyperedges of the graph.
    pub(super) fn edges(&self) -> Vec<(Set, Set)> {
        let mut edges = vec![];
        for class in &self.classes {
            for (at, (left, _)) in class.members.iter().enumerate() {
                edges.extend(class.members[at + 1..].iter().map(|(right, _)| (1 << left, 1 << right)));
            }
        }
        edges.extend(self.predicates.iter().filter_map(|p| p.sides));
        let reductions = self.relations.iter().enumerate();
        edges.extend(reductions.filter_map(|(at, r)| Some((r.reduction.as_ref()?.needs, 1 << at))));
        edges.sort_unstable();
        edges.dedup();
        edges
    }

    pub(super) fn between(&self, left: Set, right: Set) -> Between {
        let mut between = Between { classes: Some(0), ..Between::default() };
        for (at, class) in self.classes.iter().enumerate() {
            let member = |set: Set| class.members.iter().find(|(relation, _)| set & (1 << relation) != 0);
            if let Some(((_, l), (_, r))) = member(left).zip(member(right)) {
                between.keys.push((Expr::Column(l.clone()), Expr::Column(r.clone())));
                between.classes = between.classes.filter(|_| at < 64).map(|classes| classes | 1 << at);
            }
        }
        for predicate in &self.predicates {
            let inside = |set: Set, of: Set| set & !of == 0;
            let needed = predicate.relations;
            if !inside(needed, left | right) || inside(needed, left) || inside(needed, right) {
                continue;
            }
            let key = predicate.sides.zip(equality(&predicate.expr)).and_then(|((l, r), (a, b))| {
                if inside(l, left) && inside(r, right) {
                    Some((a.clone(), b.clone()))
                } else if inside(l, right) && inside(r, left) {
                    Some((b.clone(), a.clone()))
                } else {
                    None
                }
            });
            match key {
                Some(key) => {
                    between.keys.push(key);
                    between.classes = None;
                }
                None => between.filters.push(predicate.expr.clone()),
            }
        }
        between
    }

    /// What one relation's own rows must satisfy.
    pub(super) fn filters_of(&self, relation: usize) -> impl Iterator<Item = &Expr> {
        self.predicates.iter().filter(move |p| p.relations == 1 << relation).map(|p| &p.expr)
    }

    /// The share of the rows of a set that its conditions leave, beside classes and reductions.
    pub(super) fn selectivity(&self, set: Set) -> f64 {
        self.predicates.iter().filter(|p| p.relations & !set == 0).map(|p| p.selectivity).product()
    }

    /// `((a ⋈ b) ⋉ c)`
    pub(super) fn describe(&self, tree: &Tree) -> String {
        match tree {
            Tree::Relation(at) => label(&self.relations[*at].plan),
            Tree::Join(left, right) => {
                let symbol = match right.as_ref() {
                    Tree::Relation(at) => match &self.relations[*at].reduction {
                        Some(ReductionNode { join: Reduction { join_type: JoinType::LeftSemi, .. }, .. }) => "⋉",
                        Some(_) => "▷",
                        None => "⋈",
                    },
                    Tree::Join(..) => "⋈",
                };
                format!("({} {symbol} {})", self.describe(left), self.describe(right))
            }
        }
    }
}

/// A relation's name for people: its alias, or that of the first table in it.
fn label(plan: &LogicalPlan) -> String {
    let named = plan.schema().iter().next().and_then(|(qualifier, _)| qualifier).map(TableReference::table);
    match named.filter(|name| !name.starts_with("__")) {
        Some(name) => name.to_owned(),
        None => match plan {
            LogicalPlan::TableScan(scan) => scan.table_name.table().to_owned(),
            _ => plan.inputs().first().map_or_else(|| "rows".to_owned(), |input| label(input)),
        },
    }
}

/// Where each column of the region's relations comes from.
struct Columns(HashMap<Column, (usize, usize)>);

impl Columns {
    /// `None` when two relations have columns that the library may take for each other, or when a column that leaves the region is
    /// none of theirs.
    fn of(region: &Region) -> Option<Self> {
        let mut columns = Columns(HashMap::new());
        let mut names: HashMap<String, Vec<(usize, Option<TableReference>)>> = HashMap::new();
        for (relation, node) in region.relations.iter().enumerate() {
            for (at, column) in node.plan.schema().columns().into_iter().enumerate() {
                let qualifier = column.relation.clone();
                let namesakes = names.entry(column.name.clone()).or_default();
                if namesakes.iter().any(|(other, known)| *other != relation && confusable(known, &qualifier)) {
                    return None;
                }
                namesakes.push((relation, qualifier));
                if columns.0.insert(column, (relation, at)).is_some() {
                    return None;
                }
            }
        }
        region.output.iter().all(|column| columns.find(column).is_some()).then_some(columns)
    }

    fn find(&self, column: &Column) -> Option<(usize, usize)> {
        self.0.get(column).copied()
    }

    fn relations(&self, expr: &Expr) -> Option<Set> {
        let mut set = 0;
        for column in expr.column_refs() {
            set |= 1 << self.find(column)?.0;
        }
        Some(set)
    }
}

/// A name without its qualifier may be any, and `schema.t` may be `t`.
fn confusable(a: &Option<TableReference>, b: &Option<TableReference>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => a.resolved_eq(b) || b.resolved_eq(a),
        _ => true,
    }
}
