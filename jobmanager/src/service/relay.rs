//! Reads a result where it lies and passes it on to the client.
//!
//! Decides in which order maps are read (ascending) and when a loss can be healed: while nothing of the lost map was sent and
//! everything sent before is still what it was. Guarantees: at most two messages wait for a slow client, who thereby slows the
//! TaskManager; no more than the job's limit is sent; a result that was read to its end is released; one that was not stays.
//! Batches are passed on as they came, after their checksum was checked; they are not decoded.

use std::collections::HashMap;
use std::io::Cursor;
use std::sync::Arc;
use std::time::Duration;

use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::utils::batches_to_flight_data;
use arrow_flight::{FlightData, SchemaAsIpc, Ticket};
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::IpcWriteOptions;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use parking_lot::Mutex;
use thalweg_rpc::{
    ClientChannel, ExchangeTicket, MAX_MESSAGE, Malformed, MessageInfo, Problem, RpcError, TicketKey, client_channel,
};
use thalweg_runtime::{OwnedTask, spawn_owned};
use thalweg_types::{Interval, JobId, LeaderEpoch};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;
use tracing::{debug, warn};

use crate::driver::{Driver, ResultHandle, ResultMap, ResultMaps, ResultState};

/// Messages that wait for the client.
const AHEAD: usize = 2;
/// Connections to TaskManagers that are kept.
const MAX_CHANNELS: usize = 1024;
/// A TaskManager that delivers nothing for this long has lost what was asked for.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone)]
pub(crate) struct Relay {
    driver: Driver,
    key: TicketKey,
    epoch: LeaderEpoch,
    token: Option<Arc<str>>,
    channels: Arc<Mutex<HashMap<String, ClientChannel>>>,
}

/// Why a map could not be passed on.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error("{0} is not reachable any more")]
    Gone(String),
    #[error("nothing came for {PATIENCE:?}")]
    Silent,
    #[error("the connection failed: {0}")]
    Connection(#[from] RpcError),
    #[error("the call failed: {0}")]
    Call(#[from] Box<Status>),
    #[error("what came is malformed: {0}")]
    Malformed(#[from] Malformed),
    #[error("what came cannot be read: {0}")]
    Arrow(#[from] ArrowError),
    #[error("it ended before the map did")]
    Short,
    /// Not the TaskManager's fault: reading it again would not help.
    #[error("{0}")]
    Problem(#[from] Problem),
    #[error("the client went away")]
    ClientLeft,
}

impl Relay {
    pub fn new(driver: Driver, key: TicketKey, epoch: LeaderEpoch, token: Option<Arc<str>>) -> Self {
        Self { driver, key, epoch, token, channels: Arc::default() }
    }

    /// The result's messages. Waits for the job; stops when the stream is dropped.
    pub fn read(&self, job: JobId, result: ResultHandle) -> BoxStream<'static, Result<FlightData, Status>> {
        let (tx, rx) = mpsc::channel(AHEAD);
        let relay = self.clone();
        let task = spawn_owned("result relay", async move {
            match relay.pass_on(job, result, &tx).await {
                Ok(()) | Err(Broken::ClientLeft) => {}
                Err(Broken::Problem(problem)) => {
                    debug!(%job, %problem, "result not delivered");
                    // the client may have left
                    let _ = tx.send(Err(problem.into())).await;
                }
                Err(broken) => {
                    warn!(%job, error = %broken, "result lost while it was read");
                    let problem = Problem::ResultLost { job, detail: broken.to_string() };
                    let _ = tx.send(Err(problem.into())).await;
                }
            }
        });
        Reading { messages: ReceiverStream::new(rx), _task: task }.boxed()
    }

    async fn pass_on(
        &self,
        job: JobId,
        mut result: ResultHandle,
        tx: &mpsc::Sender<Result<FlightData, Status>>,
    ) -> Result<(), Broken> {
        let mut out =
            Outgoing { job, result: &result.schema.clone(), limit: result.max_size, sent: 0, types: None, tx };
        let mut maps = ready(&mut result.state, None).await?;
        let mut next = 0;
        while let Some(map) = maps.maps.get(next) {
            let before = out.sent;
            let broken = match self.pass_on_map(&maps, map, &mut out).await {
                Ok(()) => {
                    next += 1;
                    continue;
                }
                Err(Broken::Problem(problem @ Problem::ResultTooLarge { .. })) => {
                    self.driver.release_result(job).await?;
                    return Err(problem.into());
                }
                Err(broken @ (Broken::Problem(_) | Broken::ClientLeft)) => return Err(broken),
                Err(broken) => broken,
            };
            if out.sent != before {
                return Err(broken);
            }
            debug!(%job, map = map.map, error = %broken, "map of the result lost, waiting for another attempt");
            self.driver.result_lost(job, maps.version, map, broken.to_string()).await?;
            let again = ready(&mut result.state, Some(maps.version)).await?;
            let is_same = |i: usize| again.maps.get(i).map(|m| m.attempt) == maps.maps.get(i).map(|m| m.attempt);
            if !(0..next).all(is_same) {
                return Err(broken);
            }
            maps = again;
        }
        if out.types.is_none() {
            out.schema(&result.schema).await?;
        }
        self.driver.release_result(job).await?;
        Ok(())
    }

    async fn pass_on_map(&self, maps: &ResultMaps, map: &ResultMap, out: &mut Outgoing<'_>) -> Result<(), Broken> {
        match &map.inline {
            Some(rows) => pass_on_inline(rows, out).await,
            None => self.pass_on_remote(maps, map, out).await,
        }
    }

    async fn pass_on_remote(&self, maps: &ResultMaps, map: &ResultMap, out: &mut Outgoing<'_>) -> Result<(), Broken> {
        let address = map.address.as_deref().ok_or_else(|| Broken::Gone(map.tm.to_string()))?;
        let ticket = ExchangeTicket {
            exchange: maps.exchange,
            maps: Interval::new(map.map, map.map + 1),
            subpartitions: Interval::new(0, 1),
            rows: None,
            epoch: self.epoch,
            incarnation: map.tm.incarnation,
        };
        let mut client = FlightServiceClient::new(self.channel(address)?).max_decoding_message_size(MAX_MESSAGE);
        let call = client.do_get(Ticket::new(ticket.sign(&self.key)));
        let called = tokio::time::timeout(PATIENCE, call).await.map_err(|_| Broken::Silent)?;
        let mut stream = called.map_err(Box::new)?.into_inner();
        let mut ended = false;
        loop {
            let message = tokio::time::timeout(PATIENCE, stream.message()).await.map_err(|_| Broken::Silent)?;
            let Some(message) = message.map_err(Box::new)? else { break };
            let info = MessageInfo::parse(&message.app_metadata)?;
            if info.is_schema {
                out.schema(&Arc::new(Schema::try_from(&message)?)).await?;
                continue;
            }
            if (info.map, info.attempt) != (map.map, map.attempt) {
                continue; // an attempt that does not count
            }
            info.check(&message.data_header, &message.data_body)?;
            ended |= info.end_of_map;
            if info.rows > 0 {
                out.batch(message).await?;
            }
        }
        if ended { Ok(()) } else { Err(Broken::Short) }
    }

    fn channel(&self, address: &str) -> Result<ClientChannel, RpcError> {
        let mut channels = self.channels.lock();
        if let Some(channel) = channels.get(address) {
            return Ok(channel.clone());
        }
        if channels.len() >= MAX_CHANNELS {
            channels.clear();
        }
        let channel = client_channel(address, self.token.as_deref())?;
        channels.insert(address.to_owned(), channel.clone());
        Ok(channel)
    }
}

async fn pass_on_inline(rows: &Bytes, out: &mut Outgoing<'_>) -> Result<(), Broken> {
    let reader = StreamReader::try_new(Cursor::new(rows.clone()), None)?;
    let schema = reader.schema();
    // all of it is read before any of it is sent: it is small, and may be broken
    let batches = reader.collect::<Result<Vec<_>, _>>()?;
    out.schema(&schema).await?;
    let messages = batches_to_flight_data(&schema, batches.into_iter().filter(|b| b.num_rows() > 0).collect())?;
    for message in messages.into_iter().skip(1) {
        out.batch(message).await?;
    }
    Ok(())
}

/// What goes to the client, counted.
struct Outgoing<'a> {
    job: JobId,
    result: &'a SchemaRef,
    limit: u64,
    /// Bytes.
    sent: u64,
    /// As sent, once it was.
    types: Option<SchemaRef>,
    tx: &'a mpsc::Sender<Result<FlightData, Status>>,
}

impl Outgoing<'_> {
    /// A map says what its columns are: sends the schema if none was sent yet, else checks that it is the same.
    async fn schema(&mut self, actual: &SchemaRef) -> Result<(), Broken> {
        let schema = named_as(self.result, actual)?;
        match &self.types {
            Some(sent) if **sent == schema => Ok(()),
            Some(sent) => {
                let message = format!("a part of the result has the columns {schema}, the others have {sent}");
                Err(Problem::Internal { message }.into())
            }
            None => {
                let message = FlightData::from(SchemaAsIpc::new(&schema, &IpcWriteOptions::default()));
                self.types = Some(Arc::new(schema));
                self.send(message).await
            }
        }
    }

    async fn batch(&mut self, message: FlightData) -> Result<(), Broken> {
        let FlightData { data_header, data_body, .. } = message;
        self.sent += (data_header.len() + data_body.len()) as u64;
        if self.sent > self.limit {
            return Err(Problem::ResultTooLarge { job: self.job, limit: self.limit }.into());
        }
        self.send(FlightData { data_header, data_body, ..FlightData::default() }).await
    }

    async fn send(&self, message: FlightData) -> Result<(), Broken> {
        self.tx.send(Ok(message)).await.map_err(|_| Broken::ClientLeft)
    }
}

/// The query's names with the types that the data has.
fn named_as(result: &Schema, actual: &Schema) -> Result<Schema, Problem> {
    if result.fields().len() != actual.fields().len() {
        let message = format!("the result has {} columns, not {}", actual.fields().len(), result.fields().len());
        return Err(Problem::Internal { message });
    }
    let fields = result.fields().iter().zip(actual.fields());
    let field = |(name, actual): (&Arc<Field>, &Arc<Field>)| {
        Field::new(name.name(), actual.data_type().clone(), name.is_nullable() || actual.is_nullable())
    };
    Ok(Schema::new(fields.map(field).collect::<Vec<_>>()))
}

/// Waits until all maps are there, in another version than `not`.
async fn ready(state: &mut watch::Receiver<ResultState>, not: Option<u64>) -> Result<Arc<ResultMaps>, Problem> {
    let settled = state.wait_for(|state| match state {
        ResultState::Pending => false,
        ResultState::Ready(maps) => not != Some(maps.version),
        ResultState::None(_) => true,
    });
    // a job that is forgotten has said before that its result is gone; only the driver's end says nothing
    match &*settled.await.map_err(|_| Problem::ShuttingDown)? {
        ResultState::Ready(maps) => Ok(maps.clone()),
        ResultState::None(problem) => Err(problem.clone()),
        ResultState::Pending => Err(Problem::Internal { message: "waited for nothing".to_owned() }),
    }
}

/// The client's stream; the reading task stops with it.
struct Reading {
    messages: ReceiverStream<Result<FlightData, Status>>,
    _task: OwnedTask<()>,
}

impl Stream for Reading {
    type Item = Result<FlightData, Status>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        self.messages.poll_next_unpin(cx)
    }
}
