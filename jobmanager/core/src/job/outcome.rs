//! What a finished attempt changes, after its report was checked.
//!
//! Nothing in a report is believed unchecked: vectors have the exchange's width or are empty (not measured), totals are plausible,
//! splits are ones the attempt was given, and the rows it says it read are the rows its producers say they wrote. The last check
//! fails the job: rows got lost or doubled on the way, and another attempt would hide it.

use thalweg_graph::{NOT_READ_TO_END, OutputStats};
use thalweg_types::{AttemptId, ErrorKind, FailureCause, TaskManagerId};

use super::{Context, Job};
use crate::{AttemptState, JobFailure, JobState, Record, Report};

/// More rows or bytes than any attempt can have written; keeps sums over 65536 maps within 64 bits.
const MOST_PLAUSIBLE: u64 = 1 << 47;

impl Job {
    pub fn task_finished(
        &mut self,
        ctx: &mut Context<'_>,
        attempt: AttemptId,
        tm: TaskManagerId,
        stats: OutputStats,
        splits: Vec<Vec<u32>>,
    ) {
        let Some(stage) = self.current(attempt, &tm) else { return };
        let index = attempt.task.index;
        if let Err(message) = self.check_report(stage, index, &stats, &splits) {
            let cause = FailureCause::Task { kind: ErrorKind::Internal, message };
            self.own_failure(ctx, attempt, stage, cause);
            return;
        }
        if let Err(message) = self.check_rows_read(stage, index, &stats) {
            let cause = FailureCause::Task { kind: ErrorKind::Internal, message };
            self.retire(ctx, stage, index, AttemptState::Failed, Some(cause.clone()));
            self.fail(ctx, JobFailure::Task { attempt, cause });
            return;
        }
        let splits = match &self.stages[stage].tasks[index as usize].exact {
            Some(exact) => exact.clone(),
            None => splits,
        };
        ctx.persist(Record::Finished {
            attempt,
            tm: tm.clone(),
            stats: stats.clone(),
            splits: splits.clone(),
            started_at: self.stages[stage].running(index).map_or(ctx.now, |running| running.started_at),
            finished_at: ctx.now,
        });
        self.stages[stage].finish(index, stats, splits, ctx.now);
        self.last_progress = ctx.now;
        ctx.report(Report::Attempt { attempt, tm, state: AttemptState::Finished });
        self.report_stage(ctx, stage);
        if self.stages[stage].all_done() {
            self.stage_finished(ctx, stage);
        }
    }

    fn stage_finished(&mut self, ctx: &mut Context<'_>, stage: usize) {
        self.release_inputs(ctx, stage);
        match self.consumer(stage) {
            Some(consumer) => {
                if !self.stages[consumer].is_bound() && self.inputs_sealed(consumer) {
                    self.to_bind.insert(consumer);
                }
            }
            None => self.announce_result(ctx, stage),
        }
    }

    pub(super) fn announce_result(&mut self, ctx: &mut Context<'_>, stage: usize) {
        let placement = self.placement(stage);
        self.announced = true;
        self.set_state(ctx, JobState::Finished);
        ctx.report(Report::ResultReady { job: self.id, placement });
    }

    /// The form of a report. A wrong one is a defect of the attempt, which may be tried again.
    fn check_report(&self, stage: usize, index: u32, stats: &OutputStats, splits: &[Vec<u32>]) -> Result<(), String> {
        let spec = &self.template.stages[stage];
        let width = self.stages[stage].output.subpartitions as usize;
        for (what, values) in [("row", &stats.rows), ("byte", &stats.bytes)] {
            if !values.is_empty() && values.len() != width {
                let found = values.len();
                return Err(format!(
                    "finish report has {found} {what} counts, {} has {width} subpartitions",
                    spec.output
                ));
            }
            check_plausible(what, values)?;
        }
        let inputs = spec.inputs.len();
        if !stats.input_rows.is_empty() && stats.input_rows.len() != inputs {
            return Err(format!(
                "finish report counts rows of {} inputs, {} has {inputs}",
                stats.input_rows.len(),
                spec.id
            ));
        }
        self.check_splits(stage, index, splits)
    }

    fn check_splits(&self, stage: usize, index: u32, splits: &[Vec<u32>]) -> Result<(), String> {
        let run = &self.stages[stage];
        let (Some(running), None) = (run.running(index), &run.tasks[index as usize].exact) else { return Ok(()) };
        if splits.len() != running.given.len() {
            return Err(format!(
                "finish report names splits of {} sources, expected {}",
                splits.len(),
                running.given.len()
            ));
        }
        for (source, (read, given)) in splits.iter().zip(&running.given).enumerate() {
            let mut given = given.clone();
            given.sort_unstable();
            let mut read = read.clone();
            read.sort_unstable();
            let twice = read.windows(2).any(|w| w[0] == w[1]);
            if twice || read.iter().any(|split| given.binary_search(split).is_err()) {
                return Err(format!(
                    "finish report names splits of source {source} that the attempt was not given once"
                ));
            }
        }
        Ok(())
    }

    /// Rows read = rows written, for every input that counts them.
    fn check_rows_read(&self, stage: usize, index: u32, stats: &OutputStats) -> Result<(), String> {
        let inputs = self.template.stages[stage].inputs.iter().enumerate();
        for ((i, input), &found) in inputs.zip(&stats.input_rows) {
            let Some(expected) = self.rows_assigned(stage, index, i) else { continue };
            if found != NOT_READ_TO_END && expected != found {
                return Err(format!(
                    "rows of {} got lost or doubled: its producers wrote {expected} rows for task {index} of {}, it read {found}",
                    input.exchange, self.template.stages[stage].id
                ));
            }
        }
        Ok(())
    }

    /// Rows of an input that a task has to read; `None` when a producer did not count.
    fn rows_assigned(&self, stage: usize, index: u32, input: usize) -> Option<u64> {
        let producer = &self.stages[self.producer(self.template.stages[stage].inputs[input].exchange)];
        let rectangle = self.stages[stage].ranges[index as usize].inputs[input].first()?;
        if producer.output.uncounted > 0 {
            return None;
        }
        let (from, to) = (rectangle.subpartitions.start as usize, rectangle.subpartitions.end as usize);
        let maps = rectangle.maps;
        if maps.len() as usize == producer.tasks.len() && rectangle.rows.is_none() {
            return Some(producer.output.rows.get(from..to)?.iter().sum());
        }
        let mut sum = 0;
        for map in maps.iter() {
            let rows = producer.done_task(map)?.stats.rows.sum(from..to)?;
            sum += rectangle.rows.map_or(rows, |cut| cut.end.min(rows).saturating_sub(cut.start));
        }
        Some(sum)
    }
}

fn check_plausible(what: &str, values: &[u64]) -> Result<(), String> {
    let total = values.iter().try_fold(0u64, |sum, v| sum.checked_add(*v)).filter(|&t| t <= MOST_PLAUSIBLE);
    match total {
        Some(_) => Ok(()),
        None => Err(format!("finish report has an implausible {what} count (more than {MOST_PLAUSIBLE})")),
    }
}
