//! A JobManager on real ports.

mod results;

use std::sync::Arc;
use std::time::Duration;

use thalweg_config::{Config, PortRange, Secret};
use thalweg_core::JobState;
use thalweg_proto::v1;
use thalweg_proto::v1::job_service_client::JobServiceClient;
use thalweg_proto::v1::session_service_client::SessionServiceClient;
use thalweg_rpc::link::{ToTaskManager, dial};
use thalweg_rpc::{ClientChannel, Problem, RpcError, client_channel};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::testing::{FakeTaskManager, PATIENCE, aggregate, scan, submission};
use crate::{JobManager, StartOptions};

fn config(token: Option<&str>) -> Config {
    let mut config = Config::default();
    config.jobmanager.bind_host = "127.0.0.1".into();
    config.jobmanager.rpc_port = 0;
    config.rest.bind_address = "127.0.0.1".into();
    config.rest.port = PortRange { first: 0, last: 0 };
    config.security.token = token.map(Secret::new);
    config
}

async fn start(token: Option<&str>) -> JobManager {
    JobManager::start(Arc::new(config(token)), StartOptions::default()).await.unwrap()
}

fn channel(jm: &JobManager, token: Option<&str>) -> ClientChannel {
    client_channel(&jm.rpc_address().to_string(), token).unwrap()
}

fn problem(status: tonic::Status) -> Problem {
    match RpcError::from(status) {
        RpcError::Problem(problem) => problem,
        other => panic!("{other:?}"),
    }
}

/// One request, the whole answer.
async fn http(jm: &JobManager, path: &str, authorization: &str) -> String {
    let mut socket = TcpStream::connect(jm.rest_address()).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{authorization}\r\n");
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    timeout(PATIENCE, socket.read_to_string(&mut answer)).await.unwrap().unwrap();
    answer
}

#[tokio::test]
async fn without_the_token_nothing_but_health_answers() {
    let jm = start(Some("right")).await;
    for token in [None, Some("wrong")] {
        let refused = JobServiceClient::new(channel(&jm, token)).list_jobs(v1::ListJobsRequest {}).await.unwrap_err();
        assert!(matches!(problem(refused), Problem::Unauthenticated { .. }));
        let refused = dial(&jm.rpc_address().to_string(), token, PATIENCE).await;
        assert!(matches!(refused, Err(RpcError::Problem(Problem::Unauthenticated { .. }))), "{refused:?}");
        let refused = arrow_flight::flight_service_client::FlightServiceClient::new(channel(&jm, token))
            .do_get(arrow_flight::Ticket::new("x"))
            .await
            .unwrap_err();
        assert!(matches!(problem(refused), Problem::Unauthenticated { .. }));
    }
    JobServiceClient::new(channel(&jm, Some("right"))).list_jobs(v1::ListJobsRequest {}).await.unwrap();
    let health = tonic_health::pb::health_client::HealthClient::new(channel(&jm, None))
        .check(tonic_health::pb::HealthCheckRequest { service: String::new() })
        .await
        .unwrap();
    assert_eq!(health.into_inner().status(), tonic_health::pb::health_check_response::ServingStatus::Serving);

    assert!(http(&jm, "/health", "").await.starts_with("HTTP/1.1 200"));
    assert!(http(&jm, "/overview", "").await.starts_with("HTTP/1.1 401"));
    assert!(http(&jm, "/jobs", "Authorization: Bearer wrong\r\n").await.starts_with("HTTP/1.1 401"));
    assert!(http(&jm, "/overview", "Authorization: Bearer right\r\n").await.starts_with("HTTP/1.1 200"));
    // the page is open, what it shows is not
    let page = http(&jm, "/", "").await;
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("default-src 'none'"), "{page}");
    for file in ["page.css", "page.js"] {
        assert!(page.contains(&format!("\"{file}\"")), "{page}");
        assert!(http(&jm, &format!("/{file}"), "").await.starts_with("HTTP/1.1 200"));
    }
    jm.shutdown().await;
}

#[tokio::test]
async fn garbage_on_the_ports_does_no_harm() {
    let jm = start(None).await;
    let garbage: [&[u8]; 5] = [
        b"",
        b"GET / HTTP/1.1\r\n\r\n",
        &[0xff; 4096],
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\x00\x00\x00\x00\x00\x00",
        // a frame that claims 16 MB
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00\xff\xff\xff\x01\x04\x00\x00\x00\x01",
    ];
    for bytes in garbage {
        for address in [jm.rpc_address(), jm.rest_address()] {
            let mut socket = TcpStream::connect(address).await.unwrap();
            // the server may hang up in the middle
            let _ = socket.write_all(bytes).await;
            let _ = timeout(Duration::from_millis(50), socket.read(&mut [0; 64])).await;
        }
    }
    JobServiceClient::new(channel(&jm, None)).list_jobs(v1::ListJobsRequest {}).await.unwrap();
    assert!(http(&jm, "/health", "").await.starts_with("HTTP/1.1 200"));
    jm.shutdown().await;
}

#[tokio::test]
async fn a_job_over_the_network_is_watched_shown_and_listed() {
    let jm = start(None).await;
    let job = jm.driver.submit(submission(aggregate(2, 2))).await.unwrap();
    let mut jobs = JobServiceClient::new(channel(&jm, None));
    let watch = v1::WatchJobRequest { job_id: job.to_string() };
    let mut events = jobs.watch_job(watch).await.unwrap().into_inner();

    let end = dial(&jm.rpc_address().to_string(), None, PATIENCE).await.unwrap();
    let tm = tokio::spawn(FakeTaskManager::register(end, "far", 1, 2).await.serve());
    let mut last = None;
    let mut finished_attempts = 0;
    while let Some(event) = timeout(PATIENCE, events.message()).await.expect("the end").unwrap() {
        match event.event.unwrap() {
            v1::job_event::Event::Job(summary) => last = Some(summary),
            v1::job_event::Event::Attempt(event) => {
                finished_attempts += u32::from(event.attempt.unwrap().state == "finished");
            }
            _ => {}
        }
    }
    assert_eq!(last.unwrap().state(), v1::JobState::Finished);
    assert_eq!(finished_attempts, 4);

    let shown = jobs.get_job(v1::GetJobRequest { job_id: job.to_string() }).await.unwrap().into_inner();
    assert_eq!(shown.plan, "the plan");
    assert_eq!(shown.stages.len(), 2);
    assert_eq!(shown.stages[0].rows, 16);
    assert!(shown.stages[1].attempts.iter().all(|attempt| attempt.task_manager.starts_with("far@")));
    let listed = jobs.list_jobs(v1::ListJobsRequest {}).await.unwrap().into_inner().jobs;
    assert_eq!((listed[0].job_id.as_str(), listed[0].tasks_finished), (job.to_string().as_str(), 4));
    assert!(http(&jm, &format!("/jobs/{job}"), "").await.contains("\"state\":\"finished\""));

    let overview = v1::cluster_service_client::ClusterServiceClient::new(channel(&jm, None))
        .get_overview(v1::GetOverviewRequest {})
        .await
        .unwrap()
        .into_inner();
    assert_eq!((overview.slots_total, overview.slots_free, overview.jobs_finished), (2, 2, 1));
    jm.shutdown().await;
    timeout(PATIENCE, tm).await.expect("the link ends with the jobmanager").unwrap();
}

#[tokio::test]
async fn unknown_and_malformed_ids_are_told_apart() {
    let jm = start(None).await;
    let mut jobs = JobServiceClient::new(channel(&jm, None));
    let unknown = "0123456789abcdef0123456789abcdef";
    let status = jobs.get_job(v1::GetJobRequest { job_id: unknown.into() }).await.unwrap_err();
    assert_eq!(problem(status), Problem::NotFound { what: "job".into(), id: unknown.into() });
    let status = jobs.cancel_job(v1::CancelJobRequest { job_id: "17".into() }).await.unwrap_err();
    assert!(matches!(problem(status), Problem::InvalidArgument { .. }));
    let status = jobs.watch_job(v1::WatchJobRequest { job_id: unknown.into() }).await.unwrap_err();
    assert!(matches!(problem(status), Problem::NotFound { .. }));
    assert!(http(&jm, &format!("/jobs/{unknown}"), "").await.starts_with("HTTP/1.1 404"));
    jm.shutdown().await;
}

#[tokio::test]
async fn cancel_reaches_the_task_manager() {
    let jm = start(None).await;
    let mut tm = FakeTaskManager::register(jm.attach(), "near", 1, 1).await;
    let job = jm.driver.submit(submission(scan(1))).await.unwrap();
    let spec = tm.next_deploy().await;
    let mut jobs = JobServiceClient::new(channel(&jm, None));
    let state = jobs.cancel_job(v1::CancelJobRequest { job_id: job.to_string() }).await.unwrap().into_inner().state();
    assert_eq!(state, v1::JobState::Cancelled);
    tm.serve_until(|order| *order == ToTaskManager::Cancel { attempt: spec.attempt }).await;
    assert_eq!(jm.driver.job(job).await.unwrap().brief.state, JobState::Cancelled);
    jm.shutdown().await;
}

#[tokio::test]
async fn settings_are_checked_and_kept_per_session() {
    let jm = start(None).await;
    let mut sessions = SessionServiceClient::new(channel(&jm, None));
    let open = v1::OpenSessionRequest { settings: [("parallelism.default".to_owned(), "3".to_owned())].into() };
    let session_id = sessions.open_session(open).await.unwrap().into_inner().session_id;
    let set = |key: &str, value: &str| v1::SetRequest {
        session_id: session_id.clone(),
        set: [(key.to_owned(), value.to_owned())].into(),
        reset: vec![],
    };
    let answer = sessions.set(set("table.local-time-zone", "Europe/Berlin")).await.unwrap().into_inner();
    assert_eq!(answer.settings.len(), 2);
    for (key, value) in [("parallelism.default", "many"), ("no.such.key", "1"), ("jobmanager.rpc.port", "1")] {
        let Problem::Setting { message } = problem(sessions.set(set(key, value)).await.unwrap_err()) else {
            panic!("{key} was not refused as a setting")
        };
        assert!(message.contains(key), "{message}");
    }
    let reset = v1::SetRequest {
        session_id: session_id.clone(),
        set: Default::default(),
        reset: vec!["parallelism.default".into()],
    };
    let answer = sessions.set(reset).await.unwrap().into_inner();
    assert_eq!(answer.settings.keys().collect::<Vec<_>>(), ["table.local-time-zone"]);

    sessions.close_session(v1::CloseSessionRequest { session_id: session_id.clone() }).await.unwrap();
    let gone = sessions.set(set("parallelism.default", "1")).await.unwrap_err();
    assert!(matches!(problem(gone), Problem::NotFound { .. }));
    jm.shutdown().await;
}

#[tokio::test]
async fn a_taken_port_is_named_with_its_key() {
    let jm = start(None).await;
    let mut taken = config(None);
    taken.jobmanager.rpc_port = jm.rpc_address().port();
    let Err(error) = JobManager::start(Arc::new(taken), StartOptions::default()).await else {
        panic!("it bound twice")
    };
    let text = error.to_string();
    assert!(text.contains(&jm.rpc_address().port().to_string()) && text.contains("jobmanager.rpc.port"), "{text}");
    jm.shutdown().await;
}
