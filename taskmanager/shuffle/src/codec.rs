//! One block as one Arrow IPC record-batch message, for disks and for the wire.
//!
//! Guarantees on the way in: every length in a message is checked against the bytes that are there before anything is allocated
//! or sliced, and the values are validated (offsets, UTF-8, null counts). Bodies are not compressed; what a file does to them
//! is undone before.

use std::collections::HashMap;

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow_ipc::MetadataVersion;
use arrow_ipc::reader::RecordBatchDecoder;
use arrow_ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteOptions, StreamEncoder};

/// What a message may ask for.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Rows of the batch.
    pub rows: usize,
    /// Bytes of all buffers.
    pub raw_bytes: usize,
}

/// A message that is not what its header, its schema or its limits say.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The verifier's words; its error is no `std::error::Error`.
    #[error("the header is no valid message: {0}")]
    Header(String),
    #[error("malformed message: {0}")]
    Malformed(String),
    #[error("the values do not fit the schema")]
    Values(#[source] ArrowError),
}

/// Header and body of a message. The body's parts are the batch's own buffers, not copies of them, and the padding between.
#[derive(Debug, Clone)]
pub struct Message {
    pub header: Buffer,
    pub body: Vec<Buffer>,
}

impl Message {
    /// Bytes of the body.
    pub fn body_len(&self) -> usize {
        self.body.iter().map(Buffer::len).sum()
    }

    /// Copies the body into `out`, whose contents are replaced.
    pub fn gather(&self, out: &mut Vec<u8>) {
        out.clear();
        out.reserve(self.body_len());
        self.body.iter().for_each(|part| out.extend_from_slice(part));
    }
}

/// Encodes batches of one schema.
pub struct Encoder {
    stream: StreamEncoder,
}

impl Encoder {
    /// # Errors
    /// A schema that IPC cannot express.
    pub fn try_new(schema: &SchemaRef) -> Result<Self, ArrowError> {
        let mut stream = StreamEncoder::try_new(schema)?;
        // The first message brings the schema along, which here goes a way of its own.
        stream.encode(&RecordBatch::new_empty(schema.clone()))?;
        Ok(Self { stream })
    }

    /// # Errors
    /// A batch of another schema, or with dictionaries.
    pub fn encode(&mut self, batch: &RecordBatch) -> Result<Message, ArrowError> {
        let unexpected = |what: &str| ArrowError::IpcError(format!("an encoded batch {what}"));
        let mut parts = self.stream.encode(batch)?.into_iter();
        // A stream has a continuation mark and the padded header's length before each header.
        let prefix = parts.next().ok_or_else(|| unexpected("is empty"))?;
        let padded: [u8; 4] =
            prefix.get(4..8).and_then(|b| b.try_into().ok()).ok_or_else(|| unexpected("has no length"))?;
        let header = parts.next().ok_or_else(|| unexpected("has no header"))?;
        let mut padding = (u32::from_le_bytes(padded) as usize).checked_sub(header.len());
        while let Some(left @ 1..) = padding {
            padding = left.checked_sub(parts.next().map_or(usize::MAX, |part| part.len()));
        }
        padding.ok_or_else(|| unexpected("has a header of another length than it says"))?;
        Ok(Message { header, body: parts.collect() })
    }
}

/// A schema as the header of the first message of a stream.
pub fn encode_schema(schema: &Schema) -> Vec<u8> {
    let (generator, mut tracker) = (IpcDataGenerator::default(), DictionaryTracker::new(false));
    generator.schema_to_bytes_with_dictionary_tracker(schema, &mut tracker, &IpcWriteOptions::default()).ipc_message
}

/// Decodes one message as a batch of `schema`.
///
/// # Errors
/// Whatever is wrong with the message; nothing larger than `limits` is allocated.
pub fn decode(header: &[u8], body: &Buffer, schema: &SchemaRef, limits: Limits) -> Result<RecordBatch, DecodeError> {
    let message = arrow_ipc::root_as_message(header).map_err(|e| DecodeError::Header(e.to_string()))?;
    let malformed = |what: &str| DecodeError::Malformed(what.to_owned());
    if message.version() != MetadataVersion::V5 {
        return Err(malformed("its version is not 5"));
    }
    if usize::try_from(message.bodyLength()) != Ok(body.len()) {
        let (claimed, have) = (message.bodyLength(), body.len());
        return Err(DecodeError::Malformed(format!("the header claims a body of {claimed} bytes, there are {have}")));
    }
    let batch = message.header_as_record_batch().ok_or_else(|| malformed("it is no record batch"))?;
    check(&batch, body, schema, limits)?;
    let (none, version) = (HashMap::new(), MetadataVersion::V5);
    RecordBatchDecoder::try_new(body, batch, schema.clone(), &none, &version)
        .and_then(|decoder| decoder.read_record_batch())
        .map_err(DecodeError::Values)
}

/// Everything arrow's decoder would slice or allocate by, checked first.
fn check(batch: &arrow_ipc::RecordBatch, body: &[u8], schema: &Schema, limits: Limits) -> Result<(), DecodeError> {
    let malformed = |what: &str| DecodeError::Malformed(what.to_owned());
    if batch.variadicBufferCounts().is_some_and(|v| !v.is_empty()) {
        return Err(malformed("it has view columns"));
    }
    if let Some(compression) = batch.compression() {
        return Err(DecodeError::Malformed(format!("its codec {:?} is not accepted here", compression.codec())));
    }
    let rows = usize::try_from(batch.length()).map_err(|_| malformed("its row count is negative"))?;
    if rows > limits.rows {
        return Err(DecodeError::Malformed(format!("it has {rows} rows where at most {} are allowed", limits.rows)));
    }
    let nodes = batch.nodes().ok_or_else(|| malformed("it has no nodes"))?;
    let buffers = batch.buffers().ok_or_else(|| malformed("it has no buffers"))?;
    let mut walk = Walk {
        nodes: nodes.iter().map(|n| (n.length(), n.null_count())),
        buffers: buffers.iter().map(|b| (b.offset(), b.length())),
        body,
        left: limits.raw_bytes,
    };
    for field in schema.fields() {
        let length = walk.array(field.data_type())?;
        if length != rows {
            return Err(DecodeError::Malformed(format!("a column has {length} rows where the batch has {rows}")));
        }
    }
    if walk.nodes.next().is_some() || walk.buffers.next().is_some() {
        return Err(malformed("it has more columns than the schema"));
    }
    Ok(())
}

/// Follows the schema through the nodes and buffers of a message, as the decoder will.
struct Walk<'a, N, B> {
    nodes: N,
    buffers: B,
    body: &'a [u8],
    /// Bytes that the rest of the message may still claim.
    left: usize,
}

impl<N: Iterator<Item = (i64, i64)>, B: Iterator<Item = (i64, i64)>> Walk<'_, N, B> {
    /// Checks one array and its children; returns its length.
    fn array(&mut self, data_type: &DataType) -> Result<usize, DecodeError> {
        use DataType::*;
        let (length, nulls) =
            self.nodes.next().ok_or_else(|| DecodeError::Malformed("a node is missing".to_owned()))?;
        if !(0..=i64::from(i32::MAX)).contains(&length) || !(0..=length).contains(&nulls) {
            return Err(DecodeError::Malformed(format!("an array of {length} values with {nulls} nulls")));
        }
        let length = length as usize;
        if matches!(data_type, Null) {
            return Ok(length);
        }
        let validity = self.buffer()?;
        if nulls > 0 && validity < length.div_ceil(8) {
            return Err(DecodeError::Malformed(format!("{validity} bytes of validity for {length} values")));
        }
        match data_type {
            Utf8 | Binary => {
                self.offsets(length, 4)?;
                self.buffer()?;
            }
            LargeUtf8 | LargeBinary => {
                self.offsets(length, 8)?;
                self.buffer()?;
            }
            List(field) | Map(field, _) => {
                self.offsets(length, 4)?;
                self.array(field.data_type())?;
            }
            LargeList(field) => {
                self.offsets(length, 8)?;
                self.array(field.data_type())?;
            }
            FixedSizeList(field, _) => {
                self.array(field.data_type())?;
            }
            Struct(fields) => {
                for field in fields {
                    let child = self.array(field.data_type())?;
                    if child != length {
                        return Err(DecodeError::Malformed(format!("a field of {child} values in {length} structs")));
                    }
                }
            }
            Boolean | FixedSizeBinary(_) => {
                self.buffer()?;
            }
            other if other.is_primitive() => {
                self.buffer()?;
            }
            other => return Err(DecodeError::Malformed(format!("blocks have no columns of type {other}"))),
        }
        Ok(length)
    }

    /// Checks the buffer of the offsets of `length` values; an empty array may have none.
    fn offsets(&mut self, length: usize, width: usize) -> Result<(), DecodeError> {
        let raw = self.buffer()?;
        let whole = raw.is_multiple_of(width) && (raw / width > length || (raw == 0 && length == 0));
        match whole {
            true => Ok(()),
            false => Err(DecodeError::Malformed(format!("{raw} bytes of {width}-byte offsets for {length} values"))),
        }
    }

    /// Checks one buffer's place; returns its length.
    fn buffer(&mut self) -> Result<usize, DecodeError> {
        let (offset, length) =
            self.buffers.next().ok_or_else(|| DecodeError::Malformed("a buffer is missing".to_owned()))?;
        let outside =
            || DecodeError::Malformed(format!("a buffer at {offset} of {length} bytes lies outside the body"));
        let start = usize::try_from(offset).map_err(|_| outside())?;
        let end = usize::try_from(length).ok().and_then(|l| start.checked_add(l)).ok_or_else(outside)?;
        let len = self.body.get(start..end).ok_or_else(outside)?.len();
        self.left = self
            .left
            .checked_sub(len)
            .ok_or_else(|| DecodeError::Malformed("its buffers claim more bytes than a message may have".to_owned()))?;
        Ok(len)
    }
}
