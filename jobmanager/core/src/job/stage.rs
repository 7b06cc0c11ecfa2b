//! What is known about one stage while its job runs: its tasks, its split pools, its output.
//!
//! ```text
//!             deploy             report
//!  Waiting ───────────► Running ─────────► Done ──(output lost)──► Done, in `output.lost`
//!     ▲                    │                 │                            │
//!     └────(failed, cancelled, TM lost)◄─────┴──────(somebody needs it)◄──┘
//! ```
//!
//! Guarantees: `done`, `running` and the output's sums always agree with the task states, because only the functions here change
//! them. Takes no decisions.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use thalweg_graph::{OutputStats, Placement};
use thalweg_types::{FailureCause, TaskManagerId};

use crate::cells::{Cells, MapStats};
use crate::parallelism::{Cell, MapOutputs};
use crate::{AttemptState, StageProgress, TaskRanges, Time};

/// Replaced attempts that a stage's view remembers.
pub(crate) const HISTORY: usize = 1000;

#[derive(Debug)]
pub(crate) struct StageRun {
    /// What each task reads; empty until bound, never changed afterwards.
    pub ranges: Vec<TaskRanges>,
    pub tasks: Vec<Task>,
    /// Per source: splits that nobody has been given.
    pub pools: Vec<BTreeSet<u32>>,
    /// Waiting tasks that had finished before; they go first.
    pub reruns: BTreeSet<u32>,
    /// Waiting tasks that never finished.
    pub fresh: BTreeSet<u32>,
    pub done: u32,
    pub running: u32,
    pub output: Output,
    pub started_at: Option<Time>,
    pub finished_at: Option<Time>,
    pub history: VecDeque<PastAttempt>,
    /// Of finished attempts that count plus the progress of running ones.
    pub rows: u64,
    pub bytes: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Task {
    pub state: TaskState,
    /// Number of the last attempt; 0 = never deployed.
    pub attempts: u32,
    pub own_failures: u32,
    /// Outputs and runs lost although their TaskManager stayed.
    pub losses: u32,
    /// Splits a finished attempt read: what any later attempt must read.
    pub exact: Option<Vec<Vec<u32>>>,
}

#[derive(Debug, Default)]
pub(crate) enum TaskState {
    #[default]
    Waiting,
    Running(Running),
    Done(Done),
}

#[derive(Debug)]
pub(crate) struct Running {
    pub tm: TaskManagerId,
    pub started_at: Time,
    pub rows: u64,
    pub bytes: u64,
    pub busy_nanos: u64,
    /// Per source: splits handed out, in order.
    pub given: Vec<Vec<u32>>,
    /// Answers by (source, request), so that a repeated request takes no second split.
    pub answers: BTreeMap<(u32, u64), u32>,
    /// Sources whose end the attempt has been told.
    pub exhausted: BTreeSet<u32>,
}

#[derive(Debug)]
pub(crate) struct Done {
    pub tm: TaskManagerId,
    pub started_at: Time,
    pub ended_at: Time,
    pub stats: MapStats,
    /// Why the output is gone; set when it is in [`Output::lost`] by accident.
    pub lost: Option<FailureCause>,
}

/// An attempt that was replaced, or ended with its job.
#[derive(Debug)]
pub(crate) struct PastAttempt {
    pub index: u32,
    pub attempt: u32,
    pub tm: TaskManagerId,
    pub state: AttemptState,
    pub started_at: Time,
    pub ended_at: Time,
    pub rows: u64,
    pub bytes: u64,
    pub cause: Option<FailureCause>,
}

/// The exchange a stage writes.
#[derive(Debug, Default)]
pub(crate) struct Output {
    pub subpartitions: u32,
    /// Finished tasks whose output nobody can read any more: lost, or released.
    pub lost: BTreeSet<u32>,
    /// Sums over readable maps, per subpartition.
    pub rows: Vec<u64>,
    pub bytes: Vec<u64>,
    /// Bytes of readable maps by host.
    pub by_host: BTreeMap<TaskManagerId, u64>,
    /// Every host that may hold something of it.
    pub holders: BTreeSet<TaskManagerId>,
    pub version: u64,
    /// Where the maps are; `None` while one is missing or not yet asked for.
    pub placement: Option<Arc<Placement>>,
    /// Readable maps whose report did not count rows.
    pub uncounted: u32,
    /// Some consumer reads only some rows of a cell.
    pub cut_by_rows: bool,
}

impl StageRun {
    pub fn new(splits_per_source: &[usize], subpartitions: u32, first_version: u64) -> Self {
        let width = subpartitions as usize;
        Self {
            ranges: Vec::new(),
            tasks: Vec::new(),
            pools: splits_per_source.iter().map(|&n| (0..n as u32).collect()).collect(),
            reruns: BTreeSet::new(),
            fresh: BTreeSet::new(),
            done: 0,
            running: 0,
            output: Output {
                subpartitions,
                rows: vec![0; width],
                bytes: vec![0; width],
                version: first_version,
                ..Output::default()
            },
            started_at: None,
            finished_at: None,
            history: VecDeque::new(),
            rows: 0,
            bytes: 0,
        }
    }

    pub fn is_bound(&self) -> bool {
        !self.ranges.is_empty()
    }

    /// Every task has finished, whether or not its output can still be read.
    pub fn all_done(&self) -> bool {
        self.is_bound() && self.done as usize == self.tasks.len()
    }

    /// Every map output can be read.
    pub fn is_sealed(&self) -> bool {
        self.all_done() && self.output.lost.is_empty()
    }

    pub fn progress(&self) -> StageProgress {
        StageProgress {
            parallelism: self.tasks.len() as u32,
            running: self.running,
            finished: self.done,
            rows: self.rows,
            bytes: self.bytes,
        }
    }

    pub fn bind(&mut self, ranges: Vec<TaskRanges>) {
        self.tasks = ranges.iter().map(|_| Task::default()).collect();
        self.fresh = (0..ranges.len() as u32).collect();
        self.ranges = ranges;
    }

    /// Puts a waiting task where the scheduler finds it.
    pub fn enqueue(&mut self, index: u32) {
        let queue = if self.tasks[index as usize].exact.is_some() { &mut self.reruns } else { &mut self.fresh };
        queue.insert(index);
    }

    pub fn running(&self, index: u32) -> Option<&Running> {
        match &self.tasks.get(index as usize)?.state {
            TaskState::Running(running) => Some(running),
            _ => None,
        }
    }

    pub fn running_mut(&mut self, index: u32) -> Option<&mut Running> {
        match &mut self.tasks.get_mut(index as usize)?.state {
            TaskState::Running(running) => Some(running),
            _ => None,
        }
    }

    pub fn done_task(&self, index: u32) -> Option<&Done> {
        match &self.tasks.get(index as usize)?.state {
            TaskState::Done(done) => Some(done),
            _ => None,
        }
    }

    /// Indices of running tasks.
    pub fn running_tasks(&self) -> Vec<u32> {
        if self.running == 0 {
            return Vec::new();
        }
        let is_running = |t: &Task| matches!(t.state, TaskState::Running(_));
        (0..self.tasks.len() as u32).filter(|&i| is_running(&self.tasks[i as usize])).collect()
    }

    pub fn start(&mut self, index: u32, running: Running, now: Time) {
        let task = &mut self.tasks[index as usize];
        task.attempts += 1;
        self.output.holders.insert(running.tm.clone());
        task.state = TaskState::Running(running);
        self.reruns.remove(&index);
        self.fresh.remove(&index);
        self.running += 1;
        self.started_at.get_or_insert(now);
    }

    /// Ends a running attempt without a result. Splits it had been given are free again. The task waits, not yet enqueued.
    pub fn retire(
        &mut self,
        index: u32,
        state: AttemptState,
        cause: Option<FailureCause>,
        now: Time,
    ) -> Option<Running> {
        self.running(index)?;
        let task = &mut self.tasks[index as usize];
        let TaskState::Running(running) = std::mem::take(&mut task.state) else { return None };
        if task.exact.is_none() {
            for (pool, given) in self.pools.iter_mut().zip(&running.given) {
                pool.extend(given);
            }
        }
        self.running -= 1;
        self.rows -= running.rows;
        self.bytes -= running.bytes;
        let attempt = task.attempts;
        self.remember(PastAttempt {
            index,
            attempt,
            tm: running.tm.clone(),
            state,
            started_at: running.started_at,
            ended_at: now,
            rows: running.rows,
            bytes: running.bytes,
            cause,
        });
        Some(running)
    }

    /// A running attempt finished: its output counts from now on. `splits` are what it read.
    pub fn finish(&mut self, index: u32, stats: OutputStats, splits: Vec<Vec<u32>>, now: Time) {
        let task = &mut self.tasks[index as usize];
        let TaskState::Running(running) = std::mem::take(&mut task.state) else { return };
        self.running -= 1;
        self.rows -= running.rows;
        self.bytes -= running.bytes;
        if task.exact.is_none() {
            for ((pool, given), read) in self.pools.iter_mut().zip(&running.given).zip(&splits) {
                // splits it was given and did not read are for others
                if read.len() != given.len() {
                    pool.extend(given.iter().filter(|s| !read.contains(s)));
                }
            }
            task.exact = Some(splits);
        }
        let stats = stats.into();
        let done = Done { tm: running.tm, started_at: running.started_at, ended_at: now, stats, lost: None };
        self.complete(index, done, now);
    }

    /// Puts a finished attempt in place of whatever the task was.
    pub fn complete(&mut self, index: u32, done: Done, now: Time) {
        self.reruns.remove(&index);
        self.fresh.remove(&index);
        self.done += 1;
        self.rows += done.stats.total_rows;
        self.bytes += done.stats.total_bytes;
        self.output.add(&done);
        self.output.lost.remove(&index);
        self.tasks[index as usize].state = TaskState::Done(done);
        if self.all_done() {
            self.finished_at = Some(now);
        }
    }

    /// The task's output can no longer be read. False if it could not before.
    pub fn lose(&mut self, index: u32, cause: FailureCause) -> bool {
        let Some(task) = self.tasks.get_mut(index as usize) else { return false };
        let TaskState::Done(done) = &mut task.state else { return false };
        if !self.output.lost.insert(index) {
            return false;
        }
        self.output.subtract(done);
        done.lost = Some(cause);
        true
    }

    /// Nobody needs the output: it is as if every map were lost, without a cause.
    pub fn release(&mut self) -> BTreeSet<TaskManagerId> {
        let output = &mut self.output;
        output.lost = (0..self.tasks.len() as u32).collect();
        output.rows.fill(0);
        output.bytes.fill(0);
        output.by_host.clear();
        output.uncounted = 0;
        output.placement = None;
        std::mem::take(&mut output.holders)
    }

    /// A finished task must run again. The attempt that had finished is remembered as reset.
    pub fn reset(&mut self, index: u32, cause: Option<FailureCause>, now: Time) -> Option<TaskManagerId> {
        self.done_task(index)?;
        let task = &mut self.tasks[index as usize];
        let TaskState::Done(done) = std::mem::take(&mut task.state) else { return None };
        if !self.output.lost.remove(&index) {
            self.output.subtract(&done);
        }
        self.done -= 1;
        let (rows, bytes) = (done.stats.total_rows, done.stats.total_bytes);
        self.rows -= rows;
        self.bytes -= bytes;
        self.finished_at = None;
        let attempt = task.attempts;
        self.remember(PastAttempt {
            index,
            attempt,
            tm: done.tm.clone(),
            state: AttemptState::Reset,
            started_at: done.started_at,
            ended_at: now,
            rows,
            bytes,
            cause: done.lost.or(cause),
        });
        self.enqueue(index);
        Some(done.tm)
    }

    fn remember(&mut self, attempt: PastAttempt) {
        if self.history.len() == HISTORY {
            self.history.pop_front();
        }
        self.history.push_back(attempt);
    }
}

impl MapOutputs for StageRun {
    fn cell(&self, map: u32, subpartition: u32) -> Option<Cell> {
        let stats = &self.done_task(map)?.stats;
        let at = subpartition as usize;
        Some(Cell { rows: stats.rows.get(at)?, bytes: stats.bytes.get(at)? })
    }
}

impl Output {
    fn add(&mut self, done: &Done) {
        change(&mut self.rows, &done.stats.rows, |sum, rows| *sum += rows);
        change(&mut self.bytes, &done.stats.bytes, |sum, bytes| *sum += bytes);
        *self.by_host.entry(done.tm.clone()).or_default() += done.stats.total_bytes;
        self.uncounted += u32::from(done.stats.rows.is_empty());
        self.placement = None;
    }

    fn subtract(&mut self, done: &Done) {
        change(&mut self.rows, &done.stats.rows, |sum, rows| *sum -= rows);
        change(&mut self.bytes, &done.stats.bytes, |sum, bytes| *sum -= bytes);
        if let Some(bytes) = self.by_host.get_mut(&done.tm) {
            *bytes = bytes.saturating_sub(done.stats.total_bytes);
        }
        self.uncounted -= u32::from(done.stats.rows.is_empty());
        self.placement = None;
    }
}

/// Changes the sum of every subpartition by what is in its cell. Cells beyond the sums, of a record that fits no plan, are left out.
fn change(sums: &mut [u64], cells: &Cells, with: impl Fn(&mut u64, u64)) {
    cells.for_each(|at, count| {
        if let Some(sum) = sums.get_mut(at) {
            with(sum, count);
        }
    });
}
