//! The JobManager is killed in the middle of a job: the next one goes on with the same decisions and what had finished.

use std::collections::BTreeMap;
use std::time::Duration;

use thalweg_integration_tests::cluster::{Cluster, Options};
use thalweg_integration_tests::faults::{self, Progress};
use thalweg_integration_tests::tpch::{self, Scale};
use thalweg_integration_tests::{cli, wait_until};
use thalweg_proto::v1::{GetJobResponse, JobState};

const LIMIT: Duration = Duration::from_secs(120);
/// Small shares make many tasks, and so do joins that are not broadcast.
const SHUFFLED: [(&str, &str); 3] = [
    ("execution.batch.single-task-threshold", "0"),
    ("execution.batch.adaptive.auto-parallelism.avg-data-volume-per-task", "4 mb"),
    ("table.optimizer.join.broadcast-threshold", "-1"),
];
const ADAPTIVE: [(&str, &str); 2] = [SHUFFLED[0], SHUFFLED[1]];

type Finished = BTreeMap<(u32, u32), u32>;

/// Waits until `tasks` tasks have finished while others run; gives the finished ones.
fn await_finished(cluster: &Cluster, job: &str, tasks: usize) -> Finished {
    let moment = |progress: &Progress| {
        let finished = progress.finished();
        (finished.len() >= tasks && progress.running().is_some()).then_some(finished)
    };
    faults::await_moment(&cluster.wire, job, LIMIT, moment).unwrap()
}

/// Attempts of the tasks that had finished, as they are in the end.
fn check_not_repeated(finished: &Finished, job: &GetJobResponse) {
    let attempts = job.stages.iter().flat_map(|stage| stage.attempts.iter().map(|attempt| (stage.stage, attempt)));
    let latest: BTreeMap<(u32, u32), u32> = attempts.map(|(stage, a)| ((stage, a.task), a.attempt)).collect();
    for (task, attempt) in finished {
        assert_eq!(latest.get(task), Some(attempt), "task {task:?} had finished with attempt {attempt}");
    }
}

/// Every decision that was made before is there, in its place.
fn check_decisions(before: &GetJobResponse, after: &GetJobResponse) {
    let texts = |job: &GetJobResponse| -> Vec<String> {
        let bound = job.decisions.iter().filter(|d| d.rule != "recovery");
        bound.map(|d| format!("s{} {}: {} → {}", d.stage, d.rule, d.measured, d.outcome)).collect()
    };
    let (before, after) = (texts(before), texts(after));
    for decision in &before {
        assert!(after.contains(decision), "{decision}\nis not among\n{}", after.join("\n"));
    }
}

#[test]
fn a_job_goes_on_with_its_decisions_and_what_had_finished() {
    let mut cluster = Cluster::start(Options::new(2, 2).highly_available());
    let cases: [(u32, usize, &[(&str, &str)]); 3] = [(9, 11, &ADAPTIVE), (21, 20, &SHUFFLED), (5, 20, &SHUFFLED)];
    for (number, tasks, settings) in cases {
        let job = cluster.wire.submit(&tpch::script(number, Scale::One), settings).unwrap();
        let finished = await_finished(&cluster, &job.job_id, tasks);
        let before = cluster.wire.job(&job.job_id).unwrap();
        cluster.kill9_jobmanager();
        cluster.restart_jobmanager();
        let table = cluster.wire.rows(&job.ticket).unwrap_or_else(|why| panic!("q{number:02}: {why}"));
        tpch::check(number, Scale::One, &table).unwrap();
        let after = cluster.wire.job(&job.job_id).unwrap();
        check_not_repeated(&finished, &after);
        check_decisions(&before, &after);
        assert!(after.decisions.iter().any(|d| d.rule == "recovery"), "{:?}", after.decisions);
        let total: usize = after.stages.iter().map(|stage| stage.parallelism as usize).sum();
        println!("q{number:02}: {} of {total} tasks had finished, none of them ran again", finished.len());
    }
    let codes = cluster.terminate(Duration::from_secs(20)).unwrap();
    assert!(codes.iter().all(|(_, code)| *code == Some(0)), "{codes:?}");
    assert_eq!(cluster.temporary_files(), Vec::<std::path::PathBuf>::new());
}

/// The whole cluster's power supply: what was on the TaskManager that does not come back is made again.
#[test]
fn a_taskmanager_is_lost_together_with_the_jobmanager() {
    let options = Options::new(2, 2).highly_available();
    let mut cluster =
        Cluster::start(options.with("execution.batch.job-recovery.previous-worker.recovery.timeout", "2 s"));
    let job = cluster.wire.submit(&tpch::script(9, Scale::One), &SHUFFLED).unwrap();
    await_finished(&cluster, &job.job_id, 20);
    cluster.kill9_jobmanager();
    cluster.kill9(0);
    cluster.restart_jobmanager();
    let table = cluster.wire.rows(&job.ticket).unwrap();
    tpch::check(9, Scale::One, &table).unwrap();
    let after = cluster.wire.job(&job.job_id).unwrap();
    assert!(after.decisions.iter().any(|d| d.rule == "retry"), "{:?}", after.decisions);
}

/// A result that nobody had read is there after a restart, and what had been cancelled stays so.
#[test]
fn results_and_outcomes_survive() {
    let mut cluster = Cluster::start(Options::new(1, 2).highly_available());
    let done = cluster.wire.submit(&tpch::script(6, Scale::One), &SHUFFLED).unwrap();
    wait_until("q06 to finish", LIMIT, || {
        let job = cluster.wire.job(&done.job_id).unwrap();
        (job.summary.unwrap().state() == JobState::Finished).then_some(())
    })
    .unwrap();
    let cancelled = cluster.wire.submit(&tpch::script(9, Scale::One), &SHUFFLED).unwrap();
    cluster.wire.cancel(&cancelled.job_id).unwrap();
    cluster.kill9_jobmanager();
    cluster.restart_jobmanager();
    let table = cluster.wire.rows(&done.ticket).unwrap();
    tpch::check(6, Scale::One, &table).unwrap();
    let summary = cluster.wire.job(&cancelled.job_id).unwrap().summary.unwrap();
    assert_eq!(summary.state(), JobState::Cancelled);
}

#[test]
fn the_command_line_waits_for_the_next_jobmanager() {
    let mut cluster = Cluster::start(Options::new(2, 2).highly_available());
    let script = cluster.dir().join("q18.sql");
    std::fs::write(&script, tpch::script(18, Scale::One)).unwrap();
    let (address, path) = (cluster.rpc_address(), script.display().to_string());
    let reader = std::thread::spawn(move || {
        let mut args = vec!["sql", "--jobmanager", &address, "--file", &path, "--format", "csv"];
        let settings = SHUFFLED.map(|(key, value)| format!("{key}={value}"));
        settings.iter().for_each(|setting| args.extend(["-D", setting]));
        cli::run(&args, LIMIT)
    });
    let job = wait_until("the job", LIMIT, || cluster.wire.jobs().ok()?.pop()).unwrap();
    await_finished(&cluster, &job.job_id, 10);
    cluster.kill9_jobmanager();
    std::thread::sleep(Duration::from_secs(1));
    cluster.restart_jobmanager();
    let outcome = reader.join().unwrap();
    tpch::check(18, Scale::One, &outcome.table().unwrap()).unwrap();
}
