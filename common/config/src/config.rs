//! The settings in effect, one struct per section. Names, defaults and limits are in [`crate::registry`].

use std::path::PathBuf;
use std::time::Duration;

use crate::registry;
use crate::secret::Secret;
use crate::syntax::Raw;

/// A complete configuration. Plain data: only wiring reads it, everything below gets values.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    pub jobmanager: JobManager,
    pub taskmanager: TaskManager,
    pub rest: Rest,
    pub tmp_dirs: Vec<PathBuf>,
    pub heartbeat: Heartbeat,
    pub high_availability: HighAvailability,
    pub slot_request_timeout: Duration,
    pub parallelism_default: Option<u32>,
    pub execution: Execution,
    pub security: Security,
    pub filesystem: Filesystem,
    pub client: ClientLimits,
    /// A job without progress for this long reports what waits on whom, and fails.
    pub job_stall_timeout: Duration,
    pub table: Table,
    pub log: Log,
}

#[derive(Debug, Clone, PartialEq)]
pub struct JobManager {
    /// Where TaskManagers and clients find it.
    pub rpc_address: String,
    pub rpc_port: u16,
    /// What it binds.
    pub bind_host: String,
    pub scheduler: Scheduler,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheduler {
    /// Parallelism and joins decided stage by stage from measured bytes.
    AdaptiveBatch,
    /// The plan as submitted.
    Default,
}

#[derive(Debug, Clone, PartialEq)]
pub struct TaskManager {
    /// The name other processes reach it by; unset = what it binds.
    pub host: Option<String>,
    pub bind_host: String,
    /// 0 = any free port.
    pub rpc_port: u16,
    /// 0 = any free port.
    pub data_port: u16,
    pub slots: u32,
    pub resource_id: Option<String>,
    pub memory: Memory,
}

/// All sizes in bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct Memory {
    /// Unset = [`crate::default_process_size`].
    pub process_size: Option<u64>,
    /// Share of the process size, in (0, 1); unset = all that is left.
    pub managed_fraction: Option<f64>,
    pub network_fraction: f64,
    pub network_min: u64,
    pub network_max: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Rest {
    pub port: PortRange,
    pub address: Option<String>,
    pub bind_address: String,
}

/// Ports to try in order, both ends included. One port is a range of one; `0-0` is any free port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortRange {
    pub first: u16,
    pub last: u16,
}

impl PortRange {
    pub fn iter(self) -> impl Iterator<Item = u16> {
        self.first..=self.last
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Heartbeat {
    pub interval: Duration,
    /// Always longer than the interval.
    pub timeout: Duration,
}

#[derive(Debug, Clone, PartialEq)]
pub struct HighAvailability {
    pub kind: HighAvailabilityType,
    /// Set if the type needs it.
    pub storage_dir: Option<PathBuf>,
    pub cluster_id: String,
}

/// What survives a JobManager.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HighAvailabilityType {
    None,
    /// Jobs, in files.
    Filesystem,
}

#[derive(Debug, Clone, PartialEq)]
pub struct JobRecovery {
    /// Unset = wherever it is possible.
    pub enabled: Option<bool>,
    /// How long TaskManagers of the JobManager before are waited for.
    pub worker_timeout: Duration,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Execution {
    pub runtime_mode: RuntimeMode,
    /// Bytes of estimated scan under which a query runs in one task; 0 = never.
    pub single_task_threshold: u64,
    pub auto_parallelism: AutoParallelism,
    pub job_recovery: JobRecovery,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuntimeMode {
    /// Batch when every input is bounded.
    Automatic,
    Batch,
    Streaming,
}

#[derive(Debug, Clone, PartialEq)]
pub struct AutoParallelism {
    pub enabled: bool,
    /// At least 1, at most `max`.
    pub min: u32,
    pub max: u32,
    /// Raw Arrow bytes that one task should read.
    pub avg_data_volume_per_task: u64,
    pub default_source_parallelism: Option<u32>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Security {
    /// From the environment, `security.token` or `security.token-file`, whichever layer is the last.
    pub token: Option<Secret>,
    /// As configured; the file was read into `token` already, unless a later layer gave the token.
    pub token_file: Option<PathBuf>,
    pub insecure: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Filesystem {
    /// Folders that tables may lie under; unset = the daemon's own rule.
    pub allowed_roots: Option<Vec<PathBuf>>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ClientLimits {
    pub result_ttl: Duration,
    /// Bytes of one job's result.
    pub result_max_size: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// An IANA name or an offset, not looked up here; `default` has become `UTC`.
    pub local_time_zone: String,
    /// Of every operator; negative = [`Config::parallelism_default`].
    pub default_parallelism: i64,
    pub local_aggregate: LocalAggregate,
    pub broadcast_threshold: BroadcastThreshold,
    pub adaptive_broadcast: BroadcastStrategy,
    pub skewed_join: SkewedJoin,
    pub join_order: JoinOrder,
    pub runtime_filter: RuntimeFilter,
}

/// When a task that aggregates before an exchange stops doing so.
#[derive(Debug, Clone, PartialEq)]
pub struct LocalAggregate {
    pub adaptive: bool,
    /// Rows that are looked at; at least 1.
    pub sampling_rows: i64,
    /// Groups per row, 0 to 1, from which it stops.
    pub distinct_rate: f64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct SkewedJoin {
    pub strategy: SkewStrategy,
    /// Multiple of the median above which a subpartition is skewed; at least 1.
    pub factor: f64,
    /// Bytes that a skewed subpartition has more than.
    pub threshold: u64,
}

/// Whether joins are put into an order of the planner's choice.
#[derive(Debug, Clone, PartialEq)]
pub struct JoinOrder {
    pub enabled: bool,
    /// Relations up to which every tree is considered.
    pub bushy_threshold: u32,
}

/// Whether a scan is filtered by the keys of a join in the same task.
#[derive(Debug, Clone, PartialEq)]
pub struct RuntimeFilter {
    pub enabled: bool,
    /// Bytes of a build side at most.
    pub max_build_data_size: u64,
    /// Bytes that a scan reads at least.
    pub min_probe_data_size: u64,
    /// Share of the rows, 0 to 1, that a filter must remove.
    pub min_filter_ratio: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BroadcastStrategy {
    /// By the size of files, and by what is measured.
    Auto,
    /// Only by what is measured.
    RuntimeOnly,
    /// Only by the size of files.
    None,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SkewStrategy {
    /// Where it costs no exchange.
    Auto,
    Forced,
    None,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BroadcastThreshold {
    /// min(64 MB, 5 % of a slot's managed memory).
    Auto,
    Bytes(u64),
    Off,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Log {
    pub format: LogFormat,
    /// A level, or comma-separated directives such as `info,thalweg_core=debug`.
    pub level: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    Text,
    Json,
}

impl Default for Config {
    /// Every default of the registry, without reading a file or the environment.
    fn default() -> Self {
        let mut config = blank();
        for option in registry::in_effect() {
            let (Some(text), Some(field)) = (option.default.text(), option.field.as_ref()) else { continue };
            let value = option.kind.parse(&Raw::Scalar(text.to_string())).expect("a test parses every default");
            (field.set)(&mut config, value);
        }
        config
    }
}

impl Config {
    /// The parallelism of SQL operators, if one was set.
    pub fn sql_parallelism(&self) -> Option<u32> {
        u32::try_from(self.table.default_parallelism).ok().filter(|&n| n > 0).or(self.parallelism_default)
    }

    /// The value in force for `key`, in the syntax of the file; `None` for an unset or unknown key and for keys that
    /// are not in effect. Secrets are starred out.
    pub fn get(&self, key: &str) -> Option<String> {
        let field = registry::lookup(key)?.field.as_ref()?;
        (field.get)(self).map(|value| value.to_string())
    }
}

/// Holds the unset options and a place for the others, which [`Config::default`] then fills from the registry.
fn blank() -> Config {
    let zero = Duration::ZERO;
    Config {
        jobmanager: JobManager {
            rpc_address: String::new(),
            rpc_port: 0,
            bind_host: String::new(),
            scheduler: Scheduler::AdaptiveBatch,
        },
        taskmanager: TaskManager {
            host: None,
            bind_host: String::new(),
            rpc_port: 0,
            data_port: 0,
            slots: 0,
            resource_id: None,
            memory: Memory {
                process_size: None,
                managed_fraction: None,
                network_fraction: 0.0,
                network_min: 0,
                network_max: 0,
            },
        },
        rest: Rest { port: PortRange { first: 0, last: 0 }, address: None, bind_address: String::new() },
        tmp_dirs: vec![std::env::temp_dir()],
        heartbeat: Heartbeat { interval: zero, timeout: zero },
        high_availability: HighAvailability {
            kind: HighAvailabilityType::None,
            storage_dir: None,
            cluster_id: String::new(),
        },
        slot_request_timeout: zero,
        parallelism_default: None,
        execution: Execution {
            runtime_mode: RuntimeMode::Automatic,
            single_task_threshold: 0,
            auto_parallelism: AutoParallelism {
                enabled: false,
                min: 0,
                max: 0,
                avg_data_volume_per_task: 0,
                default_source_parallelism: None,
            },
            job_recovery: JobRecovery { enabled: None, worker_timeout: zero },
        },
        security: Security { token: None, token_file: None, insecure: false },
        filesystem: Filesystem { allowed_roots: None },
        client: ClientLimits { result_ttl: zero, result_max_size: 0 },
        job_stall_timeout: zero,
        table: Table {
            local_time_zone: String::new(),
            default_parallelism: -1,
            local_aggregate: LocalAggregate { adaptive: false, sampling_rows: 0, distinct_rate: 0.0 },
            broadcast_threshold: BroadcastThreshold::Auto,
            adaptive_broadcast: BroadcastStrategy::None,
            skewed_join: SkewedJoin { strategy: SkewStrategy::None, factor: 1.0, threshold: 0 },
            join_order: JoinOrder { enabled: false, bushy_threshold: 0 },
            runtime_filter: RuntimeFilter {
                enabled: false,
                max_build_data_size: 0,
                min_probe_data_size: 0,
                min_filter_ratio: 0.0,
            },
        },
        log: Log { format: LogFormat::Text, level: String::new() },
    }
}
