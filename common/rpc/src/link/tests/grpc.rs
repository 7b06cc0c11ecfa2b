//! The link over a real socket: order, loss, silence, refusal.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use thalweg_proto::v1;
use thalweg_proto::v1::task_manager_link_server::{TaskManagerLink, TaskManagerLinkServer};
use thalweg_types::{AttemptId, JobId, LeaderEpoch, StageId, TaskId};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::service::interceptor::InterceptedService;
use tonic::{Request, Response, Status, Streaming};

use crate::auth::RequireToken;
use crate::channel::connect;
use crate::error::{Problem, RpcError};
use crate::link::{FromTaskManager, Heartbeats, JobManagerEnd, TaskManagerEnd, ToTaskManager, ToTaskManagerStream};
use crate::link::{dial, serve};

const PATIENCE: Duration = Duration::from_secs(20);

struct Links {
    ends: mpsc::Sender<JobManagerEnd>,
    pace: Heartbeats,
}

#[tonic::async_trait]
impl TaskManagerLink for Links {
    type LinkStream = ToTaskManagerStream;

    async fn link(
        &self,
        request: Request<Streaming<v1::FromTaskManager>>,
    ) -> Result<Response<ToTaskManagerStream>, Status> {
        let (end, stream) = serve("test".into(), request.into_inner(), self.pace);
        self.ends.send(end).await.map_err(|_| Status::unavailable("the test is over"))?;
        Ok(Response::new(stream))
    }
}

async fn server(token: Option<&'static str>, pace: Heartbeats) -> (SocketAddr, mpsc::Receiver<JobManagerEnd>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (ends, accepted) = mpsc::channel(4);
    let service = InterceptedService::new(TaskManagerLinkServer::new(Links { ends, pace }), RequireToken::new(token));
    let server = tonic::transport::Server::builder().add_service(service);
    tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
    (address, accepted)
}

fn pace(interval: u64, timeout: u64) -> Heartbeats {
    Heartbeats { interval: Duration::from_millis(interval), timeout: Duration::from_millis(timeout) }
}

async fn pair(pace: Heartbeats) -> (JobManagerEnd, TaskManagerEnd) {
    let (address, mut accepted) = server(None, pace).await;
    let tm = dial(&address.to_string(), None, PATIENCE).await.unwrap();
    (accepted.recv().await.unwrap(), tm)
}

fn registered(pace: Heartbeats) -> ToTaskManager {
    ToTaskManager::Registered {
        epoch: LeaderEpoch(1),
        ticket_key: vec![7; 32],
        heartbeat_interval: pace.interval,
        heartbeat_timeout: pace.timeout,
    }
}

fn attempt(index: u32) -> AttemptId {
    AttemptId { task: TaskId { job: JobId(1), stage: StageId(0), index }, attempt: 1 }
}

/// The next message that is not a heartbeat.
async fn heard(end: &mut JobManagerEnd) -> Option<FromTaskManager> {
    loop {
        match timeout(PATIENCE, end.rx.recv()).await.expect("something within the deadline") {
            Some(FromTaskManager::Heartbeat) => {}
            other => return other,
        }
    }
}

#[tokio::test]
async fn messages_arrive_in_order_and_a_farewell_is_heard() {
    let (mut jm, mut tm) = pair(pace(1000, 10_000)).await;
    let speak = async {
        for i in 0..5000 {
            tm.tx
                .send(FromTaskManager::Progress { attempt: attempt(i), rows: 1, bytes: 2, busy_nanos: 3 })
                .await
                .unwrap();
        }
        tm.tx.send(FromTaskManager::Leaving { detail: "done".into() }).await.unwrap();
    };
    let listen = async {
        for i in 0..5000 {
            let expected = FromTaskManager::Progress { attempt: attempt(i), rows: 1, bytes: 2, busy_nanos: 3 };
            assert_eq!(heard(&mut jm).await, Some(expected));
        }
    };
    tokio::join!(speak, listen);
    jm.tx.send(ToTaskManager::Cancel { attempt: attempt(3) }).await.unwrap();
    assert_eq!(timeout(PATIENCE, tm.rx.recv()).await.unwrap(), Some(ToTaskManager::Cancel { attempt: attempt(3) }));
    drop(tm);
    assert_eq!(heard(&mut jm).await, Some(FromTaskManager::Leaving { detail: "done".into() }));
    assert_eq!(heard(&mut jm).await, None);
}

#[tokio::test]
async fn dropping_one_end_ends_the_other() {
    let (jm, mut tm) = pair(pace(1000, 10_000)).await;
    drop(jm);
    assert_eq!(timeout(PATIENCE, tm.rx.recv()).await.unwrap(), None);
    timeout(PATIENCE, tm.tx.closed()).await.expect("the sender sees it too");
}

#[tokio::test]
async fn heartbeats_keep_an_idle_link() {
    let pace = pace(20, 400);
    let (mut jm, mut tm) = pair(pace).await;
    jm.tx.send(registered(pace)).await.unwrap();
    assert_eq!(timeout(PATIENCE, tm.rx.recv()).await.unwrap(), Some(registered(pace)));
    // several timeouts long nobody says anything
    let nothing = timeout(Duration::from_millis(1500), async {
        tokio::select! {
            message = tm.rx.recv() => format!("{message:?}"),
            end = async { while let Some(FromTaskManager::Heartbeat) = jm.rx.recv().await {} } => format!("{end:?}"),
        }
    });
    nothing.await.expect_err("the link is quiet and alive");
}

#[tokio::test]
async fn a_silent_task_manager_is_lost() {
    let (address, mut accepted) = server(None, pace(20, 200)).await;
    // speaks HTTP/2 and answers pings, and says nothing
    let channel = connect(&address.to_string(), None, PATIENCE).await.unwrap();
    let mut client = v1::task_manager_link_client::TaskManagerLinkClient::new(channel);
    let (_silent, rx) = mpsc::channel(1);
    let mut stream = client.link(ReceiverStream::new(rx)).await.unwrap().into_inner();
    let mut jm = accepted.recv().await.unwrap();
    assert_eq!(heard(&mut jm).await, None);
    timeout(PATIENCE, jm.tx.closed()).await.expect("the sender sees it too");
    let end = async { while let Ok(Some(_)) = stream.message().await {} };
    timeout(PATIENCE, end).await.expect("the stream ends too");
}

#[tokio::test]
async fn a_silent_job_manager_is_lost() {
    struct Mute;
    #[tonic::async_trait]
    impl TaskManagerLink for Mute {
        type LinkStream = ToTaskManagerStream;

        async fn link(
            &self,
            request: Request<Streaming<v1::FromTaskManager>>,
        ) -> Result<Response<ToTaskManagerStream>, Status> {
            let (tx, rx) = mpsc::channel(1);
            tokio::spawn(async move {
                let _hold = (tx, request);
                std::future::pending::<()>().await;
            });
            Ok(Response::new(ReceiverStream::new(rx)))
        }
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tonic::transport::Server::builder().add_service(TaskManagerLinkServer::new(Mute));
    tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
    let mut tm = dial(&address.to_string(), None, Duration::from_millis(500)).await.unwrap();
    assert_eq!(timeout(PATIENCE, tm.rx.recv()).await.unwrap(), None);
}

#[tokio::test]
async fn a_malformed_message_ends_the_link_and_says_why() {
    let (address, mut accepted) = server(None, pace(1000, 10_000)).await;
    let channel = connect(&address.to_string(), None, PATIENCE).await.unwrap();
    let mut client = v1::task_manager_link_client::TaskManagerLinkClient::new(channel);
    let (tx, rx) = mpsc::channel(1);
    let mut stream = client.link(ReceiverStream::new(rx)).await.unwrap().into_inner();
    let mut jm = accepted.recv().await.unwrap();
    tx.send(v1::FromTaskManager { message: None }).await.unwrap();
    let status = timeout(PATIENCE, stream.message()).await.unwrap().unwrap_err();
    assert!(matches!(RpcError::from(status), RpcError::Problem(Problem::InvalidArgument { .. })));
    assert_eq!(heard(&mut jm).await, None);
}

#[tokio::test]
async fn the_token_is_required() {
    let (address, mut accepted) = server(Some("right"), pace(1000, 10_000)).await;
    let address = address.to_string();
    for wrong in [None, Some("wrong")] {
        let refused = dial(&address, wrong, PATIENCE).await;
        assert!(matches!(refused, Err(RpcError::Problem(Problem::Unauthenticated { .. }))), "{refused:?}");
    }
    let _tm = dial(&address, Some("right"), PATIENCE).await.unwrap();
    assert!(accepted.recv().await.is_some());
}

#[tokio::test]
async fn a_large_fragment_passes() {
    let (jm, mut tm) = pair(pace(1000, 10_000)).await;
    let part = thalweg_graph::Part::alone(Arc::from(vec![5; 20 << 20]), 0);
    let stage = ToTaskManager::Stage { job: JobId(1), stage: StageId(2), parts: vec![part], settings: vec![] };
    jm.tx.send(stage.clone()).await.unwrap();
    assert!(timeout(PATIENCE, tm.rx.recv()).await.unwrap() == Some(stage));
}

#[tokio::test]
async fn in_process_both_ends_see_each_other() {
    let (mut jm, mut tm) = crate::link::in_process();
    tm.tx.send(FromTaskManager::Heartbeat).await.unwrap();
    assert_eq!(jm.rx.recv().await, Some(FromTaskManager::Heartbeat));
    let place = ToTaskManager::Place {
        job: JobId(1),
        placement: Arc::new(thalweg_graph::Placement {
            exchange: thalweg_types::ExchangeId(0),
            version: 1,
            maps: Arc::new([]),
        }),
        addresses: vec![],
    };
    jm.tx.send(place.clone()).await.unwrap();
    assert_eq!(tm.rx.recv().await, Some(place));
    drop(jm);
    assert_eq!(tm.rx.recv().await, None);
}
