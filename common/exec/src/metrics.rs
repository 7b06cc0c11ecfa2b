//! What the operators of a finished task counted, flattened for the report.

use datafusion::physical_plan::{ExecutionPlan, displayable};
use thalweg_graph::OperatorMetrics;

use crate::source::FILTERED_ROWS;

/// One entry per operator in pre-order. Counters an operator does not keep are 0.
pub fn operator_metrics(plan: &dyn ExecutionPlan) -> Vec<OperatorMetrics> {
    let mut out = Vec::new();
    collect(plan, 0, &mut out);
    out
}

fn collect(plan: &dyn ExecutionPlan, depth: u32, out: &mut Vec<OperatorMetrics>) {
    let metrics = plan.metrics();
    let count = |f: &dyn Fn(&datafusion::physical_plan::metrics::MetricsSet) -> Option<usize>| {
        metrics.as_ref().and_then(f).unwrap_or(0) as u64
    };
    out.push(OperatorMetrics {
        depth,
        name: displayable(plan).one_line().to_string().trim().to_owned(),
        output_rows: count(&|m| m.output_rows()),
        elapsed_nanos: count(&|m| m.elapsed_compute()),
        spilled_bytes: count(&|m| m.spilled_bytes()),
        filtered_rows: count(&|m| m.sum_by_name(FILTERED_ROWS).map(|sum| sum.as_usize())),
    });
    for child in plan.children() {
        collect(child.as_ref(), depth + 1, out);
    }
}
