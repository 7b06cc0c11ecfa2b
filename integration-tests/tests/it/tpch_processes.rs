//! All 22 TPC-H queries at scale factor 1 on one, two and three TaskManager processes: the answers may not depend on it.

use thalweg_integration_tests::cluster::{Cluster, Options};
use thalweg_integration_tests::compare::Match;
use thalweg_integration_tests::tpch::{self, Scale};

/// Every query is cut into tasks, however small its input.
const DISTRIBUTED: [(&str, &str); 1] = [("execution.batch.single-task-threshold", "0")];

fn run_all(task_managers: usize, slots: u32) {
    let cluster = Cluster::start(Options::new(task_managers, slots));
    let mut failures = Vec::new();
    for number in tpch::QUERIES {
        let result = cluster.sql(&tpch::script(number, Scale::One), &DISTRIBUTED);
        match result.and_then(|table| tpch::check(number, Scale::One, &table)) {
            Ok(Match::Exact) => {}
            Ok(Match::UpToTies) => println!("q{number:02}: rows with equal sort keys changed places"),
            Err(why) => failures.push(format!("q{number:02}: {why}")),
        }
    }
    assert!(failures.is_empty(), "{} of 22 queries failed\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn one_task_manager() {
    run_all(1, 2);
}

#[test]
fn two_task_managers() {
    run_all(2, 1);
}

#[test]
fn three_task_managers() {
    run_all(3, 2);
}
