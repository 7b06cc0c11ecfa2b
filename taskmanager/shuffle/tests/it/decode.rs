//! The block format: golden files, and messages that lie.

use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteContext, IpcWriteOptions};
use thalweg_shuffle::codec::{DecodeError, Encoder, Limits, decode};
use thalweg_shuffle::exchange_schema;
use thalweg_shuffle::schema::cast_batch;

use crate::support::*;

const LIMITS: Limits = Limits { rows: 65_535, raw_bytes: 1 << 20 };

fn batch() -> RecordBatch {
    let batch = random_batch(&mut Rng(4), 100);
    cast_batch(&batch, &exchange_schema(&batch.schema()).unwrap()).unwrap()
}

/// A message as it is stored and sent: header and body in one piece each.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Message {
    header: Vec<u8>,
    body: Vec<u8>,
}

fn encode(batch: &RecordBatch) -> Message {
    let message = Encoder::try_new(&batch.schema()).unwrap().encode(batch).unwrap();
    let mut body = Vec::new();
    message.gather(&mut body);
    assert_eq!(body.len(), message.body_len());
    Message { header: message.header.to_vec(), body }
}

fn golden_path(name: &str) -> String {
    format!("{}/tests/golden/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Header length (4 bytes, little-endian), header, body.
fn golden(name: &str, message: &Message) -> Message {
    if std::env::var_os("THALWEG_UPDATE_GOLDENS").is_some() {
        let mut bytes = (message.header.len() as u32).to_le_bytes().to_vec();
        bytes.extend_from_slice(&message.header);
        bytes.extend_from_slice(&message.body);
        std::fs::create_dir_all(golden_path("")).unwrap();
        std::fs::write(golden_path(name), bytes).unwrap();
    }
    let bytes = std::fs::read(golden_path(name)).unwrap();
    let (len, rest) = bytes.split_first_chunk::<4>().unwrap();
    let (header, body) = rest.split_at(u32::from_le_bytes(*len) as usize);
    Message { header: header.to_vec(), body: body.to_vec() }
}

fn read(message: &Message, schema: &SchemaRef, limits: Limits) -> Result<RecordBatch, DecodeError> {
    decode(&message.header, &Buffer::from_vec(message.body.clone()), schema, limits)
}

#[test]
fn golden_blocks_are_written_and_read_as_ever() {
    let batch = batch();
    let raw = encode(&batch);
    let stored = golden("block_v1.raw", &raw);
    assert_eq!(raw, stored, "a changed block format needs a new version");
    assert_eq!(read(&stored, &batch.schema(), LIMITS).unwrap(), batch);
}

#[test]
fn misaligned_bodies_are_copied_not_refused() {
    let batch = batch();
    let message = encode(&batch);
    let mut shifted = vec![0u8; 3];
    shifted.extend_from_slice(&message.body);
    let body = Buffer::from_vec(shifted).slice(3);
    assert_eq!(decode(&message.header, &body, &batch.schema(), LIMITS).unwrap(), batch);
}

#[test]
fn limits_are_kept_and_named() {
    let batch = batch();
    let good = encode(&batch);
    let refused = |message: &Message, limits: Limits| read(message, &batch.schema(), limits).unwrap_err().to_string();
    let no_codec = refused(&with_arrow_codec(&batch), LIMITS);
    assert!(no_codec.contains("codec"), "{no_codec}");
    let rows = refused(&good, Limits { rows: 99, ..LIMITS });
    assert!(rows.contains("100 rows where at most 99"), "{rows}");
    let bytes = refused(&good, Limits { raw_bytes: 5_000, ..LIMITS });
    assert!(bytes.contains("claim more bytes"), "{bytes}");
    let mut cut = good.clone();
    cut.body.truncate(cut.body.len() - 64);
    assert!(refused(&cut, LIMITS).contains("body"), "the body's length is checked");
    let fewer = exchange_schema(&batch.project(&[0, 1]).unwrap().schema()).unwrap();
    let err = read(&good, &fewer, LIMITS).unwrap_err().to_string();
    assert!(err.contains("more columns"), "{err}");
}

/// A message whose buffers arrow compressed: no process of ours writes one.
fn with_arrow_codec(batch: &RecordBatch) -> Message {
    let options = IpcWriteOptions::default().try_with_compression(Some(CompressionType::LZ4_FRAME)).unwrap();
    let (generator, mut tracker) = (IpcDataGenerator::default(), DictionaryTracker::new(false));
    let (_, data) = generator.encode(batch, &mut tracker, &options, &mut IpcWriteContext::default()).unwrap();
    Message { header: data.ipc_message, body: data.arrow_data }
}

/// Nothing a block's bytes can say makes the decoder panic or allocate without bounds. `THALWEG_FUZZ_SECONDS` runs it longer.
#[test]
fn mutated_blocks_never_panic() {
    let batch = batch();
    let seconds: u64 = std::env::var("THALWEG_FUZZ_SECONDS").ok().and_then(|s| s.parse().ok()).unwrap_or(0);
    let end = Instant::now() + Duration::from_secs(seconds);
    let golden = encode(&batch);
    let before = peak_memory_kb();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let mut rng = Rng(now.as_nanos() as u64);
    println!("fuzz seed {}", rng.0); // shown when the test fails
    let (mut rounds, mut accepted) = (0u64, 0u64);
    while rounds < 20_000 || Instant::now() < end {
        rounds += 1;
        let mut message = golden.clone();
        mutate(&mut message, &mut rng);
        if let Ok(read) = read(&message, &batch.schema(), LIMITS) {
            assert!(read.num_rows() <= LIMITS.rows);
            accepted += 1;
        }
    }
    assert!(accepted > 0 && accepted < rounds, "some mutations hit padding, most do not: {accepted} of {rounds}");
    let grown = peak_memory_kb() - before;
    assert!(grown < 4 << 20, "the address space grew by {grown} KB");
}

fn mutate(message: &mut Message, rng: &mut Rng) {
    for _ in 0..1 + rng.below(4) {
        let bytes = if rng.below(4) == 0 { &mut message.body } else { &mut message.header };
        let at = rng.below(bytes.len() as u64) as usize;
        match rng.below(4) {
            0 => bytes[at] = rng.next() as u8,
            1 => bytes[at] ^= 1 << rng.below(8),
            2 => {
                let word = [0, 1, u64::MAX, i64::MAX as u64, 1 << 31, 1 << 40][rng.below(6) as usize];
                bytes.iter_mut().skip(at & !7).zip(word.to_le_bytes()).for_each(|(b, w)| *b = w);
            }
            _ => bytes.truncate(at.max(1)),
        }
    }
}

fn peak_memory_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|l| l.starts_with("VmPeak:"));
    line.and_then(|l| l.split_whitespace().nth(1)).and_then(|n| n.parse().ok()).unwrap_or(0)
}
