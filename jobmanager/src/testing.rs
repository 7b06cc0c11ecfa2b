//! Plans built by hand, and a TaskManager that computes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use bytes::Bytes;
use thalweg_core::JobOptions;
use thalweg_graph::{
    Determinism, Exchange, ExchangeKind, InputRole, OutputStats, Parallelism, Part, PlanTemplate, Source, Split,
    SplitPolicy, Stage, StageInput, TaskSpec,
};
use thalweg_rpc::TicketKey;
use thalweg_rpc::link::{FromTaskManager, Heartbeats, TaskManagerEnd, ToTaskManager};
use thalweg_runtime::SystemClock;
use thalweg_types::{AttemptId, ErrorKind, ExchangeId, ExchangeKey, FailureCause, LeaderEpoch, MapOutputKey, StageId};

use crate::driver::{DriverOptions, Submission};

pub const PATIENCE: Duration = Duration::from_secs(20);

/// Of a driver without a journal.
pub fn driver_options() -> DriverOptions {
    DriverOptions {
        epoch: LeaderEpoch(1),
        ticket_key: TicketKey::from_token("t"),
        heartbeats: Heartbeats { interval: Duration::from_secs(1), timeout: Duration::from_secs(10) },
        clock: Arc::new(SystemClock::new()),
        start_unix_ms: 0,
        journal: None,
        restored: Vec::new(),
        recovery_patience: PATIENCE,
    }
}

fn stage(id: u32, splits: u32, inputs: &[u32], parallelism: Parallelism) -> Stage {
    let split = |i: u32| Split { bytes: 1 << 20, payload: Arc::from(format!("split {i}").into_bytes()) };
    let sources = match splits {
        0 => vec![],
        n => vec![Source { name: "t".into(), splits: (0..n).map(split).collect() }],
    };
    let input = |x: &u32| StageInput {
        exchange: ExchangeId(*x),
        role: InputRole::Probe,
        type_number: 0,
        divisible: false,
        replicated: false,
        per_map: false,
    };
    Stage {
        id: StageId(id),
        name: format!("stage {id}"),
        parts: vec![Part::alone(Arc::from(format!("fragment {id}").into_bytes()), inputs.len())],
        sources,
        inputs: inputs.iter().map(input).collect(),
        output: ExchangeId(id),
        parallelism,
        determinism: Determinism::Deterministic,
        fused_into: None,
    }
}

fn exchange(id: u32, consumer: Option<u32>, kind: ExchangeKind) -> Exchange {
    let (producer, consumer) = (StageId(id), consumer.map(StageId));
    Exchange { id: ExchangeId(id), producer, consumer, kind, keys: String::new() }
}

/// A scan of two splits whose rows are the result.
pub fn scan(parallelism: u32) -> Arc<PlanTemplate> {
    let template = PlanTemplate {
        stages: vec![stage(0, 2, &[], Parallelism::Fixed(parallelism))],
        exchanges: vec![exchange(0, None, ExchangeKind::Result)],
    };
    template.validate().expect("a valid plan");
    Arc::new(template)
}

/// A scan by `maps` tasks, hashed to `reducers`.
pub fn aggregate(maps: u32, reducers: u32) -> Arc<PlanTemplate> {
    let template = PlanTemplate {
        stages: vec![stage(0, maps, &[], Parallelism::Fixed(maps)), stage(1, 0, &[0], Parallelism::Fixed(reducers))],
        exchanges: vec![
            exchange(0, Some(1), ExchangeKind::Hash { subpartitions: 8 }),
            exchange(1, None, ExchangeKind::Result),
        ],
    };
    template.validate().expect("a valid plan");
    Arc::new(template)
}

pub fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]))
}

pub fn batch(values: &[i64]) -> RecordBatch {
    RecordBatch::try_new(schema(), vec![Arc::new(Int64Array::from(values.to_vec()))]).unwrap()
}

pub fn ipc_stream(values: &[i64]) -> Bytes {
    let mut out = Vec::new();
    let mut writer = arrow_ipc::writer::StreamWriter::try_new(&mut out, &schema()).unwrap();
    writer.write(&batch(values)).unwrap();
    writer.finish().unwrap();
    drop(writer);
    out.into()
}

pub fn submission(template: Arc<PlanTemplate>) -> Submission {
    Submission {
        template,
        schema: schema(),
        statement: "SELECT n FROM t".into(),
        plan: "the plan".into(),
        options: JobOptions::default(),
        settings: vec![("table.local-time-zone".into(), "UTC".into())],
        result_ttl: Duration::from_secs(3600),
        result_max_size: 1 << 30,
        recoverable: true,
    }
}

/// A TaskManager that reports every task finished with one row per subpartition, and for the result the task's number.
pub struct FakeTaskManager {
    pub end: TaskManagerEnd,
    /// Results go with the finish report.
    pub inline: bool,
    pub received: Vec<ToTaskManager>,
    /// What it has written.
    pub outputs: Vec<MapOutputKey>,
    running: BTreeMap<AttemptId, Running>,
}

struct Running {
    spec: TaskSpec,
    splits: Vec<Vec<u32>>,
    asking: u32,
    /// Grows with every question; one asked again gets the same answer.
    request: u64,
}

pub fn registration(resource: &str, incarnation: u64, slots: u32, data_address: &str) -> FromTaskManager {
    FromTaskManager::Register {
        resource: resource.into(),
        incarnation,
        data_address: data_address.into(),
        slots,
        managed_memory: 1 << 30,
        slot_memory: (1 << 30) / u64::from(slots),
        version: env!("CARGO_PKG_VERSION").into(),
        held: Vec::new(),
    }
}

impl FakeTaskManager {
    pub async fn register(end: TaskManagerEnd, resource: &str, incarnation: u64, slots: u32) -> Self {
        Self::register_at(end, resource, incarnation, slots, "localhost:1").await
    }

    pub async fn register_at(end: TaskManagerEnd, resource: &str, incarnation: u64, slots: u32, address: &str) -> Self {
        Self::register_with(end, registration(resource, incarnation, slots, address)).await
    }

    /// The one that wrote `outputs` comes back over a new link.
    pub async fn register_again(
        end: TaskManagerEnd,
        resource: &str,
        incarnation: u64,
        slots: u32,
        outputs: Vec<MapOutputKey>,
    ) -> Self {
        let mut first = registration(resource, incarnation, slots, "localhost:1");
        if let FromTaskManager::Register { held, .. } = &mut first {
            *held = outputs;
        }
        Self::register_with(end, first).await
    }

    async fn register_with(end: TaskManagerEnd, first: FromTaskManager) -> Self {
        let (received, outputs, running) = (Vec::new(), Vec::new(), BTreeMap::new());
        let mut fake = Self { end, inline: true, received, outputs, running };
        fake.end.tx.send(first).await.unwrap();
        let answer = fake.next().await;
        assert!(matches!(answer, Some(ToTaskManager::Registered { .. })), "{answer:?}");
        fake
    }

    pub async fn next(&mut self) -> Option<ToTaskManager> {
        tokio::time::timeout(PATIENCE, self.end.rx.recv()).await.expect("an order within the deadline")
    }

    /// The next task, without its splits.
    pub async fn next_deploy(&mut self) -> TaskSpec {
        loop {
            match self.next().await.expect("the link lives") {
                ToTaskManager::Deploy { spec, .. } => return spec,
                other => self.received.push(other),
            }
        }
    }

    pub async fn fail(&mut self, attempt: AttemptId, kind: ErrorKind, message: &str) {
        let cause = FailureCause::Task { kind, message: message.into() };
        self.end.tx.send(FromTaskManager::Failed { attempt, cause }).await.unwrap();
    }

    /// Runs tasks until the link ends; gives what it was told.
    pub async fn serve(mut self) -> Vec<ToTaskManager> {
        while let Some(order) = self.end.rx.recv().await {
            if !self.obey(order).await {
                break;
            }
        }
        self.received
    }

    /// Runs tasks until `last` was told.
    pub async fn serve_until(&mut self, last: impl Fn(&ToTaskManager) -> bool) {
        loop {
            let order = self.next().await.expect("the link lives");
            let is_last = last(&order);
            self.obey(order).await;
            if is_last {
                return;
            }
        }
    }

    async fn obey(&mut self, order: ToTaskManager) -> bool {
        self.received.push(order.clone());
        match order {
            ToTaskManager::Deploy { spec, .. } => {
                let splits = spec.splits.iter().map(|policy| match policy {
                    SplitPolicy::Ask => vec![],
                    SplitPolicy::Exactly(positions) => positions.clone(),
                });
                let splits = splits.collect();
                let attempt = spec.attempt;
                self.running.insert(attempt, Running { spec, splits, asking: 0, request: 0 });
                self.proceed(attempt).await
            }
            ToTaskManager::Split { attempt, source, split, .. } => {
                let Some(running) = self.running.get_mut(&attempt) else { return true };
                match split {
                    Some((position, _)) => running.splits[source as usize].push(position),
                    None => running.asking += 1,
                }
                self.proceed(attempt).await
            }
            ToTaskManager::Cancel { attempt } => {
                self.running.remove(&attempt);
                let cause = FailureCause::Task { kind: ErrorKind::Cancelled, message: "cancelled".into() };
                self.end.tx.send(FromTaskManager::Failed { attempt, cause }).await.is_ok()
            }
            _ => true,
        }
    }

    /// Asks for the next split, or reports the task finished.
    async fn proceed(&mut self, attempt: AttemptId) -> bool {
        let running = self.running.get_mut(&attempt).expect("it was deployed");
        running.request += 1;
        let request = running.request;
        let message = match running.spec.splits.get(running.asking as usize) {
            Some(SplitPolicy::Ask) => FromTaskManager::NextSplit { attempt, source: running.asking, request },
            _ => {
                let running = self.running.remove(&attempt).unwrap();
                let exchange = ExchangeKey { job: attempt.task.job, exchange: running.spec.output };
                let (map, attempt) = (attempt.task.index, attempt.attempt);
                self.outputs.push(MapOutputKey { exchange, map, attempt });
                finished(&running.spec, running.splits, self.inline)
            }
        };
        self.end.tx.send(message).await.is_ok()
    }
}

pub fn finished(spec: &TaskSpec, splits: Vec<Vec<u32>>, inline: bool) -> FromTaskManager {
    let width = spec.subpartitions as usize;
    let rows_of = |input: &thalweg_graph::InputAssignment| u64::from(input.maps.len() * input.subpartitions.len());
    let stats = OutputStats {
        rows: vec![1; width],
        bytes: vec![8; width],
        input_rows: spec.inputs.iter().map(rows_of).collect(),
        network_bytes: vec![0; spec.inputs.len()],
        ..OutputStats::default()
    };
    let inline = (inline && width == 1).then(|| ipc_stream(&[i64::from(spec.attempt.task.index)]));
    FromTaskManager::Finished { attempt: spec.attempt, stats, splits, inline }
}
