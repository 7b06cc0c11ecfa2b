//! Scans leave out rows that the joins and top-n's of their task have no use for: the same answers, fewer rows decoded.

use thalweg_integration_tests::cluster::{Cluster, Options};
use thalweg_integration_tests::compare::{Order, compare};
use thalweg_integration_tests::csv::Table;
use thalweg_integration_tests::data::{parquet_table, write_batch, write_parquet};
use thalweg_integration_tests::joins::{JOINS, query, table};
use thalweg_integration_tests::oracle::Oracle;
use thalweg_integration_tests::random_sql::Dice;

/// Filters that are applied whatever they remove.
const ALWAYS: [(&str, &str); 4] = [
    ("execution.batch.single-task-threshold", "0"),
    ("table.optimizer.join.broadcast-threshold", "1 gb"),
    ("table.optimizer.runtime-filter.min-probe-data-size", "0"),
    ("table.optimizer.runtime-filter.min-filter-ratio", "0"),
];
const NEVER: [(&str, &str); 3] = [ALWAYS[0], ALWAYS[1], ("table.optimizer.runtime-filter.enabled", "false")];

/// The rows, and how many rows runtime filters removed.
fn run(cluster: &Cluster, script: &str, settings: &[(&str, &str)]) -> (Table, u64) {
    let submitted = cluster.wire.submit(script, settings).unwrap_or_else(|why| panic!("{script}: {why}"));
    let rows = cluster.wire.rows(&submitted.ticket).unwrap_or_else(|why| panic!("{script}: {why}"));
    let job = cluster.wire.job(&submitted.job_id).unwrap();
    let removed = job.stages.iter().flat_map(|s| &s.operators).map(|o| o.filtered_rows).sum();
    (rows, removed)
}

/// A build side whose keys are few: of 0 to 199, with NULL among them.
#[test]
fn joins_of_every_type_answer_the_same_with_filters() {
    let mut dice = Dice::new(5);
    let (big, small) = (table(&mut dice, 40_000, 10), table(&mut dice, 12, 1));
    let cluster = Cluster::start(Options::new(2, 2));
    let mut ddl = String::new();
    for (name, batch, files) in [("big", &big, 5), ("small", &small, 1)] {
        write_batch(&cluster.data().join(name), batch, files);
        ddl += &parquet_table(name, "k BIGINT, v BIGINT", &cluster.data().join(name));
    }
    let oracle = Oracle::new([("big", big), ("small", small)]).unwrap();
    let mut failures = Vec::new();
    for (join, _) in JOINS {
        let text = query(join);
        let expected = oracle.answer(&text).unwrap();
        // the outer side keeps all its rows, and so does a side that is read whole before the other
        let inner = ["big a JOIN small b ON a.k = b.k", "small b JOIN big a ON a.k = b.k"].contains(&join);
        for (settings, filters) in [(&ALWAYS[..], true), (&NEVER, false)] {
            let (rows, removed) = run(&cluster, &format!("{ddl}{text};"), settings);
            if let Err(why) = compare(&expected, &rows, &Order::Any) {
                failures.push(format!("{text} with {settings:?}\n  {why}"));
            }
            if (inner && filters && removed < 20_000) || (!filters && removed > 0) {
                failures.push(format!("{removed} rows removed: {text} with {settings:?}"));
            }
        }
    }
    assert!(failures.is_empty(), "{} wrong\n{}", failures.len(), failures.join("\n"));
}

/// Each split of the table is smaller than the last: rows of later ones cannot be among the largest.
#[test]
fn a_top_n_stops_reading_what_cannot_win() {
    let cluster = Cluster::start(Options::new(1, 1));
    let dir = cluster.data().join("facts");
    write_parquet(&dir, 200_000, 8, &[("k", |i| -i), ("v", |i| i % 10)]);
    let script = format!(
        "{}SELECT k, v FROM facts ORDER BY k DESC LIMIT 5;",
        parquet_table("facts", "k BIGINT, v BIGINT", &dir)
    );
    let (rows, _) = run(&cluster, &script, &ALWAYS);
    let (plain, removed) = run(&cluster, &script, &NEVER);
    assert_eq!((rows.rows.len(), removed), (5, 0));
    assert_eq!(rows, plain);
    let submitted = cluster.wire.submit(&script, &ALWAYS).unwrap();
    cluster.wire.rows(&submitted.ticket).unwrap();
    let job = cluster.wire.job(&submitted.job_id).unwrap();
    let scan = job.stages[0].operators.iter().find(|o| o.name.starts_with("SourceExec")).unwrap();
    assert!(scan.output_rows + scan.filtered_rows < 100_000, "{scan:?}: files after the first are skipped whole");
}
