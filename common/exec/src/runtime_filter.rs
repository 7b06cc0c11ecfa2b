//! Filters that come up while a task runs: a join knows its build side's keys before it reads the other side, a top-n its worst
//! row so far. They go down to the scans of the same task, which leave out rows that could not come through anyway.
//!
//! A filter is a help, never a condition: whoever made it checks every row again. So it may be left out, and is, when it turns out
//! to remove too little: decoding a column ahead of the others and selecting costs more than it saves then. This is decided split by
//! split from the rows seen so far. What rows a filter must remove is `table.optimizer.runtime-filter.min-filter-ratio`.
//!
//! A filter stays inside of its task, so that nothing waits for another process. Joins make it of a set of hashes ([`crate::bloom`]) and
//! not, as the library's would, of their own hash table: that question costs as much as the join itself (docs/decisions/0006).

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{Array, BooleanArray};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{JoinType, NullEquality};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, Operator};
use datafusion::physical_expr::expressions::{BinaryExpr, Column, DynamicFilterPhysicalExpr, Literal};
use datafusion::physical_expr::split_conjunction;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::filter_pushdown::FilterPushdown;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::metrics::Count;
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr};
use datafusion::scalar::ScalarValue;

use crate::SourceExec;
use crate::key_filter::{CollectKeysExec, KeyFilter, KeySet, OfferKeysExec};

/// Rows a filter sees before it is judged.
const SAMPLE: u64 = 64 * 1024;

/// Which runtime filters a scan keeps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RuntimeFilterRule {
    /// Share of the rows it sees, 0 to 1, that a filter must remove.
    pub min_ratio: f64,
    /// Bytes of a join's build side beyond which no filter is made of it.
    pub max_build_bytes: u64,
}

/// Connects the plan's joins and top-n's with its scans. A plan without a scan that takes filters stays as it is, and so does a
/// recursive one: its operators run again with other keys, its scans would keep the filter of the first time.
pub(crate) fn push_down(plan: Arc<dyn ExecutionPlan>, options: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
    if rule_below(&plan).is_none() || is_recursive(&plan) {
        return Ok(plan);
    }
    let plan = plan.transform_up(collect_keys).data()?;
    let plan = FilterPushdown::new_post_optimization().optimize(plan, options)?;
    let mut used = Vec::new();
    used_sets(&plan, &mut used);
    plan.transform_up(|node| Ok(tidy(node, &used))).data()
}

/// The rule of a scan that takes filters.
fn rule_below(plan: &Arc<dyn ExecutionPlan>) -> Option<RuntimeFilterRule> {
    let own = plan.downcast_ref::<SourceExec>().and_then(SourceExec::runtime_rule);
    own.or_else(|| plan.children().into_iter().find_map(rule_below))
}

fn is_recursive(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<RecursiveQueryExec>() || plan.children().into_iter().any(is_recursive)
}

/// Lets a join that drops what it finds no partner for collect its keys and offer them to its other side.
fn collect_keys(plan: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let join = plan.downcast_ref::<HashJoinExec>().filter(|join| drops_unmatched(join));
    let Some((join, rule)) = join.and_then(|join| Some((join, rule_below(join.right())?))) else {
        return Ok(Transformed::no(plan));
    };
    let (left, right): (Vec<_>, Vec<_>) = join.on().iter().cloned().unzip();
    let build = CollectKeysExec::new(Arc::clone(join.left()), left, rule.max_build_bytes);
    let probe = OfferKeysExec::new(Arc::clone(join.right()), build.filter(right));
    let children: Vec<Arc<dyn ExecutionPlan>> = vec![Arc::new(build), Arc::new(probe)];
    Ok(Transformed::yes(replaced(&plan, children)?))
}

/// Whether rows of the right side that find no partner come to nothing.
fn drops_unmatched(join: &HashJoinExec) -> bool {
    use JoinType::{Inner, Left, LeftAnti, LeftMark, LeftSemi, RightSemi};
    let drops = matches!(join.join_type(), Inner | Left | LeftSemi | LeftAnti | LeftMark | RightSemi);
    drops && !join.null_aware && join.null_equality() == NullEquality::NullEqualsNothing
}

fn replaced(plan: &Arc<dyn ExecutionPlan>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
    Arc::clone(plan).replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
}

/// The key sets that scans ask.
fn used_sets(plan: &Arc<dyn ExecutionPlan>, used: &mut Vec<Arc<KeySet>>) {
    if let Some(source) = plan.downcast_ref::<SourceExec>() {
        let filters = source.runtime_filters().iter().filter_map(|f| f.expr.downcast_ref::<KeyFilter>());
        used.extend(filters.map(|filter| Arc::clone(filter.set())));
    }
    plan.children().into_iter().for_each(|child| used_sets(child, used));
}

/// Takes away what was only there to push filters down, and keys that nobody asks for.
fn tidy(plan: Arc<dyn ExecutionPlan>, used: &[Arc<KeySet>]) -> Transformed<Arc<dyn ExecutionPlan>> {
    if let Some(offer) = plan.downcast_ref::<OfferKeysExec>() {
        return Transformed::yes(Arc::clone(offer.child()));
    }
    match plan.downcast_ref::<CollectKeysExec>() {
        Some(collect) if !used.iter().any(|set| Arc::ptr_eq(set, collect.set())) => {
            Transformed::yes(Arc::clone(collect.child()))
        }
        _ => Transformed::no(plan),
    }
}

/// A filter that a scan was given.
#[derive(Debug, Clone)]
pub(crate) struct RuntimeFilter {
    /// Over the table's columns.
    expr: Arc<dyn PhysicalExpr>,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    seen: AtomicU64,
    removed: AtomicU64,
}

/// What a filter is good for at the moment.
#[derive(Debug, Default)]
pub(crate) struct Usable {
    /// Comparisons of columns with constants: row groups and pages outside of them are skipped.
    pub bounds: Vec<Arc<dyn PhysicalExpr>>,
    /// To be applied to each row.
    pub per_row: Option<Arc<dyn PhysicalExpr>>,
}

impl RuntimeFilter {
    /// `filter` is over the columns `projection` of the table. `None` if it is neither a key filter nor that of a top-n, or one over
    /// floating-point columns, whose bounds leave out NaN.
    pub fn new(filter: &Arc<dyn PhysicalExpr>, projection: &[usize], table: &SchemaRef) -> Option<Self> {
        if !filter.is::<KeyFilter>() && !filter.is::<DynamicFilterPhysicalExpr>() {
            return None;
        }
        let over_table = |expr: Arc<dyn PhysicalExpr>| {
            let Some(column) = expr.downcast_ref::<Column>() else { return Ok(Transformed::no(expr)) };
            let index = projection.get(column.index()).copied().unwrap_or(usize::MAX);
            Ok(Transformed::yes(Arc::new(Column::new(column.name(), index)) as Arc<dyn PhysicalExpr>))
        };
        let expr = Arc::clone(filter).transform_up(over_table).data().ok()?;
        let exact = |column: &Column| table.fields().get(column.index()).is_some_and(|f| !f.data_type().is_floating());
        collect_columns(&expr).iter().all(exact).then(|| Self { expr, counts: Arc::default() })
    }

    pub fn expr(&self) -> &Arc<dyn PhysicalExpr> {
        &self.expr
    }

    fn tells_rows_apart(&self) -> bool {
        self.expr.downcast_ref::<KeyFilter>().is_none_or(KeyFilter::tells_rows_apart)
    }

    /// `None` while the filter is not known.
    fn bounds_now(&self) -> Option<Vec<Arc<dyn PhysicalExpr>>> {
        if let Some(keys) = self.expr.downcast_ref::<KeyFilter>() {
            return keys.is_known().then(|| keys.bounds());
        }
        let now = self.expr.downcast_ref::<DynamicFilterPhysicalExpr>()?.current().ok()?;
        let bounds = || split_conjunction(&now).into_iter().filter(|part| is_bound(part)).map(Arc::clone).collect();
        (!is_true(&now)).then(bounds)
    }

    /// Asked before each split.
    pub fn usable(&self, rule: RuntimeFilterRule, removed_rows: &Count) -> Usable {
        let Some(bounds) = self.bounds_now() else { return Usable::default() };
        let per_row = (self.tells_rows_apart() && self.counts.keep(rule)).then(|| {
            let counted = Counted {
                inner: Arc::clone(&self.expr),
                counts: Arc::clone(&self.counts),
                removed_rows: removed_rows.clone(),
            };
            Arc::new(counted) as Arc<dyn PhysicalExpr>
        });
        Usable { bounds, per_row }
    }
}

impl Counts {
    fn keep(&self, rule: RuntimeFilterRule) -> bool {
        let seen = self.seen.load(Ordering::Relaxed);
        seen < SAMPLE || self.removed.load(Ordering::Relaxed) as f64 >= seen as f64 * rule.min_ratio
    }
}

fn is_true(expr: &Arc<dyn PhysicalExpr>) -> bool {
    expr.downcast_ref::<Literal>().is_some_and(|literal| *literal.value() == ScalarValue::Boolean(Some(true)))
}

fn is_bound(expr: &Arc<dyn PhysicalExpr>) -> bool {
    if let Some(literal) = expr.downcast_ref::<Literal>() {
        return *literal.value() == ScalarValue::Boolean(Some(false));
    }
    let Some(comparison) = expr.downcast_ref::<BinaryExpr>() else { return false };
    let compares =
        matches!(comparison.op(), Operator::Gt | Operator::GtEq | Operator::Lt | Operator::LtEq | Operator::Eq);
    compares && comparison.left().is::<Column>() && comparison.right().is::<Literal>()
}

/// A filter that counts what it removes. Opaque to whoever prunes by statistics.
#[derive(Debug)]
struct Counted {
    inner: Arc<dyn PhysicalExpr>,
    counts: Arc<Counts>,
    removed_rows: Count,
}

impl PartialEq for Counted {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.counts, &other.counts) && self.inner.as_ref() == other.inner.as_ref()
    }
}

impl Eq for Counted {}

impl Hash for Counted {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
    }
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "runtime filter {}", self.inner)
    }
}

impl PhysicalExpr for Counted {
    fn data_type(&self, _: &Schema) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.inner.nullable(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let value = self.inner.evaluate(batch)?;
        let rows = batch.num_rows();
        let passed = match &value {
            // not known yet
            ColumnarValue::Scalar(ScalarValue::Boolean(Some(true))) => return Ok(value),
            ColumnarValue::Scalar(_) => 0,
            ColumnarValue::Array(array) => {
                array.as_any().downcast_ref::<BooleanArray>().map_or(rows, BooleanArray::true_count)
            }
        };
        let removed = rows.saturating_sub(passed);
        self.counts.seen.fetch_add(rows as u64, Ordering::Relaxed);
        self.counts.removed.fetch_add(removed as u64, Ordering::Relaxed);
        self.removed_rows.add(removed);
        Ok(value)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.inner]
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        let inner = children.pop().unwrap_or_else(|| Arc::clone(&self.inner));
        let (counts, removed_rows) = (Arc::clone(&self.counts), self.removed_rows.clone());
        Ok(Arc::new(Counted { inner, counts, removed_rows }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt_sql(f)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::Int64Array;
    use arrow::datatypes::Field;
    use datafusion::physical_expr::expressions::{binary, col, lit};

    use super::*;

    const RULE: RuntimeFilterRule = RuntimeFilterRule { min_ratio: 0.5, max_build_bytes: 1 << 20 };

    fn table(kind: DataType) -> SchemaRef {
        Arc::new(Schema::new(vec![Field::new("other", DataType::Int64, true), Field::new("k", kind, true)]))
    }

    /// A filter over the only column of a scan, which is column 1 of the table.
    fn dynamic() -> Arc<DynamicFilterPhysicalExpr> {
        Arc::new(DynamicFilterPhysicalExpr::new(vec![Arc::new(Column::new("k", 0))], lit(true)))
    }

    fn given(filter: &Arc<DynamicFilterPhysicalExpr>) -> RuntimeFilter {
        let filter: Arc<dyn PhysicalExpr> = Arc::clone(filter) as _;
        RuntimeFilter::new(&filter, &[1], &table(DataType::Int64)).unwrap()
    }

    fn less_than(limit: i64) -> Arc<dyn PhysicalExpr> {
        let schema = Schema::new(vec![Field::new("k", DataType::Int64, true)]);
        binary(col("k", &schema).unwrap(), Operator::Lt, lit(limit), &schema).unwrap()
    }

    fn rows(count: i64) -> RecordBatch {
        let values = Arc::new(Int64Array::from_iter_values(0..count));
        RecordBatch::try_new(table(DataType::Int64), vec![Arc::clone(&values) as _, values]).unwrap()
    }

    #[test]
    fn a_filter_that_is_not_known_yet_is_not_used() {
        let usable = given(&dynamic()).usable(RULE, &Count::new());
        assert!(usable.bounds.is_empty() && usable.per_row.is_none());
    }

    #[test]
    fn a_filter_speaks_of_the_tables_columns_and_counts() {
        let (source, removed) = (dynamic(), Count::new());
        let filter = given(&source);
        source.update(less_than(3)).unwrap();
        let usable = filter.usable(RULE, &removed);
        assert_eq!(usable.bounds[0].to_string(), "k@1 < 3");
        let kept = usable.per_row.unwrap().evaluate(&rows(10)).unwrap().into_array(10).unwrap();
        assert_eq!(kept.as_any().downcast_ref::<BooleanArray>().unwrap().true_count(), 3);
        assert_eq!(removed.value(), 7);
    }

    #[test]
    fn a_filter_that_removes_little_is_left_out_after_a_sample() {
        let (source, removed) = (dynamic(), Count::new());
        let filter = given(&source);
        let batch = rows(SAMPLE as i64);
        source.update(less_than(SAMPLE as i64 / 2)).unwrap();
        filter.usable(RULE, &removed).per_row.unwrap().evaluate(&batch).unwrap();
        assert!(filter.usable(RULE, &removed).per_row.is_some(), "half of the rows is enough");
        source.update(less_than(SAMPLE as i64)).unwrap();
        filter.usable(RULE, &removed).per_row.unwrap().evaluate(&batch).unwrap();
        let usable = filter.usable(RULE, &removed);
        assert!(usable.per_row.is_none(), "a quarter is not");
        assert_eq!(usable.bounds.len(), 1, "whole row groups may still be skipped");
    }

    #[test]
    fn floating_point_columns_take_no_filter() {
        let filter: Arc<dyn PhysicalExpr> = dynamic();
        assert!(RuntimeFilter::new(&filter, &[1], &table(DataType::Float64)).is_none());
        assert!(
            RuntimeFilter::new(&less_than(3), &[1], &table(DataType::Int64)).is_none(),
            "a filter that never changes"
        );
    }
}
