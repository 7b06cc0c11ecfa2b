//! Serves the store's finished outputs.
//!
//! Guarantees that a call with a wrong ticket or token costs no more than reading it, that a stream holds two messages at most,
//! the one being sent and the next (the connection's flow control does the rest), and that encoding and disk reads run on
//! blocking threads, one message each, so that stalled streams hold none.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::RecordBatch;
use arrow_flight::Ticket as FlightTicket;
use futures::StreamExt;
use thalweg_rpc::{ExchangeTicket, MessageInfo, TicketError, TicketKey};
use thalweg_types::MapOutputKey;
use tokio::task::JoinHandle;
use tonic::{Request, Status};

use super::fingerprint::fingerprint;
use super::wire::{ExchangeServer, MessageStream, Outbound};
use crate::coalesce::merge;
use crate::codec::{Encoder, encode_schema};
use crate::error::Error;
use crate::reader::MapReader;
use crate::sizes::batch_bytes;
use crate::store::{ExchangeStore, describe};

/// A ticket longer than this is not looked at.
pub(super) const MAX_TICKET_BYTES: usize = 4 << 10;

/// Settings of the data plane's server.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Of this TaskManager; tickets for another one are refused.
    pub incarnation: u64,
    /// The JobManager start this TaskManager is registered with; tickets of another one are refused.
    pub epoch: Arc<AtomicU64>,
    pub key: TicketKey,
    /// If set, calls must carry `authorization: Bearer <token>`.
    pub token: Option<Arc<str>>,
    /// Slices of one map are merged until a message has this many raw bytes.
    pub min_message_bytes: usize,
    /// Larger slices are cut.
    pub max_message_bytes: usize,
}

impl ServerOptions {
    pub fn new(incarnation: u64, epoch: Arc<AtomicU64>, key: TicketKey) -> Self {
        Self { incarnation, epoch, key, token: None, min_message_bytes: 256 << 10, max_message_bytes: 4 << 20 }
    }
}

/// What the data plane's calls work on.
#[derive(Debug, Clone)]
pub struct ExchangeService {
    store: Arc<ExchangeStore>,
    options: Arc<ServerOptions>,
}

impl ExchangeService {
    pub fn new(store: Arc<ExchangeStore>, options: ServerOptions) -> Self {
        Self { store, options: Arc::new(options) }
    }

    /// As a service to add to a server. That server should set `max_frame_size` to 1 MB and TCP no-delay.
    pub fn into_server(self) -> ExchangeServer {
        ExchangeServer::new(self)
    }

    /// What a ticket names, one message after the other.
    ///
    /// # Errors
    /// The status says why the caller gets nothing.
    pub(super) fn do_get(&self, request: &Request<FlightTicket>) -> Result<MessageStream, Status> {
        self.authorize(request)?;
        let outgoing = self.open(&request.get_ref().ticket)?;
        // One message is made while the one before it is sent.
        let stream = futures::stream::try_unfold(make_next(outgoing), |making| async move {
            let made = making.await.map_err(|e| Status::internal(format!("making a message failed: {e}")))?;
            Ok(made?.map(|(message, outgoing)| (message, make_next(outgoing))))
        });
        Ok(stream.boxed())
    }

    fn authorize(&self, request: &Request<FlightTicket>) -> Result<(), Status> {
        let Some(token) = &self.options.token else { return Ok(()) };
        let given = request.metadata().get("authorization").map(|v| v.as_bytes()).unwrap_or_default();
        let expected = format!("Bearer {token}");
        match same_bytes(given, expected.as_bytes()) {
            true => Ok(()),
            false => Err(Status::unauthenticated("missing or wrong token")),
        }
    }

    fn open(&self, bytes: &[u8]) -> Result<Outgoing, Status> {
        if bytes.len() > MAX_TICKET_BYTES {
            return Err(Status::invalid_argument(format!("a ticket of {} bytes", bytes.len())));
        }
        let ticket = ExchangeTicket::verify(bytes, &self.options.key).map_err(|e| match e {
            TicketError::Signature => Status::permission_denied(e.to_string()),
            other => Status::invalid_argument(other.to_string()),
        })?;
        if ticket.incarnation != self.options.incarnation {
            let (wanted, have) = (ticket.incarnation, self.options.incarnation);
            return Err(Status::failed_precondition(format!("incarnation {wanted:x} is gone, this is {have:x}")));
        }
        let epoch = self.options.epoch.load(Ordering::Acquire);
        if ticket.epoch.0 != epoch {
            return Err(Status::failed_precondition(format!("epoch {} is not the current {epoch}", ticket.epoch.0)));
        }
        let outputs = self.store.outputs(ticket.exchange, ticket.maps);
        if outputs.is_empty() {
            return Err(Status::not_found(format!("nothing of {} {} is here", ticket.exchange, ticket.maps)));
        }
        Ok(Outgoing::new(self.store.clone(), self.options.clone(), ticket, outputs))
    }
}

/// Compares without telling by its duration where the difference is.
fn same_bytes(a: &[u8], b: &[u8]) -> bool {
    let differences = a.iter().zip(b).fold(0u8, |acc, (x, y)| acc | (x ^ y));
    std::hint::black_box(differences) == 0 && a.len() == b.len()
}

/// The messages of one stream, made one at a time.
struct Outgoing {
    store: Arc<ExchangeStore>,
    options: Arc<ServerOptions>,
    ticket: ExchangeTicket,
    outputs: std::vec::IntoIter<MapOutputKey>,
    /// Made with the schema message, which is the first.
    encoder: Option<Encoder>,
    map: Option<OpenMap>,
}

fn make_next(mut outgoing: Outgoing) -> JoinHandle<Result<Option<(Outbound, Outgoing)>, Status>> {
    tokio::task::spawn_blocking(move || Ok(outgoing.next()?.map(|message| (message, outgoing))))
}

/// The map being sent, with the slices that were read ahead of it.
struct OpenMap {
    reader: MapReader,
    ahead: VecDeque<RecordBatch>,
}

impl Outgoing {
    fn new(
        store: Arc<ExchangeStore>,
        options: Arc<ServerOptions>,
        ticket: ExchangeTicket,
        outputs: Vec<MapOutputKey>,
    ) -> Self {
        Self { store, options, ticket, outputs: outputs.into_iter(), encoder: None, map: None }
    }

    fn next(&mut self) -> Result<Option<Outbound>, Status> {
        let mut open = match self.map.take() {
            Some(open) => open,
            None => match self.open_next()? {
                Some(open) => open,
                None => return Ok(None),
            },
        };
        let Some(encoder) = &mut self.encoder else {
            let schema = open.reader.schema();
            self.encoder = Some(Encoder::try_new(schema).map_err(|e| Status::internal(describe(&e)))?);
            let first = Outbound::schema(encode_schema(schema), fingerprint(schema));
            self.map = Some(open);
            return Ok(Some(first));
        };
        let batch = open.next_message(&self.options).map_err(status)?;
        let end_of_map = open.ahead.is_empty();
        let key = open.reader.key();
        let batch = batch.unwrap_or_else(|| RecordBatch::new_empty(open.reader.schema().clone()));
        if !end_of_map {
            self.map = Some(open);
        }
        let message = encoder.encode(&batch).map_err(|e| Status::internal(describe(&e)))?;
        let rows = batch.num_rows() as u32;
        Ok(Some(Outbound::batch(&message.header, message.body, |header, body| {
            MessageInfo::batch(key.map, key.attempt, rows, end_of_map, header, body)
        })))
    }

    fn open_next(&mut self) -> Result<Option<OpenMap>, Status> {
        let Some(key) = self.outputs.next() else { return Ok(None) };
        let mut reader = self.store.read(&key, self.ticket.subpartitions, self.ticket.rows).map_err(status)?;
        let mut ahead = VecDeque::new();
        read_ahead(&mut reader, &mut ahead, self.options.max_message_bytes).map_err(status)?;
        Ok(Some(OpenMap { reader, ahead }))
    }
}

impl OpenMap {
    /// Merges the next slices into one message and reads one slice further, to know whether it was the last.
    fn next_message(&mut self, options: &ServerOptions) -> Result<Option<RecordBatch>, Error> {
        let mut slices = Vec::new();
        let mut bytes = 0;
        while let Some(slice) = self.ahead.pop_front() {
            bytes += batch_bytes(&slice);
            slices.push(slice);
            if self.ahead.is_empty() {
                read_ahead(&mut self.reader, &mut self.ahead, options.max_message_bytes)?;
            }
            let next = self.ahead.front().map_or(0, batch_bytes);
            if bytes >= options.min_message_bytes || bytes + next > options.max_message_bytes {
                break;
            }
        }
        match slices.len() {
            1 => Ok(slices.pop()), // whole blocks are encoded without a copy before
            _ => merge(slices),
        }
    }
}

/// Reads one slice, in pieces if it is too large for a message.
fn read_ahead(reader: &mut MapReader, ahead: &mut VecDeque<RecordBatch>, max_bytes: usize) -> Result<(), Error> {
    let Some(slice) = reader.next_slice()? else { return Ok(()) };
    let (rows, batch) = (slice.rows(), slice.batch);
    let pieces = batch_bytes(&batch).div_ceil(max_bytes).clamp(1, rows);
    ahead.extend((0..pieces).map(|i| {
        let (start, end) = (rows * i / pieces, rows * (i + 1) / pieces);
        batch.slice(start, end - start)
    }));
    Ok(())
}

fn status(error: Error) -> Status {
    let text = describe(&error);
    match error {
        Error::NotFound { .. } => Status::not_found(text),
        Error::LostBlock { .. } => Status::data_loss(text),
        _ => Status::internal(text),
    }
}
