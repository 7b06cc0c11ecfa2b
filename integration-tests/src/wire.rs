//! The public API as any client sees it: gRPC for jobs and the cluster, Arrow Flight for rows. Blocking.
//!
//! Independent of the project's own client on purpose: what works here works for a client written from the `.proto` files.
//! Every call has a deadline; watching a job ends with its last event or the given limit. One connection is kept, and made anew
//! by the next call when it broke.

use std::ops::ControlFlow;
use std::time::Duration;

use arrow::record_batch::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::{FlightClient, Ticket};
use futures::TryStreamExt;
use thalweg_proto::v1::cluster_service_client::ClusterServiceClient;
use thalweg_proto::v1::execute_response::Result as Executed;
use thalweg_proto::v1::job_service_client::JobServiceClient;
use thalweg_proto::v1::session_service_client::SessionServiceClient;
use thalweg_proto::v1::{
    CancelJobRequest, ExecuteRequest, GetJobRequest, GetJobResponse, GetOverviewRequest, GetOverviewResponse, JobEvent,
    JobState, JobSummary, ListJobsRequest, OpenSessionRequest, SubmitJobRequest, SubmitJobResponse, WatchJobRequest,
};
use tokio::runtime::Runtime;
use tonic::transport::{Channel, Endpoint};

use crate::csv::Table;

/// For one unary call.
const CALL_LIMIT: Duration = Duration::from_secs(30);
/// Largest message taken, bytes: more than any batch of a test's result.
const MAX_MESSAGE: usize = 256 << 20;
/// For a whole result, its job included.
const RESULT_LIMIT: Duration = Duration::from_secs(300);

pub struct Wire {
    runtime: Runtime,
    channel: Channel,
}

/// An open SQL session: its tables and settings last over several statements.
pub struct Session<'a> {
    wire: &'a Wire,
    id: String,
}

impl Wire {
    /// `address` is the JobManager's host and port; nothing is connected yet.
    pub fn new(address: &str) -> Wire {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).enable_all().build().expect("threads can be started");
        let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("a host and a port");
        let entered = runtime.enter();
        let channel = endpoint.connect_timeout(Duration::from_secs(5)).connect_lazy();
        drop(entered);
        Wire { runtime, channel }
    }

    pub fn overview(&self) -> Result<GetOverviewResponse, String> {
        self.call(async |channel| ClusterServiceClient::new(channel).get_overview(GetOverviewRequest {}).await)
    }

    pub fn submit(&self, script: &str, settings: &[(&str, &str)]) -> Result<SubmitJobResponse, String> {
        let settings = settings.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        let request = SubmitJobRequest { script: script.to_string(), settings };
        self.call(async |channel| JobServiceClient::new(channel).submit_job(request).await)
    }

    pub fn job(&self, job_id: &str) -> Result<GetJobResponse, String> {
        let request = GetJobRequest { job_id: job_id.to_string() };
        self.call(async |channel| JobServiceClient::new(channel).get_job(request).await)
    }

    pub fn jobs(&self) -> Result<Vec<JobSummary>, String> {
        let listed = self.call(async |channel| JobServiceClient::new(channel).list_jobs(ListJobsRequest {}).await);
        listed.map(|response| response.jobs)
    }

    pub fn cancel(&self, job_id: &str) -> Result<JobState, String> {
        let request = CancelJobRequest { job_id: job_id.to_string() };
        self.call(async |channel| JobServiceClient::new(channel).cancel_job(request).await).map(|r| r.state())
    }

    /// Hands each event to `see` until it breaks, the job ends, or `limit` has passed (an error).
    pub fn watch<T>(
        &self,
        job_id: &str,
        limit: Duration,
        mut see: impl FnMut(JobEvent) -> ControlFlow<T>,
    ) -> Result<Option<T>, String> {
        let request = WatchJobRequest { job_id: job_id.to_string() };
        let watching = async {
            let response =
                JobServiceClient::new(self.channel.clone()).watch_job(request).await.map_err(|s| status_text(&s))?;
            let mut events = response.into_inner();
            while let Some(event) = events.message().await.map_err(|s| status_text(&s))? {
                if let ControlFlow::Break(found) = see(event) {
                    return Ok(Some(found));
                }
            }
            Ok(None)
        };
        self.runtime.block_on(async {
            let timed = tokio::time::timeout(limit, watching).await;
            timed.unwrap_or_else(|_| Err(format!("job {job_id}: no last event within {limit:?}")))
        })
    }

    /// Waits for the job's end and reads its rows.
    pub fn rows(&self, ticket: &[u8]) -> Result<Table, String> {
        to_table(&self.batches(ticket)?)
    }

    /// The same, as it came over the wire; an empty result is one empty batch, for its schema.
    pub fn batches(&self, ticket: &[u8]) -> Result<Vec<RecordBatch>, String> {
        let ticket = Ticket { ticket: ticket.to_vec().into() };
        let reading = async {
            let inner = FlightServiceClient::new(self.channel.clone()).max_decoding_message_size(MAX_MESSAGE);
            let mut client = FlightClient::new_from_inner(inner);
            let mut stream = client.do_get(ticket).await.map_err(|e| error_text(&e))?;
            let mut batches = Vec::new();
            while let Some(batch) = stream.try_next().await.map_err(|e| error_text(&e))? {
                batches.push(batch);
            }
            if let (true, Some(schema)) = (batches.is_empty(), stream.schema()) {
                batches.push(RecordBatch::new_empty(schema.clone()));
            }
            Ok(batches)
        };
        self.runtime.block_on(async {
            let timed = tokio::time::timeout(RESULT_LIMIT, reading).await;
            timed.unwrap_or_else(|_| Err(format!("the result was not read within {RESULT_LIMIT:?}")))
        })
    }

    pub fn open_session(&self, settings: &[(&str, &str)]) -> Result<Session<'_>, String> {
        let settings = settings.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        let request = OpenSessionRequest { settings };
        let opened = self.call(async |channel| SessionServiceClient::new(channel).open_session(request).await)?;
        Ok(Session { wire: self, id: opened.session_id })
    }

    fn call<T>(
        &self,
        work: impl AsyncFnOnce(Channel) -> Result<tonic::Response<T>, tonic::Status>,
    ) -> Result<T, String> {
        self.runtime.block_on(async {
            let timed = tokio::time::timeout(CALL_LIMIT, work(self.channel.clone())).await;
            let response = timed.map_err(|_| format!("no answer within {CALL_LIMIT:?}"))?;
            response.map(tonic::Response::into_inner).map_err(|s| status_text(&s))
        })
    }
}

impl Session<'_> {
    /// Runs one statement; a query's rows are read to the end, any other statement answers with none.
    pub fn run(&self, statement: &str) -> Result<Vec<RecordBatch>, String> {
        let request = ExecuteRequest { session_id: self.id.clone(), statement: statement.to_string() };
        let done = self.wire.call(async |channel| SessionServiceClient::new(channel).execute(request).await)?;
        match done.result {
            Some(Executed::Query(query)) => self.wire.batches(&query.ticket),
            _ => Ok(Vec::new()),
        }
    }
}

fn status_text(status: &tonic::Status) -> String {
    format!("{:?}: {}", status.code(), status.message())
}

/// The error and its sources, on one line.
fn error_text(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text = format!("{text}: {inner}");
        source = inner.source();
    }
    text
}

/// Batches as text.
pub fn to_table(batches: &[RecordBatch]) -> Result<Table, String> {
    let mut table = Table::default();
    let options = FormatOptions::default();
    for batch in batches {
        table.columns = batch.schema().fields().iter().map(|f| f.name().clone()).collect();
        let formatters = batch.columns().iter().map(|c| ArrayFormatter::try_new(c.as_ref(), &options));
        let formatters = formatters.collect::<Result<Vec<_>, _>>().map_err(|e| error_text(&e))?;
        for i in 0..batch.num_rows() {
            let cells = batch.columns().iter().zip(&formatters);
            table.rows.push(cells.map(|(c, f)| (!c.is_null(i)).then(|| f.value(i).to_string())).collect());
        }
    }
    Ok(table)
}
