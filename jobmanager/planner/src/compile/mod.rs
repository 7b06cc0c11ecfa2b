//! From a logical plan to a plan template: physical planning by the library, then the cut into stages.
//!
//! Decides the order of joins ([`crate::order`]), whether a query is small enough for one task, which joins broadcast a side that is small by its size on disk, and
//! where exchanges stand. Does not decide any parallelism: that is the scheduler's, from measured bytes.

mod broadcast;
mod classify;
mod cut;
mod describe;
mod divisible;

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::source_as_provider;
use datafusion::execution::context::SessionState;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::Optimizer;
use datafusion::optimizer::optimize_projections::OptimizeProjections;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::displayable;
use thalweg_exec::SourceTable;
use thalweg_graph::PlanTemplate;

use crate::order::{Ordered, order_joins};
use crate::{PlanError, PlannerOptions};

/// A query ready to be submitted.
#[derive(Debug, Clone)]
pub struct CompiledQuery {
    pub template: PlanTemplate,
    /// Of the result.
    pub schema: SchemaRef,
    /// The query's text, as the user wrote it.
    pub statement: String,
    /// The stages and the operators of each, as `EXPLAIN` prints them.
    pub explain: String,
}

/// Compiles a logical plan. `state` is the session the plan was made in; its tables are [`SourceTable`]s.
///
/// Errors: what the library's planner refuses, and operators that cannot be sent to another process.
pub async fn compile(
    state: &SessionState,
    plan: &LogicalPlan,
    options: &PlannerOptions,
) -> Result<CompiledQuery, PlanError> {
    let Ordered { plan: optimized, changes } = optimize(state, plan, options)?;
    let facts = QueryFacts::of(&optimized)?;
    let small = options.single_task_threshold > 0 && facts.scanned_bytes < options.single_task_threshold;
    let single_task = small || facts.recursive;
    let physical = physical_plan(state, &optimized, options, single_task).await?;
    let schema = physical.schema();
    let cut = cut::cut(&physical, single_task, subpartitions(options.max_parallelism), options.runtime_filters)?;
    cut.template.validate().map_err(PlanError::InvalidTemplate)?;
    let reason = match (single_task, facts.recursive) {
        (true, true) => "one task: a recursive query".to_owned(),
        (true, false) => format!(
            "one task: {} bytes to scan are fewer than execution.batch.single-task-threshold = {}",
            facts.scanned_bytes, options.single_task_threshold
        ),
        (false, _) => format!("{} stages, {} bytes to scan", cut.template.stages.len(), facts.scanned_bytes),
    };
    let heading: Vec<String> = std::iter::once(reason).chain(changes).collect();
    let explain = explain(&heading.join("\n"), &cut);
    Ok(CompiledQuery { template: cut.template, schema, statement: String::new(), explain })
}

/// The plan after the library's rules, its joins in the order that is expected to be the cheapest.
fn optimize(state: &SessionState, plan: &LogicalPlan, options: &PlannerOptions) -> Result<Ordered, PlanError> {
    let plan = state.optimize(plan)?;
    let Some(join_order) = &options.join_order else { return Ok(Ordered { plan, changes: vec![] }) };
    let mut ordered = order_joins(plan, join_order)?;
    if !ordered.changes.is_empty() {
        // columns are dropped where the new order has no use for them any more
        let narrow = Optimizer::with_rules(vec![Arc::new(OptimizeProjections::new())]);
        ordered.plan = narrow.optimize(ordered.plan, state, |_, _| {})?;
    }
    Ok(ordered)
}

/// Subpartitions of a hash exchange: eight for every consumer there may be, within what scattering can afford
/// (1024 costs 33 ns a row, 4096 twice as much), never fewer than consumers.
fn subpartitions(max_parallelism: u32) -> u32 {
    let wanted = max_parallelism.saturating_mul(8).checked_next_power_of_two().unwrap_or(u32::MAX);
    let floor = max_parallelism.checked_next_power_of_two().unwrap_or(u32::MAX);
    wanted.clamp(512, 1024).max(floor).min(65_536)
}

/// What is known of a query before it is planned physically.
struct QueryFacts {
    scanned_bytes: u64,
    recursive: bool,
}

impl QueryFacts {
    fn of(plan: &LogicalPlan) -> Result<Self, PlanError> {
        let mut facts = QueryFacts { scanned_bytes: 0, recursive: false };
        plan.apply_with_subqueries(|node| {
            match node {
                LogicalPlan::RecursiveQuery(_) => facts.recursive = true,
                LogicalPlan::TableScan(scan) => {
                    let provider = source_as_provider(&scan.source)?;
                    if let Some(table) = provider.downcast_ref::<SourceTable>() {
                        facts.scanned_bytes += table.scanned_bytes(scan.projection.as_deref());
                    }
                }
                _ => {}
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(facts)
    }
}

async fn physical_plan(
    state: &SessionState,
    plan: &LogicalPlan,
    options: &PlannerOptions,
    single_task: bool,
) -> Result<Arc<dyn ExecutionPlan>, PlanError> {
    let mut config = state.config().clone();
    config.options_mut().execution.target_partitions = if single_task { 1 } else { 2 };
    let mut rules = state.physical_optimizers().to_vec();
    if !single_task {
        let selection = rules.iter().position(|rule| rule.name() == "join_selection").map_or(0, |at| at + 1);
        rules.insert(selection, Arc::new(broadcast::BroadcastSmallSides::new(options.broadcast_threshold)));
    }
    let state = SessionStateBuilder::new_from_existing(state.clone())
        .with_config(config)
        .with_physical_optimizer_rules(rules)
        .build();
    Ok(state.query_planner().create_physical_plan(plan, &state).await?)
}

fn explain(heading: &str, cut: &cut::Cut) -> String {
    let mut text = format!("{heading}\n");
    for (stage, line) in cut.plans.iter().zip(cut.template.to_string().lines()) {
        text.push_str(line);
        text.push('\n');
        for operator in displayable(stage.as_ref()).indent(false).to_string().lines() {
            text.push_str("    ");
            text.push_str(operator);
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests;
