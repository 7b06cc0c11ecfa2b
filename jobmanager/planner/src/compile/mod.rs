//! Placeholder: physical planning is written elsewhere and replaces this module.

use arrow::datatypes::SchemaRef;
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use thalweg_graph::PlanTemplate;

use crate::{PlanError, PlannerOptions};

pub struct CompiledQuery {
    pub template: PlanTemplate,
    pub schema: SchemaRef,
    pub statement: String,
    pub explain: String,
}

pub async fn compile(
    state: &SessionState,
    plan: &LogicalPlan,
    _options: &PlannerOptions,
) -> Result<CompiledQuery, PlanError> {
    let plan = state.optimize(plan)?;
    let template = PlanTemplate { stages: Vec::new(), exchanges: Vec::new() };
    let schema = SchemaRef::new(plan.schema().as_arrow().clone());
    Ok(CompiledQuery { template, schema, statement: String::new(), explain: plan.display_indent().to_string() })
}
