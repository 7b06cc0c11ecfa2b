//! Joins of every type with one key in most rows: divided among tasks they give the rows of an undivided join, and say so.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use thalweg_integration_tests::cluster::{Cluster, Options};
use thalweg_integration_tests::compare::{Expected, Order, compare};
use thalweg_integration_tests::data::{parquet_table, write_batch};
use thalweg_integration_tests::oracle::Oracle;
use thalweg_integration_tests::random_sql::Dice;

const HOT: i64 = 7;

/// `rows` keys below 200 of which `hot` per cent are the hot one and a few are NULL, and a value that is sometimes NULL.
fn table(dice: &mut Dice, rows: u64, hot: u64) -> RecordBatch {
    let mut key = |_| match (dice.chance(hot), dice.below(40)) {
        (true, _) => Some(HOT),
        (false, 0) => None,
        _ => Some(dice.below(200) as i64),
    };
    let keys: ArrayRef = Arc::new((0..rows).map(&mut key).collect::<Int64Array>());
    let value = |row: u64| (!row.is_multiple_of(11)).then_some(row as i64);
    let values: ArrayRef = Arc::new((0..rows).map(value).collect::<Int64Array>());
    RecordBatch::try_from_iter_with_nullable([("k", keys, true), ("v", values, true)]).unwrap()
}

/// Joins of the big and the small table, and whether the big one's side may be divided.
const JOINS: [(&str, bool); 12] = [
    ("big a JOIN small b ON a.k = b.k", true),
    ("small b JOIN big a ON a.k = b.k", true),
    ("big a LEFT JOIN small b ON a.k = b.k", true),
    ("small b LEFT JOIN big a ON a.k = b.k", false),
    ("small b RIGHT JOIN big a ON a.k = b.k", true),
    ("big a RIGHT JOIN small b ON a.k = b.k", false),
    ("big a FULL JOIN small b ON a.k = b.k", false),
    ("big a LEFT JOIN small b ON a.k = b.k AND a.v > b.v", true),
    ("big a WHERE EXISTS (SELECT 1 FROM small b WHERE b.k = a.k)", true),
    ("big a WHERE NOT EXISTS (SELECT 1 FROM small b WHERE b.k = a.k)", true),
    ("small a WHERE EXISTS (SELECT 1 FROM big b WHERE b.k = a.k)", false),
    ("small a WHERE NOT EXISTS (SELECT 1 FROM big b WHERE b.k = a.k)", false),
];

fn query(join: &str) -> String {
    let columns = if join.contains("EXISTS") {
        "COUNT(*), COUNT(a.k), SUM(a.v)"
    } else {
        "COUNT(*), COUNT(a.k), COUNT(b.k), SUM(a.v), SUM(b.v)"
    };
    format!("SELECT {columns} FROM {join}")
}

/// Everything that is more than the median is hot, and a share is small.
const SKEWED: [(&str, &str); 5] = [
    ("execution.batch.single-task-threshold", "0"),
    ("table.optimizer.join.broadcast-threshold", "-1"),
    ("execution.batch.adaptive.auto-parallelism.avg-data-volume-per-task", "16 kb"),
    ("table.optimizer.skewed-join-optimization.skewed-factor", "1.5"),
    ("table.optimizer.skewed-join-optimization.skewed-threshold", "8 kb"),
];

/// Compares the answer; whether a side was divided.
fn run(cluster: &Cluster, script: &str, settings: &[(&str, &str)], expected: &Expected) -> Result<bool, String> {
    let submitted = cluster.wire.submit(script, settings)?;
    compare(expected, &cluster.wire.rows(&submitted.ticket)?, &Order::Any)?;
    let job = cluster.wire.job(&submitted.job_id)?;
    Ok(job.decisions.iter().any(|decision| decision.rule == "skewed-join"))
}

fn check(seed: u64, big: (u64, u64), small: (u64, u64), grid: bool) {
    let mut dice = Dice::new(seed);
    let (big, small) = (table(&mut dice, big.0, big.1), table(&mut dice, small.0, small.1));
    let cluster = Cluster::start(Options::new(2, 2));
    let mut tables = String::new();
    for (name, batch, files) in [("big", &big, 5), ("small", &small, 2)] {
        write_batch(&cluster.data().join(name), batch, files);
        tables += &parquet_table(name, "k BIGINT, v BIGINT", &cluster.data().join(name));
    }
    let oracle = Oracle::new([("big", big), ("small", small)]).unwrap();
    let mut failures = Vec::new();
    for (join, big_is_divisible) in JOINS {
        let text = query(join);
        let expected = oracle.answer(&text).unwrap();
        for most in ["2", "5", "16", "128"] {
            let mut settings = SKEWED.to_vec();
            settings.push(("execution.batch.adaptive.auto-parallelism.max-parallelism", most));
            match run(&cluster, &format!("{tables}{text};"), &settings, &expected) {
                Err(why) => failures.push(format!("at most {most} tasks: {text}\n  {why}")),
                // few tasks may leave nothing to divide
                Ok(divided) if most == "128" && divided != (big_is_divisible || grid && !join.contains("FULL")) => {
                    failures.push(format!("divided: {divided}: {text}"));
                }
                Ok(_) => {}
            }
        }
    }
    assert!(failures.is_empty(), "seed {seed}: {} wrong\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn one_hot_side_is_divided_where_the_join_allows_it() {
    check(1, (60_000, 80), (300, 1), false);
}

#[test]
fn two_hot_sides_make_a_grid() {
    check(2, (8_000, 60), (4_000, 50), true);
}
