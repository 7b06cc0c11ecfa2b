//! Plan templates for tests.

use std::sync::Arc;

use thalweg_graph::{
    Determinism, Exchange, ExchangeKind, InputRole, Parallelism, Part, PlanTemplate, Source, Split, Stage, StageInput,
};
use thalweg_types::{ExchangeId, StageId};

/// Builds templates stage by stage; the stage with number `i` writes exchange `i`.
#[derive(Default)]
pub struct PlanBuilder {
    stages: Vec<Stage>,
    kinds: Vec<ExchangeKind>,
}

pub const HASH8: ExchangeKind = ExchangeKind::Hash { subpartitions: 8 };

impl PlanBuilder {
    pub fn stage(mut self, splits: &[&[u64]], inputs: &[(u32, InputRole)], kind: ExchangeKind) -> Self {
        let number = self.stages.len() as u32;
        let split = |&bytes: &u64| Split { bytes, payload: Arc::from([]) };
        let source = |bytes: &&[u64]| Source { name: "table".to_owned(), splits: bytes.iter().map(split).collect() };
        let input = |(i, &(x, role)): (usize, &(u32, InputRole))| StageInput {
            exchange: ExchangeId(x),
            role,
            type_number: i as u32 + 1,
            divisible: false,
            replicated: self.kinds[x as usize] == ExchangeKind::Broadcast,
            per_map: false,
        };
        self.stages.push(Stage {
            id: StageId(number),
            name: format!("stage {number}"),
            parts: vec![Part::alone(Arc::from([]), inputs.len())],
            sources: splits.iter().map(source).collect(),
            inputs: inputs.iter().enumerate().map(input).collect(),
            output: ExchangeId(number),
            parallelism: Parallelism::Auto,
            determinism: Determinism::Deterministic,
            fused_into: None,
        });
        self.kinds.push(kind);
        self
    }

    pub fn parallelism(mut self, parallelism: Parallelism) -> Self {
        self.stages.last_mut().unwrap().parallelism = parallelism;
        self
    }

    /// The last stage's inputs may be divided where they are skewed.
    pub fn divisible(mut self) -> Self {
        self.stages.last_mut().unwrap().inputs.iter_mut().for_each(|input| input.divisible = true);
        self
    }

    pub fn determinism(mut self, determinism: Determinism) -> Self {
        self.stages.last_mut().unwrap().determinism = determinism;
        self
    }

    pub fn build(self) -> Arc<PlanTemplate> {
        let consumer = |x: u32| {
            let reads = |s: &&Stage| s.inputs.iter().any(|i| i.exchange == ExchangeId(x));
            self.stages.iter().find(reads).map(|s| s.id)
        };
        let exchange = |(i, &kind): (usize, &ExchangeKind)| Exchange {
            id: ExchangeId(i as u32),
            producer: StageId(i as u32),
            consumer: consumer(i as u32),
            kind,
            keys: String::new(),
        };
        let exchanges = self.kinds.iter().enumerate().map(exchange).collect();
        let template = PlanTemplate { stages: self.stages, exchanges };
        template.validate().unwrap();
        Arc::new(template)
    }
}

/// `maps` scan tasks → hash → `reducers` tasks → result.
pub fn aggregate(maps: u32, reducers: u32) -> PlanBuilder {
    let splits = vec![100u64; maps as usize];
    PlanBuilder::default()
        .stage(&[&splits], &[], HASH8)
        .parallelism(Parallelism::Fixed(maps))
        .stage(&[], &[(0, InputRole::Probe)], ExchangeKind::Result)
        .parallelism(Parallelism::Fixed(reducers))
}

/// Scan → hash → aggregate → hash → second aggregate → result, `n` tasks each.
pub fn chain(n: u32, middle: Determinism) -> Arc<PlanTemplate> {
    let splits = vec![100u64; n as usize];
    PlanBuilder::default()
        .stage(&[&splits], &[], HASH8)
        .parallelism(Parallelism::Fixed(n))
        .stage(&[], &[(0, InputRole::Probe)], HASH8)
        .parallelism(Parallelism::Fixed(n))
        .determinism(middle)
        .stage(&[], &[(1, InputRole::Probe)], ExchangeKind::Result)
        .parallelism(Parallelism::Fixed(n))
        .build()
}
