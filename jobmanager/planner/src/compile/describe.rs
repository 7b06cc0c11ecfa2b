//! A stage in one line: `scan lineitem → filter → aggregate (partial)`.

use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::joins::HashJoinExec;
use thalweg_exec::{ExchangeInputExec, SourceExec};

/// Follows the streamed side of each operator (the probe of a join) from the leaf up; plumbing is left out.
pub fn stage_name(plan: &Arc<dyn ExecutionPlan>) -> String {
    let mut steps = Vec::new();
    let mut node = plan;
    loop {
        if let Some(step) = step(node) {
            steps.push(step);
        }
        match node.children().last() {
            Some(&child) => node = child,
            None => break,
        }
    }
    steps.reverse();
    steps.dedup();
    steps.join(" → ")
}

fn step(node: &Arc<dyn ExecutionPlan>) -> Option<String> {
    if let Some(source) = node.downcast_ref::<SourceExec>() {
        return Some(format!("scan {}", source.table()));
    }
    if let Some(join) = node.downcast_ref::<HashJoinExec>() {
        return Some(format!("join ({})", join.join_type().to_string().to_lowercase()));
    }
    if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
        return Some(match aggregate.mode() {
            AggregateMode::Partial => "aggregate (partial)".to_owned(),
            AggregateMode::PartialReduce => "aggregate (merge)".to_owned(),
            _ => "aggregate".to_owned(),
        });
    }
    if node.is::<ExchangeInputExec>() {
        return Some("read".to_owned());
    }
    let step = match node.name() {
        "FilterExec" => "filter",
        "SortExec" => "sort",
        "SortPreservingMergeExec" => "merge",
        "GlobalLimitExec" | "LocalLimitExec" => "limit",
        "NestedLoopJoinExec" | "CrossJoinExec" => "nested loop join",
        "SortMergeJoinExec" => "sort merge join",
        "WindowAggExec" | "BoundedWindowAggExec" => "window",
        "ConcatExec" => "union",
        "UnnestExec" => "unnest",
        "OnceExec" => "values",
        _ => return None,
    };
    Some(step.to_owned())
}
