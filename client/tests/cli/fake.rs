//! A cluster that is made up: it answers a few statements as a JobManager would, and remembers what it was told.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Schema;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::error::FlightError;
use arrow_flight::flight_service_server::{FlightService, FlightServiceServer};
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo, HandshakeRequest, HandshakeResponse,
    PollInfo, PutResult, SchemaResult, Ticket,
};
use arrow_ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteOptions, StreamWriter};
use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use thalweg_proto::v1::cluster_service_server::{ClusterService, ClusterServiceServer};
use thalweg_proto::v1::execute_response::Result as Answer;
use thalweg_proto::v1::job_service_server::{JobService, JobServiceServer};
use thalweg_proto::v1::session_service_server::{SessionService, SessionServiceServer};
use thalweg_proto::v1::*;
use thalweg_rpc::{Problem, RequireToken};
use thalweg_types::JobId;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};

pub const JOB: JobId = JobId(0xfeed);

/// A running fake cluster; it ends with this.
pub struct Cluster {
    pub address: SocketAddr,
    told: Arc<Mutex<Vec<String>>>,
    _runtime: tokio::runtime::Runtime,
}

impl Cluster {
    pub fn start(token: Option<&str>) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let fake = Fake::default();
        let told = fake.told.clone();
        let require = RequireToken::new(token);
        runtime.spawn(async move {
            Server::builder()
                .add_service(InterceptedService::new(SessionServiceServer::new(fake.clone()), require.clone()))
                .add_service(InterceptedService::new(JobServiceServer::new(fake.clone()), require.clone()))
                .add_service(InterceptedService::new(ClusterServiceServer::new(fake.clone()), require.clone()))
                .add_service(InterceptedService::new(FlightServiceServer::new(fake), require))
                .serve_with_incoming(tokio_stream::wrappers::TcpListenerStream::new(listener))
                .await
        });
        Self { address, told, _runtime: runtime }
    }

    /// What the cluster was told, in order.
    pub fn told(&self) -> Vec<String> {
        self.told.lock().unwrap().clone()
    }

    /// Waits until the cluster was told something.
    pub fn wait_until_told(&self, what: &str) {
        let deadline = std::time::Instant::now() + Duration::from_secs(20);
        while !self.told().iter().any(|told| told == what) {
            assert!(std::time::Instant::now() < deadline, "never told {what:?}: {:?}", self.told());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[derive(Clone, Default)]
struct Fake {
    told: Arc<Mutex<Vec<String>>>,
}

impl Fake {
    fn tell(&self, what: impl Into<String>) {
        self.told.lock().unwrap().push(what.into());
    }
}

fn rows(of: std::ops::Range<i64>) -> RecordBatch {
    let names = of.clone().map(|n| if n == 2 { None } else { Some(format!("row {n}")) });
    let columns: [(&str, ArrayRef, bool); 2] = [
        ("n", Arc::new(Int64Array::from_iter_values(of.clone())), true),
        ("name", Arc::new(StringArray::from_iter(names)), true),
    ];
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

fn schema_message(schema: &Schema) -> Bytes {
    let mut dictionaries = DictionaryTracker::new(false);
    let encoded = IpcDataGenerator::default().schema_to_bytes_with_dictionary_tracker(
        schema,
        &mut dictionaries,
        &IpcWriteOptions::default(),
    );
    encoded.ipc_message.into()
}

fn ipc_stream(batch: &RecordBatch) -> Bytes {
    let mut stream = StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    stream.write(batch).unwrap();
    stream.into_inner().unwrap().into()
}

fn query(kind: &str) -> Answer {
    let ticket = Bytes::from(kind.to_owned());
    Answer::Query(QueryHandle {
        job_id: JOB.to_string(),
        ticket,
        schema: schema_message(&rows(0..0).schema()),
        recoverable: false,
    })
}

#[tonic::async_trait]
impl SessionService for Fake {
    async fn open_session(
        &self,
        request: Request<OpenSessionRequest>,
    ) -> Result<Response<OpenSessionResponse>, Status> {
        let mut settings: Vec<_> = request.into_inner().settings.into_iter().collect();
        settings.sort();
        self.tell(format!("open {settings:?}"));
        Ok(Response::new(OpenSessionResponse { session_id: "s".into() }))
    }

    async fn close_session(&self, _: Request<CloseSessionRequest>) -> Result<Response<CloseSessionResponse>, Status> {
        self.tell("close");
        Ok(Response::new(CloseSessionResponse {}))
    }

    async fn set(&self, request: Request<SetRequest>) -> Result<Response<SetResponse>, Status> {
        let SetRequest { set, reset, .. } = request.into_inner();
        self.tell(format!("set {set:?} reset {reset:?}"));
        Ok(Response::new(SetResponse { settings: set, notes: vec!["noted".into()] }))
    }

    async fn execute(&self, request: Request<ExecuteRequest>) -> Result<Response<ExecuteResponse>, Status> {
        let statement = request.into_inner().statement;
        self.tell(&statement);
        let mut notes = Vec::new();
        let answer = match statement.split_whitespace().next().unwrap_or_default() {
            "CREATE" => Answer::Acknowledgement(Acknowledgement { text: "table created".into() }),
            "SET" => {
                notes.push("has no effect yet".to_owned());
                Answer::Acknowledgement(Acknowledgement { text: "set".into() })
            }
            "SHOW" => Answer::Rows(ipc_stream(&rows(1..2))),
            "SELECT" => query("three"),
            "FAIL" => query("fail"),
            "HANG" => query("hang"),
            "ENDLESS" => query("endless"),
            "LIE" => query("lie"),
            word => return Err(Problem::Statement { message: format!("unknown statement {word}") }.into()),
        };
        Ok(Response::new(ExecuteResponse { result: Some(answer), notes }))
    }

    async fn explain(&self, request: Request<ExplainRequest>) -> Result<Response<ExplainResponse>, Status> {
        Ok(Response::new(ExplainResponse { plan: format!("plan of {}", request.into_inner().query) }))
    }
}

fn summary(state: JobState) -> JobSummary {
    JobSummary {
        job_id: JOB.to_string(),
        state: state.into(),
        statement: "SELECT 1".into(),
        submitted_at_ms: 1_720_000_000_000,
        duration_ms: 1500,
        tasks_finished: 1,
        tasks_total: 2,
        failure: if state == JobState::Failed { "division by zero".into() } else { String::new() },
        recoverable: false,
    }
}

fn stage() -> StageInfo {
    let attempt = AttemptInfo {
        task: 0,
        attempt: 2,
        task_manager: "tm-a@1".into(),
        state: "failed".into(),
        cause: "division by zero".into(),
        ..Default::default()
    };
    StageInfo {
        stage: 1,
        name: "aggregate".into(),
        parallelism: 4,
        rows: 10,
        inputs: vec![input(0, 3), input(2, 4)],
        output: "result".into(),
        attempts: vec![attempt],
        ..Default::default()
    }
}

fn input(producer: u32, rows: u64) -> StageInputInfo {
    StageInputInfo { producer, replicated: producer == 2, rows, network_bytes: rows * 1024 }
}

fn decision() -> DecisionInfo {
    DecisionInfo {
        at_ms: 12,
        stage: 1,
        rule: "parallelism".into(),
        measured: "48 MB in 3 maps".into(),
        outcome: "4 tasks".into(),
    }
}

#[tonic::async_trait]
impl JobService for Fake {
    type WatchJobStream = BoxStream<'static, Result<JobEvent, Status>>;

    async fn submit_job(&self, _: Request<SubmitJobRequest>) -> Result<Response<SubmitJobResponse>, Status> {
        Err(Status::unimplemented("not in this cluster"))
    }

    async fn list_jobs(&self, _: Request<ListJobsRequest>) -> Result<Response<ListJobsResponse>, Status> {
        Ok(Response::new(ListJobsResponse { jobs: vec![summary(JobState::Finished), summary(JobState::Running)] }))
    }

    async fn get_job(&self, request: Request<GetJobRequest>) -> Result<Response<GetJobResponse>, Status> {
        let id = request.into_inner().job_id;
        if id != JOB.to_string() {
            return Err(Problem::NotFound { what: "job".into(), id }.into());
        }
        Ok(Response::new(GetJobResponse {
            summary: Some(summary(JobState::Failed)),
            stages: vec![stage()],
            decisions: vec![decision()],
            plan: "Scan t".into(),
        }))
    }

    async fn cancel_job(&self, request: Request<CancelJobRequest>) -> Result<Response<CancelJobResponse>, Status> {
        self.tell(format!("cancel {}", request.into_inner().job_id));
        Ok(Response::new(CancelJobResponse { state: JobState::Cancelled.into() }))
    }

    async fn watch_job(&self, _: Request<WatchJobRequest>) -> Result<Response<Self::WatchJobStream>, Status> {
        use job_event::Event;
        let events = [
            Event::Job(summary(JobState::Running)),
            Event::Stage(stage()),
            Event::Decision(decision()),
            Event::Attempt(AttemptEvent { stage: 1, attempt: stage().attempts.pop() }),
            Event::Job(summary(JobState::Failed)),
        ];
        Ok(Response::new(stream::iter(events.map(|event| Ok(JobEvent { event: Some(event) }))).boxed()))
    }
}

#[tonic::async_trait]
impl ClusterService for Fake {
    async fn get_overview(&self, _: Request<GetOverviewRequest>) -> Result<Response<GetOverviewResponse>, Status> {
        let tm = TaskManagerInfo {
            id: "tm-a@1".into(),
            data_address: "127.0.0.1:4000".into(),
            slots_total: 4,
            slots_free: 3,
            managed_memory_bytes: 1 << 30,
            last_heartbeat_ms_ago: 20,
        };
        Ok(Response::new(GetOverviewResponse {
            version: "0.1.0".into(),
            uptime_ms: 61_000,
            task_managers: vec![tm],
            slots_total: 4,
            slots_free: 3,
            jobs_running: 1,
            ..Default::default()
        }))
    }
}

type Batches = BoxStream<'static, Result<RecordBatch, FlightError>>;

/// The rows behind a ticket.
fn batches(kind: &[u8]) -> Batches {
    match kind {
        b"three" => stream::iter([Ok(rows(1..3)), Ok(rows(3..4))]).boxed(),
        b"hang" => stream::pending().boxed(),
        b"endless" => stream::iter(0..).map(|n| Ok(rows(n * 1000..(n + 1) * 1000))).boxed(),
        b"lie" => {
            let column: ArrayRef = Arc::new(Int64Array::from(vec![1]));
            stream::iter([Ok(RecordBatch::try_from_iter([("other", column)]).unwrap())]).boxed()
        }
        _ => {
            let failed = Problem::InvalidArgument { message: "no such ticket".into() };
            stream::iter([Err(FlightError::from(Status::from(failed)))]).boxed()
        }
    }
}

fn unused<T>() -> Result<T, Status> {
    Err(Status::unimplemented("not in this cluster"))
}

#[tonic::async_trait]
impl FlightService for Fake {
    type HandshakeStream = BoxStream<'static, Result<HandshakeResponse, Status>>;
    type ListFlightsStream = BoxStream<'static, Result<FlightInfo, Status>>;
    type DoGetStream = BoxStream<'static, Result<FlightData, Status>>;
    type DoPutStream = BoxStream<'static, Result<PutResult, Status>>;
    type DoActionStream = BoxStream<'static, Result<arrow_flight::Result, Status>>;
    type ListActionsStream = BoxStream<'static, Result<ActionType, Status>>;
    type DoExchangeStream = BoxStream<'static, Result<FlightData, Status>>;

    async fn do_get(&self, request: Request<Ticket>) -> Result<Response<Self::DoGetStream>, Status> {
        let ticket = request.into_inner().ticket;
        self.tell(format!("get {}", String::from_utf8_lossy(&ticket)));
        if &ticket[..] == b"fail" {
            let failure =
                thalweg_core::JobFailure::Stalled { waited: Duration::from_secs(1), waits: "s1 on s0".into() };
            return Err(Problem::JobFailed { job: JOB, failure }.into());
        }
        let schema = if &ticket[..] == b"lie" {
            Arc::new(Schema::new(vec![arrow::datatypes::Field::new("other", arrow::datatypes::DataType::Int64, false)]))
        } else {
            rows(0..0).schema()
        };
        let data = FlightDataEncoderBuilder::new().with_schema(schema).build(batches(&ticket));
        Ok(Response::new(data.map_err(Status::from).boxed()))
    }

    async fn handshake(
        &self,
        _: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<Self::HandshakeStream>, Status> {
        unused()
    }
    async fn list_flights(&self, _: Request<Criteria>) -> Result<Response<Self::ListFlightsStream>, Status> {
        unused()
    }
    async fn get_flight_info(&self, _: Request<FlightDescriptor>) -> Result<Response<FlightInfo>, Status> {
        unused()
    }
    async fn poll_flight_info(&self, _: Request<FlightDescriptor>) -> Result<Response<PollInfo>, Status> {
        unused()
    }
    async fn get_schema(&self, _: Request<FlightDescriptor>) -> Result<Response<SchemaResult>, Status> {
        unused()
    }
    async fn do_put(&self, _: Request<Streaming<FlightData>>) -> Result<Response<Self::DoPutStream>, Status> {
        unused()
    }
    async fn do_action(&self, _: Request<Action>) -> Result<Response<Self::DoActionStream>, Status> {
        unused()
    }
    async fn list_actions(&self, _: Request<Empty>) -> Result<Response<Self::ListActionsStream>, Status> {
        unused()
    }
    async fn do_exchange(&self, _: Request<Streaming<FlightData>>) -> Result<Response<Self::DoExchangeStream>, Status> {
        unused()
    }
}
