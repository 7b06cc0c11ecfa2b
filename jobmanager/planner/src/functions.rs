//! Types of the dialect that DataFusion lacks or has otherwise.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::planner::TypePlanner;

use crate::sql::{SqlType, from_sqlparser};

/// The types of casts and typed literals, as CREATE TABLE reads them.
///
/// A cast to TIMESTAMP_LTZ gets the session's zone, in which the text or the TIMESTAMP is then read; the value is an instant.
#[derive(Debug)]
pub(crate) struct FlinkTypes {
    pub(crate) time_zone: Arc<str>,
}

impl TypePlanner for FlinkTypes {
    fn plan_type_field(&self, sql_type: &sqlparser::ast::DataType) -> Result<Option<FieldRef>> {
        let data_type = match from_sqlparser(sql_type) {
            Ok(ltz @ SqlType::TimestampLtz(_)) => match ltz.to_arrow() {
                DataType::Timestamp(unit, _) => DataType::Timestamp(unit, Some(Arc::clone(&self.time_zone))),
                other => other,
            },
            Ok(sql_type) => sql_type.to_arrow(),
            Err(message) => return plan_err!("{message}"),
        };
        Ok(Some(Arc::new(Field::new("", data_type, true))))
    }
}
