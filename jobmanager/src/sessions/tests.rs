//! Sessions without a cluster: limits, idleness, statements that need no job; and what EXPLAIN ANALYZE prints.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::AsArray;
use thalweg_config::Config;
use thalweg_connectors::AccessRules;
use thalweg_rpc::Problem;
use thalweg_rpc::link::in_process;
use thalweg_runtime::{ManualClock, OwnedTask};

use super::{Executed, IDLE, MAX_SESSIONS, Sessions};
use crate::driver::{self, Driver};
use crate::link::Links;
use crate::testing::{FakeTaskManager, PATIENCE, aggregate, driver_options, submission};

fn rig() -> (Sessions, Arc<ManualClock>, Driver, OwnedTask<()>) {
    let (driver, task) = driver::start(driver_options());
    let clock = Arc::new(ManualClock::new());
    let config = Arc::new(Config::default());
    let sessions = Sessions::new(config, AccessRules::default(), driver.clone(), clock.clone());
    (sessions, clock, driver, task)
}

#[tokio::test]
async fn idle_sessions_make_room() {
    let (sessions, clock, _driver, _task) = rig();
    let none = BTreeMap::new();
    let first = sessions.open(&none).unwrap();
    for _ in 1..MAX_SESSIONS {
        sessions.open(&none).unwrap();
    }
    assert!(matches!(sessions.open(&none), Err(Problem::Limit { .. })));
    clock.advance(IDLE / 2);
    sessions.get(&first).unwrap();
    clock.advance(IDLE / 2);
    sessions.open(&none).unwrap();
    assert!(sessions.get(&first).is_ok(), "it was used in between");
    assert!(matches!(sessions.get("nonsense"), Err(Problem::NotFound { .. })));
}

#[tokio::test]
async fn set_reset_and_list() {
    let (sessions, ..) = rig();
    let mut session = sessions.detached(&BTreeMap::new()).unwrap();
    let (done, _) = session.execute("SET 'parallelism.default' = '4'").await.unwrap();
    assert!(matches!(done, Executed::Done(text) if text.contains("parallelism.default")));
    let (listed, _) = session.execute("SET;").await.unwrap();
    let Executed::Rows(rows) = listed else { panic!("no rows") };
    let (keys, values) = (rows.column(0).as_string::<i32>(), rows.column(1).as_string::<i32>());
    let at = keys.iter().position(|key| key == Some("parallelism.default")).expect("it is listed");
    assert_eq!(values.value(at), "4");
    let refused = session.execute("SET 'parallelism.default' = 'x'").await.unwrap_err();
    assert!(matches!(refused, Problem::Setting { .. }));
    assert_eq!(session.settings().effective().parallelism_default, Some(4));
    session.execute("RESET 'parallelism.default'").await.unwrap();
    assert_eq!(session.settings().effective().parallelism_default, None);
    assert!(matches!(session.execute("RESET 'no.such'").await, Err(Problem::Setting { .. })));
    assert!(matches!(session.execute("SELEKT 1").await, Err(Problem::Statement { .. })));
}

#[tokio::test]
async fn a_script_names_the_line_and_ends_in_a_query() {
    let (sessions, ..) = rig();
    let mut session = sessions.detached(&BTreeMap::new()).unwrap();
    let wrong = session.submit_script("SET 'parallelism.default' = '2';\n\nSET 'x.y' = '1';\nSELECT 1").await;
    let message = wrong.unwrap_err().to_string();
    assert!(message.contains("line 3") && message.contains("x.y"), "{message}");
    for script in ["", "SHOW TABLES", "SELECT 1; SHOW TABLES"] {
        let refused = session.submit_script(script).await.unwrap_err();
        assert!(refused.to_string().contains("must be a query"), "{refused}");
    }
}

#[tokio::test]
async fn explain_analyze_runs_the_job_and_prints_what_was_measured() {
    let (_sessions, _clock, driver, _task) = rig();
    let links = Links::new(driver.clone(), PATIENCE);
    let (ours, theirs) = in_process();
    links.start(ours, true);
    let tm = tokio::spawn(FakeTaskManager::register(theirs, "a", 1, 2).await.serve());
    let lines = super::analyze::run(&driver, submission(aggregate(2, 2))).await.unwrap();
    let text = lines.join("\n");
    assert!(text.contains("stage s0 stage 0\n  parallelism 2"), "{text}");
    assert!(text.contains("out 16 rows 128 B"), "{text}");
    assert!(text.contains("stage s1 stage 1") && text.contains("in 16 rows"), "{text}");
    tm.abort();
}
