//! From settings to what the planner and the scheduler take.

use std::sync::Arc;

use thalweg_config::{BroadcastStrategy, BroadcastThreshold, Config, RuntimeFilter, Scheduler, SkewStrategy, Table};
use thalweg_connectors::AccessRules;
use thalweg_core::{BroadcastOptions, JobOptions, SkewOptions};
use thalweg_exec::RuntimeFilterRule;
use thalweg_planner::{JoinOrderOptions, PlannerOptions, RuntimeFilterOptions};

use crate::driver::{ClusterSize, Driver};

const BATCH_SIZE: usize = 8192;
/// Attempts a task may use up by its own failures.
const MAX_ATTEMPTS: u32 = 4;
/// Bytes up to which a join's side is broadcast by default, if a slot has the memory.
const BROADCAST_LIMIT: u64 = 64 << 20;
/// Share of a slot's managed memory that a broadcast side may take by default: one twentieth.
const BROADCAST_SHARE: u64 = 20;

/// What all sessions share.
#[derive(Debug, Clone)]
pub struct Environment {
    pub config: Arc<Config>,
    pub access: AccessRules,
    pub driver: Driver,
}

pub(super) fn planner_options(config: &Config, access: &AccessRules, cluster: ClusterSize) -> PlannerOptions {
    let parallelism = config.sql_parallelism().unwrap_or(1);
    let limit = broadcast_threshold(config.table.broadcast_threshold, cluster);
    PlannerOptions {
        access: access.clone(),
        single_task_threshold: config.execution.single_task_threshold,
        broadcast_threshold: match config.table.adaptive_broadcast {
            BroadcastStrategy::RuntimeOnly => 0,
            BroadcastStrategy::Auto | BroadcastStrategy::None => limit,
        },
        join_order: join_order(&config.table, limit),
        runtime_filters: runtime_filters(&config.table.runtime_filter),
        max_parallelism: config.execution.auto_parallelism.max.max(parallelism),
        time_zone: config.table.local_time_zone.clone(),
        batch_size: BATCH_SIZE,
    }
}

/// Sides are expected to be broadcast by their size on disk or, later, by what is measured, unless neither may be.
fn join_order(config: &Table, broadcast_bytes: u64) -> Option<JoinOrderOptions> {
    let bushy_threshold = config.join_order.bushy_threshold as usize;
    config.join_order.enabled.then_some(JoinOrderOptions { bushy_threshold, broadcast_bytes })
}

fn runtime_filters(config: &RuntimeFilter) -> Option<RuntimeFilterOptions> {
    let rule = RuntimeFilterRule { min_ratio: config.min_filter_ratio, max_build_bytes: config.max_build_data_size };
    config.enabled.then_some(RuntimeFilterOptions { min_probe_bytes: config.min_probe_data_size, rule })
}

pub(super) fn job_options(config: &Config, cluster: ClusterSize) -> JobOptions {
    let adaptive = config.jobmanager.scheduler == Scheduler::AdaptiveBatch;
    let measured = adaptive && config.table.adaptive_broadcast != BroadcastStrategy::None;
    let auto = &config.execution.auto_parallelism;
    JobOptions {
        auto_parallelism: auto.enabled && adaptive,
        min_parallelism: auto.min,
        max_parallelism: auto.max,
        avg_data_volume_per_task: auto.avg_data_volume_per_task,
        default_source_parallelism: auto.default_source_parallelism,
        default_parallelism: config.sql_parallelism(),
        slot_request_timeout: config.slot_request_timeout,
        stall_timeout: config.job_stall_timeout,
        max_attempts: MAX_ATTEMPTS,
        skew: SkewOptions {
            enabled: config.table.skewed_join.strategy != SkewStrategy::None && adaptive,
            factor: config.table.skewed_join.factor,
            threshold: config.table.skewed_join.threshold,
        },
        broadcast: BroadcastOptions {
            limit: if measured { broadcast_threshold(config.table.broadcast_threshold, cluster) } else { 0 },
        },
    }
}

fn broadcast_threshold(threshold: BroadcastThreshold, cluster: ClusterSize) -> u64 {
    match threshold {
        BroadcastThreshold::Off => 0,
        BroadcastThreshold::Bytes(bytes) => bytes,
        BroadcastThreshold::Auto => {
            cluster.smallest_slot_memory.map_or(BROADCAST_LIMIT, |slot| BROADCAST_LIMIT.min(slot / BROADCAST_SHARE))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_broadcasts_what_fits_the_smallest_slot() {
        let cluster = |slot| ClusterSize { smallest_slot_memory: slot, slots: 1 };
        let auto = |slot| broadcast_threshold(BroadcastThreshold::Auto, cluster(slot));
        assert_eq!(auto(None), 64 << 20);
        assert_eq!(auto(Some(100 << 20)), 5 << 20);
        assert_eq!(auto(Some(100 << 30)), 64 << 20);
        assert_eq!(broadcast_threshold(BroadcastThreshold::Bytes(7), cluster(Some(1))), 7);
        assert_eq!(broadcast_threshold(BroadcastThreshold::Off, cluster(None)), 0);
    }
}
