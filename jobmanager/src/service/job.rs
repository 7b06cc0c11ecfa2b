//! `JobService`.

use std::pin::Pin;

use futures::Stream;
use thalweg_core::Time;
use thalweg_proto::v1;
use thalweg_proto::v1::job_service_server::JobService;
use thalweg_rpc::Problem;
use thalweg_rpc::views::{JobUpdate, job_event, job_response, job_state, job_summary};
use thalweg_types::JobId;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tonic::{Request, Response, Status};

use super::session::ordered;
use super::{Services, job_id};
use crate::driver::{Driver, Watch};

type Events = Pin<Box<dyn Stream<Item = Result<v1::JobEvent, Status>> + Send>>;

#[tonic::async_trait]
impl JobService for Services {
    type WatchJobStream = Events;

    async fn submit_job(
        &self,
        request: Request<v1::SubmitJobRequest>,
    ) -> Result<Response<v1::SubmitJobResponse>, Status> {
        let request = request.into_inner();
        let mut session = self.sessions.detached(&ordered(request.settings))?;
        let (job, schema) = session.submit_script(&request.script).await?;
        let v1::QueryHandle { job_id, ticket, schema, .. } = self.handle_of(job, &schema)?;
        Ok(Response::new(v1::SubmitJobResponse { job_id, ticket, schema }))
    }

    async fn list_jobs(&self, _: Request<v1::ListJobsRequest>) -> Result<Response<v1::ListJobsResponse>, Status> {
        let clock = self.driver.wall_clock();
        let jobs = self.driver.jobs().await?;
        let jobs = jobs.iter().map(|job| job_summary(job, clock)).collect();
        Ok(Response::new(v1::ListJobsResponse { jobs }))
    }

    async fn get_job(&self, request: Request<v1::GetJobRequest>) -> Result<Response<v1::GetJobResponse>, Status> {
        let details = self.driver.job(job_id(&request.into_inner().job_id)?).await?;
        let clock = self.driver.wall_clock();
        Ok(Response::new(job_response(&details.brief, &details.view, &details.plan, clock)))
    }

    async fn cancel_job(
        &self,
        request: Request<v1::CancelJobRequest>,
    ) -> Result<Response<v1::CancelJobResponse>, Status> {
        let state = self.driver.cancel(job_id(&request.into_inner().job_id)?).await?;
        Ok(Response::new(v1::CancelJobResponse { state: job_state(&state).into() }))
    }

    async fn watch_job(&self, request: Request<v1::WatchJobRequest>) -> Result<Response<Events>, Status> {
        let job = job_id(&request.into_inner().job_id)?;
        let watch = self.driver.watch(job).await?;
        Ok(Response::new(events(self.driver.clone(), job, watch)))
    }
}

/// Where a watcher is.
struct Watcher {
    driver: Driver,
    job: JobId,
    submitted_at: Time,
    ready: std::vec::IntoIter<JobUpdate>,
    updates: Option<broadcast::Receiver<JobUpdate>>,
}

fn events(driver: Driver, job: JobId, watch: Watch) -> Events {
    let Watch { so_far, updates, submitted_at } = watch;
    let watcher = Watcher { driver, job, submitted_at, ready: so_far.into_iter(), updates };
    Box::pin(futures::stream::try_unfold(watcher, |mut watcher| async move {
        let Some(update) = watcher.next().await? else { return Ok(None) };
        let event = job_event(&update, watcher.submitted_at, watcher.driver.wall_clock());
        Ok(Some((event, watcher)))
    }))
}

impl Watcher {
    async fn next(&mut self) -> Result<Option<JobUpdate>, Problem> {
        loop {
            if let Some(update) = self.ready.next() {
                return Ok(Some(update));
            }
            let Some(updates) = &mut self.updates else { return Ok(None) };
            match updates.recv().await {
                Ok(update) => return Ok(Some(update)),
                Err(RecvError::Closed) => return Ok(None),
                Err(RecvError::Lagged(_)) => {
                    // too slow for the updates: the state as it is now instead of what was missed
                    let watch = self.driver.watch(self.job).await?;
                    (self.ready, self.updates) = (watch.so_far.into_iter(), watch.updates);
                }
            }
        }
    }
}
