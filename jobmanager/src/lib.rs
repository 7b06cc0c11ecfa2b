//! The JobManager: takes SQL, decides through the scheduler core, commands TaskManagers and gives results out.
//!
//! ```text
//! client ── gRPC, Flight ──► service ──► sessions ──► planner
//!                               │            │ plan template
//! browser ── REST ──────────────┤            ▼
//!                               └────────► driver ──► core (pure)
//!                                            │ orders, facts
//!                                       link per TaskManager ── gRPC or in process
//! ```
//! This file is the composition root: it binds, starts and stops, and decides nothing. Guarantees: what it starts stops with
//! it; a failed start leaves nothing behind. With `high-availability.type: filesystem` jobs go on after a restart ([`ha`]). Does
//! not elect a leader.

mod driver;
mod error;
mod ha;
mod link;
mod rest;
mod service;
mod sessions;
#[cfg(test)]
mod testing;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use thalweg_config::{Config, HighAvailabilityType, PortRange, Secret};
use thalweg_connectors::AccessRules;
use thalweg_rpc::link::{Heartbeats, TaskManagerEnd, in_process};
use thalweg_rpc::{RequireToken, TicketKey};
use thalweg_runtime::{Clock, OwnedTask, Shutdown, SystemClock, spawn_owned};
use thalweg_types::LeaderEpoch;
use tokio::net::TcpListener;
use tracing::{info, warn};

pub use driver::{ClusterSize, Driver};
pub use error::Error;

use crate::driver::DriverOptions;
use crate::ha::Storage;
use crate::link::Links;
use crate::service::{Relay, Services};
use crate::sessions::Sessions;

/// How long open calls may take to end at shutdown.
const DRAIN: Duration = Duration::from_secs(3);

/// What the configuration does not say.
#[derive(Debug, Clone, Default)]
pub struct StartOptions {
    /// Folders tables may lie under when `filesystem.allowed-roots` is unset.
    pub default_roots: Vec<PathBuf>,
}

/// A running JobManager. Dropping it stops it at once; [`JobManager::shutdown`] lets calls end.
pub struct JobManager {
    driver: Driver,
    links: Links,
    rpc_address: SocketAddr,
    rest_address: SocketAddr,
    shutdown: Shutdown,
    servers: Vec<OwnedTask<()>>,
    driver_task: OwnedTask<()>,
    /// The lease, given up last.
    _ha: Option<Storage>,
}

impl JobManager {
    /// Binds the ports and starts. The caller has checked what the configuration exposes.
    pub async fn start(config: Arc<Config>, options: StartOptions) -> Result<JobManager, Error> {
        let access = access_rules(&config, options)?;
        let ha = storage(&config).await?;
        let rpc = bind("jobmanager.bind-host", &config.jobmanager.bind_host, "jobmanager.rpc.port", rpc_ports(&config))
            .await?;
        let rest = bind("rest.bind-address", &config.rest.bind_address, "rest.port", config.rest.port).await?;
        let (rpc_address, rest_address) = (local_address(&rpc)?, local_address(&rest)?);

        let token = config.security.token.as_ref().map(Secret::expose);
        let now_ms = unix_ms();
        let leader = ha.as_ref().map(|storage| &storage.leader);
        let ticket_key = match (token, leader) {
            (Some(token), _) => TicketKey::from_token(token),
            (None, Some(leader)) => leader.ticket_key.clone(),
            (None, None) => TicketKey::random().map_err(Error::Random)?,
        };
        let epoch = leader.map_or(LeaderEpoch(now_ms), |leader| leader.epoch);
        let start_unix_ms = leader.map_or(now_ms, |leader| leader.origin_ms);
        let restored = ha.as_ref().map_or_else(|| Ok(Vec::new()), Storage::load)?;
        if !restored.is_empty() {
            info!(jobs = restored.len(), epoch = epoch.0, "going on with the jobs of an earlier jobmanager");
        }
        let heartbeats = Heartbeats { interval: config.heartbeat.interval, timeout: config.heartbeat.timeout };
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::showing(Duration::from_millis(now_ms - start_unix_ms)));
        let (driver, driver_task) = driver::start(DriverOptions {
            epoch,
            ticket_key: ticket_key.clone(),
            heartbeats,
            clock: clock.clone(),
            start_unix_ms,
            journal: ha.as_ref().map(Storage::journal).transpose()?,
            restored,
            recovery_patience: config.execution.job_recovery.worker_timeout,
        });
        let links = Links::new(driver.clone(), config.heartbeat.timeout);
        let require = RequireToken::new(token);
        let services = Services {
            driver: driver.clone(),
            sessions: Arc::new(Sessions::new(config.clone(), access, driver.clone(), clock)),
            links: links.clone(),
            relay: Relay::new(driver.clone(), ticket_key.clone(), epoch, token.map(Into::into)),
            ticket_key,
            heartbeats,
            token: require.clone(),
        };
        let shutdown = Shutdown::new();
        let servers = start_servers(services, rpc, rest, require, &shutdown);
        info!(rpc = %rpc_address, rest = %rest_address, "jobmanager started");
        Ok(JobManager { driver, links, rpc_address, rest_address, shutdown, servers, driver_task, _ha: ha })
    }

    /// Where gRPC and Flight are bound.
    pub fn rpc_address(&self) -> SocketAddr {
        self.rpc_address
    }

    pub fn rest_address(&self) -> SocketAddr {
        self.rest_address
    }

    /// A link for a TaskManager in this process. It has to register like any other.
    pub fn attach(&self) -> TaskManagerEnd {
        let (ours, theirs) = in_process();
        self.links.start(ours, true);
        theirs
    }

    /// Waits until the cluster is as wanted, for example until all slots of an embedded cluster are there. Fails when the
    /// JobManager ends.
    pub async fn wait_for_cluster(&self, wanted: impl FnMut(&ClusterSize) -> bool) -> Result<ClusterSize, Error> {
        self.driver.wait_for_cluster(wanted).await.map_err(|_| Error::Ended)
    }

    /// Stops accepting, ends the links, lets open calls end for a moment, and stops.
    pub async fn shutdown(self) {
        let Self { links, shutdown, servers, driver_task, _ha, .. } = self;
        shutdown.request();
        links.stop();
        // watchers and readers of results hear that the driver is gone
        drop(driver_task);
        for server in servers {
            let name = server.name();
            if tokio::time::timeout(DRAIN, server).await.is_err() {
                warn!(server = name, "open calls were cut off");
            }
        }
        info!("jobmanager stopped");
    }
}

/// Takes the lease of the configured storage.
async fn storage(config: &Arc<Config>) -> Result<Option<Storage>, Error> {
    let ha = config.high_availability.clone();
    let (HighAvailabilityType::Filesystem, Some(dir)) = (ha.kind, ha.storage_dir.clone()) else { return Ok(None) };
    // it may wait for another process
    let opened = tokio::task::spawn_blocking(move || Storage::open(&ha, &dir)).await;
    Ok(Some(opened.map_err(|_| Error::Ended)??))
}

fn start_servers(
    services: Services,
    rpc: TcpListener,
    rest: TcpListener,
    token: RequireToken,
    shutdown: &Shutdown,
) -> Vec<OwnedTask<()>> {
    let driver = services.driver.clone();
    let (stop_rpc, stop_rest) = (shutdown.clone(), shutdown.clone());
    let rpc = spawn_owned("grpc server", async move {
        if let Err(error) = service::serve(services, rpc, async move { stop_rpc.requested().await }).await {
            tracing::error!(error = &error as &dyn std::error::Error, "grpc server failed");
        }
    });
    let rest = spawn_owned("rest server", async move {
        if let Err(error) = rest::serve(driver, token, rest, async move { stop_rest.requested().await }).await {
            tracing::error!(%error, "rest server failed");
        }
    });
    vec![rpc, rest]
}

fn access_rules(config: &Config, options: StartOptions) -> Result<AccessRules, Error> {
    let roots = config.filesystem.allowed_roots.clone().unwrap_or(options.default_roots);
    let canonical = roots.into_iter().map(|path| path.canonicalize().map_err(|source| Error::Root { path, source }));
    Ok(AccessRules { allowed_roots: canonical.collect::<Result<_, _>>()? })
}

fn rpc_ports(config: &Config) -> PortRange {
    PortRange { first: config.jobmanager.rpc_port, last: config.jobmanager.rpc_port }
}

/// The first free port of the range.
async fn bind(host_key: &'static str, host: &str, key: &'static str, ports: PortRange) -> Result<TcpListener, Error> {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let mut last = None;
    for port in ports.iter() {
        match TcpListener::bind((bare, port)).await {
            Ok(listener) => return Ok(listener),
            Err(source) => last = Some((port, source)),
        }
    }
    let (port, source) = last.unwrap_or_else(|| (ports.first, std::io::Error::other("the range of ports is empty")));
    Err(Error::Bind { address: format!("{host}:{port}"), host_key, key, source })
}

fn local_address(listener: &TcpListener) -> Result<SocketAddr, Error> {
    listener.local_addr().map_err(Error::LocalAddress)
}

fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
