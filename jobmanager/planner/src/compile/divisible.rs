//! Under which operators a skewed input may be divided among several tasks.
//!
//! A task that reads a part of one side of a join and all of the other side gives the right rows for that part if the join
//! emits nothing for the other side's rows by themselves, and if whatever stands above the join looks at one row at a time.
//! The sides are those of Flink's adaptive skewed join; left is the build side.

use std::sync::Arc;

use datafusion::common::JoinType;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;

/// The rows of the sides of a partitioned join that may be divided.
pub struct Sides {
    pub left: bool,
    pub right: bool,
}

pub fn sides(join: &HashJoinExec) -> Sides {
    use JoinType::*;
    let join_type = *join.join_type();
    Sides {
        left: matches!(join_type, Inner | Left | LeftSemi | LeftAnti | LeftMark) && !join.null_aware,
        right: matches!(join_type, Inner | Right | RightSemi | RightAnti | RightMark) && !join.null_aware,
    }
}

/// Whether an operator with one input gives the same rows, or rows that a later merge makes the same, when its input is
/// divided among tasks.
pub fn treats_rows_alone(plan: &Arc<dyn ExecutionPlan>) -> bool {
    if plan.fetch().is_some() {
        return false;
    }
    let partial = |a: &AggregateExec| *a.mode() == AggregateMode::Partial;
    plan.is::<ProjectionExec>()
        || plan.is::<FilterExec>()
        || plan.downcast_ref::<AggregateExec>().is_some_and(partial)
        || plan.downcast_ref::<SortExec>().is_some_and(|sort| sort.preserve_partitioning())
}
