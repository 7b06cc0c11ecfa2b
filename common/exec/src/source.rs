//! The leaf that reads a table, split by split.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{ColumnStatistics, DFSchema, Statistics};
use datafusion::config::ConfigOptions;
use datafusion::datasource::TableType;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, Operator, TableProviderFilterPushDown};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_expr::expressions::BinaryExpr;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, ReplaceChildrenOptions, SchedulingType};
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterPushdownPhase, FilterPushdownPropagation, PushedDown,
};
use datafusion::physical_plan::metrics::{BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PhysicalExpr, PlanProperties,
};
use futures::{StreamExt, TryStreamExt, stream};
use thalweg_connectors::{ScanPlan, ScanRequest, ScanSpec, TableSource, open_split};

use crate::io::TaskIo;
use crate::runtime_filter::{RuntimeFilter, RuntimeFilterRule};

/// Counts the rows that runtime filters removed.
pub(crate) const FILTERED_ROWS: &str = "runtime_filtered_rows";

/// A table as the planner sees it: its schema, and its splits and statistics as enumerated when it was bound to a query.
#[derive(Debug)]
pub struct SourceTable {
    name: String,
    spec: Arc<ScanSpec>,
    schema: SchemaRef,
    plan: Arc<ScanPlan>,
}

impl SourceTable {
    /// Enumerates the table's splits. Errors are the connector's.
    pub async fn try_new(name: String, source: Arc<dyn TableSource>) -> Result<Self, thalweg_connectors::Error> {
        let plan = source.plan_scan().await?;
        Ok(Self { name, spec: Arc::new(source.scan_spec()), schema: source.schema(), plan: Arc::new(plan) })
    }

    /// Bytes a scan of these columns (positions in the schema; `None` = all) is expected to read.
    pub fn scanned_bytes(&self, projection: Option<&[usize]>) -> u64 {
        self.plan.scanned_bytes(projection)
    }

    /// Rows of the table, if they are known exactly.
    pub fn rows(&self) -> Option<u64> {
        self.plan.rows
    }

    /// What is known of the column at a position in the schema.
    pub fn column_statistics(&self, column: usize) -> Option<&ColumnStatistics> {
        self.plan.column_statistics.get(column)
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

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        // a predicate skips row groups and pages; the filter above the scan decides
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let projection = projection.cloned().unwrap_or_else(|| (0..self.schema.fields().len()).collect());
        let predicate = match conjunction(filters.iter().cloned()) {
            Some(filter) => {
                let schema = DFSchema::try_from(Arc::clone(&self.schema))?;
                Some(state.create_physical_expr(filter, &schema)?)
            }
            None => None,
        };
        // a limit above an inexact filter must not cut the scan
        let limit = if predicate.is_none() { limit } else { None };
        let partitions = state.config().target_partitions();
        let request = ScanRequest { projection, predicate, limit, row_filters: vec![] };
        let exec = SourceExec::try_new(0, self.name.clone(), Arc::clone(&self.spec), request, partitions)?;
        Ok(Arc::new(exec.with_plan(Arc::clone(&self.plan))))
    }
}

/// Reads the splits that its task is handed for source number `slot`, one after the other.
#[derive(Debug, Clone)]
pub struct SourceExec {
    slot: usize,
    name: String,
    spec: Arc<ScanSpec>,
    request: ScanRequest,
    /// `None` takes no runtime filters.
    runtime_rule: Option<RuntimeFilterRule>,
    /// Only in a task.
    runtime_filters: Vec<RuntimeFilter>,
    /// Only in the planner.
    plan: Option<Arc<ScanPlan>>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl SourceExec {
    /// `partitions` is what the planner is to believe; a task's source has one. Fails if the projection names a column that
    /// the table does not have.
    pub fn try_new(
        slot: usize,
        name: String,
        spec: Arc<ScanSpec>,
        request: ScanRequest,
        partitions: usize,
    ) -> Result<Self> {
        let schema = Arc::new(spec.schema().project(&request.projection)?);
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::Cooperative);
        let metrics = ExecutionPlanMetricsSet::new();
        Ok(Self {
            slot,
            name,
            spec,
            request,
            runtime_rule: None,
            runtime_filters: vec![],
            plan: None,
            properties: Arc::new(properties),
            metrics,
        })
    }

    fn with_plan(mut self, plan: Arc<ScanPlan>) -> Self {
        self.plan = Some(plan);
        self
    }

    /// Lets the joins of a task filter the scan while it runs.
    pub fn with_runtime_rule(mut self, rule: Option<RuntimeFilterRule>) -> Self {
        self.runtime_rule = rule;
        self
    }

    pub fn runtime_rule(&self) -> Option<RuntimeFilterRule> {
        self.runtime_rule
    }

    pub(crate) fn runtime_filters(&self) -> &[RuntimeFilter] {
        &self.runtime_filters
    }

    /// The same scan as source number `slot` of a single-partition plan.
    pub fn for_task(&self, slot: usize) -> Result<Self> {
        Self::try_new(slot, self.name.clone(), Arc::clone(&self.spec), self.request.clone(), 1)
    }

    pub fn slot(&self) -> usize {
        self.slot
    }

    pub fn table(&self) -> &str {
        &self.name
    }

    pub fn spec(&self) -> &Arc<ScanSpec> {
        &self.spec
    }

    pub fn request(&self) -> &ScanRequest {
        &self.request
    }

    /// The enumerated splits; only in a plan that has not been sent anywhere.
    pub fn plan(&self) -> Option<&Arc<ScanPlan>> {
        self.plan.as_ref()
    }

    /// Bytes that the scan is expected to read; only in a plan that has not been sent anywhere.
    pub fn scanned_bytes(&self) -> Option<u64> {
        self.plan.as_ref().map(|plan| plan.scanned_bytes(Some(&self.request.projection)))
    }

    /// Never fewer bytes than the scan's output will take, before any filter; `None` when nothing is known.
    pub fn output_bytes_bound(&self) -> Option<u64> {
        let plan = self.plan.as_ref()?;
        let rows = plan.rows?;
        let table = self.spec.schema();
        let columns = self.request.projection.iter().map(|&i| {
            let fixed = table.field(i).data_type().primitive_width().map(|w| w as u64 * rows);
            let stored = plan.column_bytes.get(i).copied();
            match (fixed, stored) {
                (Some(fixed), _) => Some(fixed),
                // stored strings may be dictionary encoded: assume no fewer than 16 bytes a value
                (None, Some(stored)) => Some(stored.max(16 * rows)),
                (None, None) => (!plan.column_bytes.is_empty() || plan.bytes > 0).then_some(plan.bytes),
            }
        });
        columns.sum()
    }

    /// What to ask of the next split, by what the runtime filters know now.
    fn request_now(&self, filtered: &Count) -> ScanRequest {
        let mut request = self.request.clone();
        let Some(rule) = self.runtime_rule else { return request };
        for filter in &self.runtime_filters {
            let usable = filter.usable(rule, filtered);
            request.predicate = request.predicate.into_iter().chain(usable.bounds).reduce(and);
            request.row_filters.extend(usable.per_row);
        }
        request
    }

    fn statistics(&self) -> Statistics {
        let schema = self.schema();
        let Some(plan) = &self.plan else { return Statistics::new_unknown(&schema) };
        let rows = plan.rows.map_or(Precision::Absent, |rows| Precision::Exact(rows as usize));
        let column = |&i: &usize| plan.column_statistics.get(i).cloned().unwrap_or_else(ColumnStatistics::new_unknown);
        Statistics {
            num_rows: rows,
            total_byte_size: self.output_bytes_bound().map_or(Precision::Absent, |b| Precision::Inexact(b as usize)),
            column_statistics: self.request.projection.iter().map(column).collect(),
        }
    }
}

impl DisplayAs for SourceExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let schema = self.schema();
        let columns: Vec<_> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        write!(f, "SourceExec: source={}, table={}, columns=[{}]", self.slot, self.name, columns.join(", "))?;
        if let Some(predicate) = &self.request.predicate {
            write!(f, ", predicate={predicate}")?;
        }
        if !self.runtime_filters.is_empty() {
            write!(f, ", runtime_filters={}", self.runtime_filters.len())?;
        }
        match self.request.limit {
            Some(limit) => write!(f, ", limit={limit}"),
            None => Ok(()),
        }
    }
}

impl ExecutionPlan for SourceExec {
    fn name(&self) -> &str {
        "SourceExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let filters = self.runtime_filters.iter().map(RuntimeFilter::expr);
        for expr in self.request.predicate.iter().chain(filters) {
            if f(expr)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let io = TaskIo::of(&context)?;
        let (slot, spec, source) = (self.slot, Arc::clone(&self.spec), self.clone());
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let filtered = MetricBuilder::new(&self.metrics).counter(FILTERED_ROWS, partition);
        let opening = stream::try_unfold((), move |()| {
            let (io, spec, context) = (Arc::clone(&io), Arc::clone(&spec), Arc::clone(&context));
            let (source, filtered) = (source.clone(), filtered.clone());
            async move {
                let Some(split) = io.splits.next(slot).await? else { return Ok(None) };
                let request = source.request_now(&filtered);
                let rows = open_split(&spec, &split, &request, &io.access, context)
                    .await
                    .map_err(|e| DataFusionError::External(Box::new(e)))?;
                Ok::<_, DataFusionError>(Some((rows, ())))
            }
        });
        let rows = opening.try_flatten().inspect(move |batch| {
            if let Ok(batch) = batch {
                metrics.record_output(batch.num_rows());
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn handle_child_pushdown_result(
        &self,
        phase: FilterPushdownPhase,
        pushed: ChildPushdownResult,
        _: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        // none is promised to be applied
        let answer =
            FilterPushdownPropagation::with_parent_pushdown_result(vec![PushedDown::No; pushed.parent_filters.len()]);
        // rows beyond a limit are not read, so that none before it may be left out
        if phase != FilterPushdownPhase::Post || self.runtime_rule.is_none() || self.request.limit.is_some() {
            return Ok(answer);
        }
        let table = self.spec.schema();
        let given = pushed.parent_filters.iter();
        let new = given.filter_map(|f| RuntimeFilter::new(&f.filter, &self.request.projection, &table));
        let mut source = self.clone();
        source.runtime_filters.extend(new);
        Ok(answer.with_updated_node(Arc::new(source)))
    }

    fn statistics_from_inputs(&self, _: &[Arc<Statistics>], args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        Ok(Arc::new(match args.partition() {
            Some(_) => Statistics::new_unknown(&self.schema()),
            None => self.statistics(),
        }))
    }
}

fn and(left: Arc<dyn PhysicalExpr>, right: Arc<dyn PhysicalExpr>) -> Arc<dyn PhysicalExpr> {
    Arc::new(BinaryExpr::new(left, Operator::And, right))
}
