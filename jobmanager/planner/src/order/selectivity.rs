//! Which share of rows a condition leaves, where nobody has looked at them.
//!
//! Comparisons with a constant are interpolated between the least and the greatest value; the other shares are the customary
//! guesses (Selinger et al., "Access path selection in a relational database management system", SIGMOD 1979), moved towards
//! what text columns of analytical schemas show.

use std::collections::BTreeMap;

use datafusion::common::{Column, DFSchema, JoinType};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Operator};
use datafusion::prelude::Expr;

use super::estimate::{ColumnEstimate, Estimate, number};
use super::graph::Relation;
use super::region::{Reduction, as_column};

/// A condition nothing is known of.
const UNKNOWN: f64 = 1.0 / 3.0;
/// `text = 'constant'`, unless the table is tiny.
const EQUAL_TEXT: f64 = 0.1;
/// Rows up to which a table's texts are taken for names that occur once.
const TINY: f64 = 100.0;
const LIKE: f64 = 0.1;
/// A semi join whose rows must differ in something beside the key finds a partner nearly as often as without.
const SEMI_WITH_CONDITION: f64 = 0.8;
const ANTI_WITH_CONDITION: f64 = 0.5;
/// An anti join is never believed to remove more.
const ANTI_AT_LEAST: f64 = 0.1;

/// Of conditions that all hold. Two bounds of one column are a range; beside that they are taken for independent.
pub(super) fn of_all(conjuncts: &[&Expr], input: &Estimate, schema: &DFSchema) -> f64 {
    // per column the share above its lower bound and the share below its upper one
    let mut ranges: BTreeMap<usize, [Option<f64>; 2]> = BTreeMap::new();
    let mut others = 1.0;
    for conjunct in conjuncts {
        let share = of(conjunct, input, schema);
        match bound(conjunct, schema) {
            Some((column, side)) => {
                let bounds = &mut ranges.entry(column).or_default()[side as usize];
                *bounds = Some(bounds.map_or(share, |other| other.min(share)));
            }
            None => others *= share,
        }
    }
    let share = |[from, to]: [Option<f64>; 2]| match (from, to) {
        (Some(from), Some(to)) => range_of_two(from, to),
        (one, other) => one.or(other).unwrap_or(1.0),
    };
    ranges.into_values().map(share).product::<f64>() * others
}

#[derive(Clone, Copy)]
enum Side {
    Lower,
    Upper,
}

/// The column that a comparison with a constant bounds, and on which side.
fn bound(expr: &Expr, schema: &DFSchema) -> Option<(usize, Side)> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else { return None };
    let (column, op) = match (as_column(left), as_column(right)) {
        (Some(column), None) if matches!(**right, Expr::Literal(..)) => (column, *op),
        (None, Some(column)) if matches!(**left, Expr::Literal(..)) => (column, op.swap()?),
        _ => return None,
    };
    let side = match op {
        Operator::Gt | Operator::GtEq => Side::Lower,
        Operator::Lt | Operator::LtEq => Side::Upper,
        _ => return None,
    };
    Some((schema.maybe_index_of_column(column)?, side))
}

/// Of a condition on the rows of a plan with this estimate and schema.
pub(super) fn of(expr: &Expr, input: &Estimate, schema: &DFSchema) -> f64 {
    let known = |expr: &Expr| {
        let at = schema.maybe_index_of_column(as_column(expr)?)?;
        input.columns.get(at)
    };
    let recurse = |expr: &Expr| of(expr, input, schema);
    let share = match expr {
        Expr::BinaryExpr(BinaryExpr { op: Operator::And, .. }) => {
            return of_all(&split_conjunction(expr), input, schema);
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            1.0 - (1.0 - recurse(left)) * (1.0 - recurse(right))
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match (known(left), known(right)) {
            (Some(column), None) => compared(column, *op, right),
            (None, Some(column)) => op.swap().map_or(UNKNOWN, |op| compared(column, op, left)),
            (Some(left), Some(right)) if *op == Operator::Eq => 1.0 / left.distinct.max(right.distinct),
            _ => UNKNOWN,
        },
        Expr::Not(inner) => 1.0 - recurse(inner),
        Expr::IsNull(inner) => known(inner).map_or(EQUAL_TEXT, |column| column.nulls),
        Expr::IsNotNull(inner) => 1.0 - known(inner).map_or(EQUAL_TEXT, |column| column.nulls),
        Expr::Like(like) => negated(like.negated, LIKE),
        Expr::InList(list) => {
            let one = known(&list.expr).map_or(EQUAL_TEXT, equal);
            negated(list.negated, (one * list.list.len() as f64).min(1.0))
        }
        Expr::Literal(value, _) => match value {
            datafusion::common::ScalarValue::Boolean(Some(true)) => 1.0,
            _ => 0.0,
        },
        _ => UNKNOWN,
    };
    share.clamp(0.0, 1.0)
}

fn negated(negated: bool, share: f64) -> f64 {
    if negated { 1.0 - share } else { share }
}

/// Two halves of a range: what is above its start and below its end.
fn range_of_two(from: f64, to: f64) -> f64 {
    if from + to > 1.0 { from + to - 1.0 } else { from * to }
}

fn equal(column: &ColumnEstimate) -> f64 {
    match column.range {
        Some(_) => 1.0 / column.distinct,
        None if column.distinct <= TINY => 1.0 / column.distinct,
        None => EQUAL_TEXT,
    }
}

fn compared(column: &ColumnEstimate, op: Operator, other: &Expr) -> f64 {
    let constant = match other {
        Expr::Literal(value, _) => number(value),
        _ => None,
    };
    let below = column.range.zip(constant).map(|((least, greatest), value)| {
        if greatest > least { ((value - least) / (greatest - least)).clamp(0.0, 1.0) } else { 0.5 }
    });
    match op {
        Operator::Eq => equal(column),
        Operator::NotEq => 1.0 - equal(column),
        Operator::Lt | Operator::LtEq => below.unwrap_or(UNKNOWN),
        Operator::Gt | Operator::GtEq => below.map_or(UNKNOWN, |below| 1.0 - below),
        Operator::LikeMatch => LIKE,
        Operator::NotLikeMatch => 1.0 - LIKE,
        _ => UNKNOWN,
    }
}

/// Of a condition over several relations that is not an equality between them.
pub(super) fn selectivity_of_join_condition(expr: &Expr) -> f64 {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
            selectivity_of_join_condition(left) * selectivity_of_join_condition(right)
        }
        Expr::BinaryExpr(BinaryExpr { op: Operator::NotEq, .. }) => 1.0,
        _ => UNKNOWN,
    }
}

/// The share of rows that a semi or anti join keeps. `find` knows the columns of both sides.
pub(super) fn kept_by<'a>(
    join: &Reduction,
    own: &Relation,
    find: impl Fn(&Column) -> Option<(&'a Estimate, usize)>,
) -> f64 {
    let found = matching(&join.on, &own.estimate, find);
    match (join.join_type, &join.filter) {
        (JoinType::LeftSemi, None) => found,
        (JoinType::LeftSemi, Some(_)) => found * SEMI_WITH_CONDITION,
        (_, None) => (1.0 - found).max(ANTI_AT_LEAST),
        (_, Some(_)) => (1.0 - found * ANTI_WITH_CONDITION).max(ANTI_AT_LEAST),
    }
}

/// The share of rows that find a partner: the keys that are left of the relation's distinct ones, of all that there may be.
fn matching<'a>(on: &[(Expr, Expr)], own: &Estimate, find: impl Fn(&Column) -> Option<(&'a Estimate, usize)>) -> f64 {
    let (mut theirs, mut ours) = (1.0f64, 1.0f64);
    let mut theirs_at_most = f64::INFINITY;
    for (their, our) in on {
        let distinct = |expr: &Expr| {
            let (estimate, at) = find(as_column(expr)?)?;
            Some((estimate.columns.get(at)?.distinct, estimate.unfiltered))
        };
        if let Some((distinct, rows)) = distinct(their) {
            theirs *= distinct;
            theirs_at_most = theirs_at_most.min(rows);
        }
        ours *= distinct(our).map_or(own.unfiltered, |(distinct, _)| distinct);
    }
    let ours = ours.min(own.unfiltered).max(1.0);
    let share = (own.rows / own.unfiltered).clamp(0.0, 1.0);
    // of rows that are spread evenly over the keys, each stays with the probability `share`
    let left = ours * (1.0 - (1.0 - share).powf(own.unfiltered / ours));
    (left / theirs.min(theirs_at_most).max(1.0)).min(1.0)
}
