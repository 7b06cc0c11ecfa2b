//! A job as people see it.

use thalweg_graph::{NOT_READ_TO_END, OperatorMetrics, OutputStats, Stage};
use thalweg_types::{AttemptId, StageId, TaskId};

use crate::job::Job;
use crate::job::stage::{HISTORY, StageRun, TaskState};
use crate::{AttemptState, AttemptView, InputView, JobView, OutputView, StageView};

impl Job {
    pub fn view(&self) -> JobView {
        let stages = self.stages.iter().enumerate().map(|(i, run)| self.stage_view(i, run)).collect();
        JobView {
            job: self.id,
            state: self.state.clone(),
            submitted_at: self.submitted_at,
            ended_at: self.ended_at,
            stages,
            decisions: self.decisions.clone(),
        }
    }

    fn stage_view(&self, stage: usize, run: &StageRun) -> StageView {
        let spec = &self.template.stages[stage];
        let mut view = StageView {
            stage: spec.id,
            name: spec.name.clone(),
            progress: run.progress(),
            started_at: run.started_at,
            finished_at: run.finished_at,
            attempts: self.attempts(stage, run),
            operators: Vec::new(),
            inputs: self.inputs_unread(spec),
            output: self.output_view(spec),
            runs_in: spec.fused_into,
            spilled_bytes: 0,
            cpu_nanos: 0,
        };
        for task in &run.tasks {
            let TaskState::Done(done) = &task.state else { continue };
            let stats = &done.stats.attempt;
            add_inputs(&mut view.inputs, stats);
            view.spilled_bytes = view.spilled_bytes.saturating_add(stats.spilled_bytes);
            view.cpu_nanos = view.cpu_nanos.saturating_add(stats.cpu_nanos);
            add_operators(&mut view.operators, &stats.operators);
        }
        view
    }

    fn inputs_unread(&self, spec: &Stage) -> Vec<InputView> {
        let view = |input: &thalweg_graph::StageInput| InputView {
            producer: self.template.exchange(input.exchange).producer,
            replicated: input.replicated,
            rows: 0,
            network_bytes: 0,
        };
        // a stage that runs in another has handed its inputs over
        if spec.fused_into.is_some() { Vec::new() } else { spec.inputs.iter().map(view).collect() }
    }

    fn output_view(&self, spec: &Stage) -> OutputView {
        let exchange = self.template.exchange(spec.output);
        OutputView { kind: exchange.kind, keys: exchange.keys.clone() }
    }

    /// Current attempts, then as many replaced ones as there is room for (the latest), in order of task and attempt.
    fn attempts(&self, stage: usize, run: &StageRun) -> Vec<AttemptView> {
        let id = |index: u32, attempt: u32| {
            let task = TaskId { job: self.id, stage: StageId(stage as u32), index };
            AttemptId { task, attempt }
        };
        let mut views = Vec::new();
        for (index, task) in run.tasks.iter().enumerate().take(HISTORY) {
            let attempt = id(index as u32, task.attempts);
            match &task.state {
                TaskState::Waiting => {}
                TaskState::Running(running) => views.push(AttemptView {
                    attempt,
                    tm: running.tm.clone(),
                    state: AttemptState::Deploying,
                    started_at: running.started_at,
                    ended_at: None,
                    rows: running.rows,
                    bytes: running.bytes,
                    cause: None,
                }),
                TaskState::Done(done) => views.push(AttemptView {
                    attempt,
                    tm: done.tm.clone(),
                    state: AttemptState::Finished,
                    started_at: done.started_at,
                    ended_at: Some(done.ended_at),
                    rows: done.stats.total_rows,
                    bytes: done.stats.total_bytes,
                    cause: done.lost.clone(),
                }),
            }
        }
        let room = HISTORY.saturating_sub(views.len());
        views.extend(run.history.iter().rev().take(room).map(|past| AttemptView {
            attempt: id(past.index, past.attempt),
            tm: past.tm.clone(),
            state: past.state,
            started_at: past.started_at,
            ended_at: Some(past.ended_at),
            rows: past.rows,
            bytes: past.bytes,
            cause: past.cause.clone(),
        }));
        views.sort_by_key(|v| v.attempt);
        views
    }
}

fn add_inputs(sums: &mut [InputView], stats: &OutputStats) {
    for (sum, &rows) in sums.iter_mut().zip(&stats.input_rows) {
        let rows = if rows == NOT_READ_TO_END { 0 } else { rows };
        sum.rows = sum.rows.saturating_add(rows);
    }
    for (sum, &bytes) in sums.iter_mut().zip(&stats.network_bytes) {
        sum.network_bytes = sum.network_bytes.saturating_add(bytes);
    }
}

/// Sums by position; attempts of one stage run the same operators.
fn add_operators(sums: &mut Vec<OperatorMetrics>, operators: &[OperatorMetrics]) {
    for (i, operator) in operators.iter().enumerate() {
        match sums.get_mut(i) {
            Some(sum) => {
                sum.output_rows = sum.output_rows.saturating_add(operator.output_rows);
                sum.elapsed_nanos = sum.elapsed_nanos.saturating_add(operator.elapsed_nanos);
                sum.spilled_bytes = sum.spilled_bytes.saturating_add(operator.spilled_bytes);
                sum.filtered_rows = sum.filtered_rows.saturating_add(operator.filtered_rows);
            }
            None => sums.push(operator.clone()),
        }
    }
}
