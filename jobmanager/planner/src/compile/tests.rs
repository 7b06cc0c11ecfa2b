//! The cut, proved by running it: every stage with several tasks over an in-memory exchange, against the library running the
//! same statement in one process.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;

use arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use arrow::compute::{concat_batches, take_record_batch};
use arrow::datatypes::SchemaRef;
use arrow::util::display::array_value_to_string;
use async_trait::async_trait;
use datafusion::error::Result;
use datafusion::execution::memory_pool::UnboundedMemoryPool;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{TryStreamExt, stream};
use thalweg_connectors::AccessRules;
use thalweg_exec::RuntimeFilterRule;
use thalweg_exec::environment::{LocalAggregates, OperatorOptions, TaskEnvironment};
use thalweg_exec::fragment::Fragment;
use thalweg_exec::io::{TaskInputs, TaskIo, TaskSplits};
use thalweg_exec::stable_hash::{hash_columns, subpartition};
use thalweg_graph::{ExchangeKind, Parallelism, PlanTemplate, Stage};
use thalweg_types::Fault;

use super::CompiledQuery;
use crate::sql::parse_statement;
use crate::{JoinOrderOptions, Outcome, PlannerOptions, RuntimeFilterOptions, Session};

/// `[map][subpartition]` of one exchange.
type Maps = Vec<Vec<Vec<RecordBatch>>>;

struct MemoryInputs {
    /// Per slot: what each map wrote, the interval that is ours, whether maps are kept apart.
    slots: Vec<(Arc<Maps>, std::ops::Range<usize>, bool)>,
}

impl TaskInputs for MemoryInputs {
    fn partitions(&self, slot: usize) -> usize {
        let (maps, _, per_map) = &self.slots[slot];
        if *per_map { maps.len() } else { 1 }
    }

    fn open(&self, slot: usize, partition: usize, schema: SchemaRef) -> Result<SendableRecordBatchStream> {
        let (maps, interval, per_map) = &self.slots[slot];
        let wanted = maps.iter().enumerate().filter(|(map, _)| !per_map || *map == partition);
        let batches: Vec<_> = wanted
            .flat_map(|(_, subpartitions)| subpartitions[interval.clone()].iter().flatten())
            .map(|batch| Ok(batch.clone()))
            .collect();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream::iter(batches))))
    }
}

struct SharedSplits(Vec<Mutex<std::collections::VecDeque<Arc<[u8]>>>>);

#[async_trait]
impl TaskSplits for SharedSplits {
    async fn next(&self, slot: usize) -> Result<Option<Arc<[u8]>>> {
        Ok(self.0[slot].lock().unwrap().pop_front())
    }
}

async fn run_task(
    stage: &Stage,
    kind: ExchangeKind,
    inputs: MemoryInputs,
    splits: Arc<SharedSplits>,
    environment: &TaskEnvironment,
) -> Vec<Vec<RecordBatch>> {
    let io = TaskIo { inputs: Arc::new(inputs), splits, access: AccessRules { allowed_roots: vec![] } };
    let pool = Arc::new(UnboundedMemoryPool::default());
    // some local aggregates stop, some do not
    let local_aggregates = LocalAggregates::StopIfUseless { rows: 20, groups_per_row: 0.5 };
    let options = OperatorOptions { batch_size: 512, local_aggregates };
    let context: Arc<TaskContext> = environment.task_context("test".into(), pool, io, &options);
    let fragment = Fragment::decode(&stage.parts, stage.inputs.len(), &context).unwrap();
    let plan: Arc<dyn ExecutionPlan> = Arc::clone(&fragment.plan);
    let batches: Vec<RecordBatch> = plan.execute(0, context).unwrap().try_collect().await.unwrap();
    let n = kind.subpartitions() as usize;
    let mut out = vec![vec![]; n];
    for batch in batches {
        let Some(keys) = &fragment.hash_keys else {
            out[0].push(batch);
            continue;
        };
        let columns: Vec<ArrayRef> =
            keys.iter().map(|k| k.evaluate(&batch).unwrap().into_array(batch.num_rows()).unwrap()).collect();
        let mut hashes = vec![];
        hash_columns(&columns, &mut hashes).unwrap();
        hashes.resize(batch.num_rows(), 0);
        let mut rows: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
        for (row, hash) in hashes.iter().enumerate() {
            rows.entry(subpartition(*hash, n as u32) as usize).or_default().push(row as u32);
        }
        for (subpartition, rows) in rows {
            out[subpartition].push(take_record_batch(&batch, &UInt32Array::from(rows)).unwrap());
        }
    }
    out
}

/// Runs every stage with `tasks` tasks where it may have several.
async fn run(template: &PlanTemplate, tasks: usize) -> Vec<RecordBatch> {
    let dir = tempfile::tempdir().unwrap();
    let environment = TaskEnvironment::new(vec![dir.path().to_owned()]).unwrap();
    let mut exchanges: Vec<Arc<Maps>> = vec![];
    for stage in &template.stages {
        let kind = template.exchange(stage.output).kind;
        let tasks = if stage.parallelism == Parallelism::Single { 1 } else { tasks };
        let queues =
            stage.sources.iter().map(|s| Mutex::new(s.splits.iter().map(|s| Arc::clone(&s.payload)).collect()));
        let splits = Arc::new(SharedSplits(queues.collect()));
        let mut maps = vec![];
        for task in 0..tasks {
            let slot = |input: &thalweg_graph::StageInput| {
                let n = template.exchange(input.exchange).kind.subpartitions() as usize;
                let is_hash = template.exchange(input.exchange).kind.is_hash();
                let interval = if is_hash { task * n / tasks..(task + 1) * n / tasks } else { 0..n };
                (Arc::clone(&exchanges[input.exchange.index()]), interval, input.per_map)
            };
            let inputs = MemoryInputs { slots: stage.inputs.iter().map(slot).collect() };
            maps.push(run_task(stage, kind, inputs, Arc::clone(&splits), &environment).await);
        }
        exchanges.push(Arc::new(maps));
    }
    exchanges.last().unwrap().iter().flatten().flatten().cloned().collect()
}

fn options(single_task_threshold: u64, broadcast_threshold: u64) -> PlannerOptions {
    PlannerOptions {
        access: AccessRules { allowed_roots: vec![] },
        single_task_threshold,
        broadcast_threshold,
        join_order: Some(JoinOrderOptions { bushy_threshold: 12, broadcast_bytes: broadcast_threshold }),
        runtime_filters: Some(RuntimeFilterOptions {
            min_probe_bytes: 0,
            rule: RuntimeFilterRule { min_ratio: 0.0, max_build_bytes: 1 << 30 },
        }),
        max_parallelism: 8,
        time_zone: "UTC".into(),
        batch_size: 512,
    }
}

const TPCH: [&str; 8] = ["region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem"];

async fn tpch_session() -> Session {
    let mut session = Session::new();
    for table in TPCH {
        let create = format!("CREATE TABLE {table} WITH ('connector' = 'tpch', 'scale-factor' = '0.01')");
        session.run(&parse_statement(&create).unwrap(), &options(0, 0)).await.unwrap();
    }
    session
}

async fn compiled(session: &mut Session, sql: &str, options: &PlannerOptions) -> CompiledQuery {
    match session.run(&parse_statement(sql).unwrap(), options).await.unwrap_or_else(|e| panic!("{sql}: {e}")) {
        Outcome::Query(query) => *query,
        _ => panic!("{sql} is no query"),
    }
}

fn rows(batches: &[RecordBatch]) -> Vec<String> {
    let Some(first) = batches.first() else { return vec![] };
    let all = concat_batches(&first.schema(), batches).unwrap();
    let cell = |row| move |column: &ArrayRef| array_value_to_string(column, row).unwrap();
    (0..all.num_rows()).map(|row| all.columns().iter().map(cell(row)).collect::<Vec<_>>().join("|")).collect()
}

/// The same rows from one task and from three, with and without broadcast joins.
async fn check(session: &mut Session, sql: &str) {
    let single = compiled(session, sql, &options(u64::MAX, 0)).await;
    assert_eq!(single.template.stages.len(), 1, "{}", single.explain);
    let mut expected = rows(&run(&single.template, 1).await);
    let ordered = sql.to_lowercase().contains("order by");
    for broadcast in [0, 1 << 20] {
        let query = compiled(session, sql, &options(0, broadcast)).await;
        for tasks in [1, 3] {
            let mut found = rows(&run(&query.template, tasks).await);
            if !ordered {
                expected.sort();
                found.sort();
            }
            assert_eq!(expected, found, "{sql}\n{tasks} tasks\n{}", query.explain);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tpch_in_stages_gives_what_one_task_gives() {
    let mut session = tpch_session().await;
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../integration-tests/tpch/queries");
    for query in 1..=22 {
        let sql = std::fs::read_to_string(format!("{dir}/q{query:02}.sql")).unwrap();
        let sql = sql.replace("__FRACTION__", "0.01");
        check(&mut session, sql.trim().trim_end_matches(';')).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shapes_that_need_care() {
    let mut session = tpch_session().await;
    for sql in [
        "SELECT 1",
        "SELECT COUNT(*) FROM nation WHERE n_name = 'nowhere'",
        "SELECT COUNT(*), SUM(n_nationkey) FROM nation",
        "SELECT x FROM (VALUES (1), (2), (NULL)) v(x)",
        // constants beside tables: produced once, at any number of tasks
        "SELECT COUNT(*) FROM (SELECT x FROM (VALUES (1), (2), (3)) v(x) UNION ALL SELECT n_nationkey FROM nation) q",
        "SELECT COUNT(*) AS c FROM (VALUES (1), (2)) v(x) UNION ALL SELECT n_nationkey FROM nation",
        "SELECT * FROM (SELECT n_name FROM nation ORDER BY n_name LIMIT 3) UNION ALL SELECT r_name FROM region",
        "SELECT n_regionkey, COUNT(*) FROM (SELECT n_regionkey FROM nation UNION ALL SELECT r_regionkey FROM region) u GROUP BY n_regionkey",
        "SELECT v.x, n_name FROM (VALUES (1)) v(x) LEFT JOIN (SELECT * FROM nation WHERE n_nationkey > 100) n ON v.x = n_nationkey",
        // joins without keys, and of types that may see the build side only once
        "SELECT COUNT(*) FROM nation, region WHERE n_nationkey > r_regionkey",
        "SELECT n_name, r_name FROM nation LEFT JOIN region ON n_nationkey < r_regionkey - 2 ORDER BY n_name, r_name",
        "SELECT n_name, r_name FROM nation FULL JOIN region ON n_nationkey < r_regionkey - 3 ORDER BY n_name, r_name",
        "SELECT n_name, r_name FROM nation FULL JOIN region ON n_regionkey = r_regionkey AND n_nationkey > 12 ORDER BY n_name, r_name",
        "SELECT COUNT(*) FROM orders WHERE o_custkey NOT IN (SELECT c_custkey FROM customer WHERE c_nationkey < 12)",
        "SELECT COUNT(*) FROM orders WHERE o_custkey NOT IN (SELECT CASE WHEN c_custkey > 5 THEN c_custkey END FROM customer)",
        "SELECT COUNT(*) FROM customer WHERE EXISTS (SELECT 1 FROM nation WHERE n_nationkey > c_nationkey + 20)",
        "SELECT c_name FROM customer WHERE NOT EXISTS (SELECT 1 FROM orders WHERE o_custkey = c_custkey) ORDER BY c_name LIMIT 5",
        "SELECT n_name, (SELECT COUNT(*) FROM region) AS c FROM nation ORDER BY n_name",
        // order and windows
        "SELECT o_orderkey FROM orders ORDER BY o_totalprice DESC, o_orderkey",
        "SELECT o_orderkey, ROW_NUMBER() OVER (PARTITION BY o_custkey ORDER BY o_orderkey) AS rn FROM orders ORDER BY o_orderkey",
        "SELECT n_name, SUM(n_nationkey) OVER (ORDER BY n_name) AS s FROM nation ORDER BY n_name",
        "SELECT n_nationkey FROM nation ORDER BY n_name LIMIT 4 OFFSET 3",
        "SELECT COUNT(*) FROM (SELECT l_orderkey FROM lineitem LIMIT 1000) x",
        // distinct and grouping sets
        "SELECT COUNT(DISTINCT o_custkey), COUNT(DISTINCT o_clerk) FROM orders",
        "SELECT o_orderpriority, o_orderstatus, COUNT(*) AS c FROM orders GROUP BY CUBE (o_orderpriority, o_orderstatus) ORDER BY 1, 2, 3",
        "SELECT n_regionkey FROM nation INTERSECT SELECT r_regionkey FROM region",
        "SELECT n_nationkey FROM nation EXCEPT SELECT r_regionkey FROM region",
    ] {
        let single = compiled(&mut session, sql, &options(u64::MAX, 0)).await;
        assert!(single.template.validate().is_ok());
        check(&mut session, sql).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expression_that_no_task_could_decode_is_refused_here() {
    let mut session = tpch_session().await;
    let nested =
        |levels: usize| format!("SELECT {}n_nationkey{} AS v FROM nation", "ABS(".repeat(levels), ")".repeat(levels));
    check(&mut session, &nested(10)).await;
    let outcome = session.run(&parse_statement(&nested(60)).unwrap(), &options(0, 0)).await;
    let error = outcome.err().map(|e| (e.fault(), e.to_string()));
    assert!(matches!(&error, Some((Fault::User, text)) if text.contains("too many levels")), "{error:?}");
}

/// Keys of the hash exchanges whose subpartitions may be divided among the tasks of their reader.
fn divisible(query: &CompiledQuery) -> Vec<String> {
    let inputs = query.template.stages.iter().flat_map(|stage| &stage.inputs).filter(|input| input.divisible);
    let key = |keys: &str| keys.split('@').next().unwrap_or_default().to_owned();
    let mut keys: Vec<String> = inputs.map(|i| key(&query.template.exchange(i.exchange).keys)).collect();
    keys.sort();
    keys
}

#[tokio::test]
async fn only_what_is_looked_at_row_by_row_may_be_divided() {
    let mut session = tpch_session().await;
    let join =
        |kind: &str| format!("SELECT o_orderkey, c_name FROM orders {kind} JOIN customer ON o_custkey = c_custkey");
    let grouped =
        |by: &str| format!("SELECT {by}, COUNT(*) FROM orders JOIN customer ON o_custkey = c_custkey GROUP BY {by}");
    for (sql, expected) in [
        (join("INNER"), vec!["c_custkey", "o_custkey"]),
        (join("LEFT"), vec!["o_custkey"]),
        (join("RIGHT"), vec!["c_custkey"]),
        (join("FULL"), vec![]),
        (format!("{} ORDER BY o_orderkey", join("INNER")), vec!["c_custkey", "o_custkey"]),
        (format!("{} AND RAND() * o_totalprice < c_acctbal", join("LEFT")), vec![]),
        (
            "SELECT o_orderkey FROM orders WHERE EXISTS (SELECT 1 FROM customer WHERE c_custkey = o_custkey)".into(),
            vec!["o_custkey"],
        ),
        (
            "SELECT o_orderkey FROM orders WHERE NOT EXISTS (SELECT 1 FROM customer WHERE c_custkey = o_custkey)"
                .into(),
            vec!["o_custkey"],
        ),
        // the aggregate of a key needs all its rows: beside the join where its key is the join's, behind an exchange otherwise
        (grouped("o_custkey"), vec![]),
        (grouped("c_nationkey"), vec!["c_custkey", "o_custkey"]),
    ] {
        let query = compiled(&mut session, &sql, &options(0, 0)).await;
        assert_eq!(divisible(&query), expected, "{sql}\n{}", query.explain);
    }
}

#[test]
fn subpartitions_follow_the_greatest_parallelism() {
    for (max, expected) in [(1, 512), (64, 512), (65, 1024), (128, 1024), (1024, 1024), (2000, 2048), (1 << 20, 65_536)]
    {
        assert_eq!(super::subpartitions(max), expected, "{max}");
    }
}
