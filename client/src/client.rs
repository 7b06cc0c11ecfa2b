//! A connection to a JobManager: jobs and the cluster. Sessions are in [`crate::session`].

use std::time::Duration;

use arrow_flight::flight_service_client::FlightServiceClient;
use futures::stream::{self, BoxStream, Stream, StreamExt, TryStreamExt};
use thalweg_proto::v1;
use thalweg_proto::v1::cluster_service_client::ClusterServiceClient;
use thalweg_proto::v1::job_service_client::JobServiceClient;
use thalweg_proto::v1::session_service_client::SessionServiceClient;
use thalweg_rpc::{ClientChannel, MAX_MESSAGE, Malformed, RpcError};
use thalweg_types::JobId;
use tonic::{Response, Status};

use crate::error::Error;
use crate::reconnect::Absence;
use crate::session::Session;
use crate::view::{ClusterOverview, JobDetails, JobEvent, JobState, JobSummary, job_state};

/// A connection to a cluster. Clones share it.
#[derive(Debug, Clone)]
pub struct Client {
    channel: ClientChannel,
    address: String,
    deadline: Duration,
}

impl Client {
    /// Connects to `host:port` of a JobManager. `deadline` bounds the connecting and every later call that only asks or tells
    /// something; statements and results have their own.
    ///
    /// Errors: [`Error::NotReachable`], [`Error::Usage`] for an address or token that cannot be used. A wrong token shows in
    /// the first call, as [`Error::Denied`].
    pub async fn connect(address: &str, token: Option<&str>, deadline: Duration) -> Result<Self, Error> {
        let channel =
            thalweg_rpc::connect(address, token, deadline).await.map_err(|error| Error::from_rpc(address, error))?;
        Ok(Self { channel, address: address.to_owned(), deadline })
    }

    /// The address it was connected to.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Opens a session with initial settings, as with `SET`.
    pub async fn open_session<K, V>(&self, settings: impl IntoIterator<Item = (K, V)>) -> Result<Session, Error>
    where
        K: Into<String>,
        V: Into<String>,
    {
        let settings = settings.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        let mut sessions = self.sessions();
        let call = sessions.open_session(v1::OpenSessionRequest { settings });
        let session = self.within(self.deadline, call).await?.session_id;
        Ok(Session::new(self.clone(), session))
    }

    /// Running jobs and those that ended lately.
    pub async fn list_jobs(&self) -> Result<Vec<JobSummary>, Error> {
        let mut jobs = self.jobs();
        let answer = self.within(self.deadline, jobs.list_jobs(v1::ListJobsRequest {})).await?;
        answer.jobs.into_iter().map(|job| self.checked(job.try_into())).collect()
    }

    /// Stages, decisions and attempts of a job.
    pub async fn get_job(&self, job: JobId) -> Result<JobDetails, Error> {
        let mut jobs = self.jobs();
        let call = jobs.get_job(v1::GetJobRequest { job_id: job.to_string() });
        let answer = self.within(self.deadline, call).await?;
        self.checked(answer.try_into())
    }

    /// Stops a job and returns its state. A job that had ended stays as it was.
    pub async fn cancel_job(&self, job: JobId) -> Result<JobState, Error> {
        let mut jobs = self.jobs();
        let call = jobs.cancel_job(v1::CancelJobRequest { job_id: job.to_string() });
        let answer = self.within(self.deadline, call).await?;
        self.checked(job_state(answer.state))
    }

    /// What happened to a job so far, then what happens, until it has ended. If the JobManager is lost and the job goes on without
    /// it, what happened so far comes again from the next one.
    pub fn watch_job(&self, job: JobId) -> BoxStream<'static, Result<JobEvent, Error>> {
        struct State {
            client: Client,
            events: Option<BoxStream<'static, Result<JobEvent, Error>>>,
            recoverable: bool,
            absence: Absence,
        }
        let state = State { client: self.clone(), events: None, recoverable: false, absence: Absence::new() };
        let events = stream::try_unfold(state, move |mut state| async move {
            loop {
                let next = match &mut state.events {
                    Some(events) => events.try_next().await,
                    None => match state.client.watch_once(job).await {
                        Ok(events) => {
                            state.events = Some(events.boxed());
                            continue;
                        }
                        Err(error) => Err(error),
                    },
                };
                match next {
                    Ok(event) => {
                        state.absence.over();
                        if let Some(JobEvent::Job(job)) = &event {
                            state.recoverable = job.recoverable;
                        }
                        return Ok(event.map(|event| (event, state)));
                    }
                    Err(error) if state.recoverable => {
                        state.absence.bear(error).await?;
                        state.events = None;
                    }
                    Err(error) => return Err(error),
                }
            }
        });
        events.boxed()
    }

    async fn watch_once(
        &self,
        job: JobId,
    ) -> Result<impl Stream<Item = Result<JobEvent, Error>> + Send + Unpin + use<>, Error> {
        let mut jobs = self.jobs();
        let call = jobs.watch_job(v1::WatchJobRequest { job_id: job.to_string() });
        let events = self.within(self.deadline, call).await?;
        let client = self.clone();
        Ok(events.map(move |event| match event {
            Ok(event) => client.checked(event.try_into()),
            Err(status) => Err(client.status(status)),
        }))
    }

    /// The cluster as its JobManager sees it.
    pub async fn overview(&self) -> Result<ClusterOverview, Error> {
        let mut cluster = ClusterServiceClient::new(self.channel.clone()).max_decoding_message_size(MAX_MESSAGE);
        let call = cluster.get_overview(v1::GetOverviewRequest {});
        Ok(self.within(self.deadline, call).await?.into())
    }

    fn jobs(&self) -> JobServiceClient<ClientChannel> {
        JobServiceClient::new(self.channel.clone())
            .max_decoding_message_size(MAX_MESSAGE)
            .max_encoding_message_size(MAX_MESSAGE)
    }

    pub(crate) fn sessions(&self) -> SessionServiceClient<ClientChannel> {
        SessionServiceClient::new(self.channel.clone())
            .max_decoding_message_size(MAX_MESSAGE)
            .max_encoding_message_size(MAX_MESSAGE)
    }

    pub(crate) fn flight(&self) -> FlightServiceClient<ClientChannel> {
        FlightServiceClient::new(self.channel.clone()).max_decoding_message_size(MAX_MESSAGE)
    }

    pub(crate) fn deadline(&self) -> Duration {
        self.deadline
    }

    /// Awaits a call for at most `deadline`.
    pub(crate) async fn within<T>(
        &self,
        deadline: Duration,
        call: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, Error> {
        match tokio::time::timeout(deadline, call).await {
            Ok(Ok(answer)) => Ok(answer.into_inner()),
            Ok(Err(status)) => Err(self.status(status)),
            Err(_) => {
                let late = RpcError::Deadline { address: self.address.clone(), waited: deadline };
                Err(Error::from_rpc(&self.address, late))
            }
        }
    }

    pub(crate) fn status(&self, status: Status) -> Error {
        Error::from_status(&self.address, status)
    }

    pub(crate) fn checked<T>(&self, converted: Result<T, Malformed>) -> Result<T, Error> {
        converted.map_err(|malformed| Error::answer(&self.address, malformed))
    }
}
