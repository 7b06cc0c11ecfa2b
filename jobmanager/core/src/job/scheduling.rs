//! Binding stages whose inputs are sealed, and deploying waiting tasks into free slots.
//!
//! Order within a job: first what had finished and must run again (somebody waits for it), then by stage, then by task. A stage is
//! bound only once a slot is registered, because the decision looks at the cluster.

use std::sync::Arc;

use thalweg_graph::{InputAssignment, MapLocation, Placement, SplitPolicy, StageInput, TaskSpec};
use thalweg_types::{StageId, TaskManagerId};

use super::stage::{Running, StageRun};
use super::{Context, Job};
use crate::parallelism::{self, ClusterFacts, MeasuredInput};
use crate::verifier::{self, SealedInput};
use crate::{Action, AttemptState, JobFailure, JobState, Record, Report, TaskRanges};

impl Job {
    /// Does whatever can be done with the slots there are.
    pub fn advance(&mut self, ctx: &mut Context<'_>) {
        if self.state.is_terminal() {
            return;
        }
        self.wake_backoffs(ctx.now);
        if ctx.cluster.slots() > 0 {
            self.settle_held(ctx);
            self.bind_sealed(ctx);
        }
        if !self.state.is_terminal() {
            self.deploy_waiting(ctx);
        }
        if !self.state.is_terminal() && self.mind_idle_slots(ctx) {
            self.advance(ctx);
        }
    }

    fn bind_sealed(&mut self, ctx: &mut Context<'_>) {
        while let Some(stage) = self.to_bind.pop_first() {
            // an input lost meanwhile comes back here when it is sealed again, a held stage when it may start
            if self.stages[stage].is_bound() || self.held.contains(&stage) || !self.inputs_sealed(stage) {
                continue;
            }
            let facts =
                ClusterFacts { slots: ctx.cluster.slots(), smallest_slot_memory: ctx.cluster.smallest_slot_memory() };
            let inputs: Vec<MeasuredInput<'_>> = self.measured_inputs(stage);
            let spec = &self.template.stages[stage];
            let binding = parallelism::bind(spec, &inputs, &self.options, facts, ctx.now);
            if cfg!(debug_assertions)
                && let Err(message) = self.verify(stage, &binding.ranges)
            {
                self.fail(ctx, JobFailure::InvalidPlan { message });
                return;
            }
            ctx.persist(Record::Bound {
                job: self.id,
                stage: StageId(stage as u32),
                ranges: binding.ranges.clone(),
                decisions: binding.decisions.clone(),
            });
            self.install_binding(stage, binding.ranges);
            for decision in binding.decisions {
                self.publish(ctx, decision);
            }
            self.report_stage(ctx, stage);
        }
    }

    /// Takes over a stage's ranges, decided now or by an earlier leader.
    pub(crate) fn install_binding(&mut self, stage: usize, ranges: Vec<TaskRanges>) {
        for (i, input) in self.template.stages[stage].inputs.iter().enumerate() {
            let producer = self.template.exchange(input.exchange).producer.index();
            self.stages[producer].output.cut_by_rows =
                ranges.iter().filter_map(|r| r.inputs.get(i)).flatten().any(|r| r.rows.is_some());
        }
        self.stages[stage].bind(ranges);
        self.held.remove(&stage);
    }

    fn measured_inputs(&self, stage: usize) -> Vec<MeasuredInput<'_>> {
        let inputs = self.template.stages[stage].inputs.iter();
        inputs
            .map(|input| {
                let producer = &self.stages[self.producer(input.exchange)];
                MeasuredInput {
                    exchange: input.exchange,
                    kind: self.template.exchange(input.exchange).kind,
                    role: input.role,
                    type_number: input.type_number,
                    divisible: input.divisible,
                    replicated: input.replicated,
                    maps: producer.tasks.len() as u32,
                    rows: &producer.output.rows,
                    bytes: &producer.output.bytes,
                    outputs: producer,
                }
            })
            .collect()
    }

    /// Runs the verifier on ranges of a stage; the text says what is wrong.
    pub(crate) fn verify(&self, stage: usize, ranges: &[TaskRanges]) -> Result<(), String> {
        let spec = &self.template.stages[stage];
        let rows_of = |producer: usize| {
            let run: &StageRun = &self.stages[producer];
            move |map: u32, sub: u32| run.done_task(map)?.stats.rows.get(sub as usize)
        };
        let lookups: Vec<_> = self.producers(stage).map(rows_of).collect();
        let sealed: Vec<SealedInput<'_>> = spec
            .inputs
            .iter()
            .zip(&lookups)
            .map(|(input, rows)| SealedInput {
                exchange: input.exchange,
                kind: self.template.exchange(input.exchange).kind,
                type_number: input.type_number,
                replicated: input.replicated,
                maps: self.stages[self.producer(input.exchange)].tasks.len() as u32,
                rows,
            })
            .collect();
        let place = |v: verifier::Violation| format!("binding of {}: {v}", spec.id);
        verifier::verify(&sealed, ranges).map_err(place)?;
        // a task spec has one assignment per input
        match ranges.iter().position(|r| r.inputs.iter().any(|list| list.len() != 1)) {
            Some(task) => Err(format!("binding of {}: task {task} needs one rectangle per input", spec.id)),
            None => Ok(()),
        }
    }

    fn deploy_waiting(&mut self, ctx: &mut Context<'_>) {
        for reruns in [true, false] {
            for stage in 0..self.stages.len() {
                let queue =
                    |run: &StageRun| if reruns { run.reruns.first().copied() } else { run.fresh.first().copied() };
                if queue(&self.stages[stage]).is_none() || !self.inputs_sealed(stage) {
                    continue;
                }
                while let Some(index) = queue(&self.stages[stage]) {
                    let Some(tm) = ctx.cluster.choose(|tm| self.input_bytes_on(stage, tm)) else { return };
                    self.deploy(ctx, stage, index, tm);
                }
            }
        }
    }

    /// Bytes of the stage's inputs on a host. Tasks read all maps, so the share of each task there is about the same.
    fn input_bytes_on(&self, stage: usize, tm: &TaskManagerId) -> u64 {
        let on = |p: usize| self.stages[p].output.by_host.get(tm).copied().unwrap_or(0);
        self.producers(stage).fold(0, |sum: u64, p| sum.saturating_add(on(p)))
    }

    fn deploy(&mut self, ctx: &mut Context<'_>, stage: usize, index: u32, tm: TaskManagerId) {
        let inputs = self.assignments(ctx, stage, index, &tm);
        let sources = self.template.stages[stage].sources.len();
        let running = Running {
            tm: tm.clone(),
            started_at: ctx.now,
            rows: 0,
            bytes: 0,
            busy_nanos: 0,
            given: vec![Vec::new(); sources],
            answers: Default::default(),
            exhausted: Default::default(),
        };
        let run = &mut self.stages[stage];
        run.start(index, running, ctx.now);
        let splits = match &run.tasks[index as usize].exact {
            Some(lists) => lists.iter().cloned().map(SplitPolicy::Exactly).collect(),
            None => vec![SplitPolicy::Ask; sources],
        };
        let parallelism = run.tasks.len() as u32;
        let subpartitions = run.output.subpartitions;
        let attempt = self.attempt_id(stage, index);
        ctx.cluster.occupy(&tm, attempt);
        self.touched.insert(tm.clone());
        if self.state == JobState::WaitingForSlots {
            self.set_state(ctx, JobState::Running);
        }
        let task = TaskSpec {
            attempt,
            epoch: ctx.epoch,
            splits,
            inputs,
            output: self.template.stages[stage].output,
            result: stage + 1 == self.template.stages.len(),
            subpartitions,
            parallelism,
        };
        ctx.out.push(Action::Deploy { tm: tm.clone(), task: Box::new(task) });
        ctx.report(Report::Attempt { attempt, tm, state: AttemptState::Deploying });
        self.report_stage(ctx, stage);
    }

    /// What a task reads; sends placements that the TaskManager does not have.
    fn assignments(
        &mut self,
        ctx: &mut Context<'_>,
        stage: usize,
        index: u32,
        tm: &TaskManagerId,
    ) -> Vec<InputAssignment> {
        let mut assignments = Vec::new();
        for input in 0..self.template.stages[stage].inputs.len() {
            let StageInput { exchange, per_map, replicated, .. } = self.template.stages[stage].inputs[input];
            let producer = self.producer(exchange);
            let placement = self.placement(producer);
            let key = self.output_key(producer);
            if ctx.cluster.must_place(tm, key, placement.version) {
                let placement = Arc::clone(&placement);
                ctx.out.push(Action::Place { tm: tm.clone(), exchange: key, placement });
            }
            let rectangle = &self.stages[stage].ranges[index as usize].inputs[input][0];
            assignments.push(InputAssignment {
                exchange,
                maps: rectangle.maps,
                subpartitions: rectangle.subpartitions,
                rows: rectangle.rows,
                per_map,
                shared: replicated,
                placement: placement.version,
            });
        }
        assignments
    }

    /// Where the maps of a sealed stage are. A new version whenever one moved.
    pub(super) fn placement(&mut self, stage: usize) -> Arc<Placement> {
        let exchange = self.template.stages[stage].output;
        let run = &mut self.stages[stage];
        if let Some(placement) = &run.output.placement {
            return Arc::clone(placement);
        }
        let location = |index: usize| {
            let done = run.done_task(index as u32)?;
            Some(MapLocation { attempt: run.tasks[index].attempts, task_manager: done.tm.clone() })
        };
        let maps: Arc<[MapLocation]> = (0..run.tasks.len()).filter_map(location).collect();
        run.output.version += 1;
        let placement = Arc::new(Placement { exchange, version: run.output.version, maps });
        run.output.placement = Some(Arc::clone(&placement));
        placement
    }
}
