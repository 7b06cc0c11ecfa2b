//! A TaskManager is killed or paused in the middle of a TPC-H query: the answer is the calm run's, and tasks were tried again.
//!
//! The fault hits when the first task of a stage has finished on the victim while another task of that stage still runs, so
//! finished output is lost as well as work under way.

use std::time::{Duration, Instant};

use thalweg_integration_tests::cluster::{Cluster, Options};
use thalweg_integration_tests::faults::{self, Progress};
use thalweg_integration_tests::tpch::{self, Scale};
use thalweg_integration_tests::wait_until;

const DISTRIBUTED: [(&str, &str); 1] = [("execution.batch.single-task-threshold", "0")];
const LIMIT: Duration = Duration::from_secs(120);

/// Runs the query, kills the TaskManager that has just finished a task, and checks the answer.
fn kill_during(cluster: &mut Cluster, number: u32, replace: bool) {
    let job = cluster.wire.submit(&tpch::script(number, Scale::One), &DISTRIBUTED).unwrap();
    let moment = Progress::finished_while_running;
    let victim = faults::await_moment(&cluster.wire, &job.job_id, LIMIT, moment).unwrap();
    let index = cluster.index_of(&victim).unwrap_or_else(|| panic!("{victim} is no TaskManager of this test"));
    cluster.kill9(index);
    if replace {
        cluster.start_task_manager();
    }
    let table = cluster.wire.rows(&job.ticket).unwrap_or_else(|why| panic!("q{number:02} after a kill: {why}"));
    tpch::check(number, Scale::One, &table).unwrap();
    let repeated = faults::repeated_tasks(&cluster.wire.job(&job.job_id).unwrap());
    assert!(!repeated.is_empty(), "q{number:02}: {victim} was killed, but no task was tried a second time");
}

#[test]
fn a_killed_task_manager_is_replaced() {
    let mut cluster = Cluster::start(Options::new(2, 2));
    for number in [5, 9, 18, 21] {
        kill_during(&mut cluster, number, true);
        cluster.wait_registered(2, Duration::from_secs(30)).unwrap();
    }
}

#[test]
fn the_remaining_task_manager_finishes_alone() {
    let mut cluster = Cluster::start(Options::new(2, 2));
    kill_during(&mut cluster, 9, false);
    cluster.wait_registered(1, Duration::from_secs(30)).unwrap();
}

/// Silence is a loss too; the one that was lost comes back and must not disturb what was done without it.
#[test]
fn a_paused_task_manager_is_given_up_and_comes_back() {
    let options = Options::new(2, 2).with("heartbeat.interval", "200 ms").with("heartbeat.timeout", "2 s");
    let mut cluster = Cluster::start(options);
    let job = cluster.wire.submit(&tpch::script(21, Scale::One), &DISTRIBUTED).unwrap();
    let victim = faults::await_moment(&cluster.wire, &job.job_id, LIMIT, Progress::finished_while_running).unwrap();
    let index = cluster.index_of(&victim).unwrap();
    let paused_at = Instant::now();
    cluster.pause(index);
    let table = cluster.wire.rows(&job.ticket).unwrap();
    tpch::check(21, Scale::One, &table).unwrap();
    println!("answered {:?} after the pause", paused_at.elapsed());
    assert!(!faults::repeated_tasks(&cluster.wire.job(&job.job_id).unwrap()).is_empty());
    cluster.wait_registered(1, Duration::from_secs(10)).unwrap();

    // It finds out that it was given up: either it registers anew, or it ends by itself and is replaced.
    cluster.resume(index);
    let back = wait_until("the resumed TaskManager to register again or to end", Duration::from_secs(30), || {
        let registered = (cluster.registered().len() == 2).then_some(true);
        registered.or_else(|| (!cluster.task_manager(index).is_running()).then_some(false))
    });
    if !back.unwrap() {
        cluster.start_task_manager();
    }
    for number in [3, 18] {
        let table = cluster.sql(&tpch::script(number, Scale::One), &DISTRIBUTED).unwrap();
        tpch::check(number, Scale::One, &table).unwrap();
    }
}
