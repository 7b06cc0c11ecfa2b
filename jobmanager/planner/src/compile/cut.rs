//! Cuts a physical plan into stages.
//!
//! The library planned with two partitions, so that every hash repartition, coalesce and sort-preserving merge it put in marks
//! a place where rows must change tasks. Each becomes an exchange; what lies between exchanges becomes a stage, collapsed to a
//! single-partition plan that any number of tasks can run side by side.
//!
//! Invariant: [`Cutter::build`] returns a plan of one partition.

use std::sync::Arc;

use datafusion::common::JoinType;
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, PartitionMode};
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::{InterleaveExec, UnionExec};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, Partitioning, PhysicalExpr};
use thalweg_exec::fragment::Fragment;
use thalweg_exec::{ConcatExec, ExchangeInputExec, OnceExec, SourceExec};
use thalweg_graph::{
    Determinism, Exchange, ExchangeKind, InputRole, Parallelism, Part, PlanTemplate, Source, Split, Stage, StageInput,
};
use thalweg_types::{ExchangeId, StageId};

use super::broadcast::build_side_may_be_replicated;
use super::divisible::{self, Sides};
use super::{classify, describe};
use crate::RuntimeFilterOptions;

/// The template, and each stage's operators for people.
pub struct Cut {
    pub template: PlanTemplate,
    pub plans: Vec<Arc<dyn ExecutionPlan>>,
}

/// Cuts `plan`; with `single_task` it was planned for one partition and becomes one stage.
pub fn cut(
    plan: &Arc<dyn ExecutionPlan>,
    single_task: bool,
    subpartitions: u32,
    runtime_filters: Option<RuntimeFilterOptions>,
) -> Result<Cut> {
    let mut cutter =
        Cutter { stages: vec![], exchanges: vec![], plans: vec![], subpartitions, single_task, runtime_filters };
    let mut draft = Draft::default();
    let root = cutter.build(plan, &mut draft)?;
    draft.single |= single_task || is_single(plan);
    cutter.finish(draft, root, ExchangeKind::Result, None)?;
    let template = PlanTemplate { stages: cutter.stages, exchanges: cutter.exchanges };
    Ok(Cut { template, plans: cutter.plans })
}

struct Cutter {
    stages: Vec<Stage>,
    exchanges: Vec<Exchange>,
    plans: Vec<Arc<dyn ExecutionPlan>>,
    subpartitions: u32,
    single_task: bool,
    runtime_filters: Option<RuntimeFilterOptions>,
}

/// A stage whose operators are being collected.
#[derive(Default)]
struct Draft {
    sources: Vec<Source>,
    inputs: Vec<StageInput>,
    /// It must run as one task.
    single: bool,
    /// Inputs met now are held in memory by a join.
    in_build_side: bool,
    /// Inputs met now lie under an operator that looks at several of their rows together.
    together: bool,
    type_numbers: u32,
}

/// How a cut child is read again.
#[derive(Clone, Copy, PartialEq)]
enum Read {
    Mixed,
    /// One sorted partition per map.
    PerMap,
}

fn is_single(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.output_partitioning().partition_count() == 1
}

fn with_children(
    plan: &Arc<dyn ExecutionPlan>,
    children: Vec<Arc<dyn ExecutionPlan>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    Arc::clone(plan).replace_children(children, options)
}

impl Cutter {
    fn build(&mut self, plan: &Arc<dyn ExecutionPlan>, draft: &mut Draft) -> Result<Arc<dyn ExecutionPlan>> {
        if let Some(cooperative) = plan.downcast_ref::<CooperativeExec>() {
            return self.build(cooperative.input(), draft);
        }
        if let Some(source) = plan.downcast_ref::<SourceExec>() {
            return self.source(source, draft);
        }
        if let Some(repartition) = plan.downcast_ref::<RepartitionExec>() {
            return self.repartition(repartition, draft);
        }
        if let Some(coalesce) = plan.downcast_ref::<CoalescePartitionsExec>() {
            return self.coalesce(coalesce, draft);
        }
        if let Some(merge) = plan.downcast_ref::<SortPreservingMergeExec>() {
            return self.merge(merge, draft);
        }
        if plan.is::<UnionExec>() || plan.is::<InterleaveExec>() {
            return self.union(plan, draft);
        }
        if let Some(join_type) = collected_join(plan) {
            return self.collected_join(plan, join_type, draft);
        }
        if plan.children().is_empty() {
            return Ok(self.constant(plan, draft));
        }
        if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
            return self.partitioned_join(plan, divisible::sides(join), draft);
        }
        let together = !divisible::treats_rows_alone(plan);
        let children =
            plan.children().into_iter().map(|c| self.below(c, draft, together)).collect::<Result<Vec<_>>>()?;
        with_children(plan, children)
    }

    fn source(&mut self, source: &SourceExec, draft: &mut Draft) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = source.plan().ok_or_else(|| DataFusionError::Internal("a scan without its splits".to_owned()))?;
        let splits = plan.splits.iter().map(|s| Split { bytes: s.bytes, payload: Arc::from(s.payload.as_slice()) });
        let slot = draft.sources.len();
        draft.sources.push(Source { name: source.table().to_owned(), splits: splits.collect() });
        let large = |options: &RuntimeFilterOptions| source.scanned_bytes() >= Some(options.min_probe_bytes);
        let rule = self.runtime_filters.filter(large).map(|options| options.rule);
        Ok(Arc::new(source.for_task(slot)?.with_runtime_rule(rule)))
    }

    /// A leaf that is no table: one task produces it.
    fn constant(&mut self, plan: &Arc<dyn ExecutionPlan>, draft: &mut Draft) -> Arc<dyn ExecutionPlan> {
        if plan.is::<EmptyExec>() {
            return Arc::clone(plan);
        }
        let slot = draft.sources.len();
        let split = Split { bytes: 0, payload: Arc::from([]) };
        draft.sources.push(Source { name: "values".to_owned(), splits: vec![split] });
        Arc::new(OnceExec::new(slot, Arc::clone(plan)))
    }

    fn repartition(&mut self, plan: &RepartitionExec, draft: &mut Draft) -> Result<Arc<dyn ExecutionPlan>> {
        if self.single_task {
            return self.build(plan.input(), draft);
        }
        let keys = match plan.partitioning() {
            Partitioning::Hash(keys, _) => keys.clone(),
            Partitioning::RoundRobinBatch(_) => return self.build(plan.input(), draft),
            other => {
                return Err(DataFusionError::NotImplemented(format!("an exchange distributed by {other}")));
            }
        };
        match plan.properties().output_ordering().filter(|_| plan.preserve_order()).cloned() {
            Some(order) => {
                let input = self.exchange(plan.input(), draft, self.hash(), Some(keys), Read::PerMap)?;
                Ok(Arc::new(SortPreservingMergeExec::new(order, input)))
            }
            None => self.exchange(plan.input(), draft, self.hash(), Some(keys), Read::Mixed),
        }
    }

    fn hash(&self) -> ExchangeKind {
        ExchangeKind::Hash { subpartitions: self.subpartitions }
    }

    fn coalesce(&mut self, plan: &CoalescePartitionsExec, draft: &mut Draft) -> Result<Arc<dyn ExecutionPlan>> {
        let fetch = plan.fetch();
        if self.single_task || is_single(plan.input()) {
            let child = self.build(plan.input(), draft)?;
            return Ok(limited(child, fetch));
        }
        draft.single = true;
        let child = match fetch {
            Some(fetch) => Arc::new(LocalLimitExec::new(Arc::clone(plan.input()), fetch)) as _,
            None => Arc::clone(plan.input()),
        };
        let input = self.exchange(&child, draft, ExchangeKind::Gather, None, Read::Mixed)?;
        Ok(limited(input, fetch))
    }

    fn merge(&mut self, plan: &SortPreservingMergeExec, draft: &mut Draft) -> Result<Arc<dyn ExecutionPlan>> {
        if self.single_task || is_single(plan.input()) {
            let child = self.build(plan.input(), draft)?;
            return Ok(limited(child, plan.fetch()));
        }
        draft.single = true;
        let input = self.exchange(plan.input(), draft, ExchangeKind::Gather, None, Read::PerMap)?;
        Ok(Arc::new(SortPreservingMergeExec::new(plan.expr().clone(), input).with_fetch(plan.fetch())))
    }

    /// A child that is one partition among others of many must not run once per task: unless it is a constant, it becomes a
    /// stage of its own, and all its rows reach whichever task owns subpartition 0.
    fn union(&mut self, plan: &Arc<dyn ExecutionPlan>, draft: &mut Draft) -> Result<Arc<dyn ExecutionPlan>> {
        let ordering: Option<LexOrdering> = plan.output_ordering().cloned();
        let mut children = Vec::new();
        for child in plan.children() {
            draft.type_numbers += 1;
            let alone = !self.single_task && is_single(child) && !is_constant_chain(child);
            children.push(if alone {
                let read = if ordering.is_some() { Read::PerMap } else { Read::Mixed };
                let input = self.exchange(child, draft, self.hash(), Some(vec![]), read)?;
                match &ordering {
                    Some(order) => Arc::new(SortPreservingMergeExec::new(order.clone(), input)),
                    None => input,
                }
            } else {
                self.below(child, draft, true)?
            });
        }
        match ordering {
            Some(order) => {
                let union = UnionExec::try_new(children)?;
                Ok(Arc::new(SortPreservingMergeExec::new(order, union)))
            }
            None => Ok(Arc::new(ConcatExec::new(children, plan.schema()))),
        }
    }

    fn partitioned_join(
        &mut self,
        plan: &Arc<dyn ExecutionPlan>,
        divisible: Sides,
        draft: &mut Draft,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (left, right) = two_children(plan)?;
        let left = self.build_side(left, draft, |cutter, left, draft| cutter.below(left, draft, !divisible.left))?;
        draft.type_numbers += 1;
        let right = self.below(right, draft, !divisible.right)?;
        with_children(plan, vec![left, right])
    }

    /// Builds an input of an operator that looks at several rows of it `together`, or does not.
    fn below(
        &mut self,
        plan: &Arc<dyn ExecutionPlan>,
        draft: &mut Draft,
        together: bool,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let outer = draft.together;
        draft.together |= together;
        let built = self.build(plan, draft);
        draft.together = outer;
        built
    }

    /// Inputs that `build` meets are marked as held in memory.
    fn build_side(
        &mut self,
        plan: &Arc<dyn ExecutionPlan>,
        draft: &mut Draft,
        build: impl FnOnce(&mut Self, &Arc<dyn ExecutionPlan>, &mut Draft) -> Result<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let outer = std::mem::replace(&mut draft.in_build_side, true);
        let built = build(self, plan, draft);
        draft.in_build_side = outer;
        built
    }

    /// A join that needs its whole build side in every task (or runs in one).
    fn collected_join(
        &mut self,
        plan: &Arc<dyn ExecutionPlan>,
        join_type: JoinType,
        draft: &mut Draft,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (left, right) = two_children(plan)?;
        let one_task = self.single_task || is_single(right);
        if one_task {
            let left = self.build_side(left, draft, Self::build)?;
            let right = self.build(right, draft)?;
            return with_children(plan, vec![left, right]);
        }
        if build_side_may_be_replicated(join_type) {
            let bare = left.downcast_ref::<CoalescePartitionsExec>().filter(|c| c.fetch().is_none());
            let left = bare.map_or(left, |coalesce| coalesce.input());
            let left = self.build_side(left, draft, |cutter, left, draft| {
                cutter.exchange(left, draft, ExchangeKind::Broadcast, None, Read::Mixed)
            })?;
            let right = self.build(right, draft)?;
            return with_children(plan, vec![left, right]);
        }
        // it emits rows of the build side by itself: every probe row must be seen by one task
        draft.single = true;
        let left = self.build_side(left, draft, Self::build)?;
        let right = self.exchange(right, draft, ExchangeKind::Gather, None, Read::Mixed)?;
        with_children(plan, vec![left, right])
    }

    /// Makes `child` a stage of its own that writes an exchange, and returns the leaf that reads it.
    fn exchange(
        &mut self,
        child: &Arc<dyn ExecutionPlan>,
        reader: &mut Draft,
        kind: ExchangeKind,
        keys: Option<Vec<Arc<dyn PhysicalExpr>>>,
        read: Read,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut draft = Draft::default();
        let root = self.build(child, &mut draft)?;
        draft.single |= is_single(child);
        let schema = root.schema();
        let exchange = self.finish(draft, root, kind, keys)?;
        let slot = reader.inputs.len();
        let per_map = read == Read::PerMap;
        let role = if reader.in_build_side { InputRole::Build } else { InputRole::Probe };
        let divisible = kind.is_hash() && !per_map && !reader.together;
        let (type_number, replicated) = (reader.type_numbers, kind == ExchangeKind::Broadcast);
        reader.inputs.push(StageInput { exchange, role, type_number, divisible, replicated, per_map });
        Ok(Arc::new(ExchangeInputExec::new(slot, schema, per_map, 1)))
    }

    fn finish(
        &mut self,
        draft: Draft,
        root: Arc<dyn ExecutionPlan>,
        kind: ExchangeKind,
        keys: Option<Vec<Arc<dyn PhysicalExpr>>>,
    ) -> Result<ExchangeId> {
        let id = StageId(self.stages.len() as u32);
        let output = ExchangeId(self.exchanges.len() as u32);
        let hash_keys = keys.as_deref().unwrap_or_default();
        let determinism = classify::determinism(&root, hash_keys)?;
        let mut inputs = draft.inputs;
        if determinism == Determinism::Random {
            // what each part would meet of the other side could differ
            inputs.iter_mut().for_each(|input| input.divisible = false);
        }
        for input in &inputs {
            self.exchanges[input.exchange.index()].consumer = Some(id);
        }
        let shown: Vec<_> = hash_keys.iter().map(|key| key.to_string()).collect();
        self.exchanges.push(Exchange { id: output, producer: id, consumer: None, kind, keys: shown.join(", ") });
        let name = describe::stage_name(&root);
        let fragment = Fragment { plan: Arc::clone(&root), hash_keys: keys }.encode()?;
        self.plans.push(root);
        self.stages.push(Stage {
            id,
            name,
            parts: vec![Part::alone(fragment, inputs.len())],
            sources: draft.sources,
            inputs,
            output,
            parallelism: if draft.single { Parallelism::Single } else { Parallelism::Auto },
            determinism,
            fused_into: None,
        });
        Ok(output)
    }
}

fn limited(plan: Arc<dyn ExecutionPlan>, fetch: Option<usize>) -> Arc<dyn ExecutionPlan> {
    match fetch {
        Some(fetch) => Arc::new(GlobalLimitExec::new(plan, 0, Some(fetch))),
        None => plan,
    }
}

/// The build side and the probe side of a join.
type Children<'a> = (&'a Arc<dyn ExecutionPlan>, &'a Arc<dyn ExecutionPlan>);

fn two_children(plan: &Arc<dyn ExecutionPlan>) -> Result<Children<'_>> {
    match plan.children().as_slice() {
        [left, right] => Ok((*left, *right)),
        other => Err(DataFusionError::Internal(format!("{} has {} children, not two", plan.name(), other.len()))),
    }
}

/// The type of a join that collects its left side, `None` for every other operator.
fn collected_join(plan: &Arc<dyn ExecutionPlan>) -> Option<JoinType> {
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        return (*join.partition_mode() == PartitionMode::CollectLeft).then(|| *join.join_type());
    }
    if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
        return Some(*join.join_type());
    }
    plan.is::<CrossJoinExec>().then_some(JoinType::Inner)
}

/// True for a constant leaf under operators that treat each row by itself.
fn is_constant_chain(plan: &Arc<dyn ExecutionPlan>) -> bool {
    match plan.children().as_slice() {
        [] => !plan.is::<SourceExec>(),
        [child] => {
            let row_wise = plan.is::<ProjectionExec>() || plan.is::<CooperativeExec>();
            (row_wise || (plan.is::<FilterExec>() && plan.fetch().is_none())) && is_constant_chain(child)
        }
        _ => false,
    }
}
