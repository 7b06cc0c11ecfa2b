//! A region of joins that can be put into another order: what it joins, under which conditions, and how it was written.

use datafusion::common::{Column, JoinType, NullEquality};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Join, LogicalPlan, Operator};
use datafusion::prelude::Expr;

/// Sets of relations are the bits of a word.
pub(super) const MAX_RELATIONS: usize = 64;

/// Relations joined with each other, in one of many orders.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Tree {
    Relation(usize),
    Join(Box<Tree>, Box<Tree>),
}

impl Tree {
    pub(super) fn join(left: Tree, right: Tree) -> Self {
        Tree::Join(Box::new(left), Box::new(right))
    }
}

/// What a relation does to the rows of the others.
#[derive(Debug, Clone)]
pub(super) enum Role {
    /// It is joined with them.
    Inner,
    /// It only decides which of them stay: the right side of a semi or anti join.
    Reduces(Reduction),
}

#[derive(Debug, Clone)]
pub(super) struct Reduction {
    /// LeftSemi or LeftAnti.
    pub(super) join_type: JoinType,
    /// Pairs of an expression over the rows it reduces and one over its own.
    pub(super) on: Vec<(Expr, Expr)>,
    pub(super) filter: Option<Expr>,
    /// Relations that stand below it as written, as a set.
    pub(super) written_over: u64,
}

#[derive(Debug, Clone)]
pub(super) struct RegionRelation {
    pub(super) plan: LogicalPlan,
    pub(super) role: Role,
}

/// A condition on the rows of a region.
#[derive(Debug, Clone)]
pub(super) struct Conjunct {
    pub(super) expr: Expr,
    /// Relations that stand below it as written, as a set.
    pub(super) written_over: u64,
}

#[derive(Debug)]
pub(super) struct Region {
    pub(super) relations: Vec<RegionRelation>,
    /// All of them hold for every row that leaves the region.
    pub(super) conjuncts: Vec<Conjunct>,
    pub(super) written: Tree,
    /// What leaves the region.
    pub(super) output: Vec<Column>,
}

impl Region {
    /// Takes a member node apart.
    pub(super) fn of(plan: &LogicalPlan) -> Self {
        let output = plan.schema().columns();
        let mut region = Region { relations: vec![], conjuncts: vec![], written: Tree::Relation(0), output };
        region.written = region.flatten(plan);
        region
    }

    fn flatten(&mut self, plan: &LogicalPlan) -> Tree {
        match plan {
            LogicalPlan::Projection(projection) if is_member(plan) => self.flatten(&projection.input),
            LogicalPlan::Filter(filter) if is_member(plan) => {
                let first = self.relations.len();
                let input = self.flatten(&filter.input);
                self.hold(split_conjunction(&filter.predicate).into_iter().cloned(), first);
                input
            }
            LogicalPlan::Join(join) if is_member(plan) && reduces(join.join_type) => {
                let first = self.relations.len();
                let left = self.flatten(&join.left);
                let written_over = bits(first..self.relations.len());
                let (on, filter) = (join.on.clone(), join.filter.clone());
                let role = Role::Reduces(Reduction { join_type: join.join_type, on, filter, written_over });
                Tree::join(left, self.relation(&join.right, role))
            }
            LogicalPlan::Join(join) if is_member(plan) => {
                let first = self.relations.len();
                let left = self.flatten(&join.left);
                let right = self.flatten(&join.right);
                self.hold(join.on.iter().map(|(left, right)| left.clone().eq(right.clone())), first);
                self.hold(join.filter.iter().flat_map(|f| split_conjunction(f)).cloned(), first);
                Tree::join(left, right)
            }
            _ => self.relation(plan, Role::Inner),
        }
    }

    /// Conditions on the relations from `first` on.
    fn hold(&mut self, conditions: impl Iterator<Item = Expr>, first: usize) {
        let written_over = bits(first..self.relations.len());
        self.conjuncts.extend(conditions.map(|expr| Conjunct { expr, written_over }));
    }

    fn relation(&mut self, plan: &LogicalPlan, role: Role) -> Tree {
        self.relations.push(RegionRelation { plan: plan.clone(), role });
        Tree::Relation(self.relations.len() - 1)
    }
}

/// Bits beyond the width of a word are left out; such regions are not ordered.
fn bits(range: std::ops::Range<usize>) -> u64 {
    range.filter(|&i| i < MAX_RELATIONS).fold(0, |set, i| set | 1 << i)
}

pub(super) fn reduces(join_type: JoinType) -> bool {
    matches!(join_type, JoinType::LeftSemi | JoinType::LeftAnti)
}

/// Whether joins below and above this node may change places: an inner, semi or anti join without anything that depends on how
/// often or when it is evaluated, and selections of its rows and columns.
pub(super) fn is_member(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Join(join) => is_orderable(join),
        LogicalPlan::Filter(filter) => is_movable(&filter.predicate) && is_member(&filter.input),
        LogicalPlan::Projection(projection) => {
            projection.expr.iter().all(|e| matches!(e, Expr::Column(_))) && is_member(&projection.input)
        }
        _ => false,
    }
}

fn is_orderable(join: &Join) -> bool {
    let conditions = || join.on.iter().flat_map(|(l, r)| [l, r]).chain(&join.filter);
    (join.join_type == JoinType::Inner || reduces(join.join_type))
        && join.null_equality == NullEquality::NullEqualsNothing
        && !join.null_aware
        && conditions().all(is_movable)
}

fn is_movable(expr: &Expr) -> bool {
    let fixed = |expr: &Expr| {
        matches!(
            expr,
            Expr::ScalarSubquery(_)
                | Expr::InSubquery(_)
                | Expr::Exists(_)
                | Expr::SetComparison(_)
                | Expr::OuterReferenceColumn(..)
        ) || expr.is_volatile_node()
    };
    use datafusion::common::tree_node::TreeNode;
    // an expression that cannot be looked through stays where it is
    !expr.exists(|e| Ok(fixed(e))).unwrap_or(true)
}

/// The two sides of `a = b`.
pub(super) fn equality(expr: &Expr) -> Option<(&Expr, &Expr)> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => Some((left, right)),
        _ => None,
    }
}

pub(super) fn as_column(expr: &Expr) -> Option<&Column> {
    match expr {
        Expr::Column(column) => Some(column),
        _ => None,
    }
}
