//! A stage's operators as bytes: encoded once at planning, decoded once per task, so that tasks share no state.

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

use crate::codec::Codec;

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
        let bytes = physical_plan_to_bytes_with_proto_converter(root, &Codec, &DeduplicatingProtoConverter {})?;
        // the encoder goes as deep as the plan does, but no decoder follows it everywhere
        PhysicalPlanNode::decode(bytes.as_ref()).map_err(|_| DataFusionError::Plan(TOO_DEEP.to_owned()))?;
        Ok(Arc::from(bytes.as_ref()))
    }

    /// Decodes a fragment for one task; `context` carries the task's io. Errors on anything but what `encode` wrote.
    pub fn decode(bytes: &[u8], context: &TaskContext) -> Result<Self> {
        let root =
            physical_plan_from_bytes_with_proto_converter(bytes, context, &Codec, &DeduplicatingProtoConverter {})?;
        let Some(repartition) = root.downcast_ref::<RepartitionExec>() else {
            return Ok(Self { plan: root, hash_keys: None });
        };
        let Partitioning::Hash(keys, _) = repartition.partitioning() else {
            return Err(DataFusionError::Internal("a stage's output is distributed by something but hash".to_owned()));
        };
        Ok(Self { plan: Arc::clone(repartition.input()), hash_keys: Some(keys.clone()) })
    }
}
