//! Placeholder: the table provider is written elsewhere and replaces this module.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Result, not_impl_err};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use thalweg_connectors::TableSource;

#[derive(Debug)]
pub(crate) struct SourceTable {
    schema: SchemaRef,
}

impl SourceTable {
    pub(crate) async fn try_new(
        _name: String,
        source: Arc<dyn TableSource>,
    ) -> Result<Self, thalweg_connectors::Error> {
        Ok(SourceTable { schema: source.schema() })
    }
}

#[async_trait]
impl TableProvider for SourceTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        _projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        not_impl_err!("scan")
    }
}
