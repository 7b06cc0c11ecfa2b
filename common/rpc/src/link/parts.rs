//! Ids, statistics, tasks, placements and causes: domain to protobuf and back, every field checked on the way in.

use std::collections::HashMap;
use std::sync::Arc;

use thalweg_graph::{InputAssignment, MapLocation, OperatorMetrics, OutputStats, Placement, SplitPolicy, TaskSpec};
use thalweg_proto::v1;
use thalweg_types::{
    AttemptId, ErrorKind, ExchangeId, ExchangeKey, FailureCause, Interval, JobId, LeaderEpoch, MapOutputKey, StageId,
    TaskId, TaskManagerId,
};

use super::MAX_HELD;
use super::check::{
    MAX_LEAVES, MAX_OPERATORS, MAX_SUBPARTITIONS, MAX_TASKS, MAX_TEXT, at_most, between, name, range32, range64,
    required, text,
};
use crate::error::{Malformed, shortened};

pub(super) fn job_in(id: &str) -> Result<JobId, Malformed> {
    id.parse().map_err(|_| Malformed::Value {
        field: "job_id",
        found: format!("{:?}", shortened(id, 64)),
        expected: "32 hex digits",
    })
}

pub(super) fn attempt_out(id: AttemptId) -> v1::AttemptRef {
    let TaskId { job, stage, index } = id.task;
    v1::AttemptRef { job_id: job.to_string(), stage: stage.0, task: index, attempt: id.attempt }
}

pub(super) fn attempt_in(id: Option<v1::AttemptRef>) -> Result<AttemptId, Malformed> {
    let id = required("attempt", id)?;
    let task = TaskId {
        job: job_in(&id.job_id)?,
        stage: StageId(id.stage),
        index: between("task", id.task, 0, MAX_TASKS - 1, "a task below 1048576")?,
    };
    Ok(AttemptId { task, attempt: between("attempt", id.attempt, 1, u32::MAX as usize, "1 or more")? })
}

pub(super) fn tm_out(id: &TaskManagerId) -> v1::TaskManagerRef {
    v1::TaskManagerRef { resource: id.resource.to_string(), incarnation: id.incarnation }
}

pub(super) fn tm_in(id: Option<v1::TaskManagerRef>) -> Result<TaskManagerId, Malformed> {
    let id = required("task_manager", id)?;
    Ok(TaskManagerId::new(name("resource", id.resource)?, id.incarnation))
}

/// Grouped by exchange, in the order they come.
pub(super) fn held_out(outputs: &[MapOutputKey]) -> Vec<v1::HeldOutputs> {
    let groups = outputs.chunk_by(|a, b| a.exchange == b.exchange);
    let group = |outputs: &[MapOutputKey]| v1::HeldOutputs {
        job_id: outputs[0].exchange.job.to_string(),
        exchange: outputs[0].exchange.exchange.0,
        maps: outputs.iter().map(|output| output.map).collect(),
        attempts: outputs.iter().map(|output| output.attempt).collect(),
    };
    groups.map(group).collect()
}

pub(super) fn held_in(groups: Vec<v1::HeldOutputs>) -> Result<Vec<MapOutputKey>, Malformed> {
    at_most("held", groups.iter().map(|group| group.maps.len()).sum(), MAX_HELD)?;
    let mut outputs = Vec::new();
    for group in groups {
        if group.maps.len() != group.attempts.len() {
            let found = format!("{} long", group.attempts.len());
            return Err(Malformed::Value { field: "held.attempts", found, expected: "as many values as maps" });
        }
        let exchange = ExchangeKey { job: job_in(&group.job_id)?, exchange: ExchangeId(group.exchange) };
        let pairs = group.maps.into_iter().zip(group.attempts);
        outputs.extend(pairs.map(|(map, attempt)| MapOutputKey { exchange, map, attempt }));
    }
    Ok(outputs)
}

pub(super) fn split_lists_out(lists: Vec<Vec<u32>>) -> Vec<v1::SplitList> {
    lists.into_iter().map(|positions| v1::SplitList { positions }).collect()
}

pub(super) fn split_lists_in(lists: Vec<v1::SplitList>) -> Result<Vec<Vec<u32>>, Malformed> {
    at_most("splits", lists.len(), MAX_LEAVES)?;
    Ok(lists.into_iter().map(|list| list.positions).collect())
}

pub(super) fn stats_out(stats: OutputStats) -> v1::OutputStatistics {
    let operators = stats.operators.into_iter().map(|o| v1::OperatorStatistics {
        depth: o.depth,
        name: shortened(&o.name, MAX_TEXT / 4),
        output_rows: o.output_rows,
        elapsed_nanos: o.elapsed_nanos,
        spilled_bytes: o.spilled_bytes,
        filtered_rows: o.filtered_rows,
    });
    v1::OutputStatistics {
        rows: stats.rows,
        bytes: stats.bytes,
        spilled_bytes: stats.spilled_bytes,
        input_rows: stats.input_rows,
        network_bytes: stats.network_bytes,
        cpu_nanos: stats.cpu_nanos,
        operators: operators.collect(),
    }
}

pub(super) fn stats_in(stats: Option<v1::OutputStatistics>) -> Result<OutputStats, Malformed> {
    let stats = required("stats", stats)?;
    at_most("rows", stats.rows.len(), MAX_SUBPARTITIONS)?;
    if stats.bytes.len() != stats.rows.len() {
        let found = format!("{} long", stats.bytes.len());
        return Err(Malformed::Value { field: "bytes", found, expected: "as many values as rows" });
    }
    at_most("input_rows", stats.input_rows.len(), MAX_LEAVES)?;
    at_most("network_bytes", stats.network_bytes.len(), MAX_LEAVES)?;
    at_most("operators", stats.operators.len(), MAX_OPERATORS)?;
    for (field, values) in [("rows", &stats.rows), ("bytes", &stats.bytes)] {
        // sums of them are taken all over the place
        if values.iter().try_fold(0u64, |sum, value| sum.checked_add(*value)).is_none_or(|sum| sum > 1 << 60) {
            return Err(Malformed::Value { field, found: "a huge sum".into(), expected: "at most 2^60 in total" });
        }
    }
    let operators = stats.operators.into_iter().map(|o| {
        Ok(OperatorMetrics {
            depth: o.depth,
            name: text("operator name", o.name)?,
            output_rows: o.output_rows,
            elapsed_nanos: o.elapsed_nanos,
            spilled_bytes: o.spilled_bytes,
            filtered_rows: o.filtered_rows,
        })
    });
    Ok(OutputStats {
        operators: operators.collect::<Result<_, Malformed>>()?,
        rows: stats.rows,
        bytes: stats.bytes,
        spilled_bytes: stats.spilled_bytes,
        input_rows: stats.input_rows,
        network_bytes: stats.network_bytes,
        cpu_nanos: stats.cpu_nanos,
    })
}

fn range_out<T: Copy + Into<u64>>(interval: Interval<T>) -> v1::Range {
    v1::Range { start: interval.start.into(), end: interval.end.into() }
}

pub(super) fn task_out(task: TaskSpec) -> v1::Task {
    let splits = task.splits.into_iter().map(|policy| {
        use v1::split_source::Policy;
        let policy = match policy {
            SplitPolicy::Ask => Policy::Ask(v1::AskForSplits {}),
            SplitPolicy::Exactly(positions) => Policy::Exactly(v1::SplitList { positions }),
        };
        v1::SplitSource { policy: Some(policy) }
    });
    let inputs = task.inputs.into_iter().map(|input| v1::TaskInput {
        exchange: input.exchange.0,
        maps: Some(range_out(input.maps)),
        subpartitions: Some(range_out(input.subpartitions)),
        rows: input.rows.map(range_out),
        per_map: input.per_map,
        shared: input.shared,
        placement: input.placement,
    });
    v1::Task {
        attempt: Some(attempt_out(task.attempt)),
        epoch: task.epoch.0,
        splits: splits.collect(),
        inputs: inputs.collect(),
        output: task.output.0,
        result: task.result,
        subpartitions: task.subpartitions,
        parallelism: task.parallelism,
    }
}

pub(super) fn task_in(task: Option<v1::Task>) -> Result<TaskSpec, Malformed> {
    let task = required("task", task)?;
    at_most("splits", task.splits.len(), MAX_LEAVES)?;
    at_most("inputs", task.inputs.len(), MAX_LEAVES)?;
    let splits = task.splits.into_iter().map(|source| match required("policy", source.policy)? {
        v1::split_source::Policy::Ask(v1::AskForSplits {}) => Ok(SplitPolicy::Ask),
        v1::split_source::Policy::Exactly(list) => Ok(SplitPolicy::Exactly(list.positions)),
    });
    let inputs = task.inputs.into_iter().map(|input| {
        Ok(InputAssignment {
            exchange: ExchangeId(input.exchange),
            maps: range32("maps", input.maps, MAX_TASKS)?,
            subpartitions: range32("subpartitions", input.subpartitions, MAX_SUBPARTITIONS)?,
            rows: input.rows.map(|rows| range64("rows", rows)).transpose()?,
            per_map: input.per_map,
            shared: input.shared,
            placement: input.placement,
        })
    });
    Ok(TaskSpec {
        attempt: attempt_in(task.attempt)?,
        epoch: LeaderEpoch(task.epoch),
        splits: splits.collect::<Result<_, Malformed>>()?,
        inputs: inputs.collect::<Result<_, Malformed>>()?,
        output: ExchangeId(task.output),
        result: task.result,
        subpartitions: between("subpartitions", task.subpartitions, 1, MAX_SUBPARTITIONS, "1 to 65536")?,
        parallelism: between("parallelism", task.parallelism, 1, MAX_TASKS, "1 to 1048576")?,
    })
}

/// TaskManagers are named once and counted through by the maps.
pub(super) fn placement_out(placement: &Placement) -> v1::ExchangePlacement {
    let mut positions = HashMap::new();
    let mut task_managers = Vec::new();
    let maps = placement.maps.iter().map(|map| {
        let next = task_managers.len() as u32;
        let position = *positions.entry(&map.task_manager).or_insert(next);
        if position == next {
            task_managers.push(tm_out(&map.task_manager));
        }
        v1::MapPlace { attempt: map.attempt, task_manager: position }
    });
    let maps = maps.collect();
    v1::ExchangePlacement { exchange: placement.exchange.0, version: placement.version, task_managers, maps }
}

pub(super) fn placement_in(placement: Option<v1::ExchangePlacement>) -> Result<Placement, Malformed> {
    let placement = required("placement", placement)?;
    at_most("maps", placement.maps.len(), MAX_TASKS)?;
    let task_managers = placement.task_managers.into_iter().map(|id| tm_in(Some(id))).collect::<Result<Vec<_>, _>>()?;
    let maps = placement.maps.into_iter().map(|map| {
        let task_manager = task_managers.get(map.task_manager as usize).cloned().ok_or(Malformed::Value {
            field: "maps.task_manager",
            found: map.task_manager.to_string(),
            expected: "a position in task_managers",
        })?;
        Ok(MapLocation { attempt: map.attempt, task_manager })
    });
    Ok(Placement {
        exchange: ExchangeId(placement.exchange),
        version: placement.version,
        maps: maps.collect::<Result<Arc<[_]>, Malformed>>()?,
    })
}

pub(super) fn cause_out(cause: FailureCause) -> v1::Cause {
    use v1::cause::Cause;
    let cause = match cause {
        FailureCause::Task { kind, message } => {
            let kind = match kind {
                ErrorKind::Data => v1::TaskErrorKind::Data,
                ErrorKind::OutOfMemory => v1::TaskErrorKind::OutOfMemory,
                ErrorKind::Io => v1::TaskErrorKind::Io,
                ErrorKind::Internal => v1::TaskErrorKind::Internal,
                ErrorKind::Cancelled => v1::TaskErrorKind::Cancelled,
            };
            Cause::Task(v1::TaskCause { kind: kind.into(), message: shortened(&message, MAX_TEXT / 4) })
        }
        FailureCause::PartitionLost { exchange, map, attempt, from, detail } => {
            Cause::PartitionLost(v1::PartitionLostCause {
                exchange: exchange.0,
                map,
                attempt,
                from: Some(tm_out(&from)),
                detail: shortened(&detail, MAX_TEXT / 4),
            })
        }
        FailureCause::TaskManagerLost { task_manager, detail } => Cause::TaskManagerLost(v1::TaskManagerLostCause {
            task_manager: Some(tm_out(&task_manager)),
            detail: shortened(&detail, MAX_TEXT / 4),
        }),
    };
    v1::Cause { cause: Some(cause) }
}

pub(super) fn cause_in(cause: Option<v1::Cause>) -> Result<FailureCause, Malformed> {
    match required("cause", cause.and_then(|c| c.cause))? {
        v1::cause::Cause::Task(task) => {
            let kind = match task.kind() {
                v1::TaskErrorKind::Data => ErrorKind::Data,
                v1::TaskErrorKind::OutOfMemory => ErrorKind::OutOfMemory,
                v1::TaskErrorKind::Io => ErrorKind::Io,
                v1::TaskErrorKind::Internal => ErrorKind::Internal,
                v1::TaskErrorKind::Cancelled => ErrorKind::Cancelled,
                v1::TaskErrorKind::Unspecified => {
                    return Err(Malformed::Value {
                        field: "cause.kind",
                        found: task.kind.to_string(),
                        expected: "a known kind of task error",
                    });
                }
            };
            Ok(FailureCause::Task { kind, message: text("message", task.message)? })
        }
        v1::cause::Cause::PartitionLost(lost) => Ok(FailureCause::PartitionLost {
            exchange: ExchangeId(lost.exchange),
            map: lost.map,
            attempt: lost.attempt,
            from: tm_in(lost.from)?,
            detail: text("detail", lost.detail)?,
        }),
        v1::cause::Cause::TaskManagerLost(lost) => Ok(FailureCause::TaskManagerLost {
            task_manager: tm_in(lost.task_manager)?,
            detail: text("detail", lost.detail)?,
        }),
    }
}
