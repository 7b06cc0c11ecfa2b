//! What is run: plans, how large their data is and how it is distributed, and what work costs.

use std::sync::Arc;
use std::time::Duration;

use thalweg_graph::{
    Determinism, Exchange, ExchangeKind, InputRole, Parallelism, Part, PlanTemplate, Source, Split, Stage, StageInput,
};
use thalweg_types::{ExchangeId, StageId};

const SUBPARTITIONS: u32 = 16_384;
const ROW: u64 = 64;

/// A task costs this even if it reads nothing.
const OVERHEAD: Duration = Duration::from_millis(5);
/// Bytes per second of one slot: reading a table, working on rows, writing them for others.
const SCAN: f64 = 200e6;
const WORK: f64 = 300e6;
const WRITE: f64 = 400e6;

/// Time of one task.
pub fn cost(scanned: u64, read: u64, written: u64) -> Duration {
    OVERHEAD + Duration::from_secs_f64(scanned as f64 / SCAN + read as f64 / WORK + written as f64 / WRITE)
}

/// A job with made-up data.
pub struct Scenario {
    pub name: &'static str,
    pub template: Arc<PlanTemplate>,
    /// By stage: bytes written per byte read, and how they are spread over the subpartitions.
    pub outputs: Vec<Spread>,
}

#[derive(Clone)]
pub struct Spread {
    pub ratio: f64,
    /// Share of the bytes that go to one subpartition.
    pub hot: f64,
}

impl Spread {
    fn even(ratio: f64) -> Self {
        Spread { ratio, hot: 0.0 }
    }

    /// Of one map's output the rows and bytes per subpartition.
    pub fn cells(&self, bytes: u64, subpartitions: u32) -> (Vec<u64>, Vec<u64>) {
        let hot = (bytes as f64 * self.hot) as u64;
        let even = (bytes - hot) / u64::from(subpartitions);
        let mut cells = vec![even; subpartitions as usize];
        // whatever the division leaves goes where the hot key is
        cells[subpartitions as usize / 3] += bytes - even * u64::from(subpartitions);
        (cells.iter().map(|bytes| bytes.div_ceil(ROW)).collect(), cells)
    }
}

struct Builder(Vec<Stage>, Vec<ExchangeKind>);

impl Builder {
    /// `splits` of so many bytes each; inputs with their role.
    fn stage(
        &mut self,
        name: &str,
        splits: (u32, u64),
        inputs: &[(u32, InputRole)],
        output: ExchangeKind,
    ) -> &mut Self {
        let number = self.0.len() as u32;
        let split = |_| Split { bytes: splits.1, payload: Arc::from([]) };
        let sources = match splits.0 {
            0 => vec![],
            count => vec![Source { name: name.to_owned(), splits: (0..count).map(split).collect() }],
        };
        let joins = inputs.len() > 1;
        let input = |(i, &(exchange, role)): (usize, &(u32, InputRole))| StageInput {
            exchange: ExchangeId(exchange),
            role,
            type_number: i as u32 + 1,
            divisible: joins && role == InputRole::Probe,
            replicated: false,
            per_map: false,
        };
        self.0.push(Stage {
            id: StageId(number),
            name: name.to_owned(),
            parts: vec![Part::alone(Arc::from([]), inputs.len())],
            sources,
            inputs: inputs.iter().enumerate().map(input).collect(),
            output: ExchangeId(number),
            parallelism: if output == ExchangeKind::Result && !joins { Parallelism::Single } else { Parallelism::Auto },
            determinism: Determinism::OrderFree,
            fused_into: None,
        });
        self.1.push(output);
        self
    }

    fn build(&mut self) -> Arc<PlanTemplate> {
        let stages = std::mem::take(&mut self.0);
        let reader =
            |x: u32| stages.iter().find(|s| s.inputs.iter().any(|i| i.exchange == ExchangeId(x))).map(|s| s.id);
        let exchanges = self.1.iter().zip(0u32..).map(|(&kind, x)| Exchange {
            id: ExchangeId(x),
            producer: StageId(x),
            consumer: reader(x),
            kind,
            keys: String::new(),
        });
        let exchanges = exchanges.collect();
        let template = PlanTemplate { stages, exchanges };
        template.validate().expect("the plans here are valid");
        Arc::new(template)
    }
}

const HASH: ExchangeKind = ExchangeKind::Hash { subpartitions: SUBPARTITIONS };

/// `n` tasks that write to `n` tasks.
pub fn shuffle(n: u32) -> Scenario {
    let mut plan = Builder(vec![], vec![]);
    plan.stage("scan", (n, 64 << 20), &[], HASH);
    plan.stage("aggregate", (0, 0), &[(0, InputRole::Probe)], ExchangeKind::Result);
    let mut template = Arc::unwrap_or_clone(plan.build());
    template.stages.iter_mut().for_each(|stage| stage.parallelism = Parallelism::Fixed(n));
    Scenario { name: "shuffle", template: Arc::new(template), outputs: vec![Spread::even(0.5), Spread::even(0.01)] }
}

/// Facts and a dimension, both scanned, joined and aggregated.
fn join(name: &'static str, facts: Spread, dimension: Spread) -> Scenario {
    let mut plan = Builder(vec![], vec![]);
    plan.stage("scan facts", (400, 64 << 20), &[], HASH)
        .stage("scan dimension", (40, 32 << 20), &[], HASH)
        .stage("join", (0, 0), &[(1, InputRole::Build), (0, InputRole::Probe)], HASH)
        .stage("aggregate", (0, 0), &[(2, InputRole::Probe)], ExchangeKind::Gather)
        .stage("total", (0, 0), &[(3, InputRole::Probe)], ExchangeKind::Result);
    let (joined, groups, total) = (Spread::even(0.1), Spread::even(0.01), Spread::even(1.0));
    Scenario { name, template: plan.build(), outputs: vec![facts, dimension, joined, groups, total] }
}

pub fn scenarios() -> Vec<Scenario> {
    vec![
        join("even keys", Spread::even(0.5), Spread::even(0.5)),
        join("two fifths on one key", Spread { ratio: 0.5, hot: 0.4 }, Spread::even(0.5)),
        join("four fifths on one key", Spread { ratio: 0.5, hot: 0.8 }, Spread::even(0.5)),
        join("dimension filtered to little", Spread::even(0.5), Spread::even(0.001)),
        join("facts filtered to little", Spread::even(0.001), Spread::even(0.5)),
    ]
}
