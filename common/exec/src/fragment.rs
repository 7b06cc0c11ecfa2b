//! A stage's operators as bytes: encoded once at planning, decoded once per task, so that tasks share no state. A stage of
//! several parts is put together while it is decoded: where a part reads an exchange, another part's operators may stand.

use std::sync::Arc;

use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, Partitioning, PhysicalExpr};
use datafusion_proto::bytes::{
    physical_plan_from_bytes_with_proto_converter, physical_plan_to_bytes_with_proto_converter,
};
use datafusion_proto::physical_plan::DeduplicatingProtoConverter;
use datafusion_proto::protobuf::PhysicalPlanNode;
use prost::Message;
use thalweg_graph::{Leaf, Part, parts_fit};

use crate::codec::{Codec, InputLeaf};
use crate::runtime_filter;

const TOO_DEEP: &str = "an expression of this query, or one stage of it, has too many levels to be sent to a task: nest fewer calls in \
                        each other";

/// What a task runs: a single-partition plan and the key expressions its output is distributed by.
#[derive(Debug)]
pub struct Fragment {
    pub plan: Arc<dyn ExecutionPlan>,
    /// `None`: one subpartition takes everything. An empty list sends everything to subpartition 0.
    pub hash_keys: Option<Vec<Arc<dyn PhysicalExpr>>>,
}

impl Fragment {
    /// Encodes plan and keys. Must happen before the plan runs: operators that ran hold state which does not decode.
    ///
    /// # Errors
    /// An operator or expression that cannot travel, or more levels of them than a message may have.
    pub fn encode(&self) -> Result<Arc<[u8]>> {
        // the keys travel as the library's own repartition node, which knows how to encode expressions
        let root: Arc<dyn ExecutionPlan> = match &self.hash_keys {
            Some(keys) => {
                Arc::new(RepartitionExec::try_new(Arc::clone(&self.plan), Partitioning::Hash(keys.clone(), 2))?)
            }
            None => Arc::clone(&self.plan),
        };
        let bytes =
            physical_plan_to_bytes_with_proto_converter(root, &Codec::default(), &DeduplicatingProtoConverter {})?;
        // the encoder goes as deep as the plan does, but no decoder follows it everywhere
        PhysicalPlanNode::decode(bytes.as_ref()).map_err(|_| DataFusionError::Plan(TOO_DEEP.to_owned()))?;
        Ok(Arc::from(bytes.as_ref()))
    }

    /// Decodes a stage's parts for one task that reads `inputs` inputs; `context` carries the task's io.
    ///
    /// # Errors
    /// Anything but what `encode` wrote, parts that do not make one tree, and a part whose rows have other types than those
    /// that are read where it stands.
    pub fn decode(parts: &[Part], inputs: usize, context: &TaskContext) -> Result<Self> {
        if !parts_fit(parts, inputs) {
            return Err(DataFusionError::Internal("the parts of a stage do not make one plan".to_owned()));
        }
        let mut plans: Vec<Option<Arc<dyn ExecutionPlan>>> = vec![None; parts.len()];
        for (number, part) in parts.iter().enumerate().skip(1).rev() {
            plans[number] = Some(Self::decode_part(part, &mut plans, context)?.plan);
        }
        let whole = Self::decode_part(&parts[0], &mut plans, context)?;
        let plan = runtime_filter::push_down(whole.plan, context.session_config().options())?;
        Ok(Self { plan, ..whole })
    }

    fn decode_part(part: &Part, plans: &mut [Option<Arc<dyn ExecutionPlan>>], context: &TaskContext) -> Result<Self> {
        let leaf = |leaf: &Leaf| match *leaf {
            Leaf::Input(input) => Ok(InputLeaf::Exchange(input as usize)),
            Leaf::Part(number) => {
                let plan = plans.get_mut(number as usize).and_then(Option::take);
                plan.map(InputLeaf::Plan)
                    .ok_or_else(|| DataFusionError::Internal("a part is not decoded yet".to_owned()))
            }
        };
        let leaves = part.inputs.iter().map(leaf).collect::<Result<_>>()?;
        let codec = Codec::placed(leaves, part.first_source as usize);
        Self::decode_root(&part.fragment, &codec, context)
    }

    fn decode_root(bytes: &[u8], codec: &Codec, context: &TaskContext) -> Result<Self> {
        let root =
            physical_plan_from_bytes_with_proto_converter(bytes, context, codec, &DeduplicatingProtoConverter {})?;
        let Some(repartition) = root.downcast_ref::<RepartitionExec>() else {
            return Ok(Self { plan: root, hash_keys: None });
        };
        let Partitioning::Hash(keys, _) = repartition.partitioning() else {
            return Err(DataFusionError::Internal("a stage's output is distributed by something but hash".to_owned()));
        };
        Ok(Self { plan: Arc::clone(repartition.input()), hash_keys: Some(keys.clone()) })
    }
}
