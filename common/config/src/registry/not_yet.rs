//! Known keys of the dialect whose features are not built yet: accepted with a note, their values checked. The defaults
//! are the ones that will hold. Promote an entry by moving it to `in_effect` with a field.

use super::DefaultValue::{self, Text, Unset};
use super::OptionSpec;
use crate::syntax::Kind;

const BOOL: Kind = Kind::Bool;
const TIME: Kind = Kind::Duration { zero: true };
const SIZE: Kind = Kind::Memory { min: 0 };
const COUNT: Kind = Kind::Int { min: 0, max: i64::MAX };
const AT_LEAST_ONE: Kind = Kind::Int { min: 1, max: i64::MAX };
/// -1 is "none".
const OR_MINUS_ONE: Kind = Kind::Int { min: -1, max: i64::MAX };
const RATIO: Kind = Kind::Float { min: 0.0, max: 1.0 };
const FACTOR: Kind = Kind::Float { min: 1.0, max: f64::MAX };
const OUTPUT_MODE: Kind = Kind::Enum(&["ORDERED", "ALLOW_UNORDERED"]);
const NONE: DefaultValue = Unset("");

/// An option of the cluster.
const fn c(key: &'static str, kind: Kind, default: DefaultValue, description: &'static str) -> OptionSpec {
    OptionSpec::new(key, kind, default, description)
}

/// An option of a job, so of a session.
const fn j(key: &'static str, kind: Kind, default: DefaultValue, description: &'static str) -> OptionSpec {
    OptionSpec::new(key, kind, default, description).session()
}

#[rustfmt::skip] // a table: one option a line reads best
pub(super) static OPTIONS: &[OptionSpec] = &[
    // ---- checkpoints ----
    j("execution.checkpointing.interval", TIME, Unset("no checkpoints"), "Time between checkpoints."),
    j("execution.checkpointing.interval-during-backlog", TIME, Unset("the interval"), "Time between checkpoints while a source reads a backlog; 0 is none."),
    j("execution.checkpointing.mode", Kind::Enum(&["EXACTLY_ONCE", "AT_LEAST_ONCE"]), Text("EXACTLY_ONCE"), "Guarantee of checkpoints."),
    j("execution.checkpointing.timeout", TIME, Text("10 min"), "A checkpoint that takes longer is given up."),
    j("execution.checkpointing.min-pause", TIME, Text("0 ms"), "Least pause between checkpoints."),
    j("execution.checkpointing.max-concurrent-checkpoints", AT_LEAST_ONE, Text("1"), "Checkpoints under way at once."),
    j("execution.checkpointing.tolerable-failed-checkpoints", COUNT, Unset("0"), "Failed checkpoints in a row that a job survives."),
    j("execution.checkpointing.externalized-checkpoint-retention", Kind::Enum(&["NO_EXTERNALIZED_CHECKPOINTS", "DELETE_ON_CANCELLATION", "RETAIN_ON_CANCELLATION"]), Text("NO_EXTERNALIZED_CHECKPOINTS"), "What is left of checkpoints when a job ends."),
    j("execution.checkpointing.unaligned.enabled", BOOL, Text("false"), "Barriers overtake data under back-pressure.").alias(&["execution.checkpointing.unaligned"]),
    j("execution.checkpointing.unaligned.forced", BOOL, Text("false"), "Unaligned checkpoints for custom partitioners too."),
    j("execution.checkpointing.aligned-checkpoint-timeout", TIME, Text("0 ms"), "Alignment that takes longer becomes unaligned."),
    j("execution.checkpointing.unaligned.max-subtasks-per-channel-state-file", AT_LEAST_ONE, Text("5"), "Subtasks that share a file of channel state."),
    j("execution.checkpointing.checkpoints-after-tasks-finish.enabled", BOOL, Text("true"), "Checkpoints go on when some tasks have finished."),
    j("execution.checkpointing.storage", Kind::Enum(&["jobmanager", "filesystem"]), Unset("filesystem if a folder is set"), "Where checkpoints are kept.").alias(&["state.checkpoint-storage"]),
    j("execution.checkpointing.dir", Kind::Path, NONE, "Folder of checkpoints.").alias(&["state.checkpoints.dir"]),
    j("execution.checkpointing.savepoint-dir", Kind::Path, NONE, "Default folder of savepoints.").alias(&["state.savepoints.dir"]),
    j("execution.checkpointing.num-retained", AT_LEAST_ONE, Text("1"), "Completed checkpoints kept.").alias(&["state.checkpoints.num-retained"]),
    j("execution.checkpointing.incremental", BOOL, Text("true"), "Checkpoints store only what changed.").alias(&["state.backend.incremental"]),
    j("execution.checkpointing.data-inline-threshold", SIZE, Text("20 kb"), "State smaller than this goes into the metadata file.").alias(&["state.storage.fs.memory-threshold"]),
    j("execution.checkpointing.local-backup.enabled", BOOL, Text("false"), "A second copy of the state on the TaskManager."),
    c("execution.checkpointing.local-backup.dirs", Kind::Paths, NONE, "Folders of local copies of the state."),
    j("execution.checkpointing.snapshot-compression", BOOL, Text("false"), "Compress full snapshots."),
    c("execution.checkpointing.cleaner.parallel-mode", BOOL, Text("true"), "Delete old checkpoints in parallel."),
    j("execution.state-recovery.path", Kind::Path, NONE, "Savepoint or checkpoint to start from."),
    j("execution.state-recovery.claim-mode", Kind::Enum(&["NO_CLAIM", "CLAIM"]), Text("NO_CLAIM"), "Who owns the checkpoint started from."),
    j("execution.state-recovery.ignore-unclaimed-state", BOOL, Text("false"), "Skip state that no operator wants."),
    j("execution.state-recovery.from-local", BOOL, Text("false"), "Restore from local copies."),
    // ---- state ----
    j("state.backend.type", Kind::Enum(&["hashmap", "rocksdb", "forst"]), Text("rocksdb"), "Where state lives.").alias(&["state.backend"]),
    c("state.backend.rocksdb.memory.managed", BOOL, Text("true"), "State memory is part of managed memory."),
    c("state.backend.rocksdb.memory.write-buffer-ratio", RATIO, Text("0.5"), "Share of state memory for writes."),
    c("state.backend.rocksdb.memory.high-prio-pool-ratio", RATIO, Text("0.1"), "Share of the cache for indexes and filters."),
    c("state.backend.rocksdb.timer-service.factory", Kind::Enum(&["ROCKSDB", "HEAP"]), Text("ROCKSDB"), "Where timers live."),
    c("state.backend.rocksdb.localdir", Kind::Paths, Unset("`io.tmp.dirs`"), "Folders of working state."),
    // ---- restart and failover ----
    j("restart-strategy.type", Kind::Enum(&["none", "off", "disable", "fixed-delay", "failure-rate", "exponential-delay"]), Unset("4 attempts per subtask for batch; exponential-delay with checkpoints"), "How a failed job is restarted.").alias(&["restart-strategy"]),
    j("restart-strategy.fixed-delay.attempts", COUNT, Text("1"), "Restarts before the job fails."),
    j("restart-strategy.fixed-delay.delay", TIME, Text("1 s"), "Wait before a restart."),
    j("restart-strategy.failure-rate.max-failures-per-interval", AT_LEAST_ONE, Text("1"), "Failures in one interval before the job fails."),
    j("restart-strategy.failure-rate.failure-rate-interval", TIME, Text("1 min"), "The interval that failures are counted in."),
    j("restart-strategy.failure-rate.delay", TIME, Text("1 s"), "Wait before a restart."),
    j("restart-strategy.exponential-delay.initial-backoff", TIME, Text("1 s"), "First wait before a restart."),
    j("restart-strategy.exponential-delay.max-backoff", TIME, Text("1 min"), "Longest wait before a restart."),
    j("restart-strategy.exponential-delay.backoff-multiplier", FACTOR, Text("1.5"), "Growth of the wait."),
    j("restart-strategy.exponential-delay.reset-backoff-threshold", TIME, Text("1 h"), "Time without failure that resets the wait."),
    j("restart-strategy.exponential-delay.jitter-factor", RATIO, Text("0.1"), "Random share of the wait."),
    j("restart-strategy.exponential-delay.attempts-before-reset-backoff", Kind::Any, Unset("infinite"), "Restarts without a reset before the job fails."),
    c("jobmanager.execution.failover-strategy", Kind::Enum(&["region", "full"]), Text("region"), "What is restarted after a failure."),
    c("jobmanager.execution.attempts-history-size", AT_LEAST_ONE, Text("16"), "Attempts remembered per subtask."),
    // ---- slots, liveness ----
    j("pipeline.operator-chaining.enabled", BOOL, Text("true"), "Neighbouring operators run in one task."),
    c("cluster.evenly-spread-out-slots", BOOL, Text("false"), "Spread tasks over all TaskManagers."),
    c("taskmanager.load-balance.mode", Kind::Enum(&["NONE", "SLOTS", "TASKS"]), Text("NONE"), "What is spread over TaskManagers."),
    c("slot.idle.timeout", TIME, Text("50 s"), "Idle slots are given back after this."),
    c("slotmanager.number-of-slots.max", AT_LEAST_ONE, Unset("no limit"), "Most slots of the cluster."),
    c("heartbeat.rpc-failure-threshold", OR_MINUS_ONE, Text("2"), "Failed heartbeat calls in a row after which the other side is unreachable; -1 is off."),
    c("taskmanager.registration.timeout", TIME, Text("5 min"), "A TaskManager that cannot register for this long stops."),
    c("task.cancellation.timeout", TIME, Text("3 min"), "A task that cannot be cancelled within this takes its TaskManager down."),
    c("task.cancellation.interval", TIME, Text("30 s"), "Time between attempts to cancel."),
    // ---- high availability ----
    c("high-availability.jobmanager.port", Kind::PortRange, Text("0"), "Port of a JobManager with high availability."),
    c("job-result-store.storage-path", Kind::Path, NONE, "Folder of the results of finished jobs."),
    c("jobmanager.archive.fs.dir", Kind::Path, NONE, "Folder that finished jobs are archived in."),
    c("jobstore.expiration-time", Kind::Any, Text("3600"), "How long finished jobs are listed (s)."),
    c("historyserver.*", Kind::Any, NONE, "A server for finished jobs."),
    c("historyserver.web.port", Kind::Port, Text("8082"), "Port of the server for finished jobs."),
    c("sql-gateway.*", Kind::Any, NONE, "A gateway for SQL sessions."),
    c("sql-gateway.endpoint.rest.port", Kind::Port, Text("8083"), "Port of the SQL gateway."),
    // ---- metrics ----
    c("metrics.internal.query-service.port", Kind::PortRange, Text("0"), "Port of the internal metrics service."),
    c("metrics.reporter.*", Kind::Any, NONE, "Reporters of metrics."),
    c("metrics.reporters", Kind::List, NONE, "Reporters to start."),
    c("metrics.reporter.prom.port", Kind::PortRange, Text("9249-9260"), "Port of the Prometheus page, the first free one."),
    // ---- pipeline ----
    j("pipeline.max-parallelism", Kind::Int { min: -1, max: 32_768 }, Text("-1"), "Upper bound of every parallelism; -1 is none."),
    j("pipeline.object-reuse", BOOL, Text("false"), "Chained operators share records."),
    j("pipeline.auto-watermark-interval", TIME, Text("200 ms"), "Time between periodic watermarks."),
    j("pipeline.name", Kind::Text, NONE, "Name of the job."),
    j("execution.buffer-timeout.interval", TIME, Text("5 ms"), "Longest wait for a full buffer.").alias(&["execution.buffer-timeout"]),
    j("execution.buffer-timeout.enabled", BOOL, Text("true"), "Send buffers that are not full after a while."),
    // ---- adaptive batch ----
    j("execution.batch-shuffle-mode", Kind::Enum(&["ALL_EXCHANGES_BLOCKING", "ALL_EXCHANGES_PIPELINED", "ALL_EXCHANGES_HYBRID_FULL", "ALL_EXCHANGES_HYBRID_SELECTIVE"]), Text("ALL_EXCHANGES_BLOCKING"), "When consumers of a batch exchange start."),
    c("jobmanager.partition.hybrid.partition-data-consume-constraint", Kind::Enum(&["ALL_PRODUCERS_FINISHED", "ONLY_FINISHED_PRODUCERS", "UNFINISHED_PRODUCERS"]), NONE, "What a consumer of a hybrid exchange may read."),
    c("execution.batch.job-recovery.snapshot.min-pause", TIME, Text("3 min"), "Least pause between snapshots of a batch job."),
    c("job-event.store.write-buffer.flush-interval", TIME, Text("1 s"), "Time between writes of the event log."),
    c("job-event.store.write-buffer.size", SIZE, Text("1 mb"), "Buffer of the event log."),
    j("execution.batch.speculative.enabled", BOOL, Text("false"), "Slow tasks get a second attempt."),
    j("execution.batch.speculative.max-concurrent-executions", AT_LEAST_ONE, Text("2"), "Attempts of one subtask at once, the first included."),
    j("execution.batch.speculative.block-slow-node-duration", TIME, Text("1 min"), "How long a slow host gets no tasks."),
    j("slow-task-detector.check-interval", TIME, Text("1 s"), "Time between searches for slow tasks."),
    j("slow-task-detector.execution-time.baseline-lower-bound", TIME, Text("1 min"), "Shorter tasks are never slow."),
    j("slow-task-detector.execution-time.baseline-ratio", RATIO, Text("0.75"), "Share of tasks that must have finished before any is slow."),
    j("slow-task-detector.execution-time.baseline-multiplier", FACTOR, Text("1.5"), "How much longer than the median is slow."),
    // ---- SQL: planner ----
    j("table.optimizer.multiple-input-enabled", BOOL, Text("true"), "Fuse operators with several inputs."),
    j("table.optimizer.dynamic-filtering.enabled", BOOL, Text("true"), "Filter a scan by the other side of its join."),
    j("table.optimizer.agg-phase-strategy", Kind::Enum(&["AUTO", "TWO_PHASE", "ONE_PHASE"]), Text("AUTO"), "Whether aggregates run in two phases."),
    j("table.optimizer.distinct-agg.split.enabled", BOOL, Text("false"), "Split distinct aggregates by bucket."),
    j("table.optimizer.distinct-agg.split.bucket-num", AT_LEAST_ONE, Text("1024"), "Buckets of split distinct aggregates."),
    j("table.optimizer.incremental-agg-enabled", BOOL, Text("true"), "Merge the aggregates of a split."),
    j("table.optimizer.reuse-sub-plan-enabled", BOOL, Text("true"), "Run equal parts of a plan once."),
    j("table.optimizer.multi-join.enabled", BOOL, Text("false"), "One operator for several streaming joins."),
    j("table.optimizer.delta-join.strategy", Kind::Enum(&["AUTO", "FORCE", "NONE"]), Text("AUTO"), "Streaming joins without state of their own."),
    j("table.optimizer.delta-join.ignore-non-unique-key-filter", BOOL, Text("false"), "Delta joins with filters on other columns."),
    j("table.optimizer.non-deterministic-update.strategy", Kind::Enum(&["TRY_RESOLVE", "IGNORE"]), Text("IGNORE"), "Non-deterministic updates of streams."),
    // ---- SQL: execution ----
    j("table.exec.disabled-operators", Kind::Any, NONE, "Operators that the planner must not use."),
    j("table.exec.source.idle-timeout", TIME, Text("0 ms"), "A source without rows for this long is idle; 0 is off."),
    j("table.exec.source.cdc-events-duplicate", BOOL, Text("false"), "Change sources may repeat events."),
    j("table.exec.state.ttl", TIME, Text("0 ms"), "State unused for this long is dropped; 0 is never."),
    j("table.exec.mini-batch.enabled", BOOL, Text("false"), "Collect rows before updating state."),
    j("table.exec.mini-batch.allow-latency", TIME, Text("0 ms"), "Longest collection of rows."),
    j("table.exec.mini-batch.size", OR_MINUS_ONE, Text("-1"), "Most rows collected per subtask."),
    j("table.exec.deduplicate.insert-update-after-sensitive-enabled", BOOL, Text("true"), "Keep inserts and updates apart."),
    j("table.exec.deduplicate.mini-batch.compact-changes-enabled", BOOL, Text("false"), "Compact changes of one mini-batch."),
    j("table.exec.rank.topn-cache-size", AT_LEAST_ONE, Text("10000"), "Rows in the cache of a top-N."),
    j("table.exec.interval-join.min-cleanup-interval", TIME, Text("0 ms"), "Least time between clean-ups of an interval join."),
    j("table.exec.sink.keyed-shuffle", Kind::Enum(&["NONE", "AUTO", "FORCE"]), Text("AUTO"), "Send rows of one key to one sink task."),
    j("table.exec.sink.upsert-materialize", Kind::Enum(&["NONE", "AUTO", "FORCE"]), Text("AUTO"), "Restore the order of changes before a sink."),
    j("table.exec.sink.upsert-materialize-strategy.type", Kind::Any, NONE, "How the order of changes is restored."),
    j("table.exec.sink.not-null-enforcer", Kind::Enum(&["ERROR", "DROP"]), Text("ERROR"), "Nulls in columns that must not have any."),
    j("table.exec.uid.generation", Kind::Enum(&["PLAN_ONLY", "ALWAYS", "DISABLED"]), Text("PLAN_ONLY"), "Stable operator ids."),
    j("table.exec.async-state.enabled", BOOL, Text("false"), "Read state without waiting."),
    j("table.exec.delta-join.cache-enabled", BOOL, Text("true"), "Cache lookups of delta joins."),
    j("table.exec.delta-join.left.cache-size", AT_LEAST_ONE, Text("10000"), "Join keys cached of the left side."),
    j("table.exec.delta-join.right.cache-size", AT_LEAST_ONE, Text("10000"), "Join keys cached of the right side."),
    j("table.exec.async-lookup.buffer-capacity", AT_LEAST_ONE, Text("100"), "Lookups under way per subtask."),
    j("table.exec.async-lookup.timeout", TIME, Text("3 min"), "Longest lookup, retries included."),
    j("table.exec.async-lookup.output-mode", OUTPUT_MODE, Text("ORDERED"), "Order of the results of lookups."),
    j("table.exec.async-lookup.key-ordered-enabled", BOOL, Text("false"), "Keep the order of rows of one key."),
    j("table.exec.async-scalar.max-concurrent-operations", AT_LEAST_ONE, Text("10"), "Function calls under way per subtask.").alias(&["table.exec.async-scalar.buffer-capacity"]),
    j("table.exec.async-scalar.timeout", TIME, Text("3 min"), "Longest function call, retries included."),
    j("table.exec.async-scalar.retry-strategy", Kind::Enum(&["FIXED_DELAY", "NO_RETRY"]), Text("FIXED_DELAY"), "How function calls are retried."),
    j("table.exec.async-scalar.retry-delay", TIME, Text("100 ms"), "Wait before a retry."),
    j("table.exec.async-scalar.max-attempts", AT_LEAST_ONE, Text("3"), "Attempts of a function call."),
    j("table.exec.async-table.*", Kind::Any, NONE, "Asynchronous table functions."),
    j("table.exec.async-ml-predict.max-concurrent-operations", AT_LEAST_ONE, Text("10"), "Model calls under way per subtask."),
    j("table.exec.async-ml-predict.output-mode", OUTPUT_MODE, Text("ORDERED"), "Order of the results of model calls."),
    j("table.exec.async-ml-predict.timeout", TIME, Text("3 min"), "Longest model call."),
    j("table.exec.async-vector-search.*", Kind::Any, NONE, "Vector searches."),
];
