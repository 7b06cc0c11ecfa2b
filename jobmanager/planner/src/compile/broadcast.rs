//! Which joins broadcast a side before anything has run: those whose side cannot be larger than the threshold, by what is
//! known of the files it is read from. Estimates of selectivity are not believed.

use std::sync::Arc;

use datafusion::common::JoinType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::projection::ProjectionExec;
use thalweg_exec::SourceExec;

/// Join types whose build side (the left one) may be replicated to every task: none of them emits build rows by itself.
pub fn build_side_may_be_replicated(join: JoinType) -> bool {
    matches!(join, JoinType::Inner | JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark)
}

/// Runs after the library chose the build side and before it adds exchanges.
#[derive(Debug)]
pub struct BroadcastSmallSides {
    /// Raw bytes; 0 = never.
    threshold: u64,
}

impl BroadcastSmallSides {
    pub fn new(threshold: u64) -> Self {
        Self { threshold }
    }

    fn fits(&self, plan: &Arc<dyn ExecutionPlan>) -> Option<u64> {
        bytes_bound(plan).filter(|&bytes| bytes < self.threshold)
    }

    fn rewrite(&self, join: &HashJoinExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let left = self.fits(join.left()).filter(|_| build_side_may_be_replicated(*join.join_type()));
        let right = self.fits(join.right()).filter(|_| build_side_may_be_replicated(join.join_type().swap()));
        match (left, right) {
            (Some(left), right) if right.is_none_or(|right| left <= right) => Ok(Some(
                join.builder().with_partition_mode(PartitionMode::CollectLeft).recompute_properties().build_exec()?,
            )),
            (_, Some(_)) => Ok(Some(join.swap_inputs(PartitionMode::CollectLeft)?)),
            _ => Ok(None),
        }
    }
}

impl PhysicalOptimizerRule for BroadcastSmallSides {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        if self.threshold == 0 {
            return Ok(plan);
        }
        plan.transform_up(|node| {
            let rewritten = match node.downcast_ref::<HashJoinExec>() {
                Some(join) if *join.partition_mode() != PartitionMode::CollectLeft => self.rewrite(join)?,
                _ => None,
            };
            Ok(rewritten.map_or_else(|| Transformed::no(node), Transformed::yes))
        })
        .map(|t| t.data)
    }

    fn name(&self) -> &str {
        "broadcast_small_sides"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Bytes that the plan's output cannot exceed; known for a table that is at most filtered and narrowed.
fn bytes_bound(plan: &Arc<dyn ExecutionPlan>) -> Option<u64> {
    if let Some(source) = plan.downcast_ref::<SourceExec>() {
        return source.output_bytes_bound();
    }
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        return bytes_bound(filter.input());
    }
    let projection = plan.downcast_ref::<ProjectionExec>()?;
    let only_columns = projection.expr().iter().all(|e| e.expr.is::<datafusion::physical_expr::expressions::Column>());
    only_columns.then(|| bytes_bound(projection.input())).flatten()
}
