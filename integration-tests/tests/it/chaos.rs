//! Random faults at random moments: a TaskManager or the JobManager is killed or paused while one of a mix of queries runs, and every
//! answer is the calm one. In the end no slot, no file and no job is left.
//!
//! Each round is decided by a seed, which is printed: `CHAOS_FROM=17 CHAOS_ROUNDS=1` repeats round 17. Which moment of the job a
//! fault meets depends on the machine.

use std::time::Duration;

use thalweg_integration_tests::cluster::{Cluster, Options};
use thalweg_integration_tests::csv::Table;
use thalweg_integration_tests::data::{parquet_table, write_parquet};
use thalweg_integration_tests::random_sql::Dice;
use thalweg_integration_tests::wait_until;

const LIMIT: Duration = Duration::from_secs(60);
const ROUNDS: u64 = 8;
const ROWS: i64 = 2_000_000;
/// Small shares make many tasks, and a threshold of a quarter of a megabyte a skewed join.
const SETTINGS: [(&str, &str); 4] = [
    ("execution.batch.single-task-threshold", "0"),
    ("execution.batch.adaptive.auto-parallelism.avg-data-volume-per-task", "1 mb"),
    ("table.optimizer.skewed-join-optimization.skewed-threshold", "256 kb"),
    ("table.optimizer.join.broadcast-threshold", "128 kb"),
];

/// A skewed join, a join whose side turns out small while it runs, aggregations of few and of many groups, two joins in a row.
const QUERIES: [&str; 5] = [
    "SELECT COUNT(*) c, SUM(f.id) s, SUM(d.v) v FROM facts f JOIN wide d ON f.k = d.k",
    "SELECT f.g, COUNT(*) c, SUM(d.v) v FROM facts f JOIN (SELECT k, v FROM wide WHERE v % 1000 = 1) d ON f.k = d.k GROUP BY f.g",
    "SELECT g, COUNT(*) c, SUM(id) s, MIN(k) a, MAX(k) b FROM facts GROUP BY g",
    "SELECT COUNT(*) c, SUM(n) n, MAX(s) s FROM (SELECT id % 300000 m, COUNT(*) n, SUM(id) s FROM facts GROUP BY id % 300000)",
    "SELECT d.v % 7 w, COUNT(*) c, SUM(e.v) s FROM facts f JOIN wide d ON f.k = d.k LEFT JOIN wide e ON f.id = e.k GROUP BY d.v % 7",
];

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{variable}={text}")))
}

/// Facts of which two in five have the key 0, and a table with one row per key.
fn tables(cluster: &Cluster) -> String {
    let facts: [(&str, fn(i64) -> i64); 3] =
        [("id", |i| i), ("k", |i| if i % 5 < 2 { 0 } else { i % 100_000 }), ("g", |i| i % 100)];
    let wide: [(&str, fn(i64) -> i64); 2] = [("k", |i| i), ("v", |i| i * 7 + 1)];
    let dir = cluster.data();
    write_parquet(&dir.join("facts"), ROWS, 8, &facts);
    write_parquet(&dir.join("wide"), 100_000, 2, &wide);
    let facts = parquet_table("facts", "id BIGINT, k BIGINT, g BIGINT", &dir.join("facts"));
    facts + &parquet_table("wide", "k BIGINT, v BIGINT", &dir.join("wide"))
}

fn sorted(mut table: Table) -> Table {
    table.rows.sort();
    table
}

#[derive(Debug)]
enum Fault {
    KillTaskManager(usize),
    KillJobManager,
    KillBoth(usize),
    Pause(usize),
}

fn fault(dice: &mut Dice, living: &[usize]) -> Fault {
    let victim = living[dice.below(living.len() as u64) as usize];
    match dice.below(8) {
        0..=2 => Fault::KillTaskManager(victim),
        3..=5 => Fault::KillJobManager,
        6 => Fault::KillBoth(victim),
        _ => Fault::Pause(victim),
    }
}

/// Does it, and puts things back so that there are as many daemons as before.
fn strike(cluster: &mut Cluster, living: &mut Vec<usize>, fault: &Fault) {
    match *fault {
        Fault::KillTaskManager(victim) => {
            cluster.kill9(victim);
            living.retain(|at| *at != victim);
            living.push(cluster.start_task_manager());
        }
        Fault::KillJobManager => {
            cluster.kill9_jobmanager();
            cluster.restart_jobmanager();
        }
        Fault::KillBoth(victim) => {
            cluster.kill9_jobmanager();
            cluster.kill9(victim);
            cluster.restart_jobmanager();
            living.retain(|at| *at != victim);
            living.push(cluster.start_task_manager());
        }
        Fault::Pause(victim) => {
            cluster.pause(victim);
            // longer than the heartbeat timeout
            std::thread::sleep(Duration::from_secs(3));
            cluster.resume(victim);
        }
    }
}

#[test]
fn answers_are_right_whatever_is_killed() {
    let options = Options::new(3, 2)
        .highly_available()
        .with("heartbeat.interval", "200 ms")
        .with("heartbeat.timeout", "2 s")
        .with("execution.batch.job-recovery.previous-worker.recovery.timeout", "5 s");
    let mut cluster = Cluster::start(options);
    let tables = tables(&cluster);
    let scripts = QUERIES.map(|query| format!("{tables}{query};"));
    let calm = scripts.each_ref().map(|script| sorted(cluster.sql(script, &SETTINGS).unwrap()));
    assert_eq!(calm[0].rows[0][0].as_deref(), Some("2000000"), "every fact has a partner");

    let mut living = vec![0, 1, 2];
    let from = number("CHAOS_FROM", 1);
    for seed in from..from + number("CHAOS_ROUNDS", ROUNDS) {
        let mut dice = Dice::new(seed);
        let query = dice.below(QUERIES.len() as u64) as usize;
        let fault = fault(&mut dice, &living);
        let wait = Duration::from_millis(dice.below(900));
        println!("round {seed}: {fault:?} after {wait:?} of query {query}");
        let job = cluster.wire.submit(&scripts[query], &SETTINGS).unwrap();
        std::thread::sleep(wait);
        strike(&mut cluster, &mut living, &fault);
        let table = cluster.wire.rows(&job.ticket).unwrap_or_else(|why| panic!("round {seed}, {fault:?}: {why}"));
        assert_eq!(sorted(table), calm[query], "round {seed}, {fault:?}");
        cluster.wait_registered(3, LIMIT).unwrap_or_else(|why| panic!("round {seed}, {fault:?}: {why}"));
    }

    let freed = || cluster.wire.overview().ok().filter(|o| o.slots_free == o.slots_total).map(|_| ());
    wait_until("all slots to be free", LIMIT, freed).unwrap();
    let gone = || cluster.temporary_files().is_empty().then_some(());
    wait_until("the jobs' files to go", LIMIT, gone).unwrap_or_else(|e| panic!("{e}: {:?}", cluster.temporary_files()));
    assert_eq!(cluster.wire.overview().unwrap().jobs_running, 0);
}
