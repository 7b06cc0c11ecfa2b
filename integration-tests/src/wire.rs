//! The public API as any client sees it: gRPC for jobs and the cluster, Arrow Flight for rows. Blocking.
//!
//! Independent of the project's own client on purpose: what works here works for a client written from the `.proto` files.
//! Every call has a deadline; watching a job ends with its last event or the given limit.

use std::ops::ControlFlow;
use std::time::Duration;

use arrow::record_batch::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use arrow_flight::{FlightClient, Ticket};
use futures::TryStreamExt;
use thalweg_proto::v1::cluster_service_client::ClusterServiceClient;
use thalweg_proto::v1::job_service_client::JobServiceClient;
use thalweg_proto::v1::{
    CancelJobRequest, GetJobRequest, GetJobResponse, GetOverviewRequest, GetOverviewResponse, JobEvent, JobState, JobSummary,
    ListJobsRequest, SubmitJobRequest, SubmitJobResponse, WatchJobRequest,
};
use tokio::runtime::Runtime;
use tonic::transport::{Channel, Endpoint};

use crate::csv::Table;

/// For one unary call.
const CALL_LIMIT: Duration = Duration::from_secs(30);
/// For a whole result, its job included.
const RESULT_LIMIT: Duration = Duration::from_secs(300);

pub struct Wire {
    runtime: Runtime,
    address: String,
}

impl Wire {
    /// `address` is the JobManager's host and port; nothing is connected yet.
    pub fn new(address: &str) -> Wire {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).enable_all().build().expect("threads can be started");
        Wire { runtime, address: address.to_string() }
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
            let channel = connect(&self.address).await?;
            let response = JobServiceClient::new(channel).watch_job(request).await.map_err(|s| status_text(&s))?;
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
        let ticket = Ticket { ticket: ticket.to_vec().into() };
        let reading = async {
            let mut client = FlightClient::new(connect(&self.address).await?);
            let mut stream = client.do_get(ticket).await.map_err(|e| error_text(&e))?;
            let mut table = Table::default();
            while let Some(batch) = stream.try_next().await.map_err(|e| error_text(&e))? {
                append(&mut table, &batch)?;
            }
            if let (true, Some(schema)) = (table.columns.is_empty(), stream.schema()) {
                table.columns = schema.fields().iter().map(|f| f.name().clone()).collect();
            }
            Ok(table)
        };
        self.runtime.block_on(async {
            let timed = tokio::time::timeout(RESULT_LIMIT, reading).await;
            timed.unwrap_or_else(|_| Err(format!("the result was not read within {RESULT_LIMIT:?}")))
        })
    }

    fn call<T>(
        &self,
        work: impl AsyncFnOnce(Channel) -> Result<tonic::Response<T>, tonic::Status>,
    ) -> Result<T, String> {
        self.runtime.block_on(async {
            let channel = connect(&self.address).await?;
            let timed = tokio::time::timeout(CALL_LIMIT, work(channel)).await;
            let response = timed.map_err(|_| format!("no answer within {CALL_LIMIT:?}"))?;
            response.map(tonic::Response::into_inner).map_err(|s| status_text(&s))
        })
    }
}

async fn connect(address: &str) -> Result<Channel, String> {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).map_err(|e| error_text(&e))?;
    endpoint.connect_timeout(Duration::from_secs(5)).connect().await.map_err(|e| error_text(&e))
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

fn append(table: &mut Table, batch: &RecordBatch) -> Result<(), String> {
    table.columns = batch.schema().fields().iter().map(|f| f.name().clone()).collect();
    let options = FormatOptions::default();
    let formatters = batch.columns().iter().map(|c| ArrayFormatter::try_new(c.as_ref(), &options));
    let formatters = formatters.collect::<Result<Vec<_>, _>>().map_err(|e| error_text(&e))?;
    for i in 0..batch.num_rows() {
        let cells = batch.columns().iter().zip(&formatters);
        table.rows.push(cells.map(|(c, f)| (!c.is_null(i)).then(|| f.value(i).to_string())).collect());
    }
    Ok(())
}
