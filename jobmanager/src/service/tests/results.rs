//! Reading results with Flight: inline, from TaskManagers, lost, too large, gone.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::flight_service_server::{FlightService, FlightServiceServer};
use arrow_flight::utils::{batches_to_flight_data, flight_data_to_batches};
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo, HandshakeRequest, HandshakeResponse,
    PollInfo, PutResult, SchemaResult, Ticket,
};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use parking_lot::Mutex;
use thalweg_rpc::{MessageInfo, Problem, ResultTicket, TicketKey};
use thalweg_types::JobId;
use tokio::net::TcpListener;
use tokio::time::timeout;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status, Streaming};

use super::{channel, config, problem, start};
use crate::JobManager;
use crate::testing::{FakeTaskManager, PATIENCE, batch, scan, schema, submission};

const TOKEN: &str = "right";

async fn read(jm: &JobManager, job: JobId) -> Result<Vec<i64>, Status> {
    let ticket = ResultTicket { job }.sign(&TicketKey::from_token(TOKEN));
    let mut client = FlightServiceClient::new(channel(jm, Some(TOKEN)));
    let reading = async {
        let stream = client.do_get(Ticket::new(ticket)).await?.into_inner();
        stream.try_collect::<Vec<FlightData>>().await
    };
    let messages = timeout(PATIENCE, reading).await.expect("an answer")?;
    let batches = flight_data_to_batches(&messages).unwrap();
    Ok(batches.iter().flat_map(|b| b.column(0).as_primitive::<Int64Type>().values().to_vec()).collect())
}

#[tokio::test]
async fn small_results_come_with_the_finish_reports_and_are_read_once() {
    let jm = start(Some(TOKEN)).await;
    let job = jm.driver.submit(submission(scan(2))).await.unwrap();
    // the reader is there before the job runs
    let reading = async { read(&jm, job).await };
    let serving = async {
        let mut tm = FakeTaskManager::register(jm.attach(), "near", 1, 2).await;
        tm.serve_until(|order| matches!(order, thalweg_rpc::link::ToTaskManager::ReleaseJob { .. })).await;
    };
    let (rows, ()) = tokio::join!(reading, serving);
    assert_eq!(rows.unwrap(), [0, 1]);
    let again = read(&jm, job).await.unwrap_err();
    assert_eq!(problem(again), Problem::ResultGone { job });
    jm.shutdown().await;
}

#[tokio::test]
async fn tickets_are_checked() {
    let jm = start(Some(TOKEN)).await;
    let job = jm.driver.submit(submission(scan(1))).await.unwrap();
    let mut client = FlightServiceClient::new(channel(&jm, Some(TOKEN)));
    let forged = ResultTicket { job }.sign(&TicketKey::from_token("other"));
    for ticket in [forged, bytes::Bytes::from_static(b"what")] {
        let refused = client.do_get(Ticket::new(ticket)).await.unwrap_err();
        assert!(matches!(problem(refused), Problem::InvalidArgument { .. }));
    }
    assert_eq!(
        problem(read(&jm, JobId(5)).await.unwrap_err()),
        Problem::NotFound { what: "job".into(), id: JobId(5).to_string() }
    );
    jm.shutdown().await;
}

#[tokio::test]
async fn a_failed_and_a_cancelled_job_tell_the_reader() {
    let jm = start(Some(TOKEN)).await;
    let mut tm = FakeTaskManager::register(jm.attach(), "near", 1, 1).await;
    let failing = jm.driver.submit(submission(scan(1))).await.unwrap();
    let spec = tm.next_deploy().await;
    tm.fail(spec.attempt, thalweg_types::ErrorKind::Data, "a bad row").await;
    let failed = problem(read(&jm, failing).await.unwrap_err());
    assert!(matches!(&failed, Problem::JobFailed { job, .. } if *job == failing), "{failed:?}");
    let cancelled = jm.driver.submit(submission(scan(1))).await.unwrap();
    jm.driver.cancel(cancelled).await.unwrap();
    assert_eq!(problem(read(&jm, cancelled).await.unwrap_err()), Problem::JobCancelled { job: cancelled });
    jm.shutdown().await;
}

#[tokio::test]
async fn a_result_above_its_limit_is_refused() {
    let jm = start(Some(TOKEN)).await;
    let tm = tokio::spawn(FakeTaskManager::register(jm.attach(), "near", 1, 1).await.serve());
    let small = crate::driver::Submission { result_max_size: 10, ..submission(scan(1)) };
    let job = jm.driver.submit(small).await.unwrap();
    let refused = read(&jm, job).await.unwrap_err();
    assert_eq!(problem(refused), Problem::ResultTooLarge { job, limit: 10 });
    jm.shutdown().await;
    tm.await.unwrap();
}

/// What a data plane answers to its next calls.
enum Answer {
    Rows(Vec<i64>),
    /// One batch, then the stream ends without the end of the map.
    CutOff(Vec<i64>),
    Lost,
    BadChecksum,
}

struct DataPlane {
    answers: Mutex<VecDeque<Answer>>,
    /// The attempt that is answered with, one more for every call after a loss.
    attempt: Mutex<u32>,
}

impl DataPlane {
    async fn start(answers: Vec<Answer>) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let plane = DataPlane { answers: Mutex::new(answers.into()), attempt: Mutex::new(1) };
        let server = tonic::transport::Server::builder().add_service(FlightServiceServer::new(plane));
        tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
        address
    }

    fn messages(&self, ticket: &[u8]) -> Result<Vec<FlightData>, Status> {
        let map = u32::from_le_bytes(ticket[21..25].try_into().unwrap());
        let answer = self.answers.lock().pop_front().expect("one more call than planned");
        let mut attempt = self.attempt.lock();
        let (rows, end) = match &answer {
            Answer::Rows(rows) => (rows.clone(), true),
            Answer::CutOff(rows) => (rows.clone(), false),
            Answer::BadChecksum => (vec![7], true),
            Answer::Lost => {
                *attempt += 1;
                return Err(Status::not_found("it is not here"));
            }
        };
        let mut messages = batches_to_flight_data(&schema(), vec![batch(&rows)]).unwrap();
        messages[0].app_metadata = MessageInfo::schema(0).encode();
        let data = &mut messages[1];
        let info = MessageInfo::batch(map, *attempt, rows.len() as u32, end, &data.data_header, &[&data.data_body[..]]);
        data.app_metadata = info.encode();
        if matches!(answer, Answer::BadChecksum) {
            let mut body = data.data_body.to_vec();
            body[0] ^= 1;
            data.data_body = body.into();
            *attempt += 1;
        }
        Ok(messages)
    }
}

type Stream<T> = BoxStream<'static, Result<T, Status>>;

#[tonic::async_trait]
impl FlightService for DataPlane {
    type HandshakeStream = Stream<HandshakeResponse>;
    type ListFlightsStream = Stream<FlightInfo>;
    type DoGetStream = Stream<FlightData>;
    type DoPutStream = Stream<PutResult>;
    type DoActionStream = Stream<arrow_flight::Result>;
    type ListActionsStream = Stream<ActionType>;
    type DoExchangeStream = Stream<FlightData>;

    async fn do_get(&self, request: Request<Ticket>) -> Result<Response<Self::DoGetStream>, Status> {
        assert_eq!(request.metadata().get("authorization").unwrap(), &format!("Bearer {TOKEN}"));
        let messages = self.messages(&request.into_inner().ticket)?;
        Ok(Response::new(futures::stream::iter(messages.into_iter().map(Ok)).boxed()))
    }

    async fn handshake(
        &self,
        _: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<Self::HandshakeStream>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn list_flights(&self, _: Request<Criteria>) -> Result<Response<Self::ListFlightsStream>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn get_flight_info(&self, _: Request<FlightDescriptor>) -> Result<Response<FlightInfo>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn poll_flight_info(&self, _: Request<FlightDescriptor>) -> Result<Response<PollInfo>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn get_schema(&self, _: Request<FlightDescriptor>) -> Result<Response<SchemaResult>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn do_put(&self, _: Request<Streaming<FlightData>>) -> Result<Response<Self::DoPutStream>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn do_exchange(&self, _: Request<Streaming<FlightData>>) -> Result<Response<Self::DoExchangeStream>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn do_action(&self, _: Request<Action>) -> Result<Response<Self::DoActionStream>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn list_actions(&self, _: Request<Empty>) -> Result<Response<Self::ListActionsStream>, Status> {
        Err(Status::unimplemented(""))
    }
}

/// Runs a job of `tasks` tasks whose result lies on a data plane that answers so.
async fn read_from(tasks: u32, answers: Vec<Answer>) -> Result<Vec<i64>, Problem> {
    let address = DataPlane::start(answers).await;
    let jm = JobManager::start(Arc::new(config(Some(TOKEN))), crate::StartOptions::default()).await.unwrap();
    let mut tm = FakeTaskManager::register_at(jm.attach(), "near", 1, 2, &address.to_string()).await;
    tm.inline = false;
    let tm = tokio::spawn(tm.serve());
    let job = jm.driver.submit(submission(scan(tasks))).await.unwrap();
    let rows = read(&jm, job).await.map_err(problem);
    jm.shutdown().await;
    tm.await.unwrap();
    rows
}

#[tokio::test]
async fn results_are_read_from_task_managers_in_map_order() {
    let rows = read_from(2, vec![Answer::Rows(vec![5, 6]), Answer::Rows(vec![7])]).await;
    assert_eq!(rows, Ok(vec![5, 6, 7]));
}

#[tokio::test]
async fn a_map_lost_before_it_was_read_is_made_again() {
    assert_eq!(read_from(1, vec![Answer::Lost, Answer::Rows(vec![1])]).await, Ok(vec![1]));
    assert_eq!(read_from(1, vec![Answer::BadChecksum, Answer::Rows(vec![2])]).await, Ok(vec![2]));
}

#[tokio::test]
async fn a_map_lost_in_the_middle_is_an_error() {
    let lost = read_from(1, vec![Answer::CutOff(vec![1])]).await;
    assert!(matches!(lost, Err(Problem::ResultLost { .. })), "{lost:?}");
}
