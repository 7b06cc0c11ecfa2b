//! Reads one stream of a producing TaskManager, believing nothing.
//!
//! Every message is checked for its size, its checksum, its row count and its types before a batch is made of it; maps must
//! ascend. Errors say what happened in terms the scheduler can act on.

use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::{FlightData, Ticket as FlightTicket};
use bytes::Bytes;
use thalweg_rpc::MessageInfo;
use tonic::{Code, Request, Status, Streaming};

use super::channels::{ChannelError, DataChannels, Reservation};
use super::fingerprint::fingerprint;
use crate::codec::{DecodeError, Limits, decode};

/// Why a stream ended early.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The peer does not answer, or delivers nothing.
    #[error("{peer} does not answer: {detail}")]
    Unreachable { peer: String, detail: String },
    /// The connection broke in the middle.
    #[error("the stream from {peer} broke off")]
    Reset { peer: String, source: Box<Status> },
    /// What arrived is not what was sent, or nothing that this process could have asked for.
    #[error("the stream from {peer} is corrupt: {detail}")]
    Corrupt { peer: String, detail: String },
    /// A message that cannot be decoded.
    #[error("the stream from {peer} is corrupt")]
    Decode { peer: String, source: DecodeError },
    /// The peer does not have what was asked for, or lost it.
    #[error("{peer} does not have it: {detail}")]
    NotFound { peer: String, detail: String },
    /// The peer is another incarnation, or belongs to another JobManager start.
    #[error("{peer} is not the one that was asked: {detail}")]
    Stale { peer: String, detail: String },
    /// Ticket or token are not accepted: the processes do not share their secrets, or not their version.
    #[error("{peer} refuses: {detail}")]
    Denied { peer: String, detail: String },
    #[error("cannot connect")]
    Channel(#[from] ChannelError),
}

/// A batch of one map.
#[derive(Debug, Clone)]
pub struct FetchItem {
    pub map: u32,
    pub attempt: u32,
    /// May be empty.
    pub batch: RecordBatch,
    /// Nothing more of this map follows.
    pub end_of_map: bool,
    /// Bytes of the message.
    pub bytes: u64,
}

/// An open stream. Dropping it cancels the call.
#[derive(Debug)]
pub struct FetchStream {
    peer: String,
    stream: Streaming<FlightData>,
    schema: SchemaRef,
    limits: Limits,
    progress_timeout: Duration,
    /// The schema message was seen.
    started: bool,
    /// The map that the stream is at, and whether its end was seen.
    last: Option<(u32, u32, bool)>,
    _window: Reservation,
}

/// Opens a stream from `address` whose batches have `schema` (an exchange's, see [`crate::exchange_schema`]); the names are the
/// schema's, whatever the producer called its columns. `window` is held until the stream is dropped.
///
/// # Errors
/// [`FetchError`]; the same holds for what the stream yields.
pub async fn fetch(
    channels: &DataChannels,
    address: &str,
    ticket: Bytes,
    schema: SchemaRef,
    window: Reservation,
) -> Result<FetchStream, FetchError> {
    let options = channels.options();
    let mut client =
        FlightServiceClient::new(channels.get(address)?).max_decoding_message_size(options.max_message_bytes);
    let mut request = Request::new(FlightTicket { ticket });
    if let Some(value) = channels.authorization() {
        request.metadata_mut().insert("authorization", value.clone());
    }
    let called = tokio::time::timeout(options.progress_timeout, client.do_get(request)).await;
    let response = match called {
        Err(_) => return Err(silent(address, options.progress_timeout)),
        Ok(Err(status)) => return Err(classify(address, status, false)),
        Ok(Ok(response)) => response,
    };
    Ok(FetchStream {
        peer: address.to_owned(),
        stream: response.into_inner(),
        schema,
        limits: Limits { rows: u32::MAX as usize, raw_bytes: options.max_message_bytes },
        progress_timeout: options.progress_timeout,
        started: false,
        last: None,
        _window: window,
    })
}

fn silent(peer: &str, waited: Duration) -> FetchError {
    FetchError::Unreachable { peer: peer.to_owned(), detail: format!("nothing arrived for {waited:?}") }
}

fn classify(peer: &str, status: Status, started: bool) -> FetchError {
    let (peer, detail) = (peer.to_owned(), status.message().to_owned());
    match status.code() {
        Code::PermissionDenied | Code::Unauthenticated | Code::InvalidArgument | Code::Unimplemented => {
            FetchError::Denied { peer, detail }
        }
        Code::NotFound | Code::DataLoss => FetchError::NotFound { peer, detail },
        Code::FailedPrecondition => FetchError::Stale { peer, detail },
        Code::OutOfRange => FetchError::Corrupt { peer, detail }, // a message above the limit
        _ if started => FetchError::Reset { peer, source: Box::new(status) },
        _ => FetchError::Unreachable { peer, detail },
    }
}

impl FetchStream {
    /// The next batch; `None` when the peer has sent all it holds.
    pub async fn next(&mut self) -> Result<Option<FetchItem>, FetchError> {
        loop {
            let message = match tokio::time::timeout(self.progress_timeout, self.stream.message()).await {
                Err(_) => return Err(silent(&self.peer, self.progress_timeout)),
                Ok(Err(status)) => return Err(classify(&self.peer, status, true)),
                Ok(Ok(None)) => return self.end(),
                Ok(Ok(Some(message))) => message,
            };
            let info = MessageInfo::parse(&message.app_metadata).map_err(|e| self.corrupt(e.to_string()))?;
            match (info.is_schema, self.started) {
                (true, false) => self.check_schema(&info)?,
                (false, true) => return self.item(message, &info).map(Some),
                _ => return Err(self.corrupt("a schema where a batch is expected, or the other way round".to_owned())),
            }
        }
    }

    fn corrupt(&self, detail: String) -> FetchError {
        FetchError::Corrupt { peer: self.peer.clone(), detail }
    }

    /// Types are compared by fingerprint: the schema message itself is for other Flight clients and is not parsed.
    fn check_schema(&mut self, info: &MessageInfo) -> Result<(), FetchError> {
        if info.checksum != fingerprint(&self.schema) {
            return Err(self.corrupt(format!("its columns have other types than {:?}", self.schema.fields())));
        }
        self.started = true;
        Ok(())
    }

    fn end(&self) -> Result<Option<FetchItem>, FetchError> {
        match self.last {
            Some((map, _, false)) => Err(self.corrupt(format!("it ends in the middle of map {map}"))),
            _ => Ok(None),
        }
    }

    fn item(&mut self, message: FlightData, info: &MessageInfo) -> Result<FetchItem, FetchError> {
        self.check_order(info)?;
        let (header, body) = (message.data_header, message.data_body);
        info.check(&header, &body).map_err(|e| self.corrupt(e.to_string()))?;
        let bytes = (header.len() + body.len()) as u64;
        let batch = decode(&header, &Buffer::from(body), &self.schema, self.limits)
            .map_err(|source| FetchError::Decode { peer: self.peer.clone(), source })?;
        if batch.num_rows() != info.rows as usize {
            return Err(self.corrupt(format!("{} rows where {} are announced", batch.num_rows(), info.rows)));
        }
        self.last = Some((info.map, info.attempt, info.end_of_map));
        let (map, attempt, end_of_map) = (info.map, info.attempt, info.end_of_map);
        Ok(FetchItem { map, attempt, batch, end_of_map, bytes })
    }

    /// A map continues until its end was seen, and the next one has a higher number.
    fn check_order(&self, next: &MessageInfo) -> Result<(), FetchError> {
        let fits = match self.last {
            None => true,
            Some((map, attempt, false)) => map == next.map && attempt == next.attempt,
            Some((map, _, true)) => map < next.map,
        };
        match fits {
            true => Ok(()),
            false => Err(self.corrupt(format!("map {} does not follow {:?}", next.map, self.last))),
        }
    }
}
