//! Checks of a query's function calls that need to know which functions there are.

use std::ops::ControlFlow;

use datafusion::execution::SessionState;
use sqlparser::ast::{Expr, Function, FunctionArguments, Query, Spanned, Visit, Visitor};

use crate::error::PlanError;
use crate::sql::{Position, SqlError};

/// DataFusion drops FILTER, OVER, DISTINCT and ORDER BY on a call of a scalar function; here they are errors.
pub(crate) fn check_calls(query: &Query, state: &SessionState) -> Result<(), PlanError> {
    match query.visit(&mut Calls { state }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error.into()),
    }
}

struct Calls<'a> {
    state: &'a SessionState,
}

impl Visitor for Calls<'_> {
    type Break = SqlError;

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<SqlError> {
        let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
        let name = function.name.to_string().to_lowercase();
        if !self.state.scalar_functions().contains_key(&name) {
            return ControlFlow::Continue(());
        }
        match modifier(function) {
            None => ControlFlow::Continue(()),
            Some(modifier) => ControlFlow::Break(SqlError::Unsupported {
                position: Position::of(function.name.span()),
                construct: format!("{modifier} on the scalar function `{}`", function.name),
                instead: "it belongs to aggregate and window functions".to_string(),
            }),
        }
    }
}

fn modifier(function: &Function) -> Option<&'static str> {
    if function.filter.is_some() {
        return Some("FILTER");
    }
    if function.over.is_some() {
        return Some("OVER");
    }
    if function.null_treatment.is_some() {
        return Some("IGNORE NULLS or RESPECT NULLS");
    }
    if !function.within_group.is_empty() {
        return Some("WITHIN GROUP");
    }
    match &function.args {
        FunctionArguments::List(list) if list.duplicate_treatment.is_some() => Some("DISTINCT or ALL"),
        FunctionArguments::List(list) if !list.clauses.is_empty() => Some("a clause among the arguments"),
        _ => None,
    }
}
