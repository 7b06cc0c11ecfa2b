//! What a TaskManager answers on the network: its data plane, and health and reflection on its RPC port.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use thalweg_config::Config;
use thalweg_rpc::TicketKey;
use thalweg_runtime::{OwnedTask, spawn_owned};
use thalweg_shuffle::flight::{ExchangeService, ServerOptions};
use thalweg_types::LeaderEpoch;
use tokio::net::TcpListener;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tracing::error;

use crate::start::{Parts, StartError};

/// Frames the data plane takes and sends: larger than the library's default, which costs half the throughput.
const FRAME_BYTES: u32 = 1 << 20;

/// The data plane: serves whoever has a ticket of this cluster's current leader, until dropped.
#[derive(Debug)]
pub struct DataPlane {
    key: TicketKey,
    epoch: Arc<AtomicU64>,
    _server: OwnedTask<()>,
}

impl DataPlane {
    pub fn serve(parts: &Parts, incarnation: u64, epoch: LeaderEpoch, key: TicketKey) -> io::Result<Self> {
        let listener = TcpListener::from_std(parts.listener.try_clone()?)?;
        let epoch = Arc::new(AtomicU64::new(epoch.0));
        let mut options = ServerOptions::new(incarnation, Arc::clone(&epoch), key.clone());
        options.token = parts.token.clone();
        let service = ExchangeService::new(Arc::clone(&parts.shared.store), options).into_server();
        let server = spawn_owned("data plane", async move {
            let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
            let server = Server::builder().max_frame_size(FRAME_BYTES).add_service(service);
            if let Err(error) = server.serve_with_incoming(incoming).await {
                error!(%error, "data plane ended");
            }
        });
        Ok(Self { key, epoch, _server: server })
    }

    /// Tickets of these keys are the ones it takes.
    pub fn serves(&self, key: &TicketKey) -> bool {
        self.key == *key
    }

    /// Tickets of earlier leaders are refused from now on.
    pub fn lead_by(&self, epoch: LeaderEpoch) {
        self.epoch.store(epoch.0, Ordering::Release);
    }
}

/// Health of the process, on its RPC port, until dropped.
pub async fn serve_health(config: &Config) -> Result<OwnedTask<()>, StartError> {
    let bind = (config.taskmanager.bind_host.as_str(), config.taskmanager.rpc_port);
    let failed = |source| StartError::Bind {
        address: format!("{}:{}", bind.0, bind.1),
        key: "taskmanager.bind-host, taskmanager.rpc.port",
        source,
    };
    let listener = TcpListener::bind(bind).await.map_err(failed)?;
    let (reporter, health) = tonic_health::server::health_reporter();
    reporter.set_service_status("", tonic_health::ServingStatus::Serving).await;
    Ok(spawn_owned("taskmanager rpc", async move {
        let served = Server::builder().add_service(health).serve_with_incoming(TcpIncoming::from(listener)).await;
        if let Err(error) = served {
            error!(%error, "rpc port ended");
        }
    }))
}
