//! Joins whose small side is known only when it has run: every task reads it whole, and the big side is never written.

use thalweg_integration_tests::cluster::{Cluster, Options};
use thalweg_integration_tests::compare::{Expected, Order, compare};
use thalweg_integration_tests::data::{parquet_table, write_batch};
use thalweg_integration_tests::joins::{JOINS, query, table};
use thalweg_integration_tests::oracle::Oracle;
use thalweg_integration_tests::random_sql::Dice;

const RUNS: u64 = 3;

/// Nothing is known to be small by its files.
const AT_RUN_TIME: [(&str, &str); 3] = [
    ("execution.batch.single-task-threshold", "0"),
    ("table.optimizer.adaptive-broadcast-join.strategy", "runtime_only"),
    ("table.optimizer.join.broadcast-threshold", "64 kb"),
];

struct Tables {
    cluster: Cluster,
    ddl: String,
    oracle: Oracle,
}

impl Tables {
    fn new(seed: u64) -> Tables {
        let mut dice = Dice::new(seed);
        let (big, small) = (table(&mut dice, 40_000, 10), table(&mut dice, 300, 1));
        let cluster = Cluster::start(Options::new(2, 2));
        let mut ddl = String::new();
        for (name, batch, files) in [("big", &big, 5), ("small", &small, 2)] {
            write_batch(&cluster.data().join(name), batch, files);
            ddl += &parquet_table(name, "k BIGINT, v BIGINT", &cluster.data().join(name));
        }
        let oracle = Oracle::new([("big", big), ("small", small)]).unwrap();
        Tables { cluster, ddl, oracle }
    }

    /// Compares the answer; how many joins never wrote their streamed side.
    fn run(&self, text: &str, settings: &[(&str, &str)], expected: &Expected) -> Result<usize, String> {
        let wire = &self.cluster.wire;
        let submitted = wire.submit(&format!("{}{text};", self.ddl), settings)?;
        compare(expected, &wire.rows(&submitted.ticket)?, &Order::Any)?;
        let job = wire.job(&submitted.job_id)?;
        let decisions = job.decisions.iter().filter(|d| d.rule == "broadcast-join");
        Ok(decisions.filter(|d| d.outcome.contains("is never written")).count())
    }
}

#[test]
fn a_side_that_turns_out_small_is_broadcast_where_the_join_allows_it() {
    let tables = Tables::new(3);
    let mut failures = Vec::new();
    for (join, big_may_be_spread) in JOINS {
        let text = query(join);
        let expected = tables.oracle.answer(&text).unwrap();
        for _ in 0..RUNS {
            match tables.run(&text, &AT_RUN_TIME, &expected) {
                Err(why) => failures.push(format!("{text}\n  {why}")),
                Ok(joins) if joins != usize::from(big_may_be_spread) => {
                    failures.push(format!("{joins} broadcast joins: {text}"));
                }
                Ok(_) => {}
            }
        }
        let off = [
            AT_RUN_TIME[0],
            ("table.optimizer.adaptive-broadcast-join.strategy", "none"),
            ("table.optimizer.join.broadcast-threshold", "1"),
        ];
        match tables.run(&text, &off, &expected) {
            Ok(0) => {}
            other => failures.push(format!("switched off: {other:?}: {text}")),
        }
    }
    assert!(failures.is_empty(), "{} wrong\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn a_chain_of_joins_is_one_pipeline_over_the_big_table() {
    let tables = Tables::new(4);
    let text = "SELECT COUNT(*), SUM(a.v), SUM(b.v), SUM(c.k) FROM big a JOIN small b ON a.k = b.k LEFT JOIN small c ON a.v = c.v";
    let expected = tables.oracle.answer(text).unwrap();
    assert_eq!(tables.run(text, &AT_RUN_TIME, &expected), Ok(2));
    // the small table passes the limit: both sides are distributed
    let tight = [AT_RUN_TIME[0], AT_RUN_TIME[1], ("table.optimizer.join.broadcast-threshold", "1 kb")];
    assert_eq!(tables.run(text, &tight, &expected), Ok(0));
}
