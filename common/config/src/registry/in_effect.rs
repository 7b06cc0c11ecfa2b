//! Options that do something. Order: as on the reference page.

use super::DefaultValue::{Text, Unset};
use super::OptionSpec;
use crate::setting::field;
use crate::syntax::Kind;

const POSITIVE: Kind = Kind::Duration { zero: false };
const PARALLELISM: Kind = Kind::Int { min: 1, max: 32_768 };

const fn opt(key: &'static str, kind: Kind, default: super::DefaultValue, description: &'static str) -> OptionSpec {
    OptionSpec::new(key, kind, default, description)
}

pub(super) static OPTIONS: &[OptionSpec] = &[
    // ---- JobManager ----
    opt(
        "jobmanager.rpc.address",
        Kind::Host,
        Text("localhost"),
        "Where TaskManagers and clients find the JobManager.",
    )
    .field(field!(jobmanager.rpc_address)),
    opt("jobmanager.rpc.port", Kind::Port, Text("6123"), "The JobManager's port for TaskManagers and clients.")
        .field(field!(jobmanager.rpc_port)),
    opt(
        "jobmanager.bind-host",
        Kind::Host,
        Text("127.0.0.1"),
        "The address the JobManager binds. Beyond loopback a token is required, see `security.token`.",
    )
    .field(field!(jobmanager.bind_host)),
    opt(
        "jobmanager.scheduler",
        Kind::Enum(&["AdaptiveBatch", "Default", "Adaptive"]),
        Text("AdaptiveBatch"),
        "`AdaptiveBatch` decides parallelism and joins of batch jobs stage by stage from measured bytes; `Default` runs \
         the plan as submitted.",
    )
    .session()
    .value_notes(&[("Adaptive", "there is no reactive scheduler of that name here; AdaptiveBatch is used")])
    .field(field!(jobmanager.scheduler)),
    // ---- TaskManager ----
    opt(
        "taskmanager.host",
        Kind::Host,
        Unset("the address it binds"),
        "The name under which other processes reach the TaskManager.",
    )
    .field(field!(taskmanager.host)),
    opt(
        "taskmanager.bind-host",
        Kind::Host,
        Text("127.0.0.1"),
        "The address the TaskManager binds. Beyond loopback a token is required, see `security.token`.",
    )
    .field(field!(taskmanager.bind_host)),
    opt("taskmanager.rpc.port", Kind::Port, Text("0"), "The TaskManager's port for the JobManager; 0 is any free one.")
        .field(field!(taskmanager.rpc_port)),
    opt(
        "taskmanager.data.port",
        Kind::Port,
        Text("0"),
        "The TaskManager's port for exchanges with other TaskManagers; 0 is any free one.",
    )
    .field(field!(taskmanager.data_port)),
    opt(
        "taskmanager.numberOfTaskSlots",
        Kind::Int { min: 1, max: 1024 },
        Text("1"),
        "How many tasks a TaskManager runs side by side.",
    )
    .field(field!(taskmanager.slots)),
    opt(
        "taskmanager.resource-id",
        Kind::Text,
        Unset("a fresh one at every start"),
        "The identity of the TaskManager, kept over restarts.",
    )
    .field(field!(taskmanager.resource_id)),
    opt(
        "taskmanager.memory.process.size",
        Kind::Memory { min: 1 << 20 },
        Unset("min(cgroup limit, 60 % of RAM)"),
        "Memory of a TaskManager process: 96 mb base + network + 10 % slack + managed.",
    )
    .field(field!(taskmanager.memory.process_size)),
    opt(
        "taskmanager.memory.managed.fraction",
        Kind::Fraction,
        Unset("all that is left"),
        "Share of the process size for operators, state and the exchange store.",
    )
    .field(field!(taskmanager.memory.managed_fraction)),
    opt(
        "taskmanager.memory.network.fraction",
        Kind::Fraction,
        Text("0.1"),
        "Share of the process size for data on its way through the network.",
    )
    .field(field!(taskmanager.memory.network_fraction)),
    opt("taskmanager.memory.network.min", Kind::Memory { min: 1 << 20 }, Text("64 mb"), "Least network memory.")
        .field(field!(taskmanager.memory.network_min)),
    opt("taskmanager.memory.network.max", Kind::Memory { min: 1 << 20 }, Text("1 gb"), "Most network memory.")
        .field(field!(taskmanager.memory.network_max)),
    // ---- REST ----
    opt(
        "rest.port",
        Kind::PortRange,
        Text("8081"),
        "The port of the REST interface and web page; of a range such as `8081-8090` the first free one.",
    )
    .field(field!(rest.port)),
    opt(
        "rest.address",
        Kind::Host,
        Unset("`jobmanager.rpc.address`"),
        "Where clients find the REST interface.",
    )
    .field(field!(rest.address)),
    opt(
        "rest.bind-address",
        Kind::Host,
        Text("127.0.0.1"),
        "The address the REST interface binds. Beyond loopback a token is required, see `security.token`.",
    )
    .field(field!(rest.bind_address)),
    // ---- process ----
    opt(
        "io.tmp.dirs",
        Kind::Paths,
        Unset("the system's temporary folder"),
        "Folders for spilled data; each TaskManager makes its own folder in them.",
    )
    .field(field!(tmp_dirs)),
    opt("heartbeat.interval", POSITIVE, Text("1 s"), "Time between heartbeats of JobManager and TaskManagers.")
        .field(field!(heartbeat.interval)),
    opt(
        "heartbeat.timeout",
        POSITIVE,
        Text("10 s"),
        "Silence after which the other side counts as lost; longer than `heartbeat.interval`.",
    )
    .field(field!(heartbeat.timeout)),
    // ---- what survives a JobManager ----
    opt(
        "high-availability.type",
        Kind::Enum(&["NONE", "filesystem"]),
        Text("NONE"),
        "`filesystem`: jobs survive their JobManager, which writes down what it decides under `high-availability.storageDir` \
         and goes on from there when it is started again.",
    )
    .alias(&["high-availability"])
    .field(field!(high_availability.kind)),
    opt(
        "high-availability.storageDir",
        Kind::Path,
        Unset("required with `high-availability.type: filesystem`"),
        "Folder of what must survive; on a disk of the JobManager's host or shared, but with working file locks.",
    )
    .field(field!(high_availability.storage_dir)),
    opt(
        "high-availability.cluster-id",
        Kind::Text,
        Text("/default"),
        "Separates clusters that share a storage folder: a folder in it.",
    )
    .field(field!(high_availability.cluster_id)),
    opt(
        "execution.batch.job-recovery.enabled",
        Kind::Bool,
        Unset("true with `high-availability.type: filesystem`"),
        "Whether a job goes on after the loss of its JobManager, with the same decisions and what had finished.",
    )
    .session()
    .field(field!(execution.job_recovery.enabled)),
    opt(
        "execution.batch.job-recovery.previous-worker.recovery.timeout",
        Kind::Duration { zero: true },
        Text("30 s"),
        "How long a restarted JobManager waits for TaskManagers that have outputs of its jobs.",
    )
    .field(field!(execution.job_recovery.worker_timeout)),
    opt("slot.request.timeout", POSITIVE, Text("5 min"), "How long a job waits for a slot before it fails.")
        .field(field!(slot_request_timeout)),
    opt(
        "job.stall-timeout",
        POSITIVE,
        Text("10 min"),
        "Time without any progress after which a job reports what waits on whom, and fails.",
    )
    .session()
    .field(field!(job_stall_timeout)),
    opt("log.format", Kind::Enum(&["text", "json"]), Text("text"), "Log lines for people, or one JSON object each.")
        .field(field!(log.format)),
    opt(
        "log.level",
        Kind::LogFilter,
        Text("info"),
        "Least level that is logged, or directives by module such as `info,thalweg_core=debug`.",
    )
    .field(field!(log.level)),
    // ---- execution ----
    opt(
        "parallelism.default",
        PARALLELISM,
        Unset("decided by the scheduler"),
        "Parallelism of operators that have none of their own.",
    )
    .session()
    .field(field!(parallelism_default)),
    opt(
        "execution.runtime-mode",
        Kind::Enum(&["automatic", "batch", "streaming"]),
        Text("automatic"),
        "`automatic` runs a query as batch when all its inputs are bounded.",
    )
    .session()
    .field(field!(execution.runtime_mode)),
    opt(
        "table.exec.resource.default-parallelism",
        Kind::Int { min: -1, max: 32_768 },
        Text("-1"),
        "Parallelism of SQL operators; -1 is `parallelism.default`.",
    )
    .session()
    .field(field!(table.default_parallelism)),
    opt(
        "table.exec.local-hash-agg.adaptive.enabled",
        Kind::Bool,
        Text("true"),
        "Aggregating before rows are exchanged stops in a task where it hardly makes them fewer.",
    )
    .session()
    .field(field!(table.local_aggregate.adaptive)),
    opt(
        "table.exec.local-hash-agg.adaptive.sampling-threshold",
        Kind::Int { min: 1, max: 1 << 40 },
        Text("500000"),
        "Rows of a task after which it is decided whether aggregating before the exchange stops.",
    )
    .session()
    .field(field!(table.local_aggregate.sampling_rows)),
    opt(
        "table.exec.local-hash-agg.adaptive.distinct-value-rate-threshold",
        Kind::Float { min: 0.0, max: 1.0 },
        Text("0.5"),
        "It stops if there are at least this many groups for each of those rows.",
    )
    .session()
    .field(field!(table.local_aggregate.distinct_rate)),
    opt(
        "execution.batch.adaptive.auto-parallelism.enabled",
        Kind::Bool,
        Text("true"),
        "Decide the parallelism of operators that have none set, from measured bytes.",
    )
    .session()
    .field(field!(execution.auto_parallelism.enabled)),
    opt(
        "execution.batch.adaptive.auto-parallelism.min-parallelism",
        PARALLELISM,
        Text("1"),
        "Lower bound of a decided parallelism.",
    )
    .session()
    .field(field!(execution.auto_parallelism.min)),
    opt(
        "execution.batch.adaptive.auto-parallelism.max-parallelism",
        PARALLELISM,
        Text("128"),
        "Upper bound of a decided parallelism.",
    )
    .session()
    .field(field!(execution.auto_parallelism.max)),
    opt(
        "execution.batch.adaptive.auto-parallelism.avg-data-volume-per-task",
        Kind::Memory { min: 1 },
        Text("16 mb"),
        "Raw Arrow bytes that one task should read.",
    )
    .session()
    .field(field!(execution.auto_parallelism.avg_data_volume_per_task)),
    opt(
        "execution.batch.adaptive.auto-parallelism.default-source-parallelism",
        PARALLELISM,
        Unset("decided from the size of the input"),
        "Parallelism of sources, or its upper bound where it is decided.",
    )
    .session()
    .field(field!(execution.auto_parallelism.default_source_parallelism)),
    opt(
        "execution.batch.single-task-threshold",
        Kind::Memory { min: 0 },
        Text("16 mb"),
        "A query with an estimated scan of less than this runs in one task without an exchange; 0 is off.",
    )
    .session()
    .field(field!(execution.single_task_threshold)),
    opt(
        "table.local-time-zone",
        Kind::TimeZone,
        Text("default"),
        "Time zone of the session, an IANA name; `default` is UTC.",
    )
    .session()
    .field(field!(table.local_time_zone)),
    opt(
        "table.optimizer.join.broadcast-threshold",
        Kind::BroadcastThreshold,
        Text("auto"),
        "Raw Arrow bytes up to which a join's smaller side is sent to every task; `auto` is min(64 mb, 5 % of a slot's \
         managed memory), -1 is never.",
    )
    .session()
    .field(field!(table.broadcast_threshold)),
    opt(
        "table.optimizer.adaptive-broadcast-join.strategy",
        Kind::Enum(&["auto", "runtime_only", "none"]),
        Text("auto"),
        "When a join may send a side to every task: `auto` when it is small by the size of its files or turns out small while the \
         job runs, `runtime_only` only the latter, `none` only the former.",
    )
    .session()
    .field(field!(table.adaptive_broadcast)),
    opt(
        "table.optimizer.skewed-join-optimization.strategy",
        Kind::Enum(&["auto", "forced", "none"]),
        Text("auto"),
        "When a skewed part of a join's input is divided among several tasks: `auto` where that needs no further exchange, \
         `none` never.",
    )
    .session()
    .value_notes(&[("forced", "a further exchange is not added yet: means auto")])
    .field(field!(table.skewed_join.strategy)),
    opt(
        "table.optimizer.skewed-join-optimization.skewed-factor",
        Kind::Float { min: 1.0, max: f64::MAX },
        Text("4.0"),
        "Multiple of the median above which a part is skewed.",
    )
    .session()
    .field(field!(table.skewed_join.factor)),
    opt(
        "table.optimizer.skewed-join-optimization.skewed-threshold",
        Kind::Memory { min: 0 },
        Text("256 mb"),
        "Raw Arrow bytes that a skewed part has more than.",
    )
    .session()
    .field(field!(table.skewed_join.threshold)),
    opt(
        "table.optimizer.join-reorder-enabled",
        Kind::Bool,
        Text("false"),
        "Whether inner, semi and anti joins run in the order that is expected to be the cheapest, by what files say of their \
         rows and values, instead of the order they are written in.",
    )
    .session()
    .field(field!(table.join_order.enabled)),
    opt(
        "table.optimizer.bushy-join-reorder-threshold",
        Kind::Int { min: 0, max: 64 },
        Text("12"),
        "Relations up to which every order without a cross product is considered; more are joined greedily, the smallest result \
         first.",
    )
    .session()
    .field(field!(table.join_order.bushy_threshold)),
    opt(
        "table.optimizer.runtime-filter.enabled",
        Kind::Bool,
        Text("true"),
        "Whether a scan leaves out rows whose keys are not among those that a join of the same task has read of its other side, or \
         that cannot get into a top-n any more, before it decodes their other columns.",
    )
    .session()
    .field(field!(table.runtime_filter.enabled)),
    opt(
        "table.optimizer.runtime-filter.max-build-data-size",
        Kind::Memory { min: 0 },
        Text("150 mb"),
        "Raw Arrow bytes that a task reads of a join's build side, above which it makes no filter of it.",
    )
    .session()
    .field(field!(table.runtime_filter.max_build_data_size)),
    opt(
        "table.optimizer.runtime-filter.min-probe-data-size",
        Kind::Memory { min: 0 },
        Text("64 mb"),
        "Uncompressed bytes of the columns a scan reads, below which it is not filtered.",
    )
    .session()
    .field(field!(table.runtime_filter.min_probe_data_size)),
    opt(
        "table.optimizer.runtime-filter.min-filter-ratio",
        Kind::Float { min: 0.0, max: 1.0 },
        Text("0.5"),
        "Share of the rows a filter must remove; one that removes less of a sample is not applied to the rows that follow.",
    )
    .session()
    .field(field!(table.runtime_filter.min_filter_ratio)),
    // ---- safety ----
    opt(
        "security.token",
        Kind::Secret,
        Unset("none"),
        "The secret shared by daemons and clients, required beyond loopback. Better kept in `security.token-file` or the \
         environment variable `THALWEG_SECURITY_TOKEN`, which wins over both.",
    )
    .field(field!(security.token)),
    opt(
        "security.token-file",
        Kind::Path,
        Unset("none"),
        "A file with the token; white space around it is ignored. Relative paths start at the working directory.",
    )
    .field(field!(security.token_file)),
    opt(
        "security.insecure",
        Kind::Bool,
        Text("false"),
        "Allow addresses beyond loopback without a token: anyone who reaches them can run queries.",
    )
    .field(field!(security.insecure)),
    opt(
        "filesystem.allowed-roots",
        Kind::Paths,
        Unset("the working directory and `io.tmp.dirs` in one process, nothing for daemons"),
        "Folders that the files of tables must lie under, after symbolic links are resolved.",
    )
    .field(field!(filesystem.allowed_roots)),
    opt(
        "client.result.ttl",
        POSITIVE,
        Text("1 h"),
        "How long a result waits to be read; it is released when it was read to its end.",
    )
    .field(field!(client.result_ttl)),
    opt(
        "client.result.max-size",
        Kind::Memory { min: 1 },
        Text("1 gb"),
        "Largest result of one job; a longer one fails and says so.",
    )
    .field(field!(client.result_max_size)),
];
