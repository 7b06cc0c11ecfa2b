//! The TaskManager: runs attempts, keeps what they wrote, serves it to others.
//!
//! Guarantees: an order of another leader or another incarnation is refused; an attempt that ends for whatever reason leaves
//! neither memory nor files behind but its sealed output. When the link to the JobManager is lost every attempt stops; finished
//! outputs stay, can be read by other TaskManagers, and are named in the next registration, whose JobManager says which of them
//! still count. Without any for [`OUTPUTS_KEPT`] they go.
//!
//! Two thread pools: the caller's runtime carries messages and data, a pool of one thread per slot runs operators.

mod busy;
mod inputs;
mod options;
mod output;
mod running;
mod services;
mod shared;
mod splits;
mod start;
mod task;
mod workdir;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use thalweg_config::Config;
use thalweg_rpc::TicketKey;
use thalweg_rpc::link::{FromTaskManager, MAX_HELD, TaskManagerEnd, ToTaskManager};
use thalweg_runtime::{Backoff, OwnedTask, spawn_owned};
use thalweg_shuffle::ReadContext;
use thalweg_types::{AttemptId, LeaderEpoch, StageKey, TaskManagerId};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::running::Attempts;
use crate::services::DataPlane;
use crate::start::Parts;

pub use start::StartError;

/// How often totals of running attempts are reported while they change.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);
/// How long one attempt to reach the JobManager may take.
const DIAL_DEADLINE: Duration = Duration::from_secs(10);
/// How long finished outputs are kept without a JobManager.
const OUTPUTS_KEPT: Duration = Duration::from_secs(600);
/// How long the JobManager may take to answer a registration.
const REGISTER_DEADLINE: Duration = Duration::from_secs(10);

/// How a TaskManager reaches its JobManager.
pub enum Link {
    /// host:port of the JobManager's gRPC endpoint; dialled again whenever the link is lost.
    Dial(String),
    /// In the same process; when it ends the TaskManager is done.
    InProcess(TaskManagerEnd),
}

/// What the configuration does not say.
pub struct StartOptions {
    pub link: Link,
    /// Instead of `taskmanager.resource-id`.
    pub name: Option<String>,
    /// Instead of `taskmanager.memory.process.size`: bytes of the whole process.
    pub memory: Option<u64>,
}

/// A running TaskManager. Dropping it stops it without saying goodbye.
pub struct TaskManager {
    data_address: SocketAddr,
    stop: CancellationToken,
    runner: OwnedTask<()>,
    _health: OwnedTask<()>,
}

impl TaskManager {
    /// Binds its ports, makes its work directory and starts to register. Returns before it is registered.
    pub async fn start(config: Arc<Config>, options: StartOptions) -> Result<Self, StartError> {
        let parts = Parts::make(&config, &options).await?;
        let data_address = parts.data_address;
        let health = services::serve_health(&config).await?;
        info!(address = %data_address, "taskmanager listens");
        let stop = CancellationToken::new();
        let incarnation = start::random_u64();
        let token = config.security.token.clone();
        let runner = Runner { parts, stop: stop.clone(), token, incarnation, data_plane: None };
        let runner = spawn_owned("taskmanager", runner.run(options.link));
        Ok(Self { data_address, stop, runner, _health: health })
    }

    /// Where its data plane listens.
    pub fn data_address(&self) -> SocketAddr {
        self.data_address
    }

    /// Returns when an in-process link has ended. One that dials goes on for ever.
    pub async fn wait_lost(&mut self) {
        // a panic of the runner is logged where it happens
        let _ = (&mut self.runner).await;
    }

    /// Says goodbye to the JobManager, stops every attempt and removes the work directory.
    pub async fn shutdown(mut self) {
        self.stop.cancel();
        self.wait_lost().await;
    }
}

struct Runner {
    parts: Parts,
    stop: CancellationToken,
    token: Option<thalweg_config::Secret>,
    /// Of this process.
    incarnation: u64,
    data_plane: Option<DataPlane>,
}

/// What lives as long as one registration.
struct Registration {
    attempts: Attempts,
    ended: mpsc::UnboundedReceiver<AttemptId>,
}

/// How a link ended.
enum End {
    Stopped,
    Lost,
}

impl Runner {
    async fn run(mut self, link: Link) {
        match link {
            Link::InProcess(end) => {
                self.serve(end).await;
            }
            Link::Dial(address) => self.dial_for_ever(&address).await,
        }
    }

    async fn dial_for_ever(&mut self, address: &str) {
        let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(2));
        let mut linked_last = Instant::now();
        loop {
            if linked_last.elapsed() > OUTPUTS_KEPT {
                self.parts.shared.store.clear();
            }
            let token = self.token.as_ref().map(|t| t.expose());
            let dialled = tokio::select! {
                dialled = thalweg_rpc::link::dial(address, token, DIAL_DEADLINE) => dialled,
                () = self.stop.cancelled() => return,
            };
            match dialled {
                Ok(end) => {
                    if let End::Stopped = self.serve(end).await {
                        return;
                    }
                    linked_last = Instant::now();
                    backoff.reset();
                }
                Err(error) => warn!(%address, %error, "jobmanager not reached, trying again"),
            }
            tokio::select! {
                () = tokio::time::sleep(backoff.next_wait().unwrap_or(DIAL_DEADLINE)) => {}
                () = self.stop.cancelled() => return,
            }
        }
    }

    /// One registration, from its first message to the loss of the link.
    async fn serve(&mut self, mut end: TaskManagerEnd) -> End {
        let Some(Registration { mut attempts, mut ended }) = self.register(&mut end).await else {
            return if self.stop.is_cancelled() { End::Stopped } else { End::Lost };
        };
        let mut progress = tokio::time::interval(PROGRESS_INTERVAL);
        progress.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let outcome = loop {
            tokio::select! {
                message = end.rx.recv() => match message {
                    Some(message) => self.obey(&mut attempts, message).await,
                    None => break End::Lost,
                },
                Some(attempt) = ended.recv() => attempts.ended(attempt),
                _ = progress.tick() => {
                    for message in attempts.progress() {
                        // a full link has more important things to carry
                        let _ = end.tx.try_send(message);
                    }
                }
                () = self.stop.cancelled() => {
                    let leaving = FromTaskManager::Leaving { detail: "taskmanager shuts down".to_owned() };
                    let _ = tokio::time::timeout(Duration::from_secs(1), end.tx.send(leaving)).await;
                    break End::Stopped;
                }
            }
        };
        drop(attempts);
        let store = &self.parts.shared.store;
        store.discard_unfinished();
        match outcome {
            End::Stopped => store.clear(),
            End::Lost => {
                let outputs = store.usage().outputs;
                warn!(outputs, "link to the jobmanager lost: every attempt stopped, finished outputs are kept");
            }
        }
        outcome
    }

    async fn register(&mut self, end: &mut TaskManagerEnd) -> Option<Registration> {
        let mut held = self.parts.shared.store.finished();
        // what is not named is not retained
        held.truncate(MAX_HELD);
        if end.tx.send(self.parts.registration(self.incarnation, held)).await.is_err() {
            return None;
        }
        let answer = tokio::select! {
            answer = tokio::time::timeout(REGISTER_DEADLINE, end.rx.recv()) => answer,
            () = self.stop.cancelled() => return None,
        };
        match answer {
            Ok(Some(ToTaskManager::Registered { epoch, ticket_key, .. })) => {
                let me = TaskManagerId::new(self.parts.resource.as_str(), self.incarnation);
                info!(taskmanager = %me, epoch = epoch.0, "registered");
                let key = TicketKey::from_bytes(&ticket_key);
                let key = key.inspect_err(|error| warn!(%error, "the JobManager's answer is no registration")).ok()?;
                self.serve_data(epoch, &key).inspect_err(|error| warn!(%error, "data plane not served")).ok()?;
                let (tx, ended) = mpsc::unbounded_channel();
                let shared = Arc::clone(&self.parts.shared);
                let context = ReadContext {
                    store: Arc::clone(&shared.store),
                    channels: Arc::clone(&shared.channels),
                    key,
                    local: me,
                };
                let cpu = self.parts.cpu.handle();
                let attempts = Attempts::new(shared, context, epoch, cpu, end.tx.clone(), tx);
                Some(Registration { attempts, ended })
            }
            Ok(Some(ToTaskManager::Refused { reason })) => {
                warn!(%reason, "registration refused");
                None
            }
            Ok(Some(other)) => {
                warn!(?other, "jobmanager spoke before it answered the registration");
                None
            }
            Ok(None) | Err(_) => None,
        }
    }

    /// Goes on with the data plane there is if it serves the same cluster.
    fn serve_data(&mut self, epoch: LeaderEpoch, key: &TicketKey) -> std::io::Result<()> {
        if let Some(data_plane) = &self.data_plane
            && data_plane.serves(key)
        {
            data_plane.lead_by(epoch);
            return Ok(());
        }
        self.data_plane = None;
        self.data_plane = Some(DataPlane::serve(&self.parts, self.incarnation, epoch, key.clone())?);
        Ok(())
    }

    async fn obey(&self, attempts: &mut Attempts, message: ToTaskManager) {
        match message {
            ToTaskManager::Stage { job, stage, parts, settings } => {
                attempts.stage(StageKey { job, stage }, parts, &settings);
            }
            ToTaskManager::Place { job, placement, addresses } => attempts.place(job, placement, addresses),
            ToTaskManager::Deploy { spec, exact } => attempts.deploy(spec, exact).await,
            ToTaskManager::Cancel { attempt } => attempts.cancel(attempt),
            ToTaskManager::Split { request, split, .. } => attempts.answer(request, split),
            ToTaskManager::Retain { outputs } => {
                info!(outputs = outputs.len(), "outputs from before the link was lost still count");
                self.parts.shared.store.retain(&outputs.into_iter().collect());
            }
            ToTaskManager::ReleaseExchange { exchange } => attempts.release_exchange(exchange),
            ToTaskManager::ReleaseJob { job } => attempts.release_job(job),
            ToTaskManager::Heartbeat => {}
            ToTaskManager::Registered { .. } | ToTaskManager::Refused { .. } => {
                warn!("jobmanager answered a registration twice");
            }
        }
    }
}
