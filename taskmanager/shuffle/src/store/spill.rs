//! The file that the spilled blocks of one map output are appended to.
//!
//! Guarantees that a reader holding the file can read it to its end even after the output was released: the file goes with the
//! last of its holders. The index is in memory alone: losing the process loses the memory half
//! of the output as well, so nothing reads these files later.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use parking_lot::Mutex;
use thalweg_rpc::exchange::checksum;
use thalweg_types::Interval;

use crate::codec::{Limits, decode};
use crate::error::{Error, io};
use crate::lz4::unpack;
use crate::partition::MAX_BLOCK_ROWS;

/// One message in a spill file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chunk {
    /// Which rows of the block it was made of.
    pub rows: Interval<usize>,
    offset: u64,
    header_len: usize,
    body_len: usize,
    /// Of header and body.
    checksum: u64,
    /// Length of the body before it was compressed, if it was.
    unpacked_len: Option<usize>,
}

#[derive(Debug)]
pub(crate) struct SpillFile {
    path: PathBuf,
    file: File,
    len: Mutex<u64>,
    /// Bytes in all files of the store.
    disk: Arc<AtomicU64>,
}

impl SpillFile {
    pub fn create(path: PathBuf, disk: Arc<AtomicU64>) -> Result<Self, Error> {
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)
            .map_err(io("create spill file", &path))?;
        Ok(Self { path, file, len: Mutex::new(0), disk })
    }

    pub fn len(&self) -> u64 {
        *self.len.lock()
    }

    /// Appends a message holding `rows` of some block, with `packed` in place of its `raw` body if that is given. After a failure
    /// the next append writes over the torso.
    pub fn append(
        &self,
        header: &[u8],
        raw: &[u8],
        packed: Option<&[u8]>,
        rows: Interval<usize>,
    ) -> Result<Chunk, Error> {
        let body = packed.unwrap_or(raw);
        let checksum = checksum(header, body);
        let mut len = self.len.lock();
        let header_end = *len + header.len() as u64;
        let written = self.file.write_all_at(header, *len).and_then(|()| self.file.write_all_at(body, header_end));
        written.map_err(io("write spill file", &self.path))?;
        let chunk = Chunk {
            rows,
            offset: *len,
            header_len: header.len(),
            body_len: body.len(),
            checksum,
            unpacked_len: packed.map(|_| raw.len()),
        };
        *len = header_end + body.len() as u64;
        self.disk.fetch_add((header.len() + body.len()) as u64, Ordering::Relaxed);
        Ok(chunk)
    }

    /// Reads a message back. The error says what is wrong with it, in the words of a lost block.
    pub fn read(&self, chunk: &Chunk, schema: &SchemaRef) -> Result<RecordBatch, String> {
        let mut bytes = vec![0u8; chunk.header_len + chunk.body_len];
        self.file
            .read_exact_at(&mut bytes, chunk.offset)
            .map_err(|e| format!("cannot read {} bytes at {} of {:?}: {e}", bytes.len(), chunk.offset, self.path))?;
        if checksum(&bytes[..chunk.header_len], &bytes[chunk.header_len..]) != chunk.checksum {
            return Err(format!("checksum mismatch at {} of {:?}", chunk.offset, self.path));
        }
        let broken = |e: &dyn std::error::Error| {
            format!("cannot decode the block at {} of {:?}: {}", chunk.offset, self.path, chain(e))
        };
        let buffer = Buffer::from_vec(bytes);
        let stored = buffer.slice(chunk.header_len);
        let body = match chunk.unpacked_len {
            Some(len) => unpack(&stored, len).map_err(|e| broken(&e))?,
            None => stored,
        };
        let limits = Limits { rows: MAX_BLOCK_ROWS, raw_bytes: body.len() };
        let batch = decode(&buffer[..chunk.header_len], &body, schema, limits).map_err(|e| broken(&e))?;
        match batch.num_rows() == chunk.rows.end - chunk.rows.start {
            true => Ok(batch),
            false => Err(format!("the block at {} of {:?} has another row count", chunk.offset, self.path)),
        }
    }
}

/// An error with its sources, for the text of a lost block.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        text.push_str(": ");
        text.push_str(&source.to_string());
        next = source.source();
    }
    text
}

impl Drop for SpillFile {
    fn drop(&mut self) {
        self.disk.fetch_sub(*self.len.get_mut(), Ordering::Relaxed);
        // gone already when the store's directory was removed first
        if let Err(error) = std::fs::remove_file(&self.path)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(path = %self.path.display(), %error, "cannot remove spill file");
        }
    }
}
