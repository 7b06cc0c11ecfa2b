//! What scripts rely on: exit codes, where text goes, and the CSV and JSON that come out.

use std::time::Duration;

use thalweg_integration_tests::cli::{Outcome, run, run_in};
use thalweg_integration_tests::cluster::{Cluster, Options, exclusive};

const LIMIT: Duration = Duration::from_secs(60);

/// Exit codes: SQL or a job failed; the command line or configuration is wrong; no cluster was reached.
const FAILED: i32 = 1;
const USAGE: i32 = 2;
const NO_CLUSTER: i32 = 3;

fn local(args: &[&str]) -> Outcome {
    let dir = tempfile::tempdir().unwrap();
    run_in(&[&["local"], args].concat(), dir.path(), LIMIT)
}

fn assert_refused(outcome: &Outcome, code: i32, says: &[&str]) {
    assert_eq!(outcome.code, Some(code), "stderr {}", outcome.stderr);
    assert_eq!(outcome.stdout, "", "an error printed rows");
    for word in says {
        assert!(outcome.stderr.contains(word), "{:?} does not say {word:?}", outcome.stderr);
    }
    assert!(!outcome.stderr.contains("panicked"), "{}", outcome.stderr);
}

#[test]
fn csv_keeps_null_and_empty_apart() {
    let _machine = exclusive();
    let sql = r#"CREATE TABLE t (a INT, b STRING) WITH ('connector'='values',
        'rows'='[[1,"x"],[2,null],[3,""],[null,"a,b"],[5,"say \"hi\""]]');
        SELECT a, b, CAST(a AS DECIMAL(10,2)) AS d FROM t ORDER BY a NULLS LAST;"#;
    let outcome = local(&["--format", "csv", "-e", sql]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert_eq!(outcome.stdout, "a,b,d\n1,x,1.00\n2,,2.00\n3,\"\",3.00\n5,\"say \"\"hi\"\"\",5.00\n,\"a,b\",\n");
}

#[test]
fn an_empty_result_still_has_its_header() {
    let _machine = exclusive();
    let sql = "CREATE TABLE t (a INT) WITH ('connector'='values','rows'='[[1]]'); SELECT a FROM t WHERE a > 1;";
    let outcome = local(&["--format", "csv", "-e", sql]);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), "a\n"), "{}", outcome.stderr);
}

#[test]
fn json_rows_are_json() {
    let _machine = exclusive();
    let sql = r#"CREATE TABLE t (a INT, b STRING) WITH ('connector'='values','rows'='[[1,"x\ny"],[2,null]]');
        SELECT a, b FROM t ORDER BY a;"#;
    let outcome = local(&["--format", "json", "-e", sql]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let lines = outcome.stdout.lines();
    let rows: Vec<serde_json::Value> =
        lines.map(|line| serde_json::from_str(line).expect("one object a line")).collect();
    assert_eq!(rows, vec![serde_json::json!({"a": 1, "b": "x\ny"}), serde_json::json!({"a": 2, "b": null})]);
}

#[test]
fn bad_sql_is_refused_with_its_place() {
    let _machine = exclusive();
    assert_refused(&local(&["-e", "SELEC 1"]), FAILED, &["SELEC"]);
    assert_refused(&local(&["-e", "SELECT nope FROM (VALUES (1)) v(x)"]), FAILED, &["nope"]);
    assert_refused(&local(&["-e", "SELECT * FROM missing"]), FAILED, &["missing"]);
    let bad_connector = "CREATE TABLE t (a INT) WITH ('connector'='carrier-pigeon')";
    assert_refused(&local(&["-e", bad_connector]), FAILED, &["carrier-pigeon"]);
    let bad_rows = "CREATE TABLE t (a INT) WITH ('connector'='values','rows'='[[\"x\"]]'); SELECT a FROM t";
    assert_refused(&local(&["-e", bad_rows]), FAILED, &["a"]);
}

#[test]
fn an_error_while_running_is_refused_too() {
    let _machine = exclusive();
    let sql = "CREATE TABLE t (a INT) WITH ('connector'='values','rows'='[[1],[0]]'); SELECT 1 / a FROM t;";
    assert_refused(&local(&["--format", "csv", "-e", sql]), FAILED, &["zero"]);
}

#[test]
fn bad_configuration_is_refused_with_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("thalweg.yaml");
    let path = file.to_str().unwrap();
    for (text, says) in [
        ("jobmanager: [unclosed\n", "thalweg.yaml"),
        ("jobmanager.rpc.prot: 6123\n", "jobmanager.rpc.prot"),
        ("taskmanager.numberOfTaskSlots: many\n", "taskmanager.numberOfTaskSlots"),
        ("heartbeat.timeout: 5 parsecs\n", "heartbeat.timeout"),
    ] {
        std::fs::write(&file, text).unwrap();
        for daemon in ["jobmanager", "taskmanager"] {
            assert_refused(&run(&[daemon, "--config", path], LIMIT), USAGE, &[says]);
        }
    }
    assert_refused(&run(&["jobmanager", "--config", "/no/such/file.yaml"], LIMIT), USAGE, &["/no/such/file.yaml"]);
    assert_refused(&run(&["jobmanager", "-D", "no.such.key=1"], LIMIT), USAGE, &["no.such.key"]);
    assert_refused(&run(&["no-such-command"], LIMIT), USAGE, &["no-such-command"]);
}

#[test]
fn a_port_beyond_loopback_needs_a_token() {
    let args = ["jobmanager", "-D", "jobmanager.bind-host=0.0.0.0", "-D", "jobmanager.rpc.port=0", "-D", "rest.port=0"];
    assert_refused(&run(&args, LIMIT), USAGE, &["security.token"]);
}

#[test]
fn no_jobmanager_is_an_error_not_a_wait() {
    let outcome = run(&["sql", "--jobmanager", "127.0.0.1:1", "-e", "SELECT 1"], LIMIT);
    assert_refused(&outcome, NO_CLUSTER, &["127.0.0.1:1"]);
    assert_refused(&run(&["cluster", "--jobmanager", "127.0.0.1:1", "--json"], LIMIT), NO_CLUSTER, &["127.0.0.1:1"]);
}

#[test]
fn jobs_and_cluster_are_shown_as_json() {
    let cluster = Cluster::start(Options::new(2, 1));
    let address = cluster.rpc_address();
    let outcome = run(&["sql", "--jobmanager", &address, "--format", "csv", "-e", "SELECT 41 + 1 AS x"], LIMIT);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), "x\n42\n"), "{}", outcome.stderr);
    let job = cluster.wire.jobs().unwrap().pop().expect("the query was a job").job_id;

    for (args, says) in [
        (vec!["cluster", "--jobmanager", &address, "--json"], cluster.registered()[0].as_str()),
        (vec!["jobs", "list", "--jobmanager", &address, "--json"], job.as_str()),
        (vec!["jobs", "show", &job, "--jobmanager", &address, "--json"], job.as_str()),
    ] {
        let outcome = run(&args, LIMIT);
        assert_eq!(outcome.code, Some(0), "{args:?}: {}", outcome.stderr);
        let json: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap_or_else(|e| panic!("{args:?}: {e}"));
        assert!(json.to_string().contains(says), "{args:?}: {json}");
    }
    let unknown = "0123456789abcdef0123456789abcdef";
    assert_refused(&run(&["jobs", "show", unknown, "--jobmanager", &address], LIMIT), FAILED, &[unknown]);
    assert_refused(&run(&["jobs", "show", "seventeen", "--jobmanager", &address], LIMIT), USAGE, &["seventeen"]);
}
