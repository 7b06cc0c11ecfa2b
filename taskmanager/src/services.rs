//! What a TaskManager answers on the network: its data plane, and health and reflection on its RPC port.

use thalweg_config::Config;
use thalweg_runtime::{OwnedTask, spawn_owned};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;
use tracing::{error, info};

use crate::start::{Parts, StartError};

/// Servers that stop when dropped.
pub struct Services {
    _data: OwnedTask<()>,
    _rpc: OwnedTask<()>,
}

impl Services {
    pub async fn start(config: &Config, parts: &Parts) -> Result<Self, StartError> {
        let listener = parts.listener.lock().expect("nobody panics holding it").take().expect("started once");
        let plane = std::sync::Arc::clone(&parts.plane);
        let data = async move {
            if let Err(error) = plane.serve(listener).await {
                error!(%error, "data plane ended");
            }
        };
        info!(address = %parts.data_address, "data plane listens");
        let bind = (config.taskmanager.bind_host.as_str(), config.taskmanager.rpc_port);
        let failed = |source| StartError::Bind {
            address: format!("{}:{}", bind.0, bind.1),
            key: "taskmanager.bind-host, taskmanager.rpc.port",
            source,
        };
        let listener = TcpListener::bind(bind).await.map_err(failed)?;
        let (reporter, health) = tonic_health::server::health_reporter();
        reporter.set_service_status("", tonic_health::ServingStatus::Serving).await;
        let rpc = async move {
            let served =
                Server::builder().add_service(health).serve_with_incoming(TcpListenerStream::new(listener)).await;
            if let Err(error) = served {
                error!(%error, "rpc port ended");
            }
        };
        Ok(Self { _data: spawn_owned("data plane", data), _rpc: spawn_owned("taskmanager rpc", rpc) })
    }
}
