//! Holding the streamed side of a join until it is known whether the other sides are small ([`broadcast`](crate::broadcast)).
//!
//! A held stage is not bound. It ends being held in one of three ways: its operators become part of the stage that reads it; the
//! other sides are too large, also before they are finished; or slots stood idle for [`PATIENCE`] that it could have used. The
//! first changes the job's template and is a record; the others only let it start.

use std::sync::Arc;
use std::time::Duration;

use thalweg_graph::StageInput;
use thalweg_types::StageId;

use super::{Context, Job};
use crate::broadcast::{self, Measured, Verdict, is_cut};
use crate::{Action, Decision, Record};

/// How long a slot may have nothing to do because of a held stage.
pub(crate) const PATIENCE: Duration = Duration::from_millis(500);

const RULE: &str = "broadcast-join";

impl Job {
    /// Decides about every held stage for which enough is known. True if one may start or a join changed.
    pub(super) fn settle_held(&mut self, ctx: &mut Context<'_>) -> bool {
        let mut settled = false;
        for stage in self.held.iter().copied().collect::<Vec<_>>() {
            let Some((consumer, input)) = self.reader(stage) else { continue };
            let measured = self.measure_other_sides(ctx, stage, consumer, input);
            match broadcast::verdict(&measured, &self.options.broadcast) {
                Verdict::Wait => continue,
                Verdict::Broadcast => {
                    let decision = self.broadcast_decision(ctx, stage, consumer, input, &measured);
                    self.fuse_held(ctx, consumer, input, decision);
                }
                Verdict::Distribute(reason) => self.release_held(ctx, stage, consumer, reason),
            }
            settled = true;
        }
        settled
    }

    /// Lets a held stage start if slots stand idle for too long that it could use.
    pub(super) fn mind_idle_slots(&mut self, ctx: &mut Context<'_>) -> bool {
        let ready = self.held.iter().copied().find(|&stage| self.inputs_sealed(stage));
        let Some((stage, (consumer, _))) =
            ready.filter(|_| ctx.cluster.free_slots() > 0).and_then(|stage| Some((stage, self.reader(stage)?)))
        else {
            self.idle_since = None;
            return false;
        };
        let until = *self.idle_since.get_or_insert(ctx.now) + PATIENCE;
        if ctx.now < until {
            self.wake_by(ctx, until);
            return false;
        }
        self.idle_since = None;
        self.release_held(ctx, stage, consumer, format!("slots had nothing else to do for {PATIENCE:?}"));
        true
    }

    /// The stage that reads a stage's output, and as which input.
    fn reader(&self, stage: usize) -> Option<(usize, usize)> {
        let consumer = self.consumer(stage)?;
        let output = self.template.stages[stage].output;
        let input = self.template.stages[consumer].inputs.iter().position(|i| i.exchange == output)?;
        Some((consumer, input))
    }

    /// The inputs of the consumer that every task would read whole.
    fn other_sides(&self, consumer: usize, input: usize) -> impl Iterator<Item = &StageInput> {
        let inputs = self.template.stages[consumer].inputs.iter().enumerate();
        inputs.filter(move |(at, i)| *at != input && is_cut(&self.template, i)).map(|(_, i)| i)
    }

    fn measure_other_sides(&self, ctx: &Context<'_>, stage: usize, consumer: usize, input: usize) -> Measured {
        let (mut bytes, mut sealed) = (0u64, true);
        for other in self.other_sides(consumer, input) {
            let producer = &self.stages[self.producer(other.exchange)];
            bytes = bytes.saturating_add(producer.bytes);
            sealed &= producer.is_sealed();
        }
        let whole =
            [stage, consumer].into_iter().flat_map(|s| &self.template.stages[s].inputs).filter(|i| i.replicated);
        let replicated = whole.fold(0, |sum: u64, i| sum.saturating_add(self.stages[self.producer(i.exchange)].bytes));
        let (slots, room) = (ctx.cluster.slots(), ctx.cluster.smallest_slot_memory() / 2);
        Measured { bytes, sealed, replicated, streamed: self.most_bytes_read(stage), slots, room }
    }

    /// Most bytes that a stage can read of tables and of other stages, as far as that is known.
    fn most_bytes_read(&self, stage: usize) -> Option<u64> {
        let spec = &self.template.stages[stage];
        let splits = spec.sources.iter().flat_map(|s| &s.splits);
        let mut sum = splits.map(|s| s.bytes).try_fold(0u64, |sum, b| (b > 0).then_some(sum.saturating_add(b)))?;
        for input in spec.inputs.iter().filter(|i| !i.replicated) {
            let producer = &self.stages[self.producer(input.exchange)];
            sum = sum.saturating_add(producer.is_sealed().then_some(producer.bytes)?);
        }
        Some(sum)
    }

    fn broadcast_decision(
        &self,
        ctx: &Context<'_>,
        stage: usize,
        consumer: usize,
        input: usize,
        measured: &Measured,
    ) -> Decision {
        let sides = self.other_sides(consumer, input).map(|i| {
            let run = &self.stages[self.producer(i.exchange)];
            format!("{}: {} rows, {} bytes", i.exchange, run.rows, run.bytes)
        });
        let sides = sides.collect::<Vec<_>>().join("; ");
        let streamed = measured.streamed.map_or_else(|| "unknown".to_owned(), |b| format!("at most {b}"));
        let spec = &self.template.stages[stage];
        Decision {
            at: ctx.now,
            stage: StageId(consumer as u32),
            rule: RULE.to_owned(),
            measured: format!(
                "{sides}; limit {} bytes (table.optimizer.join.broadcast-threshold); {} slots; bytes that the streamed side is made from: {streamed}",
                self.options.broadcast.limit, measured.slots
            ),
            outcome: format!(
                "every task reads {} bytes whole and runs the operators of {} ({}) itself: {} is never written",
                measured.bytes, spec.id, spec.name, spec.output
            ),
        }
    }

    fn fuse_held(&mut self, ctx: &mut Context<'_>, consumer: usize, input: usize, decision: Decision) {
        let stage = StageId(consumer as u32);
        if !self.install_fusion(stage, input) {
            return;
        }
        ctx.persist(Record::Fused { job: self.id, stage, input: input as u32, decision: decision.clone() });
        ctx.out.push(Action::Fuse { job: self.id, stage, input: input as u32 });
        self.publish(ctx, decision);
        if self.inputs_sealed(consumer) {
            self.to_bind.insert(consumer);
        }
    }

    /// Takes over a fusion, decided now or by an earlier leader. False if the template has no such input.
    pub(crate) fn install_fusion(&mut self, stage: StageId, input: usize) -> bool {
        let read = self.template.stages.get(stage.index()).and_then(|s| s.inputs.get(input)).map(|i| i.exchange);
        let Some(producer) = read.map(|exchange| self.producer(exchange)) else { return false };
        if self.stages[producer].is_bound() || self.stages[stage.index()].is_bound() {
            return false;
        }
        if !Arc::make_mut(&mut self.template).fuse(stage, input) {
            return false;
        }
        let pools = std::mem::take(&mut self.stages[producer].pools);
        self.stages[stage.index()].pools.extend(pools);
        self.held.remove(&producer);
        self.to_bind.remove(&producer);
        true
    }

    fn release_held(&mut self, ctx: &mut Context<'_>, stage: usize, consumer: usize, reason: String) {
        self.held.remove(&stage);
        let output = self.template.stages[stage].output;
        let outcome = format!("{output} is distributed by hash, {} starts", StageId(stage as u32));
        self.decide(ctx, consumer, RULE, reason, outcome);
        if self.inputs_sealed(stage) {
            self.to_bind.insert(stage);
        }
    }
}
