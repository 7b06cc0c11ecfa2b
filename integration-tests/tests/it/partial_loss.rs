//! Part of a finished stage is lost while its consumers need it: only what was lost is made again, and a stage whose rows depend on
//! chance never shows its consumers two versions of itself.
//!
//! One TaskManager is paused before the job starts, so that its maps cannot end; when the other one has finished a map it is killed,
//! and the paused one goes on alone.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use thalweg_integration_tests::cluster::{Cluster, Options};
use thalweg_integration_tests::csv::Table;
use thalweg_integration_tests::data::{parquet_table, write_parquet};
use thalweg_integration_tests::faults::{self, Progress};
use thalweg_proto::v1::GetJobResponse;

const DISTRIBUTED: [(&str, &str); 1] = [("execution.batch.single-task-threshold", "0")];
const LIMIT: Duration = Duration::from_secs(120);

/// Enough for four maps: 16 MB are one task's share.
const ROWS: i64 = 4_000_000;

struct Struck {
    table: Table,
    job: GetJobResponse,
    victim: String,
}

/// Two TaskManagers with two slots each over eight files of facts (`k` = id mod 1000).
fn cluster_with_facts() -> (Cluster, String) {
    let cluster = Cluster::start(Options::new(2, 2));
    let dir = cluster.data().join("facts");
    write_parquet(&dir, ROWS, 8, &[("id", |i| i), ("k", |i| i % 1000)]);
    let table = parquet_table("facts", "id BIGINT, k BIGINT", &dir);
    (cluster, table)
}

/// Of two TaskManagers the one that is not `survivor` dies; another one is started in its place.
fn strike(cluster: &mut Cluster, script: &str, survivor: usize) -> Struck {
    cluster.pause(survivor);
    let job = cluster.wire.submit(script, &DISTRIBUTED).unwrap();
    let victim = faults::await_moment(&cluster.wire, &job.job_id, LIMIT, Progress::finished_while_running).unwrap();
    let index = cluster.index_of(&victim).unwrap();
    assert_ne!(index, survivor, "a paused TaskManager finished a map");
    cluster.kill9(index);
    cluster.resume(survivor);
    let table = cluster.wire.rows(&job.ticket).unwrap();
    let job = cluster.wire.job(&job.job_id).unwrap();
    cluster.start_task_manager();
    Struck { table, job, victim }
}

#[test]
fn only_lost_output_is_made_again() {
    let (mut cluster, facts) = cluster_with_facts();
    let start = Instant::now();
    let struck = strike(&mut cluster, &format!("{facts}SELECT k, COUNT(*), SUM(id) FROM facts GROUP BY k;"), 1);
    assert!(start.elapsed() < Duration::from_secs(60), "the job took {:?}", start.elapsed());

    let per_group = ROWS / 1000;
    let sum = |k: i64| per_group * k + 1000 * (per_group * (per_group - 1) / 2);
    let mut expected: Vec<String> = (0..1000).map(|k| format!("{k},{per_group},{}", sum(k))).collect();
    expected.sort();
    assert_eq!(struck.table.bag(), expected);

    let repeated = faults::repeated_tasks(&struck.job);
    assert!(!repeated.is_empty(), "a TaskManager was lost, but nothing was made again");
    let attempts = struck.job.stages.iter().flat_map(|s| &s.attempts);
    let reset = attempts.filter(|a| a.task_manager == struck.victim && a.state == "reset").count();
    assert!(reset > 0, "output of {} is lost, but no attempt on it says so", struck.victim);
    // A map that finished on the survivor keeps its output.
    for stage in &struck.job.stages {
        let lost: BTreeSet<u32> =
            stage.attempts.iter().filter(|a| a.task_manager == struck.victim).map(|a| a.task).collect();
        for (_, task, attempts) in repeated.iter().filter(|r| r.0 == stage.stage && stage.inputs.is_empty()) {
            assert!(
                lost.contains(task),
                "stage {} task {task} was never on {} but ran {attempts} times",
                stage.stage,
                struck.victim
            );
        }
    }
}

#[test]
fn rows_placed_by_chance_are_placed_once() {
    let (mut cluster, facts) = cluster_with_facts();
    let placed = "(SELECT id, b, ROW_NUMBER() OVER (PARTITION BY b ORDER BY id) AS rn \
                  FROM (SELECT id, CAST(RAND() * 8 AS INT) AS b FROM facts) draws) placed";
    let totals = format!("{facts}SELECT COUNT(*), COUNT(DISTINCT id), SUM(id) FROM {placed};");
    let expected = format!("{ROWS},{ROWS},{}", ROWS * (ROWS - 1) / 2);
    let calm = cluster.sql(&totals, &DISTRIBUTED).unwrap();
    assert_eq!(calm.bag(), std::slice::from_ref(&expected), "without a fault");
    let struck = strike(&mut cluster, &totals, 1);
    assert_eq!(struck.table.bag(), [expected], "after a kill");

    // Within each b the numbers run from 1 to the count: as many distinct ones, and their sum.
    let gaps = format!(
        "{facts}SELECT SUM(n), COUNT(CASE WHEN lo <> 1 OR hi <> n OR d <> n THEN 1 END) FROM (SELECT b, COUNT(*) AS n, \
         COUNT(DISTINCT rn) AS d, MIN(rn) AS lo, MAX(rn) AS hi FROM {placed} GROUP BY b) per_b;"
    );
    let struck = strike(&mut cluster, &gaps, 2);
    assert_eq!(struck.table.bag(), [format!("{ROWS},0")], "after a kill");
}
