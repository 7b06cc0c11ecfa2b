//! Which joins may become broadcast joins while the job runs, and when one does.
//!
//! The stage that writes the streamed side of a join is *held*: it does not start while the other sides are produced. If these turn
//! out small, every task of the join reads all of them and runs the held stage's operators itself, so that the streamed side is never
//! written; chains of joins become one stage that way. If they are too large, the held stage starts and its rows are distributed by
//! hash.
//!
//! A streamed side qualifies if it is [divisible](thalweg_graph::StageInput::divisible): its rows may be spread over tasks in any
//! way, as long as each task has the other sides whole. That is Flink's table of sides that may be broadcast.
//!
//! Pure functions of the plan and of sizes.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use thalweg_graph::{InputRole, Parallelism, PlanTemplate, Stage, StageInput};
use thalweg_types::StageId;

/// `table.optimizer.adaptive-broadcast-join.strategy` and `table.optimizer.join.broadcast-threshold`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BroadcastOptions {
    /// Raw bytes that all sides of a join but the streamed one may have to be read by every task; 0 = never.
    pub limit: u64,
}

/// Stages that wait for the other sides of the join that reads them.
pub(crate) fn held_at_first(template: &PlanTemplate, options: &BroadcastOptions) -> BTreeSet<usize> {
    if options.limit == 0 {
        return BTreeSet::new();
    }
    let held = template.stages.iter().filter_map(|stage| streamed(template, stage));
    held.map(StageId::index).collect()
}

/// The producer of the stage's streamed side, if the stage could run its operators.
fn streamed(template: &PlanTemplate, stage: &Stage) -> Option<StageId> {
    let candidate = |i: &&StageInput| i.role == InputRole::Probe && i.divisible && is_cut(template, i);
    let input = stage.inputs.iter().find(candidate)?;
    let mut others = stage.inputs.iter().filter(|i| i.exchange != input.exchange && is_cut(template, i)).peekable();
    // a constant in the stage is produced by one task only, and may be part of a side that every task needs
    let fits = stage.parallelism == Parallelism::Auto && stage.sources.is_empty() && others.peek().is_some();
    let producer = template.exchange(input.exchange).producer;
    let producer_fits = template.stage(producer).parallelism == Parallelism::Auto;
    (fits && producer_fits && others.all(|i| !i.per_map)).then_some(producer)
}

/// Tasks read ranges of it.
pub(crate) fn is_cut(template: &PlanTemplate, input: &StageInput) -> bool {
    template.exchange(input.exchange).kind.is_hash() && !input.replicated
}

/// What is known when it is asked whether a join's other sides are small.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Measured {
    /// Bytes of the other sides, so far if they are not sealed.
    pub bytes: u64,
    pub sealed: bool,
    /// Bytes that the tasks read whole anyway.
    pub replicated: u64,
    /// Most bytes that the held stage reads; `None` when unknown.
    pub streamed: Option<u64>,
    /// Slots of all TaskManagers.
    pub slots: u32,
    /// Half of the smallest slot's memory; 0 when unknown.
    pub room: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Not known yet.
    Wait,
    Broadcast,
    /// By hash, for this reason.
    Distribute(String),
}

pub(crate) fn verdict(measured: &Measured, options: &BroadcastOptions) -> Verdict {
    let Measured { bytes, replicated, room, .. } = *measured;
    let so_far = if measured.sealed { "" } else { " so far" };
    if bytes > options.limit {
        return Verdict::Distribute(format!("{bytes} bytes{so_far} are more than the limit"));
    }
    if room > 0 && bytes.saturating_add(replicated) > room {
        return Verdict::Distribute(format!(
            "{bytes} bytes{so_far} and {replicated} that are read whole already are more than half of the smallest slot's memory, {room} bytes"
        ));
    }
    // one copy is made in either case
    let copies = bytes.saturating_mul(u64::from(measured.slots.saturating_sub(1)));
    match measured.streamed {
        Some(streamed) if copies > streamed => Verdict::Distribute(format!(
            "{} more copies are {copies} bytes{so_far}, the streamed side is made from {streamed} at most",
            measured.slots - 1
        )),
        _ if measured.sealed => Verdict::Broadcast,
        _ => Verdict::Wait,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::plans::{HASH8, PlanBuilder};
    use thalweg_graph::ExchangeKind;

    const OPTIONS: BroadcastOptions = BroadcastOptions { limit: 100 };

    fn measured(bytes: u64) -> Measured {
        Measured { bytes, sealed: true, replicated: 0, streamed: None, slots: 4, room: 0 }
    }

    fn reason(measured: Measured) -> String {
        match verdict(&measured, &OPTIONS) {
            Verdict::Distribute(reason) => reason,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn small_sides_are_broadcast_once_they_are_sealed() {
        assert_eq!(verdict(&measured(100), &OPTIONS), Verdict::Broadcast);
        assert_eq!(verdict(&Measured { sealed: false, ..measured(100) }, &OPTIONS), Verdict::Wait);
        assert_eq!(verdict(&measured(0), &OPTIONS), Verdict::Broadcast, "an empty side is small");
    }

    #[test]
    fn a_side_that_outgrows_the_limit_is_not_waited_for() {
        assert!(reason(Measured { sealed: false, ..measured(101) }).contains("101 bytes so far"));
        assert!(!reason(measured(101)).contains("so far"));
    }

    #[test]
    fn memory_bounds_all_that_is_read_whole() {
        assert_eq!(verdict(&Measured { room: 90, replicated: 40, ..measured(50) }, &OPTIONS), Verdict::Broadcast);
        assert!(reason(Measured { room: 90, replicated: 41, ..measured(50) }).contains("half of the smallest slot"));
    }

    #[test]
    fn copies_cost_no_more_than_what_they_save() {
        assert_eq!(verdict(&Measured { streamed: Some(150), ..measured(50) }, &OPTIONS), Verdict::Broadcast);
        assert!(reason(Measured { streamed: Some(149), ..measured(50) }).contains("3 more copies are 150 bytes"));
        let early = Measured { streamed: Some(149), sealed: false, ..measured(50) };
        assert!(reason(early).contains("150 bytes so far"), "there is nothing to wait for");
        assert_eq!(
            verdict(&Measured { streamed: Some(0), slots: 1, ..measured(50) }, &OPTIONS),
            Verdict::Broadcast,
            "one task reads it once either way"
        );
    }

    fn join() -> PlanBuilder {
        PlanBuilder::default().stage(&[&[9]], &[], HASH8).stage(&[&[9]], &[], HASH8).stage(
            &[],
            &[(0, InputRole::Build), (1, InputRole::Probe)],
            ExchangeKind::Result,
        )
    }

    fn held(builder: PlanBuilder) -> Vec<usize> {
        held_at_first(&builder.build(), &OPTIONS).into_iter().collect()
    }

    #[test]
    fn the_streamed_side_of_a_join_that_may_be_divided_is_held() {
        assert_eq!(held(join().divisible()), [1]);
        assert_eq!(held(join()), [] as [usize; 0], "its rows must stay together");
        assert_eq!(held(join().divisible().parallelism(Parallelism::Single)), [] as [usize; 0]);
        assert!(held_at_first(&join().divisible().build(), &BroadcastOptions { limit: 0 }).is_empty());
    }
}
