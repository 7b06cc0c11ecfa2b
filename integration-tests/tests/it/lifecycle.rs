//! How jobs and daemons end: cancelled, stalled, finished without leftovers, asked to stop.

use std::time::{Duration, Instant};

use thalweg_integration_tests::cluster::{Cluster, Options};
use thalweg_integration_tests::faults::{self, Progress};
use thalweg_integration_tests::process::processes_naming;
use thalweg_integration_tests::tpch::{self, Scale};
use thalweg_integration_tests::wait_until;
use thalweg_proto::v1::JobState;

const DISTRIBUTED: [(&str, &str); 1] = [("execution.batch.single-task-threshold", "0")];
const LIMIT: Duration = Duration::from_secs(60);

fn state(cluster: &Cluster, job_id: &str) -> JobState {
    cluster.wire.job(job_id).unwrap().summary.expect("a job has a summary").state()
}

#[test]
fn a_cancelled_job_stops_within_a_second() {
    let cluster = Cluster::start(Options::new(2, 2));
    let job = cluster.wire.submit(&tpch::script(21, Scale::One), &DISTRIBUTED).unwrap();
    faults::await_moment(&cluster.wire, &job.job_id, LIMIT, Progress::running).unwrap();
    let asked = Instant::now();
    cluster.wire.cancel(&job.job_id).unwrap();
    let ended = || (state(&cluster, &job.job_id) == JobState::Cancelled).then_some(());
    wait_until("the job to be cancelled", Duration::from_secs(1), ended).unwrap();
    let freed = || cluster.wire.overview().ok().filter(|o| o.slots_free == o.slots_total).map(|_| ());
    wait_until("all slots to be free", Duration::from_secs(1), freed).unwrap();
    println!("cancelled and cleared in {:?}", asked.elapsed());
    assert!(cluster.wire.rows(&job.ticket).is_err(), "a cancelled job has no rows");

    // Nothing was left behind: files go, and the next query runs.
    let gone = || cluster.temporary_files().is_empty().then_some(());
    let left = || cluster.temporary_files();
    wait_until("the job's files to go", Duration::from_secs(10), gone).unwrap_or_else(|e| panic!("{e}: {:?}", left()));
    let table = cluster.sql(&tpch::script(6, Scale::Hundredth), &DISTRIBUTED).unwrap();
    tpch::check(6, Scale::Hundredth, &table).unwrap();
}

#[test]
fn cancelling_twice_or_too_late_changes_nothing() {
    let cluster = Cluster::start(Options::new(1, 1));
    let job = cluster.wire.submit(&tpch::script(6, Scale::Hundredth), &[]).unwrap();
    cluster.wire.rows(&job.ticket).unwrap();
    assert_eq!(cluster.wire.cancel(&job.job_id), Ok(JobState::Finished));
    assert_eq!(state(&cluster, &job.job_id), JobState::Finished);
    assert!(cluster.wire.cancel("no-such-job").is_err());
}

#[test]
fn a_job_nobody_can_run_says_so_and_ends() {
    let cluster = Cluster::start(Options::new(0, 1).with("slot.request.timeout", "2 s"));
    let job = cluster.wire.submit(&tpch::script(6, Scale::Hundredth), &[]).unwrap();
    assert_fails(&cluster, &job.job_id, &["slot.request.timeout"]);
}

/// A TaskManager that is believed alive but does nothing.
#[test]
fn a_job_without_progress_says_what_it_waits_for_and_ends() {
    let options = Options::new(1, 2).with("job.stall-timeout", "3 s").with("heartbeat.timeout", "10 min");
    let mut cluster = Cluster::start(options);
    let job = cluster.wire.submit(&tpch::script(21, Scale::One), &DISTRIBUTED).unwrap();
    faults::await_moment(&cluster.wire, &job.job_id, LIMIT, Progress::running).unwrap();
    cluster.pause(0);
    let id = cluster.registered().pop().expect("a paused TaskManager is still registered");
    assert_fails(&cluster, &job.job_id, &["job.stall-timeout", &id]);
}

fn assert_fails(cluster: &Cluster, job_id: &str, naming: &[&str]) {
    let failed = || (state(cluster, job_id) == JobState::Failed).then_some(());
    wait_until("the job to fail", Duration::from_secs(30), failed).unwrap();
    let failure = cluster.wire.job(job_id).unwrap().summary.expect("a job has a summary").failure;
    let missing: Vec<_> = naming.iter().filter(|word| !failure.contains(**word)).collect();
    assert!(missing.is_empty(), "{failure:?} does not name {missing:?}");
}

#[test]
fn finished_jobs_leave_no_files() {
    let cluster = Cluster::start(Options::new(2, 2));
    for number in [9, 18] {
        let table = cluster.sql(&tpch::script(number, Scale::One), &DISTRIBUTED).unwrap();
        tpch::check(number, Scale::One, &table).unwrap();
    }
    let gone = || cluster.temporary_files().is_empty().then_some(());
    wait_until("the jobs' files to go", Duration::from_secs(10), gone)
        .unwrap_or_else(|e| panic!("{e}: {:?}", cluster.temporary_files()));
}

#[test]
fn asked_to_stop_the_daemons_end_well() {
    let mut cluster = Cluster::start(Options::new(2, 1));
    let table = cluster.sql(&tpch::script(6, Scale::Hundredth), &DISTRIBUTED).unwrap();
    tpch::check(6, Scale::Hundredth, &table).unwrap();
    let codes = cluster.terminate(Duration::from_secs(15)).unwrap();
    let bad: Vec<_> = codes.iter().filter(|(_, code)| *code != Some(0)).collect();
    assert!(codes.len() == 3 && bad.is_empty(), "exit codes {codes:?}");
    assert_eq!(cluster.temporary_files(), Vec::<std::path::PathBuf>::new());
    assert_eq!(processes_naming(&cluster.dir().display().to_string()), Vec::<String>::new());
}

/// Stopping does not wait for a job to end by itself.
#[test]
fn asked_to_stop_under_load_the_daemons_end_too() {
    let mut cluster = Cluster::start(Options::new(2, 2));
    let job = cluster.wire.submit(&tpch::script(21, Scale::One), &DISTRIBUTED).unwrap();
    faults::await_moment(&cluster.wire, &job.job_id, LIMIT, Progress::running).unwrap();
    let codes = cluster.terminate(Duration::from_secs(30)).unwrap();
    assert!(codes.iter().all(|(_, code)| *code == Some(0)), "exit codes {codes:?}");
    assert_eq!(processes_naming(&cluster.dir().display().to_string()), Vec::<String>::new());
}
