//! Joins of every type with one key in most rows: divided among tasks they give the rows of an undivided join, and say so.

use thalweg_integration_tests::cluster::{Cluster, Options};
use thalweg_integration_tests::compare::{Expected, Order, compare};
use thalweg_integration_tests::data::{parquet_table, write_batch};
use thalweg_integration_tests::joins::{JOINS, query, table};
use thalweg_integration_tests::oracle::Oracle;
use thalweg_integration_tests::random_sql::Dice;

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
