//! All 22 TPC-H queries through `thalweg local`: one process, in-process transport, answers read from its CSV.

use std::time::Duration;

use thalweg_integration_tests::cli;
use thalweg_integration_tests::cluster::exclusive;
use thalweg_integration_tests::tpch::{self, Scale};

#[test]
fn every_query_is_right_in_one_process() {
    let _machine = exclusive();
    let dir = tempfile::tempdir().unwrap();
    let mut failures = Vec::new();
    for number in tpch::QUERIES {
        let file = dir.path().join(format!("q{number:02}.sql"));
        std::fs::write(&file, tpch::script(number, Scale::Hundredth)).unwrap();
        // Without the threshold a table this small would be read by one task, and nothing would be exchanged.
        let args = [
            "local",
            "--task-managers",
            "2",
            "--slots",
            "2",
            "--format",
            "csv",
            "-D",
            "execution.batch.single-task-threshold=0",
            "-f",
            file.to_str().unwrap(),
        ];
        let outcome = cli::run_in(&args, dir.path(), Duration::from_secs(120));
        if let Err(why) = outcome.table().and_then(|table| tpch::check(number, Scale::Hundredth, &table)) {
            failures.push(format!("q{number:02}: {why}"));
        }
    }
    assert!(failures.is_empty(), "{} of 22 queries failed\n{}", failures.len(), failures.join("\n"));
}
