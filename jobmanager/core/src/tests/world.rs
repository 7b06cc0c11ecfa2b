//! A model of everything around the core: TaskManagers that run attempts, hold outputs, and can lose them.
//!
//! Each action is checked when it is carried out: no slot is over-committed, a deploy names placements its TaskManager was sent,
//! nothing that is being read is released. What an attempt writes is known by a *version* computed from what it read, so that
//! mixtures of attempts can be told from consistent results.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use thalweg_graph::{Determinism, OutputStats, Placement, PlanTemplate, SplitPolicy, TaskSpec};
use thalweg_types::{
    AttemptId, ErrorKind, ExchangeKey, FailureCause, Interval, JobId, LeaderEpoch, MapOutputKey, TaskManagerId,
};

use crate::*;

/// What an attempt wrote.
#[derive(Debug, Clone)]
pub struct Content {
    pub stage: usize,
    pub index: u32,
    /// The bag of rows it stands for.
    pub version: u64,
    /// Their order.
    pub order: u64,
    pub rows: Vec<u64>,
    pub reads: Vec<Read>,
    pub splits: Vec<Vec<u32>>,
}

#[derive(Debug, Clone)]
pub struct Read {
    pub producer: usize,
    pub map: u32,
    pub subpartitions: Interval<u32>,
    pub rows: Option<Interval<u64>>,
    pub version: u64,
    /// Set when only some rows of a cell were read: which ones depends on their order.
    pub order: Option<u64>,
}

#[derive(Debug, Clone)]
pub struct SimAttempt {
    pub spec: TaskSpec,
    /// Per input, as it was when the attempt was deployed.
    pub placements: Vec<Arc<Placement>>,
    pub asked: u64,
    pub given: Vec<Vec<u32>>,
    pub exhausted: Vec<bool>,
    pub cancelled: bool,
}

#[derive(Debug, Default)]
pub struct SimTm {
    pub slots: u32,
    pub running: BTreeMap<AttemptId, SimAttempt>,
    pub placed: BTreeMap<ExchangeKey, Arc<Placement>>,
    /// (exchange, map, attempt) → what is there.
    pub outputs: BTreeMap<(ExchangeKey, u32, u32), Arc<Content>>,
}

pub struct World {
    pub core: Core,
    pub now: Time,
    pub job: JobId,
    pub template: Arc<PlanTemplate>,
    pub tms: BTreeMap<TaskManagerId, SimTm>,
    pub records: Vec<Record>,
    pub reports: Vec<Report>,
    pub timers: BTreeSet<(Time, TimerId)>,
    pub deployed: Vec<TaskSpec>,
    pub cancels: Vec<AttemptId>,
    pub released: Vec<ExchangeKey>,
    pub result: Option<Arc<Placement>>,
    pub events: Vec<Event>,
    /// Everything that was ever written, by version.
    pub contents: BTreeMap<u64, Arc<Content>>,
    incarnations: u64,
}

pub fn hash(parts: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    parts.hash(&mut hasher);
    hasher.finish()
}

pub fn io_error() -> FailureCause {
    FailureCause::Task { kind: ErrorKind::Io, message: "disk said no".to_owned() }
}

pub const MEMORY: u64 = 1 << 30;
/// How long a new leader waits for TaskManagers of the one before.
pub const PATIENCE: Duration = Duration::from_secs(30);

impl World {
    pub fn new(template: &Arc<PlanTemplate>) -> Self {
        Self::with_core(Core::new(LeaderEpoch(1)), template)
    }

    pub fn with_core(core: Core, template: &Arc<PlanTemplate>) -> Self {
        Self {
            core,
            now: Time::default(),
            job: JobId(7),
            template: Arc::clone(template),
            tms: BTreeMap::new(),
            records: Vec::new(),
            reports: Vec::new(),
            timers: BTreeSet::new(),
            deployed: Vec::new(),
            cancels: Vec::new(),
            released: Vec::new(),
            result: None,
            events: Vec::new(),
            contents: BTreeMap::new(),
            incarnations: 0,
        }
    }

    pub fn submit(&mut self, options: JobOptions) {
        let template = Arc::clone(&self.template);
        self.feed(Event::Submit { job: self.job, template, options });
    }

    pub fn tm_up(&mut self, name: &str, slots: u32) -> TaskManagerId {
        self.incarnations += 1;
        let tm = TaskManagerId::new(name, self.incarnations);
        self.tms.retain(|other, _| other.resource != tm.resource);
        self.tms.insert(tm.clone(), SimTm { slots, ..SimTm::default() });
        self.feed(Event::TaskManagerUp { tm: tm.clone(), slots, slot_memory: MEMORY, held: Vec::new() });
        tm
    }

    /// A TaskManager that lost its link dials again: what it ran is gone, what it wrote is there.
    pub fn tm_back(&mut self, tm: &TaskManagerId) {
        let sim = self.tms.get_mut(tm).expect("it lives");
        sim.running.clear();
        sim.placed.clear();
        let output = |&(exchange, map, attempt): &(ExchangeKey, u32, u32)| MapOutputKey { exchange, map, attempt };
        let held = sim.outputs.keys().map(output).collect();
        let slots = sim.slots;
        self.feed(Event::TaskManagerUp { tm: tm.clone(), slots, slot_memory: MEMORY, held });
    }

    /// A leader that goes on from these records, with the TaskManagers as they are; none has registered yet.
    pub fn next_leader(self) -> World {
        let core = Core::restore(LeaderEpoch(2), self.records.clone());
        let mut next = World::with_core(core, &self.template);
        next.now = self.now;
        next.records = self.records;
        next.tms = self.tms;
        for tm in next.tms.values_mut() {
            // without a link it runs nothing
            tm.running.clear();
            tm.placed.clear();
        }
        next.contents = self.contents;
        next.incarnations = self.incarnations;
        next.feed(Event::Restored { patience: PATIENCE });
        next
    }

    pub fn tm_down(&mut self, tm: &TaskManagerId) {
        self.tms.remove(tm);
        self.feed(Event::TaskManagerDown { tm: tm.clone(), detail: "connection closed".to_owned() });
    }

    pub fn state(&self) -> JobState {
        self.core.job(self.job).unwrap().state
    }

    pub fn stage(&self, stage: usize) -> StageView {
        self.core.job(self.job).unwrap().stages[stage].clone()
    }

    pub fn feed(&mut self, event: Event) {
        self.events.push(event.clone());
        let mut out = Vec::new();
        self.core.handle(self.now, event, &mut out);
        for action in out {
            self.carry_out(action);
        }
        self.core.check_invariants();
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Persist(record) => {
                // records travel as bytes
                let bytes = serde_json::to_vec(&record).unwrap();
                assert_eq!(serde_json::from_slice::<Record>(&bytes).unwrap(), record);
                self.records.push(record);
            }
            Action::Place { tm, exchange, placement } => {
                let sim = self.tms.get_mut(&tm).expect("placed on a live taskmanager");
                if let Some(old) = sim.placed.insert(exchange, Arc::clone(&placement)) {
                    assert!(old.version < placement.version, "versions grow");
                }
            }
            Action::Deploy { tm, task } => self.deploy(tm, *task),
            Action::CancelTask { tm, attempt } => {
                self.cancels.push(attempt);
                if let Some(sim) = self.tms.get_mut(&tm).and_then(|t| t.running.get_mut(&attempt)) {
                    sim.cancelled = true;
                }
            }
            Action::GiveSplit { tm, attempt, source, request, split } => {
                let Some(sim) = self.tms.get_mut(&tm).and_then(|t| t.running.get_mut(&attempt)) else { return };
                if sim.asked == request {
                    sim.asked += 1;
                    match split {
                        Some(split) => sim.given[source as usize].push(split),
                        None => sim.exhausted[source as usize] = true,
                    }
                }
            }
            Action::Retain { tm, outputs } => {
                let sim = self.tms.get_mut(&tm).expect("retained on a live taskmanager");
                assert!(sim.running.is_empty(), "it is the first order after a registration");
                sim.outputs
                    .retain(|&(exchange, map, attempt), _| outputs.contains(&MapOutputKey { exchange, map, attempt }));
                assert_eq!(sim.outputs.len(), outputs.len(), "nothing is retained that is not there");
            }
            Action::ReleaseExchange { tm, exchange } => self.release(&tm, exchange),
            Action::ReleaseJob { tm, job } => {
                let sim = self.tms.get_mut(&tm).expect("released on a live taskmanager");
                assert!(sim.running.iter().all(|(id, a)| id.task.job != job || a.cancelled));
                sim.outputs.retain(|(x, _, _), _| x.job != job);
                sim.placed.retain(|x, _| x.job != job);
            }
            Action::SetTimer { id, at } => {
                self.timers.retain(|(_, other)| *other != id);
                self.timers.insert((at, id));
            }
            Action::Fuse { job: _, stage, input } => {
                assert!(Arc::make_mut(&mut self.template).fuse(stage, input as usize), "it can be fused");
            }
            Action::Report(report) => {
                if let Report::ResultReady { placement, .. } = &report {
                    self.result = Some(Arc::clone(placement));
                }
                self.reports.push(report);
            }
        }
    }

    fn deploy(&mut self, tm: TaskManagerId, spec: TaskSpec) {
        let sim = self.tms.get_mut(&tm).expect("deployed on a live taskmanager");
        assert!((sim.running.len() as u32) < sim.slots, "slots of {tm} are over-committed");
        let mut placements = Vec::new();
        for input in &spec.inputs {
            let key = ExchangeKey { job: spec.attempt.task.job, exchange: input.exchange };
            let placed = sim.placed.get(&key).expect("placement was sent before");
            assert_eq!(placed.version, input.placement);
            placements.push(Arc::clone(placed));
        }
        let persisted = |r: &Record| matches!(r, Record::Bound { stage, .. } if *stage == spec.attempt.task.stage);
        assert!(self.records.iter().any(persisted), "a binding is durable before its tasks run");
        let sources = spec.splits.len();
        let exhausted = spec.splits.iter().map(|p| matches!(p, SplitPolicy::Exactly(_))).collect();
        let given = spec.splits.iter().map(|p| match p {
            SplitPolicy::Exactly(list) => list.clone(),
            SplitPolicy::Ask => Vec::new(),
        });
        let given: Vec<_> = given.collect();
        assert_eq!(given.len(), sources);
        self.deployed.push(spec.clone());
        let attempt = spec.attempt;
        let fresh = SimAttempt { spec, placements, asked: 0, given, exhausted, cancelled: false };
        assert!(sim.running.insert(attempt, fresh).is_none());
    }

    fn release(&mut self, tm: &TaskManagerId, exchange: ExchangeKey) {
        let reads = |a: &SimAttempt| !a.cancelled && a.spec.inputs.iter().any(|i| i.exchange == exchange.exchange);
        assert!(!self.tms.values().any(|t| t.running.values().any(reads)), "{exchange} is released while it is read");
        let sim = self.tms.get_mut(tm).expect("released on a live taskmanager");
        sim.outputs.retain(|(x, _, _), _| *x != exchange);
        sim.placed.remove(&exchange);
        self.released.push(exchange);
    }

    /// Every attempt that runs and is not told to stop.
    pub fn running(&self) -> Vec<(TaskManagerId, AttemptId)> {
        let live = |t: &SimTm| t.running.iter().filter(|(_, a)| !a.cancelled).map(|(id, _)| *id).collect::<Vec<_>>();
        self.tms.iter().flat_map(|(tm, t)| live(t).into_iter().map(|id| (tm.clone(), id))).collect()
    }

    /// Attempts told to stop that have not.
    pub fn stopping(&self) -> Vec<(TaskManagerId, AttemptId)> {
        let live = |t: &SimTm| t.running.iter().filter(|(_, a)| a.cancelled).map(|(id, _)| *id).collect::<Vec<_>>();
        self.tms.iter().flat_map(|(tm, t)| live(t).into_iter().map(|id| (tm.clone(), id))).collect()
    }

    pub fn running_in(&self, stage: u32) -> Vec<(TaskManagerId, AttemptId)> {
        self.running().into_iter().filter(|(_, id)| id.task.stage.0 == stage).collect()
    }

    /// The attempt asks for one more split. False when it has all it will get.
    pub fn ask(&mut self, tm: &TaskManagerId, attempt: AttemptId) -> bool {
        let sim = &self.tms[tm].running[&attempt];
        let Some(source) = sim.exhausted.iter().position(|e| !e) else { return false };
        let request = sim.asked;
        self.feed(Event::SplitRequested { attempt, tm: tm.clone(), source: source as u32, request });
        true
    }

    /// The attempt reads its splits and inputs to the end and reports.
    pub fn run(&mut self, tm: &TaskManagerId, attempt: AttemptId) {
        while self.ask(tm, attempt) {}
        self.complete(tm, attempt);
    }

    /// The attempt reads its inputs and reports, with the splits it has.
    pub fn complete(&mut self, tm: &TaskManagerId, attempt: AttemptId) {
        let Some(sim) = self.tms.get_mut(tm).and_then(|t| t.running.remove(&attempt)) else { return };
        match self.read(&sim) {
            Err(cause) => self.feed(Event::TaskFailed { attempt, tm: tm.clone(), cause }),
            Ok(reads) => {
                let (content, stats) = self.write(&sim, reads);
                let key = ExchangeKey { job: attempt.task.job, exchange: sim.spec.output };
                let content = Arc::new(content);
                self.contents.insert(content.version, Arc::clone(&content));
                let tm_sim = self.tms.get_mut(tm).expect("it runs there");
                tm_sim.outputs.insert((key, attempt.task.index, attempt.attempt), content);
                self.feed(Event::TaskFinished { attempt, tm: tm.clone(), stats, splits: sim.given });
            }
        }
    }

    pub fn fail(&mut self, tm: &TaskManagerId, attempt: AttemptId, cause: FailureCause) {
        if self.tms.get_mut(tm).and_then(|t| t.running.remove(&attempt)).is_some() {
            self.feed(Event::TaskFailed { attempt, tm: tm.clone(), cause });
        }
    }

    /// An attempt that was told to stop says that it has.
    pub fn stop(&mut self, tm: &TaskManagerId, attempt: AttemptId) {
        let message = "cancelled".to_owned();
        self.fail(tm, attempt, FailureCause::Task { kind: ErrorKind::Cancelled, message });
    }

    fn read(&self, sim: &SimAttempt) -> Result<Vec<(usize, Read, u64)>, FailureCause> {
        let mut reads = Vec::new();
        for (i, input) in sim.spec.inputs.iter().enumerate() {
            let key = ExchangeKey { job: sim.spec.attempt.task.job, exchange: input.exchange };
            let placement = &sim.placements[i];
            for map in input.maps.iter() {
                let at = &placement.maps[map as usize];
                let held = self.tms.get(&at.task_manager).and_then(|t| t.outputs.get(&(key, map, at.attempt)));
                let Some(content) = held else {
                    return Err(FailureCause::PartitionLost {
                        exchange: input.exchange,
                        map,
                        attempt: at.attempt,
                        from: at.task_manager.clone(),
                        detail: "no such output".to_owned(),
                    });
                };
                let (from, to) = (input.subpartitions.start as usize, input.subpartitions.end as usize);
                let rows: u64 = content.rows[from..to].iter().sum();
                let rows = input.rows.map_or(rows, |cut| cut.end.min(rows).saturating_sub(cut.start));
                let read = Read {
                    producer: content.stage,
                    map,
                    subpartitions: input.subpartitions,
                    rows: input.rows,
                    version: content.version,
                    order: input.rows.map(|_| content.order),
                };
                reads.push((i, read, rows));
            }
        }
        Ok(reads)
    }

    fn write(&self, sim: &SimAttempt, reads: Vec<(usize, Read, u64)>) -> (Content, OutputStats) {
        let attempt = sim.spec.attempt;
        let stage = attempt.task.stage.index();
        let mut input_rows = vec![0; sim.spec.inputs.len()];
        for (input, _, rows) in &reads {
            input_rows[*input] += rows;
        }
        let seen: Vec<_> = reads.iter().map(|(_, r, _)| (r.producer, r.map, r.version, r.order)).collect();
        let chance = match self.template.stages[stage].determinism {
            Determinism::Random => (attempt.attempt, self.now.0),
            _ => (0, Duration::ZERO),
        };
        let version = hash((stage, attempt.task.index, &sim.given, &seen, chance));
        let order = match self.template.stages[stage].determinism {
            Determinism::Deterministic => version,
            _ => hash((version, attempt.attempt)),
        };
        let width = u64::from(sim.spec.subpartitions);
        let rows: Vec<u64> = (0..width).map(|s| hash((version, s)) % 50).collect();
        let bytes = rows.iter().map(|r| r * 8).collect();
        let stats = OutputStats { rows: rows.clone(), bytes, input_rows, ..OutputStats::default() };
        let reads = reads.into_iter().map(|(_, read, _)| read).collect();
        let index = attempt.task.index;
        (Content { stage, index, version, order, rows, reads, splits: sim.given.clone() }, stats)
    }

    /// Rings the earliest timer. False if there is none.
    pub fn ring(&mut self) -> bool {
        let Some((at, id)) = self.timers.pop_first() else { return false };
        self.now = self.now.max(at);
        self.feed(Event::Timer(id));
        true
    }

    pub fn advance_time(&mut self, by: Duration) {
        let until = self.now + by;
        while self.timers.first().is_some_and(|(at, _)| *at <= until) {
            self.ring();
        }
        self.now = until;
    }

    /// Runs everything without further trouble until the job is over or nothing more can be done.
    pub fn run_calmly(&mut self) {
        for _ in 0..100_000 {
            for (tm, attempt) in self.stopping() {
                self.stop(&tm, attempt);
            }
            if self.state().is_terminal() {
                return;
            }
            match self.running().first().cloned() {
                Some((tm, attempt)) => self.run(&tm, attempt),
                None if self.ring() => {}
                None => return,
            }
        }
        panic!("the job never ends: {:?}", self.core.job(self.job));
    }

    /// Runs one stage's tasks to their end.
    pub fn run_stage(&mut self, stage: u32) {
        while let Some((tm, attempt)) = self.running_in(stage).first().cloned() {
            self.run(&tm, attempt);
        }
    }

    /// Contents of the result's maps; `Err` with the map that cannot be read.
    pub fn read_result(&self) -> Result<Vec<Arc<Content>>, u32> {
        let placement = self.result.as_ref().expect("result is ready");
        let key = ExchangeKey { job: self.job, exchange: placement.exchange };
        let map = |(map, at): (usize, &thalweg_graph::MapLocation)| {
            let tm = self.tms.get(&at.task_manager);
            tm.and_then(|t| t.outputs.get(&(key, map as u32, at.attempt))).cloned().ok_or(map as u32)
        };
        placement.maps.iter().enumerate().map(map).collect()
    }

    pub fn attempts_of(&self, stage: usize) -> Vec<(u32, u32, AttemptState)> {
        self.stage(stage).attempts.iter().map(|a| (a.attempt.task.index, a.attempt.attempt, a.state)).collect()
    }

    pub fn decision(&self, rule: &str) -> Option<Decision> {
        self.core.job(self.job).unwrap().decisions.into_iter().find(|d| d.rule == rule)
    }
}
