//! The order of joins, chosen before the query runs from what files say of their tables.
//!
//! A region of inner joins, with the semi and anti joins between them, is taken apart into relations and conditions
//! ([`region`], [`graph`]), the cheapest tree over them is searched ([`search`]) by the sizes that are expected ([`cost`],
//! [`estimate`], [`selectivity`]), and put in the place of the written one if it is expected to be clearly cheaper. Outer joins
//! and everything else stay where they are: a region ends at them.

mod cost;
mod estimate;
mod fallible;
mod graph;
mod region;
mod search;
mod selectivity;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::{LogicalPlan, Projection};
use datafusion::prelude::Expr;
use std::sync::Arc;

use self::cost::CostModel;
use self::graph::Graph;
use self::region::Region;

/// The written order stays unless another is expected to cost less than this share of it: estimates are rough.
const WORTHWHILE: f64 = 0.9;

/// How joins are ordered.
#[derive(Debug, Clone, Copy)]
pub struct JoinOrderOptions {
    /// Relations up to which every tree without a cross product is considered; above it they are joined greedily.
    pub bushy_threshold: usize,
    /// Bytes up to which a side of a join is expected to be sent to every task.
    pub broadcast_bytes: u64,
}

/// A plan, and what was changed about the order of its joins.
pub struct Ordered {
    pub plan: LogicalPlan,
    /// A line for people per changed region.
    pub changes: Vec<String>,
}

/// Puts the joins of an optimised plan into the order that is expected to be the cheapest.
pub fn order_joins(plan: LogicalPlan, options: &JoinOrderOptions) -> Result<Ordered> {
    let mut orderer = Orderer { options, changes: vec![] };
    let plan = orderer.rewrite(plan, false)?.data;
    Ok(Ordered { plan, changes: orderer.changes })
}

struct Orderer<'a> {
    options: &'a JoinOrderOptions,
    changes: Vec<String>,
}

impl Orderer<'_> {
    /// Innermost regions first, so that a region's relations are in their final form when it is ordered. `inside`: the plan is
    /// part of the region of the node above it.
    fn rewrite(&mut self, plan: LogicalPlan, inside: bool) -> Result<Transformed<LogicalPlan>> {
        let member = region::is_member(&plan);
        let reduces = matches!(&plan, LogicalPlan::Join(join) if member && region::reduces(join.join_type));
        let mut child = 0;
        let rewritten = plan.map_children(|input| {
            child += 1;
            self.rewrite(input, member && !(reduces && child == 2))
        })?;
        if !member || inside {
            return Ok(rewritten);
        }
        Ok(match self.reordered(&rewritten.data)? {
            Some(plan) => Transformed::yes(plan),
            None => rewritten,
        })
    }

    fn reordered(&mut self, plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
        let region = Region::of(plan);
        let (relations, written) = (region.relations.len(), region.written.clone());
        if !(3..=region::MAX_RELATIONS).contains(&relations) {
            return Ok(None);
        }
        let Some(graph) = Graph::new(region) else { return Ok(None) };
        let costs = CostModel::new(&graph, self.options.broadcast_bytes);
        let before = costs.of(&written);
        let Some(best) = search::best(&graph, &costs, self.options.bushy_threshold) else { return Ok(None) };
        if best.cost >= before.cost * WORTHWHILE {
            return Ok(None);
        }
        let columns = plan.schema().columns().into_iter().map(Expr::Column).collect();
        let ordered = costs
            .build(&best.tree)
            .and_then(|ordered| Projection::try_new_with_schema(columns, Arc::new(ordered), Arc::clone(plan.schema())));
        let ordered = match ordered {
            Ok(ordered) => ordered,
            Err(error) => {
                tracing::warn!(%error, "joins keep their written order: the other one cannot be built");
                return Ok(None);
            }
        };
        self.changes.push(format!(
            "join order: {}; expected cost {} instead of {} (table.optimizer.join-reorder-enabled)",
            graph.describe(&best.tree),
            rounded(best.cost),
            rounded(before.cost)
        ));
        Ok(Some(LogicalPlan::Projection(ordered)))
    }
}

/// Two digits are all that an estimate is worth.
fn rounded(value: f64) -> String {
    let digits = value.abs().max(1.0).log10().floor() as i32 - 1;
    let unit = 10f64.powi(digits.max(0));
    format!("{:.0}", (value / unit).round() * unit)
}

#[cfg(test)]
mod tests;
