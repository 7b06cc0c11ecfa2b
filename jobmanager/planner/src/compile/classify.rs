//! What a re-run of a stage's task may be assumed to produce (the retry rule).

use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr};
use thalweg_exec::{ExchangeInputExec, SourceExec};
use thalweg_graph::Determinism;

/// Aggregates whose result depends on the order of their input.
const ORDER_SENSITIVE_AGGREGATES: [&str; 7] =
    ["first_value", "last_value", "nth_value", "array_agg", "string_agg", "any_value", "approx_percentile_cont"];

/// Classifies a stage's operators and the expressions its rows are distributed by.
///
/// A stage that reads only splits re-reads the same splits in the same order, so what it produces may depend on order. A
/// stage that reads an exchange may find the blocks of a re-run producer in another order.
pub fn determinism(plan: &Arc<dyn ExecutionPlan>, keys: &[Arc<dyn PhysicalExpr>]) -> Result<Determinism> {
    let mut volatile = keys.iter().any(is_volatile);
    let mut order_sensitive = false;
    let mut reads_exchange = false;
    plan.apply(|node| {
        node.apply_expressions(&mut |expr| {
            volatile |= is_volatile(expr);
            Ok(TreeNodeRecursion::Continue)
        })?;
        reads_exchange |= node.is::<ExchangeInputExec>();
        order_sensitive |= is_order_sensitive(node);
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(match (volatile, order_sensitive, reads_exchange) {
        (true, _, _) | (false, true, true) => Determinism::Random,
        (false, false, true) => Determinism::OrderFree,
        (false, _, false) => Determinism::Deterministic,
    })
}

fn is_order_sensitive(node: &Arc<dyn ExecutionPlan>) -> bool {
    if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
        let by_order = |name: &str| ORDER_SENSITIVE_AGGREGATES.contains(&name);
        return aggregate.aggr_expr().iter().any(|f| by_order(f.fun().name())) || node.fetch().is_some();
    }
    node.fetch().is_some()
        || node.is::<GlobalLimitExec>()
        || node.is::<LocalLimitExec>()
        || node.is::<WindowAggExec>()
        || node.is::<BoundedWindowAggExec>()
        || node.downcast_ref::<SourceExec>().is_some_and(|s| s.request().limit.is_some())
}
