//! TaskManagers that take as long as the model says, and the queue of what happens next.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use thalweg_core::{Action, AttemptState, Core, Event, JobOptions, JobState, Report, Time, TimerId};
use thalweg_graph::{ExchangeKind, OutputStats, PlanTemplate, SplitPolicy, TaskSpec};
use thalweg_types::{AttemptId, ExchangeKey, JobId, LeaderEpoch, StageId, TaskManagerId};

use crate::model::{Scenario, Spread, cost};

const JOB: JobId = JobId(1);
/// A question and its answer.
const ROUND_TRIP: Duration = Duration::from_millis(1);

/// What a run came to.
pub struct Outcome {
    pub makespan: Duration,
    /// Sum over the tasks.
    pub task_time: Duration,
    pub tasks: u32,
    /// Longest task of the join over the median one.
    pub balance: f64,
    /// Bytes written to exchanges.
    pub shuffled: u64,
    /// Time that the core took.
    pub core_time: Duration,
    pub placements: usize,
    pub placed_on: usize,
    /// Placements of one exchange that one TaskManager got.
    pub most_placements: usize,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Happening {
    Timer(TimerId),
    /// It asks for a split of its source number `source`.
    Ask {
        attempt: AttemptId,
        source: u32,
        request: u64,
    },
    Finish {
        attempt: AttemptId,
    },
}

struct Running {
    spec: TaskSpec,
    tm: TaskManagerId,
    splits: Vec<Vec<u32>>,
    scanned: u64,
}

pub struct World<'a> {
    core: Core,
    now: Time,
    queue: BinaryHeap<Reverse<(Time, u64, Happening)>>,
    happenings: u64,
    template: Arc<PlanTemplate>,
    spreads: &'a [Spread],
    running: BTreeMap<AttemptId, Running>,
    /// By stage: bytes per subpartition so far.
    written: Vec<Vec<u64>>,
    times: BTreeMap<StageId, Vec<Duration>>,
    placed: BTreeMap<(ExchangeKey, TaskManagerId), usize>,
    ended: Option<Time>,
    core_time: Duration,
}

impl<'a> World<'a> {
    pub fn new(scenario: &'a Scenario, task_managers: u32, slots: u32) -> Self {
        let mut world = World {
            core: Core::new(LeaderEpoch(1)),
            now: Time::default(),
            queue: BinaryHeap::new(),
            happenings: 0,
            template: Arc::clone(&scenario.template),
            spreads: &scenario.outputs,
            running: BTreeMap::new(),
            written: vec![Vec::new(); scenario.template.stages.len()],
            times: BTreeMap::new(),
            placed: BTreeMap::new(),
            ended: None,
            core_time: Duration::ZERO,
        };
        for number in 0..task_managers {
            let tm = TaskManagerId::new(format!("tm-{number}"), 1);
            world.feed(Event::TaskManagerUp { tm, slots, slot_memory: 2 << 30, held: Vec::new() });
        }
        world
    }

    pub fn run(mut self, options: JobOptions) -> Outcome {
        let template = Arc::clone(&self.template);
        self.feed(Event::Submit { job: JOB, template, options });
        while self.ended.is_none() {
            let Reverse((at, _, happening)) = self.queue.pop().expect("a job that runs has something to wait for");
            self.now = at;
            match happening {
                Happening::Timer(id) => self.feed(Event::Timer(id)),
                Happening::Ask { attempt, source, request } => {
                    let tm = self.running[&attempt].tm.clone();
                    self.feed(Event::SplitRequested { attempt, tm, source, request });
                }
                Happening::Finish { attempt } => self.finish(attempt),
            }
        }
        self.outcome()
    }

    fn later(&mut self, after: Duration, happening: Happening) {
        self.happenings += 1;
        self.queue.push(Reverse((self.now + after, self.happenings, happening)));
    }

    fn feed(&mut self, event: Event) {
        let mut actions = Vec::new();
        let started = Instant::now();
        self.core.handle(self.now, event, &mut actions);
        self.core_time += started.elapsed();
        for action in actions {
            self.carry_out(action);
        }
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Deploy { tm, task } => self.deploy(tm, *task),
            Action::GiveSplit { attempt, source, request, split, .. } => {
                self.take_split(attempt, source, request, split)
            }
            Action::Place { tm, exchange, .. } => *self.placed.entry((exchange, tm)).or_default() += 1,
            Action::SetTimer { id, at } => {
                self.happenings += 1;
                self.queue.push(Reverse((at, self.happenings, Happening::Timer(id))));
            }
            Action::Fuse { stage, input, .. } => {
                assert!(Arc::make_mut(&mut self.template).fuse(stage, input as usize), "it can be fused");
            }
            Action::Report(Report::Job { state, .. }) => match state {
                JobState::Finished => self.ended = Some(self.now),
                JobState::Failed(failure) => panic!("the job failed: {failure}"),
                _ => {}
            },
            Action::Report(Report::Attempt { state, attempt, .. }) => {
                assert!(state != AttemptState::Failed, "{attempt} failed");
            }
            _ => {}
        }
    }

    fn deploy(&mut self, tm: TaskManagerId, spec: TaskSpec) {
        let attempt = spec.attempt;
        let splits = vec![Vec::new(); spec.splits.len()];
        let asks = spec.splits.iter().position(|policy| *policy == SplitPolicy::Ask);
        self.running.insert(attempt, Running { spec, tm, splits, scanned: 0 });
        match asks {
            Some(source) => self.later(ROUND_TRIP, Happening::Ask { attempt, source: source as u32, request: 1 }),
            None => self.work(attempt),
        }
    }

    fn take_split(&mut self, attempt: AttemptId, source: u32, request: u64, split: Option<u32>) {
        let sources = &self.template.stage(attempt.task.stage).sources;
        let last = source as usize + 1 == sources.len();
        let bytes = split.map(|split| sources[source as usize].splits[split as usize].bytes);
        let running = self.running.get_mut(&attempt).expect("it asked");
        match (split, bytes) {
            (Some(split), Some(bytes)) => {
                running.splits[source as usize].push(split);
                running.scanned += bytes;
                let next = Happening::Ask { attempt, source, request: request + 1 };
                self.later(cost(bytes, 0, 0), next);
            }
            _ if last => self.work(attempt),
            _ => self.later(ROUND_TRIP, Happening::Ask { attempt, source: source + 1, request: request + 1 }),
        }
    }

    /// All splits are read: what remains is to read inputs, work and write.
    fn work(&mut self, attempt: AttemptId) {
        let running = &self.running[&attempt];
        let (scanned, read) = (running.scanned, self.read(&running.spec));
        let written = self.bytes_out(attempt.task.stage, scanned + read);
        let time = cost(0, read, written);
        self.times.entry(attempt.task.stage).or_default().push(time + cost(scanned, 0, 0));
        self.later(time, Happening::Finish { attempt });
    }

    /// Bytes of all inputs. Maps are taken to be alike.
    fn read(&self, spec: &TaskSpec) -> u64 {
        let input = |input: &thalweg_graph::InputAssignment| {
            let producer = self.template.exchange(input.exchange).producer;
            let cells = &self.written[producer.index()];
            let (from, to) = (input.subpartitions.start as usize, input.subpartitions.end as usize);
            let bytes: u64 = cells.get(from..to).map_or(0, |cells| cells.iter().sum());
            let maps = self.core_maps(producer);
            let share = f64::from(input.maps.end - input.maps.start) / f64::from(maps.max(1));
            let rows = input.rows.map_or(1.0, |_| 0.5);
            (bytes as f64 * share * rows) as u64
        };
        spec.inputs.iter().map(input).sum()
    }

    fn core_maps(&self, producer: StageId) -> u32 {
        self.times.get(&producer).map_or(0, |times| times.len() as u32)
    }

    fn bytes_out(&self, stage: StageId, read: u64) -> u64 {
        (read as f64 * self.spreads[stage.index()].ratio) as u64
    }

    fn finish(&mut self, attempt: AttemptId) {
        let running = self.running.remove(&attempt).expect("it runs");
        let stage = attempt.task.stage;
        let bytes = self.bytes_out(stage, running.scanned + self.read(&running.spec));
        let (rows, bytes) = self.spreads[stage.index()].cells(bytes, running.spec.subpartitions);
        let sums = &mut self.written[stage.index()];
        sums.resize(bytes.len(), 0);
        sums.iter_mut().zip(&bytes).for_each(|(sum, bytes)| *sum += bytes);
        let stats = OutputStats { rows, bytes, ..OutputStats::default() };
        self.feed(Event::TaskFinished { attempt, tm: running.tm, stats, splits: running.splits });
    }

    fn outcome(&self) -> Outcome {
        let exchanged =
            |stage: &&thalweg_graph::Stage| self.template.exchange(stage.output).kind != ExchangeKind::Result;
        let shuffled = self.template.stages.iter().filter(exchanged).flat_map(|s| &self.written[s.id.index()]).sum();
        let joins = self.times.iter().filter(|(stage, _)| self.template.stage(**stage).inputs.len() > 1);
        let balance = joins.map(|(_, times)| spread_of(times)).fold(1.0, f64::max);
        let most_placements = self.placed.values().copied().max().unwrap_or(0);
        let placed_on: BTreeSet<_> = self.placed.keys().map(|(_, tm)| tm).collect();
        Outcome {
            makespan: self.ended.unwrap_or(self.now).0,
            task_time: self.times.values().flatten().sum(),
            tasks: self.times.values().map(|times| times.len() as u32).sum(),
            balance,
            shuffled,
            core_time: self.core_time,
            placements: self.placed.values().sum(),
            placed_on: placed_on.len(),
            most_placements,
        }
    }
}

/// Longest over median.
fn spread_of(times: &[Duration]) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let (Some(median), Some(longest)) = (sorted.get(sorted.len() / 2), sorted.last()) else { return 1.0 };
    longest.as_secs_f64() / median.as_secs_f64()
}
