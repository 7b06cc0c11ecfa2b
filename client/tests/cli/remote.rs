//! The commands that talk to a cluster.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Output, Stdio};
use std::time::Duration;

use thalweg_client::{Client, Error, ErrorKind, ExecuteOutcome};

use crate::fake::{Cluster, JOB};
use crate::{code, stderr, stdout, thalweg};

fn run(cluster: &Cluster, args: &[&str]) -> Output {
    thalweg(args).arg("--jobmanager").arg(cluster.address.to_string()).output().unwrap()
}

#[test]
fn csv_has_result_sets_only_and_a_blank_line_between() {
    let cluster = Cluster::start(None);
    let script = "CREATE TABLE t; SELECT 1; SHOW TABLES;";
    let output = run(&cluster, &["sql", "--format", "csv", "-D", "parallelism.default=4", "-e", script]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(stdout(&output), "n,name\n1,row 1\n2,\n3,row 3\n\nn,name\n1,row 1\n");
    assert_eq!(stderr(&output), "table created\n");
    let open = "open [(\"parallelism.default\", \"4\")]";
    assert_eq!(cluster.told(), [open, "CREATE TABLE t", "SELECT 1", "get three", "SHOW TABLES", "close"]);
}

#[test]
fn a_table_has_acknowledgements_and_its_count_beside_it() {
    let cluster = Cluster::start(None);
    let output = run(&cluster, &["sql", "-e", "SET 'a' = 'b'; SHOW TABLES"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let table = "set\n+---+-------+\n| n | name  |\n+---+-------+\n| 1 | row 1 |\n+---+-------+\n";
    assert_eq!(stdout(&output), table);
    assert!(stderr(&output).starts_with("note: has no effect yet\n1 row ("), "{}", stderr(&output));
}

#[test]
fn json_is_one_object_per_line() {
    let cluster = Cluster::start(None);
    let output = run(&cluster, &["sql", "--format", "json", "-e", "SELECT 1"]);
    let expected = "{\"n\":1,\"name\":\"row 1\"}\n{\"n\":2,\"name\":null}\n{\"n\":3,\"name\":\"row 3\"}\n";
    assert_eq!((code(&output), stdout(&output), stderr(&output)), (0, expected, ""));
}

#[test]
fn a_script_ends_at_its_first_error() {
    let cluster = Cluster::start(None);
    let output = run(&cluster, &["sql", "--format", "csv", "-e", "SHOW a;\n\nNONSENSE;\nSHOW b"]);
    assert_eq!((code(&output), stdout(&output)), (1, "n,name\n1,row 1\n"));
    assert_eq!(stderr(&output), "error: statement at line 3: unknown statement NONSENSE\n");
    assert_eq!(cluster.told(), ["open []", "SHOW a", "NONSENSE", "close"]);
}

#[test]
fn a_failed_job_is_exit_code_1_and_prints_no_header() {
    let cluster = Cluster::start(None);
    let output = run(&cluster, &["sql", "--format", "csv", "-e", "FAIL"]);
    assert_eq!((code(&output), stdout(&output)), (1, ""));
    assert!(stderr(&output).contains(&format!("job {JOB} failed: no progress")), "{}", stderr(&output));
    assert!(!cluster.told().iter().any(|told| told.starts_with("cancel")), "a failed job has ended");
}

#[test]
fn a_batch_of_other_columns_is_not_believed() {
    let cluster = Cluster::start(None);
    let output = run(&cluster, &["sql", "--format", "csv", "-e", "LIE"]);
    assert_eq!((code(&output), stdout(&output)), (1, ""));
    assert!(stderr(&output).contains("announced were (n Int64, name Utf8)"), "{}", stderr(&output));
}

#[test]
fn scripts_come_from_files_and_standard_input() {
    let cluster = Cluster::start(None);
    let folder = tempfile::tempdir().unwrap();
    let (init, file) = (folder.path().join("init.sql"), folder.path().join("script.sql"));
    std::fs::write(&init, "CREATE TABLE a;").unwrap();
    std::fs::write(&file, "-- a script\nSHOW ';' -- end\n").unwrap();
    let [init, file] = [&init, &file].map(|path| path.to_str().unwrap());
    let output = run(&cluster, &["sql", "--format", "csv", "-i", init, "-f", file]);
    assert_eq!((code(&output), stdout(&output)), (0, "n,name\n1,row 1\n"));
    assert_eq!(cluster.told()[1..3], ["CREATE TABLE a", "SHOW ';' -- end"]);

    let address = cluster.address.to_string();
    let mut shell = thalweg(&["sql", "--format", "csv", "--jobmanager", &address])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = shell.stdin.take().unwrap();
    // the first statement is answered while standard input is open
    stdin.write_all(b"SHOW x;\n").unwrap();
    let mut lines = BufReader::new(shell.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "n,name");
    assert_eq!(lines.next().unwrap().unwrap(), "1,row 1");
    stdin.write_all(b"\nBAD\n;SHOW y").unwrap();
    drop(stdin);
    let output = shell.wait_with_output().unwrap();
    assert_eq!(code(&output), 1);
    assert_eq!(stderr(&output), "error: statement at line 3: unknown statement BAD\n");

    let output = run(&cluster, &["sql", "-f", "/does/not/exist.sql"]);
    assert_eq!(code(&output), 2, "{}", stderr(&output));
}

#[test]
fn the_token_comes_from_three_places() {
    let cluster = Cluster::start(Some("s3cret"));
    let address = cluster.address.to_string();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "s3cret\n").unwrap();
    let sql = ["sql", "--format", "csv", "-e", "SHOW t", "--jobmanager", &address];
    let denied = thalweg(&sql).output().unwrap();
    assert_eq!((code(&denied), stdout(&denied)), (3, ""));
    assert!(stderr(&denied).contains("THALWEG_SECURITY_TOKEN"), "{}", stderr(&denied));
    let wrong = thalweg(&sql).args(["-D", "security.token=wr0ng"]).output().unwrap();
    assert_eq!(code(&wrong), 3);
    assert!(!stderr(&wrong).contains("wr0ng"), "{}", stderr(&wrong));
    assert_eq!(code(&thalweg(&sql).args(["-D", "security.token=s3cret"]).output().unwrap()), 0);
    assert_eq!(code(&thalweg(&sql).arg("--token-file").arg(&file).output().unwrap()), 0);
    assert_eq!(code(&thalweg(&sql).env("THALWEG_SECURITY_TOKEN", "s3cret").output().unwrap()), 0);
}

#[test]
fn the_address_comes_from_a_configuration_file() {
    let cluster = Cluster::start(None);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("thalweg.yaml");
    let yaml = format!("jobmanager.rpc.address: 127.0.0.1\njobmanager.rpc.port: {}\n", cluster.address.port());
    std::fs::write(&file, yaml).unwrap();
    let output = thalweg(&["cluster", "--config"]).arg(&file).output().unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(stdout(&output).contains("slots: 3 of 4 free"), "{}", stdout(&output));
}

#[cfg(unix)]
#[test]
fn ctrl_c_cancels_the_job() {
    let cluster = Cluster::start(None);
    let address = cluster.address.to_string();
    let child = thalweg(&["sql", "-e", "HANG; SHOW t", "--jobmanager", &address])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    cluster.wait_until_told("get hang");
    let killed = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!((code(&output), stdout(&output)), (1, ""));
    assert!(stderr(&output).contains("interrupted"), "{}", stderr(&output));
    assert_eq!(cluster.told()[1..], ["HANG".to_owned(), "get hang".into(), format!("cancel {JOB}"), "close".into()]);
}

#[test]
fn a_closed_standard_output_ends_the_query_quietly() {
    let cluster = Cluster::start(None);
    let address = cluster.address.to_string();
    let mut child = thalweg(&["sql", "--format", "csv", "-e", "ENDLESS", "--jobmanager", &address])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 7];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    assert_eq!(&first, b"n,name\n");
    let output = child.wait_with_output().unwrap();
    assert_eq!((code(&output), stderr(&output)), (0, ""));
    cluster.wait_until_told(&format!("cancel {JOB}"));
}

#[test]
fn jobs_are_listed_shown_watched_and_cancelled() {
    let cluster = Cluster::start(None);
    let job = JOB.to_string();
    let list = run(&cluster, &["jobs", "list"]);
    assert_eq!(code(&list), 0, "{}", stderr(&list));
    assert!(
        stdout(&list).contains("finished") && stdout(&list).contains("2024-07-03 09:46:40.000"),
        "{}",
        stdout(&list)
    );

    let show = run(&cluster, &["jobs", "show", &job]);
    let text = stdout(&show);
    for expected in [
        "state      failed",
        "failure    division by zero",
        "| s1    | aggregate |   0/4 |       0 |   3 + 4 |       10 |",
        "  +12 ms  s1  parallelism: 48 MB in 3 maps → 4 tasks\n",
        "  s1.0#2 on tm-a@1 failed: 0 rows, 0 B, 0 ms (division by zero)\n",
        "  Scan t\n",
    ] {
        assert!(text.contains(expected), "{expected:?} is not in\n{text}");
    }
    let show: serde_json::Value =
        serde_json::from_slice(&run(&cluster, &["jobs", "show", &job, "--json"]).stdout).unwrap();
    assert_eq!(show["summary"]["job_id"], job);
    assert_eq!(show["stages"][0]["attempts"][0]["cause"], "division by zero");
    assert_eq!(show["decisions"][0]["rule"], "parallelism");

    let explain = run(&cluster, &["jobs", "explain", &job]);
    let text = stdout(&explain);
    assert!(text.starts_with(&format!("job {job} failed after ")), "{text}");
    for expected in [
        "failure: division by zero\n",
        "as it ran\n  s1  aggregate\n      0 of 4 tasks finished, ",
        "decisions\n  +12 ms  s1  parallelism: 48 MB in 3 maps → 4 tasks\n",
        "as it was compiled\n  Scan t\n",
    ] {
        assert!(text.contains(expected), "{expected:?} is not in\n{text}");
    }
    let explain = run(&cluster, &["jobs", "explain", &job, "--json"]);
    assert_eq!(serde_json::from_slice::<serde_json::Value>(&explain.stdout).unwrap(), show);

    let watch = run(&cluster, &["jobs", "watch", &job, "--json"]);
    assert_eq!(code(&watch), 1, "the job failed");
    let events: Vec<serde_json::Value> =
        stdout(&watch).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(events.len(), 5);
    assert_eq!(events[3]["attempt"]["attempt"]["task_manager"], "tm-a@1");
    assert_eq!(events[4]["job"]["state"], "failed");
    assert!(stderr(&watch).contains("failed: division by zero"), "{}", stderr(&watch));

    let cancel = run(&cluster, &["jobs", "cancel", &job]);
    assert_eq!((code(&cancel), stdout(&cancel)), (0, format!("{job} cancelled\n").as_str()));

    let missing = run(&cluster, &["jobs", "show", &"0".repeat(32)]);
    assert_eq!(code(&missing), 1);
    assert!(stderr(&missing).contains("there is no job 000"), "{}", stderr(&missing));
}

#[test]
fn the_cluster_is_shown() {
    let cluster = Cluster::start(None);
    let output = run(&cluster, &["cluster"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(stdout(&output).starts_with("thalweg 0.1.0, up 1 min 01 s\nslots: 3 of 4 free\n"), "{}", stdout(&output));
    assert!(stdout(&output).contains("127.0.0.1:4000"), "{}", stdout(&output));
    let json: serde_json::Value = serde_json::from_slice(&run(&cluster, &["cluster", "--json"]).stdout).unwrap();
    assert_eq!(json["task_managers"][0]["managed_memory_bytes"], 1u64 << 30);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_library_runs_statements_and_reads_rows() {
    // its runtime may not be dropped inside of another
    let cluster = tokio::task::spawn_blocking(|| Cluster::start(None)).await.unwrap();
    let client = Client::connect(&cluster.address.to_string(), None, Duration::from_secs(5)).await.unwrap();
    let session = client.open_session([("a", "b")]).await.unwrap();
    let set = session.set([("c", "d")], &["e"]).await.unwrap();
    assert_eq!((set.settings["c"].as_str(), set.notes.as_slice()), ("d", &["noted".to_owned()][..]));
    let created = session.execute("CREATE TABLE t").await.unwrap().outcome;
    assert!(matches!(created, ExecuteOutcome::Acknowledgement(text) if text == "table created"));
    let ExecuteOutcome::Query(query) = session.execute("SELECT 1").await.unwrap().outcome else { panic!("no query") };
    assert_eq!(query.job, JOB);
    let rows: usize = query.collect().await.unwrap().iter().map(|batch| batch.num_rows()).sum();
    assert_eq!(rows, 3);
    let ExecuteOutcome::Query(query) = session.execute("FAIL").await.unwrap().outcome else { panic!("no query") };
    let failed: Error = query.collect().await.unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::Job);
    assert_eq!(session.explain("x").await.unwrap(), "plan of x");
    session.close().await.unwrap();
    tokio::task::spawn_blocking(|| drop(cluster)).await.unwrap();
}
