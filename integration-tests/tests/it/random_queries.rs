//! Random queries, answered by two TaskManagers with two slots each and by DataFusion on one partition: the same rows.
//!
//! `RANDOM_SEEDS=500 RANDOM_FROM=1000` runs more, others, or one again; a failure prints its seed.

use thalweg_integration_tests::cluster::{Cluster, Options};
use thalweg_integration_tests::compare::{Order, compare};
use thalweg_integration_tests::data::{parquet_table, write_batch};
use thalweg_integration_tests::oracle::Oracle;
use thalweg_integration_tests::random_sql::{Dice, inputs, query};

/// Queries per set of tables.
const QUERIES: u64 = 25;
/// As much as can be runs in several tasks, joins run in the cheapest order, and every scan is filtered by the joins and top-n's
/// above it.
const DISTRIBUTED: [(&str, &str); 4] = [
    ("table.optimizer.join-reorder-enabled", "true"),
    ("execution.batch.single-task-threshold", "0"),
    ("table.optimizer.runtime-filter.min-probe-data-size", "0"),
    ("table.optimizer.runtime-filter.min-filter-ratio", "0"),
];
/// The same, with no side small enough to be broadcast, and every part of a join's input that is above the median divided.
const DIVIDED: [(&str, &str); 6] = [
    ("table.optimizer.join-reorder-enabled", "true"),
    ("execution.batch.single-task-threshold", "0"),
    ("table.optimizer.join.broadcast-threshold", "-1"),
    ("execution.batch.adaptive.auto-parallelism.avg-data-volume-per-task", "1 kb"),
    ("table.optimizer.skewed-join-optimization.skewed-factor", "1"),
    ("table.optimizer.skewed-join-optimization.skewed-threshold", "0"),
];
/// The same, with nothing known to be small before it has run, and everything small once it has.
const BROADCAST: [(&str, &str); 6] = [
    ("table.optimizer.join-reorder-enabled", "true"),
    ("execution.batch.single-task-threshold", "0"),
    ("table.optimizer.runtime-filter.min-probe-data-size", "0"),
    ("table.optimizer.runtime-filter.min-filter-ratio", "0"),
    ("table.optimizer.adaptive-broadcast-join.strategy", "runtime_only"),
    ("table.optimizer.join.broadcast-threshold", "1 gb"),
];

fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|e| panic!("{name}={text}: {e}")))
}

fn check(cluster: &Cluster, tables: &str, oracle: &Oracle, text: &str) -> Result<(), String> {
    let expected = oracle.answer(text).map_err(|e| format!("the oracle cannot: {e}"))?;
    let keys = if text.contains("ORDER BY a.k") { Order::By(vec![1, 0]) } else { Order::Any };
    for settings in [&DISTRIBUTED[..], &DIVIDED, &BROADCAST] {
        let actual = cluster.sql(&format!("{tables}{text};"), settings)?;
        compare(&expected, &actual, &keys).map_err(|why| format!("with {settings:?}: {why}"))?;
    }
    Ok(())
}

#[test]
fn many_tasks_answer_as_one() {
    let cluster = Cluster::start(Options::new(2, 2));
    let mut failures = Vec::new();
    let from = variable("RANDOM_FROM", 1);
    for seed in from..from + variable("RANDOM_SEEDS", 4) {
        let inputs = inputs(seed);
        let dir = cluster.data().join(format!("seed-{seed}"));
        for input in &inputs {
            write_batch(&dir.join(input.name), &input.batch, 3);
        }
        let tables: String = inputs.iter().map(|i| parquet_table(i.name, i.columns, &dir.join(i.name))).collect();
        let oracle = Oracle::new(inputs.iter().map(|i| (i.name, i.batch.clone()))).unwrap();
        for n in 0..QUERIES {
            let text = query(&mut Dice::new(seed * 1000 + n));
            if let Err(why) = check(&cluster, &tables, &oracle, &text) {
                failures.push(format!("RANDOM_FROM={seed}, query {n}: {text}\n  {why}"));
            }
        }
    }
    assert!(failures.is_empty(), "{} differ\n{}", failures.len(), failures.join("\n"));
}

/// What the generator makes can be run at all: the oracle takes every query.
#[test]
fn the_oracle_takes_every_query() {
    let inputs = inputs(1);
    let oracle = Oracle::new(inputs.iter().map(|i| (i.name, i.batch.clone()))).unwrap();
    for seed in 0..300 {
        let text = query(&mut Dice::new(seed));
        let answer = oracle.answer(&text).unwrap_or_else(|e| panic!("seed {seed}: {text}: {e}"));
        assert!(answer.table.rows.len() < 1_000_000, "seed {seed}: {text} has {} rows", answer.table.rows.len());
    }
}
