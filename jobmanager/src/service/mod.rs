//! The gRPC edge: every method converts, forwards, awaits and converts back.
//!
//! Guarantees: everything but health and reflection needs the token; what a caller sends is bounded; an error is a
//! [`thalweg_rpc::Problem`].

mod cluster;
mod flight;
mod job;
mod link;
mod relay;
mod session;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use arrow_flight::flight_service_server::FlightServiceServer;
use arrow_flight::{IpcMessage, SchemaAsIpc};
use arrow_ipc::writer::IpcWriteOptions;
use bytes::Bytes;
use thalweg_proto::v1;
use thalweg_proto::v1::cluster_service_server::ClusterServiceServer;
use thalweg_proto::v1::job_service_server::JobServiceServer;
use thalweg_proto::v1::session_service_server::SessionServiceServer;
use thalweg_proto::v1::task_manager_link_server::TaskManagerLinkServer;
use thalweg_rpc::link::Heartbeats;
use thalweg_rpc::{MAX_MESSAGE, Problem, RequireToken, ResultTicket, TicketKey};
use thalweg_types::JobId;
use tokio::net::TcpListener;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::server::TcpIncoming;

pub(crate) use relay::Relay;

use crate::driver::Driver;
use crate::link::Links;
use crate::sessions::Sessions;

/// Largest request of a client, bytes: a script, or settings.
const MAX_REQUEST: usize = 8 << 20;
/// Receive window of a stream and of a connection, bytes.
const STREAM_WINDOW: u32 = 8 << 20;
const CONNECTION_WINDOW: u32 = 64 << 20;

/// What the services work with.
#[derive(Clone)]
pub(crate) struct Services {
    pub driver: Driver,
    pub sessions: Arc<Sessions>,
    pub links: Links,
    pub relay: Relay,
    pub ticket_key: TicketKey,
    pub heartbeats: Heartbeats,
    pub token: RequireToken,
}

impl Services {
    fn handle_of(&self, job: JobId, schema: &Schema) -> Result<v1::QueryHandle, Problem> {
        Ok(v1::QueryHandle {
            job_id: job.to_string(),
            ticket: ResultTicket { job }.sign(&self.ticket_key),
            schema: schema_bytes(schema)?,
            recoverable: false,
        })
    }
}

/// Serves until `stop` is done, then lets open calls end.
pub(crate) async fn serve(
    services: Services,
    listener: TcpListener,
    stop: impl Future<Output = ()>,
) -> Result<(), tonic::transport::Error> {
    let (health, health_service) = tonic_health::server::health_reporter();
    health.set_serving::<JobServiceServer<Services>>().await;
    health.set_serving::<SessionServiceServer<Services>>().await;
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(thalweg_proto::DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .build_v1()
        .expect("the descriptors are compiled in and valid");
    let token = services.token.clone();
    let sessions = SessionServiceServer::new(services.clone()).max_decoding_message_size(MAX_REQUEST);
    let jobs = JobServiceServer::new(services.clone()).max_decoding_message_size(MAX_REQUEST);
    let cluster = ClusterServiceServer::new(services.clone()).max_decoding_message_size(MAX_REQUEST);
    let flight = FlightServiceServer::new(services.clone())
        .max_decoding_message_size(MAX_REQUEST)
        .max_encoding_message_size(MAX_MESSAGE);
    let link = TaskManagerLinkServer::new(services)
        .max_decoding_message_size(MAX_MESSAGE)
        .max_encoding_message_size(MAX_MESSAGE);
    tonic::transport::Server::builder()
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .http2_keepalive_interval(Some(thalweg_rpc::channel::KEEPALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(thalweg_rpc::channel::KEEPALIVE_TIMEOUT))
        .max_concurrent_streams(1024)
        .add_service(health_service)
        .add_service(InterceptedService::new(reflection, token.clone()))
        .add_service(InterceptedService::new(sessions, token.clone()))
        .add_service(InterceptedService::new(jobs, token.clone()))
        .add_service(InterceptedService::new(cluster, token.clone()))
        .add_service(InterceptedService::new(flight, token.clone()))
        .add_service(InterceptedService::new(link, token))
        .serve_with_incoming_shutdown(incoming(listener), stop)
        .await
}

fn incoming(listener: TcpListener) -> TcpIncoming {
    TcpIncoming::from(listener).with_nodelay(Some(true))
}

fn job_id(text: &str) -> Result<JobId, Problem> {
    text.parse().map_err(|_| Problem::InvalidArgument {
        message: format!("{:?} is no job id: expected 32 hex digits", thalweg_rpc::error::shortened(text, 64)),
    })
}

/// The schema as an IPC message.
fn schema_bytes(schema: &Schema) -> Result<Bytes, Problem> {
    let options = IpcWriteOptions::default();
    let message = IpcMessage::try_from(SchemaAsIpc::new(schema, &options));
    message.map(|message| message.0).map_err(|error| internal(&error))
}

/// A batch as an IPC stream.
fn stream_bytes(schema: &SchemaRef, batch: &arrow::array::RecordBatch) -> Result<Bytes, Problem> {
    let mut out = Vec::new();
    let mut writer = arrow_ipc::writer::StreamWriter::try_new(&mut out, schema).map_err(|error| internal(&error))?;
    writer.write(batch).and_then(|()| writer.finish()).map_err(|error| internal(&error))?;
    drop(writer);
    Ok(out.into())
}

fn internal(error: &dyn std::error::Error) -> Problem {
    Problem::Internal { message: error.to_string() }
}
