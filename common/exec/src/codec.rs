//! Our own plan nodes on the wire; the library encodes its own.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::ScalarUDF;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::physical_plan::from_proto::parse_physical_expr;
use datafusion_proto::physical_plan::to_proto::serialize_physical_expr;
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};
use datafusion_proto::protobuf;
use prost::Message;
use thalweg_connectors::{ScanRequest, ScanSpec};

use crate::io::TaskIo;
use crate::{ConcatExec, ExchangeInputExec, OnceExec, RuntimeFilterRule, SourceExec};

/// Encodes [`SourceExec`], [`ExchangeInputExec`], [`OnceExec`] and [`ConcatExec`].
#[derive(Debug, Default)]
pub struct Codec {
    /// What the leaves become; `None` leaves them as they are.
    place: Option<Place>,
}

/// Where a fragment stands in its stage.
#[derive(Debug)]
struct Place {
    inputs: Vec<InputLeaf>,
    first_source: usize,
}

/// What an [`ExchangeInputExec`] of a fragment is decoded to.
#[derive(Debug)]
pub(crate) enum InputLeaf {
    /// The task's input with this number.
    Exchange(usize),
    /// The operators that produce what would be read.
    Plan(Arc<dyn ExecutionPlan>),
}

#[derive(Clone, PartialEq, prost::Message)]
struct NodeProto {
    #[prost(oneof = "Node", tags = "1, 2, 3, 4")]
    node: Option<Node>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
#[expect(clippy::large_enum_variant, reason = "lives for the length of one call")]
enum Node {
    #[prost(message, tag = "1")]
    Source(SourceProto),
    #[prost(message, tag = "2")]
    Input(InputProto),
    #[prost(uint32, tag = "3")]
    Once(u32),
    #[prost(message, tag = "4")]
    Concat(protobuf::Schema),
}

#[derive(Clone, PartialEq, prost::Message)]
struct SourceProto {
    #[prost(uint32, tag = "1")]
    slot: u32,
    #[prost(string, tag = "2")]
    name: String,
    /// The connector's scan spec, JSON.
    #[prost(bytes = "vec", tag = "3")]
    spec: Vec<u8>,
    #[prost(uint32, repeated, tag = "4")]
    projection: Vec<u32>,
    #[prost(message, optional, tag = "5")]
    predicate: Option<protobuf::PhysicalExprNode>,
    #[prost(uint64, optional, tag = "6")]
    limit: Option<u64>,
    /// Least share of rows that a runtime filter must remove; without it the scan takes none.
    #[prost(double, optional, tag = "7")]
    runtime_filter_ratio: Option<f64>,
    /// Bytes of a build side beyond which it makes no runtime filter.
    #[prost(uint64, tag = "8")]
    runtime_filter_build_bytes: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct InputProto {
    #[prost(uint32, tag = "1")]
    slot: u32,
    #[prost(bool, tag = "2")]
    per_map: bool,
    #[prost(message, optional, tag = "3")]
    schema: Option<protobuf::Schema>,
}

fn invalid(what: &str) -> DataFusionError {
    DataFusionError::Internal(format!("stage fragment is damaged: {what}"))
}

fn encode_schema(schema: &SchemaRef) -> Result<protobuf::Schema> {
    Ok(protobuf::Schema::try_from(schema.as_ref())?)
}

fn decode_schema(schema: Option<&protobuf::Schema>) -> Result<SchemaRef> {
    let schema = schema.ok_or_else(|| invalid("a node lacks its schema"))?;
    Ok(Arc::new(Schema::try_from(schema)?))
}

impl Codec {
    /// Decodes a fragment whose inputs are `inputs` and whose source 0 is the task's source `first_source`.
    pub(crate) fn placed(inputs: Vec<InputLeaf>, first_source: usize) -> Self {
        Self { place: Some(Place { inputs, first_source }) }
    }

    fn source_slot(&self, slot: u32) -> usize {
        self.place.as_ref().map_or(0, |place| place.first_source) + slot as usize
    }

    fn decode_input(&self, input: &InputProto, ctx: &TaskContext) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = decode_schema(input.schema.as_ref())?;
        let slot = match &self.place {
            None => input.slot as usize,
            Some(place) => match place.inputs.get(input.slot as usize) {
                Some(InputLeaf::Exchange(slot)) => *slot,
                Some(InputLeaf::Plan(plan)) => {
                    let types = |s: &SchemaRef| s.fields().iter().map(|f| f.data_type().clone()).collect::<Vec<_>>();
                    let same = types(&schema) == types(&plan.schema());
                    return same.then(|| Arc::clone(plan)).ok_or_else(|| invalid("a part of other types"));
                }
                None => return Err(invalid("an input the stage does not have")),
            },
        };
        let partitions = if input.per_map { TaskIo::of(ctx)?.inputs.partitions(slot) } else { 1 };
        Ok(Arc::new(ExchangeInputExec::new(slot, schema, input.per_map, partitions)))
    }

    fn decode_source(&self, node: SourceProto, ctx: &TaskContext) -> Result<SourceExec> {
        let spec: ScanSpec = serde_json::from_slice(&node.spec).map_err(|e| invalid(&format!("scan spec: {e}")))?;
        let schema = spec.schema();
        let predicate = node.predicate.as_ref().map(|p| parse_physical_expr(p, ctx, &schema, self)).transpose()?;
        let request = ScanRequest {
            projection: node.projection.iter().map(|&i| i as usize).collect(),
            predicate,
            limit: node.limit.map(|l| l as usize),
            row_filters: vec![],
        };
        let max_build_bytes = node.runtime_filter_build_bytes;
        let rule = node.runtime_filter_ratio.map(|min_ratio| RuntimeFilterRule { min_ratio, max_build_bytes });
        let source = SourceExec::try_new(self.source_slot(node.slot), node.name, Arc::new(spec), request, 1)?;
        Ok(source.with_runtime_rule(rule))
    }

    fn encode_source(&self, source: &SourceExec) -> Result<Node> {
        let spec = serde_json::to_vec(source.spec().as_ref()).map_err(|e| invalid(&format!("scan spec: {e}")))?;
        let request = source.request();
        Ok(Node::Source(SourceProto {
            slot: source.slot() as u32,
            name: source.table().to_owned(),
            spec,
            projection: request.projection.iter().map(|&i| i as u32).collect(),
            predicate: request.predicate.as_ref().map(|p| serialize_physical_expr(p, self)).transpose()?,
            limit: request.limit.map(|l| l as u64),
            runtime_filter_ratio: source.runtime_rule().map(|rule| rule.min_ratio),
            runtime_filter_build_bytes: source.runtime_rule().map_or(0, |rule| rule.max_build_bytes),
        }))
    }
}

impl PhysicalExtensionCodec for Codec {
    fn try_decode(
        &self,
        buf: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        ctx: &TaskContext,
        _: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let node = NodeProto::decode(buf).map_err(|e| invalid(&e.to_string()))?;
        match node.node.ok_or_else(|| invalid("an unknown node"))? {
            Node::Source(source) => Ok(Arc::new(self.decode_source(source, ctx)?)),
            Node::Input(input) => self.decode_input(&input, ctx),
            Node::Once(slot) => {
                let [child] = inputs else { return Err(invalid("a once node needs one child")) };
                Ok(Arc::new(OnceExec::new(self.source_slot(slot), Arc::clone(child))))
            }
            Node::Concat(schema) => Ok(Arc::new(ConcatExec::new(inputs.to_vec(), decode_schema(Some(&schema))?))),
        }
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        buf: &mut Vec<u8>,
        _: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        let encoded = if let Some(source) = node.downcast_ref::<SourceExec>() {
            self.encode_source(source)?
        } else if let Some(input) = node.downcast_ref::<ExchangeInputExec>() {
            let schema = Some(encode_schema(&input.schema())?);
            Node::Input(InputProto { slot: input.slot() as u32, per_map: input.per_map(), schema })
        } else if let Some(once) = node.downcast_ref::<OnceExec>() {
            Node::Once(once.slot() as u32)
        } else if node.is::<ConcatExec>() {
            Node::Concat(encode_schema(&node.schema())?)
        } else {
            return Err(DataFusionError::NotImplemented(format!("{} cannot be sent to a taskmanager", node.name())));
        };
        NodeProto { node: Some(encoded) }.encode(buf).map_err(|e| invalid(&e.to_string()))
    }

    fn try_decode_udf(&self, name: &str, _: &[u8]) -> Result<Arc<ScalarUDF>> {
        crate::functions::scalar_functions()
            .into_iter()
            .find(|f| f.name() == name)
            .ok_or_else(|| DataFusionError::Plan(format!("function {name} is not known to this taskmanager")))
    }
}
