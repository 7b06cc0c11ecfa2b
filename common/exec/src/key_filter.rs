//! The keys of a join's build side as a filter of its other side.
//!
//! ```text
//!            HashJoinExec
//!            /          \
//!   CollectKeysExec   OfferKeysExec      offers a KeyFilter to what is below it, and goes away
//!         |                 |
//!    build side        … SourceExec      asks the KeyFilter once the build side was read to its end
//! ```
//!
//! The join asks for every row of its build side before it asks for the first of the other.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use arrow::array::{Array, ArrayRef, BooleanArray};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use datafusion::common::hash_utils::{RandomState, create_hashes};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::functions_aggregate::min_max::{MaxAccumulator, MinAccumulator};
use datafusion::logical_expr::{Accumulator, ColumnarValue, Operator};
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::filter_pushdown::{ChildFilterDescription, FilterDescription, FilterPushdownPhase};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PhysicalExpr, PlanProperties};
use datafusion::scalar::ScalarValue;
use futures::{Stream, StreamExt};

use crate::bloom::Bloom;

/// Keys beyond which rows are not asked for one by one: their set no longer stays in the cache next to the core, and asking it costs what
/// asking the join's hash table does (docs/decisions/0006).
const MOST_KEYS: usize = 128 * 1024;
/// Any will do; both sides of a join use the same.
const SEED: u64 = 0x6b65_7973;

fn key_hashes(keys: &[ArrayRef], rows: usize) -> Result<(Vec<u64>, Option<NullBuffer>)> {
    let mut hashes = vec![0; rows];
    create_hashes(keys, &RandomState::with_seed(SEED), &mut hashes)?;
    let nulls = keys.iter().fold(None, |all, key| NullBuffer::union(all.as_ref(), key.logical_nulls().as_ref()));
    Ok((hashes, nulls))
}

fn evaluate(exprs: &[Arc<dyn PhysicalExpr>], batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
    exprs.iter().map(|expr| expr.evaluate(batch)?.into_array(batch.num_rows())).collect()
}

/// The keys of a build side; empty until it was read to its end, and for good if that was too large.
#[derive(Debug, Default)]
pub(crate) struct KeySet(OnceLock<Keys>);

#[derive(Debug)]
struct Keys {
    /// `None`: too many.
    bloom: Option<Bloom>,
    /// Of a single key column.
    bounds: Option<(ScalarValue, ScalarValue)>,
}

/// True for a row whose keys may be in a key set, and for every row until the set is known.
#[derive(Debug, Clone)]
pub(crate) struct KeyFilter {
    keys: Vec<Arc<dyn PhysicalExpr>>,
    set: Arc<KeySet>,
}

impl KeyFilter {
    /// Whether the set is known by now.
    pub fn is_known(&self) -> bool {
        self.set.0.get().is_some()
    }

    /// Whether it is worth to ask for each row.
    pub fn tells_rows_apart(&self) -> bool {
        self.set.0.get().is_some_and(|keys| keys.bloom.is_some())
    }

    pub fn set(&self) -> &Arc<KeySet> {
        &self.set
    }

    /// Comparisons that hold for every row of the filter.
    pub fn bounds(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        let ([key], Some(Keys { bounds: Some((min, max)), .. })) = (self.keys.as_slice(), self.set.0.get()) else {
            return Vec::new();
        };
        if !key.is::<Column>() {
            return Vec::new();
        }
        let bound = |op, value: &ScalarValue| {
            let value = Arc::new(Literal::new(value.clone()));
            Arc::new(BinaryExpr::new(Arc::clone(key), op, value)) as Arc<dyn PhysicalExpr>
        };
        vec![bound(Operator::GtEq, min), bound(Operator::LtEq, max)]
    }
}

impl PartialEq for KeyFilter {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.set, &other.set) && self.keys == other.keys
    }
}

impl Eq for KeyFilter {}

impl Hash for KeyFilter {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.keys.hash(state);
    }
}

impl fmt::Display for KeyFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<_> = self.keys.iter().map(ToString::to_string).collect();
        write!(f, "keys of the build side contain ({})", keys.join(", "))
    }
}

impl PhysicalExpr for KeyFilter {
    fn data_type(&self, _: &Schema) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn nullable(&self, _: &Schema) -> Result<bool> {
        Ok(false)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let Some(bloom) = self.set.0.get().and_then(|keys| keys.bloom.as_ref()) else {
            return Ok(ColumnarValue::Scalar(ScalarValue::Boolean(Some(true))));
        };
        let keys = evaluate(&self.keys, batch)?;
        let (hashes, nulls) = key_hashes(&keys, batch.num_rows())?;
        let found = BooleanBuffer::collect_bool(hashes.len(), |row| bloom.may_contain(hashes[row]));
        // a NULL equals nothing
        let found = nulls.map_or(found.clone(), |nulls| &found & nulls.inner());
        Ok(ColumnarValue::Array(Arc::new(BooleanArray::new(found, None))))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        self.keys.iter().collect()
    }

    fn with_new_children(self: Arc<Self>, keys: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(Arc::new(Self { keys, set: Arc::clone(&self.set) }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Passes a join's build side on and remembers its keys.
#[derive(Debug, Clone)]
pub(crate) struct CollectKeysExec {
    child: Arc<dyn ExecutionPlan>,
    keys: Vec<Arc<dyn PhysicalExpr>>,
    /// Bytes of rows beyond which the keys are forgotten.
    max_bytes: u64,
    set: Arc<KeySet>,
}

impl CollectKeysExec {
    pub fn new(child: Arc<dyn ExecutionPlan>, keys: Vec<Arc<dyn PhysicalExpr>>, max_bytes: u64) -> Self {
        Self { child, keys, max_bytes, set: Arc::default() }
    }

    pub fn child(&self) -> &Arc<dyn ExecutionPlan> {
        &self.child
    }

    pub fn set(&self) -> &Arc<KeySet> {
        &self.set
    }

    /// The filter of rows whose `keys` are compared with the ones collected here.
    pub fn filter(&self, keys: Vec<Arc<dyn PhysicalExpr>>) -> Arc<dyn PhysicalExpr> {
        Arc::new(KeyFilter { keys, set: Arc::clone(&self.set) })
    }
}

impl DisplayAs for CollectKeysExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let keys: Vec<_> = self.keys.iter().map(ToString::to_string).collect();
        write!(f, "CollectKeysExec: [{}]", keys.join(", "))
    }
}

impl ExecutionPlan for CollectKeysExec {
    fn name(&self) -> &str {
        "CollectKeysExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.child.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.child]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for key in &self.keys {
            if f(key)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self { child: children.swap_remove(0), ..self.as_ref().clone() }))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn gather_filters_for_pushdown(
        &self,
        _: FilterPushdownPhase,
        parent_filters: Vec<Arc<dyn PhysicalExpr>>,
        _: &ConfigOptions,
    ) -> Result<FilterDescription> {
        FilterDescription::from_children(parent_filters, &self.children())
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let memory = MemoryConsumer::new("keys of a runtime filter").register(context.memory_pool());
        let collector = Collector::new(&self.keys, &self.child.schema(), self.max_bytes, memory);
        let rows = self.child.execute(partition, context)?;
        Ok(Box::pin(CollectKeys { rows, collector, set: Arc::clone(&self.set) }))
    }
}

struct CollectKeys {
    rows: SendableRecordBatchStream,
    /// `None` once the keys were given up or handed over.
    collector: Option<Collector>,
    set: Arc<KeySet>,
}

impl Stream for CollectKeys {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let batch = ready!(self.rows.poll_next_unpin(cx));
        match &batch {
            // what cannot be collected is a filter less, nothing else
            Some(Ok(batch)) if self.collector.as_mut().is_some_and(|c| !c.add(batch).unwrap_or(false)) => {
                self.collector = None;
            }
            None => {
                if let Some(keys) = self.collector.take().and_then(Collector::finish) {
                    // a plan runs once, so nobody was before
                    let _ = self.set.0.set(keys);
                }
            }
            _ => {}
        }
        Poll::Ready(batch)
    }
}

impl RecordBatchStream for CollectKeys {
    fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }
}

struct Collector {
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    /// `None` once there were too many.
    hashes: Option<Vec<u64>>,
    bounds: Option<(MinAccumulator, MaxAccumulator)>,
    bytes_left: u64,
    memory: MemoryReservation,
}

impl Collector {
    fn new(
        exprs: &[Arc<dyn PhysicalExpr>],
        schema: &Schema,
        max_bytes: u64,
        memory: MemoryReservation,
    ) -> Option<Self> {
        let bounds = match exprs {
            [key] => bounds_of(&key.data_type(schema).ok()?),
            _ => None,
        };
        Some(Self { exprs: exprs.to_vec(), hashes: Some(Vec::new()), bounds, bytes_left: max_bytes, memory })
    }

    /// False when nothing can come of it any more.
    fn add(&mut self, batch: &RecordBatch) -> Result<bool> {
        let Some(left) = self.bytes_left.checked_sub(batch.get_array_memory_size() as u64) else { return Ok(false) };
        self.bytes_left = left;
        let keys = evaluate(&self.exprs, batch)?;
        self.add_hashes(&keys, batch.num_rows())?;
        if let Some((min, max)) = &mut self.bounds {
            min.update_batch(&keys)?;
            max.update_batch(&keys)?;
        }
        Ok(self.hashes.is_some() || self.bounds.is_some())
    }

    fn add_hashes(&mut self, keys: &[ArrayRef], rows: usize) -> Result<()> {
        let Some(all) = &mut self.hashes else { return Ok(()) };
        if all.len() + rows > MOST_KEYS {
            self.hashes = None;
            self.memory.free();
            return Ok(());
        }
        let (hashes, nulls) = key_hashes(keys, rows)?;
        self.memory.try_grow(hashes.len() * size_of::<u64>() + Bloom::bytes(hashes.len()))?;
        match nulls {
            Some(nulls) => all.extend(nulls.valid_indices().map(|row| hashes[row])),
            None => all.extend(hashes),
        }
        Ok(())
    }

    fn finish(self) -> Option<Keys> {
        let bounds = match self.bounds {
            Some((mut min, mut max)) => {
                let (min, max) = (min.evaluate().ok()?, max.evaluate().ok()?);
                (!min.is_null() && !max.is_null()).then_some((min, max))
            }
            None => None,
        };
        Some(Keys { bloom: self.hashes.as_deref().map(Bloom::of), bounds })
    }
}

/// Statistics of files have no total order for floating-point numbers, and those of long texts are cut off.
fn bounds_of(kind: &DataType) -> Option<(MinAccumulator, MaxAccumulator)> {
    let ordered = kind.is_integer() || kind.is_temporal() || kind.is_decimal();
    let bounds = || {
        Ok::<_, datafusion::error::DataFusionError>((MinAccumulator::try_new(kind)?, MaxAccumulator::try_new(kind)?))
    };
    ordered.then(bounds)?.ok()
}

/// Offers a filter to what is below it. Stands in a plan only while filters are pushed down.
#[derive(Debug)]
pub(crate) struct OfferKeysExec {
    child: Arc<dyn ExecutionPlan>,
    filter: Arc<dyn PhysicalExpr>,
}

impl OfferKeysExec {
    pub fn new(child: Arc<dyn ExecutionPlan>, filter: Arc<dyn PhysicalExpr>) -> Self {
        Self { child, filter }
    }

    pub fn child(&self) -> &Arc<dyn ExecutionPlan> {
        &self.child
    }
}

impl DisplayAs for OfferKeysExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "OfferKeysExec: {}", self.filter)
    }
}

impl ExecutionPlan for OfferKeysExec {
    fn name(&self) -> &str {
        "OfferKeysExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.child.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.child]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        f(&self.filter)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self { child: children.swap_remove(0), filter: Arc::clone(&self.filter) }))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn gather_filters_for_pushdown(
        &self,
        _: FilterPushdownPhase,
        parent_filters: Vec<Arc<dyn PhysicalExpr>>,
        _: &ConfigOptions,
    ) -> Result<FilterDescription> {
        let below = ChildFilterDescription::from_child(&parent_filters, &self.child)?;
        Ok(FilterDescription::new().with_child(below.with_self_filter(Arc::clone(&self.filter))))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.child.execute(partition, context)
    }
}
