//! The frames of a journal: `length (4) | XXH3-64 of the content (8) | content`, little-endian. The content is LZ4-compressed
//! postcard; the first frame says which release wrote it, since what follows is read by the same release only.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use thalweg_core::Record;
use xxhash_rust::xxh3::xxh3_64;

/// What is known of a job from its submission, beside the plan and the scheduler's options.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredSubmission {
    /// An Arrow IPC schema message.
    pub schema: Vec<u8>,
    pub statement: String,
    pub plan: String,
    pub settings: Vec<(String, String)>,
    pub result_ttl: Duration,
    /// Bytes.
    pub result_max_size: u64,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub enum Frame<'a> {
    Release(std::borrow::Cow<'a, str>),
    Submission(Box<StoredSubmission>),
    Record(Box<Record>),
}

const HEAD: usize = 12;
/// Largest content that is believed, bytes.
const MAX_FRAME: usize = 1 << 30;

impl Frame<'_> {
    /// The content, not yet compressed: what is cheap to do where it is made.
    pub fn encode(&self) -> Result<Vec<u8>, postcard::Error> {
        postcard::to_stdvec(self)
    }
}

/// Appends the frame of an encoded content.
pub fn seal(content: &[u8], out: &mut Vec<u8>) {
    let packed = lz4_flex::block::compress_prepend_size(content);
    out.extend((packed.len() as u32).to_le_bytes());
    out.extend(xxh3_64(&packed).to_le_bytes());
    out.extend(packed);
}

/// The first frame of `bytes` and the number of bytes it takes; `None` if there is no whole, undamaged one.
pub fn open(bytes: &[u8]) -> Option<(Frame<'static>, usize)> {
    let (head, rest) = bytes.split_at_checked(HEAD)?;
    let length = u32::from_le_bytes(head[..4].try_into().ok()?) as usize;
    let sum = u64::from_le_bytes(head[4..].try_into().ok()?);
    let packed = rest.get(..length)?;
    if xxh3_64(packed) != sum {
        return None;
    }
    let raw_size = u32::from_le_bytes(packed.get(..4)?.try_into().ok()?) as usize;
    if raw_size > MAX_FRAME {
        return None;
    }
    let content = lz4_flex::block::decompress_size_prepended(packed).ok()?;
    Some((postcard::from_bytes(&content).ok()?, HEAD + length))
}
