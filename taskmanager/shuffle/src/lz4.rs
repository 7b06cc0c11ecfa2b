//! LZ4 for the bodies of messages in spill files.
//!
//! A body is one LZ4 block. The frames that Arrow IPC knows, one around each buffer, cost more than compressing: two more copies
//! of every byte, and two tables to clear per buffer.

use arrow::buffer::Buffer;

/// Compresses bodies; keeps its output space from one to the next.
#[derive(Debug, Default)]
pub struct Packer {
    out: Vec<u8>,
}

impl Packer {
    /// The compressed body; `None` if that would save less than an eighth.
    pub fn pack(&mut self, body: &[u8]) -> Option<&[u8]> {
        let most = lz4_flex::block::get_maximum_output_size(body.len());
        if self.out.len() < most {
            self.out.resize(most, 0);
        }
        let packed = lz4_flex::block::compress_into(body, &mut self.out).ok()?;
        (packed < body.len() - body.len() / 8).then(|| &self.out[..packed])
    }
}

/// A stored body that does not expand to what it was.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    #[error("its LZ4 block is damaged")]
    Block(#[from] lz4_flex::block::DecompressError),
    #[error("its LZ4 block expands to {actual} bytes where {expected} were packed")]
    Length { actual: usize, expected: usize },
}

/// Expands what [`Packer::pack`] made of a body of `raw_len` bytes; allocates no more than those.
pub fn unpack(packed: &[u8], raw_len: usize) -> Result<Buffer, UnpackError> {
    let mut raw = vec![0u8; raw_len];
    match lz4_flex::block::decompress_into(packed, &mut raw)? {
        actual if actual == raw_len => Ok(Buffer::from_vec(raw)),
        actual => Err(UnpackError::Length { actual, expected: raw_len }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_come_back_and_incompressible_ones_are_left() {
        let mut packer = Packer::default();
        for len in [1, 100, 70_000, 300_000, 5_000] {
            let body: Vec<u8> = (0..len).map(|i| (i / 7) as u8).collect();
            match packer.pack(&body) {
                Some(packed) => assert_eq!(unpack(packed, len).unwrap().as_slice(), body),
                None => assert!(len < 100, "{len} bytes that repeat were not packed"),
            }
        }
        let noise: Vec<u8> = (0..10_000u64).map(|i| xxhash_rust::xxh3::xxh3_64(&i.to_le_bytes()) as u8).collect();
        assert!(packer.pack(&noise).is_none());
        assert!(packer.pack(&[]).is_none());
    }

    #[test]
    fn a_block_of_another_length_or_damaged_is_refused() {
        let body = vec![7u8; 10_000];
        let packed = Packer::default().pack(&body).unwrap().to_vec();
        assert!(matches!(unpack(&packed, 10_001), Err(UnpackError::Length { actual: 10_000, expected: 10_001 })));
        assert!(matches!(unpack(&packed, 9_999), Err(UnpackError::Block(_))));
        assert!(unpack(&packed[..packed.len() / 2], 10_000).is_err());
        assert!(unpack(&[], 10_000).is_err());
    }

    /// A checksum stands before it, but memory safety does not rest on that.
    #[test]
    fn mutated_blocks_never_panic_nor_give_another_length() {
        let body: Vec<u8> = (0..4_000u32).map(|i| (i / 5 % 251) as u8).collect();
        let packed = Packer::default().pack(&body).unwrap().to_vec();
        let random = |round: u64, salt: u64| xxhash_rust::xxh3::xxh3_64_with_seed(&round.to_le_bytes(), salt) as usize;
        let mut refused = 0;
        for round in 0..20_000 {
            let mut bad = packed.clone();
            for change in 0..1 + random(round, 0) as u64 % 4 {
                let at = random(round, 3 * change + 1) % bad.len();
                match random(round, 3 * change + 2) % 3 {
                    0 => bad[at] = random(round, 3 * change + 3) as u8,
                    1 => bad[at] = u8::MAX,
                    _ => bad.truncate(at.max(1)),
                }
            }
            match unpack(&bad, body.len()) {
                Ok(raw) => assert_eq!(raw.len(), body.len()),
                Err(_) => refused += 1,
            }
        }
        assert!(refused > 0, "no mutation was noticed");
    }
}
