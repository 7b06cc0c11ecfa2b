//! How the messages of a stream are written into a connection's buffer.
//!
//! The bytes are a `FlightData` as any client of Flight reads it. Generated code would need the body in one piece and copy that
//! again; here the batch's own buffers are copied once, to where the connection sends them from. The header is padded so that
//! the body starts at a multiple of 64 bytes of the message: a reader that receives messages into aligned memory can then use
//! the body as it lies there.

use std::convert::Infallible;
use std::task::{Context, Poll};

use arrow::buffer::Buffer;
use arrow_flight::Ticket;
use bytes::{BufMut, Bytes};
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use http::{Request as HttpRequest, Response as HttpResponse};
use prost::Message as _;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len};
use thalweg_rpc::MessageInfo;
use tonic::body::Body;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::server::{Grpc, NamedService, ServerStreamingService};
use tonic::{Request, Response, Status};
use tower::Service;

use super::server::{ExchangeService, MAX_TICKET_BYTES};

/// Fields of `FlightData` in `Flight.proto`.
const DATA_HEADER: u32 = 2;
const APP_METADATA: u32 = 3;
const DATA_BODY: u32 = 1000;
/// The alignment of buffers within a body.
const ALIGNMENT: usize = 64;

const DO_GET: &str = "/arrow.flight.protocol.FlightService/DoGet";

pub(super) type MessageStream = BoxStream<'static, Result<Outbound, Status>>;

/// A message ready to be sent.
#[derive(Debug)]
pub(super) struct Outbound {
    metadata: Bytes,
    header: Vec<u8>,
    body: Vec<Buffer>,
    body_len: usize,
}

impl Outbound {
    pub fn schema(header: Vec<u8>, fingerprint: u64) -> Self {
        Self { metadata: MessageInfo::schema(fingerprint).encode(), header, body: Vec::new(), body_len: 0 }
    }

    /// A batch; `info` makes its metadata from the padded header and the body.
    pub fn batch(header: &[u8], body: Vec<Buffer>, info: impl FnOnce(&[u8], &[Buffer]) -> MessageInfo) -> Self {
        let body_len = body.iter().map(Buffer::len).sum();
        let metadata_len = bytes_field_len(APP_METADATA, MessageInfo::ENCODED_LEN);
        let before_body = |header_len| {
            let prefix = key_len(DATA_BODY) + encoded_len_varint(body_len as u64);
            metadata_len + bytes_field_len(DATA_HEADER, header_len) + prefix
        };
        let mut padded = header.to_vec();
        while !before_body(padded.len()).is_multiple_of(ALIGNMENT) {
            padded.push(0);
        }
        Self { metadata: info(&padded, &body).encode(), header: padded, body, body_len }
    }

    fn encoded_len(&self) -> usize {
        let body = if self.body_len == 0 { 0 } else { bytes_field_len(DATA_BODY, self.body_len) };
        bytes_field_len(APP_METADATA, self.metadata.len()) + bytes_field_len(DATA_HEADER, self.header.len()) + body
    }

    fn write(&self, out: &mut impl BufMut) {
        put_bytes(APP_METADATA, &self.metadata, out);
        put_bytes(DATA_HEADER, &self.header, out);
        if self.body_len > 0 {
            put_key(DATA_BODY, self.body_len, out);
            self.body.iter().for_each(|part| out.put_slice(part));
        }
    }
}

fn bytes_field_len(field: u32, len: usize) -> usize {
    key_len(field) + encoded_len_varint(len as u64) + len
}

fn put_key(field: u32, len: usize, out: &mut impl BufMut) {
    encode_key(field, WireType::LengthDelimited, out);
    encode_varint(len as u64, out);
}

fn put_bytes(field: u32, bytes: &[u8], out: &mut impl BufMut) {
    put_key(field, bytes.len(), out);
    out.put_slice(bytes);
}

/// Tickets in, [`Outbound`] out.
#[derive(Debug, Clone, Copy)]
struct DoGetCodec;

impl Codec for DoGetCodec {
    type Encode = Outbound;
    type Decode = Ticket;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for DoGetCodec {
    type Item = Outbound;
    type Error = Status;

    fn encode(&mut self, item: Outbound, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.reserve(item.encoded_len());
        item.write(out);
        Ok(())
    }
}

impl Decoder for DoGetCodec {
    type Item = Ticket;
    type Error = Status;

    fn decode(&mut self, bytes: &mut DecodeBuf<'_>) -> Result<Option<Ticket>, Status> {
        Ticket::decode(bytes).map(Some).map_err(|e| Status::invalid_argument(e.to_string()))
    }
}

/// The Flight service of a TaskManager; only `DoGet` does anything.
#[derive(Debug, Clone)]
pub struct ExchangeServer(ExchangeService);

impl ExchangeServer {
    pub(super) fn new(service: ExchangeService) -> Self {
        Self(service)
    }
}

impl NamedService for ExchangeServer {
    const NAME: &'static str = "arrow.flight.protocol.FlightService";
}

impl Service<HttpRequest<Body>> for ExchangeServer {
    type Response = HttpResponse<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: HttpRequest<Body>) -> Self::Future {
        let service = self.0.clone();
        Box::pin(async move {
            if request.uri().path() != DO_GET {
                return Ok(Status::unimplemented("this service serves DoGet only").into_http());
            }
            let mut grpc = Grpc::new(DoGetCodec).max_decoding_message_size(2 * MAX_TICKET_BYTES);
            Ok(grpc.server_streaming(DoGet(service), request).await)
        })
    }
}

struct DoGet(ExchangeService);

impl ServerStreamingService<Ticket> for DoGet {
    type Response = Outbound;
    type ResponseStream = MessageStream;
    type Future = std::future::Ready<Result<Response<MessageStream>, Status>>;

    fn call(&mut self, request: Request<Ticket>) -> Self::Future {
        std::future::ready(self.0.do_get(&request).map(Response::new))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_flight::FlightData;

    #[test]
    fn what_is_written_is_flight_data_with_an_aligned_body() {
        for header_len in (0..200).chain([16_300, 16_383, 16_384]) {
            for body_len in [1, 64, 127, 128, 70_000] {
                let header = vec![7; header_len];
                let parts =
                    vec![Buffer::from_vec(vec![1u8; body_len / 2]), Buffer::from_vec(vec![2u8; body_len.div_ceil(2)])];
                let message = Outbound::batch(&header, parts.clone(), |header, body| {
                    MessageInfo::batch(3, 1, 9, true, header, body)
                });
                let mut bytes = Vec::new();
                message.write(&mut bytes);
                assert_eq!(bytes.len(), message.encoded_len());
                assert_eq!((bytes.len() - body_len) % ALIGNMENT, 0, "header of {header_len}, body of {body_len} bytes");
                let data = FlightData::decode(&bytes[..]).unwrap();
                assert_eq!(data.data_body, [parts[0].as_slice(), parts[1].as_slice()].concat());
                assert_eq!(data.data_header[..header_len], header);
                assert!(data.data_header[header_len..].iter().all(|byte| *byte == 0));
                let info = MessageInfo::parse(&data.app_metadata).unwrap();
                assert!(info.check(&data.data_header, &data.data_body).is_ok());
            }
        }
    }

    #[test]
    fn a_schema_and_an_empty_batch_have_no_body() {
        let info = |header: &[u8], body: &[Buffer]| MessageInfo::batch(0, 1, 0, true, header, body);
        for message in [Outbound::schema(vec![1, 2, 3], 5), Outbound::batch(&[1, 2, 3], Vec::new(), info)] {
            let mut bytes = Vec::new();
            message.write(&mut bytes);
            assert_eq!(bytes.len(), message.encoded_len());
            let data = FlightData::decode(&bytes[..]).unwrap();
            assert!(data.data_body.is_empty());
            assert_eq!(data.data_header[..3], [1, 2, 3]);
        }
    }
}
