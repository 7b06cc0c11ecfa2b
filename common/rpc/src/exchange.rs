//! The data plane as seen from outside a TaskManager: what its `DoGet` takes and what its messages say.
//!
//! The layouts are those of the shuffle; both sides are of one release. Nothing of a message is believed before
//! [`MessageInfo::check`] passed.

use bytes::{BufMut, Bytes, BytesMut};
use thalweg_types::{ExchangeKey, Interval, LeaderEpoch};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::error::Malformed;
use crate::ticket::TicketKey;

const VERSION: u8 = 1;
const INFO_LEN: usize = 24;

/// Leave to read a rectangle of an exchange from one incarnation of a TaskManager.
///
/// Signed form: version (1 byte), job (16), exchange (4), maps (4 + 4), subpartitions (4 + 4), whether rows are given (1),
/// rows (8 + 8), epoch (8), incarnation (8), all little-endian, and the HMAC-SHA256 of these bytes (32).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExchangeTicket {
    pub exchange: ExchangeKey,
    pub maps: Interval<u32>,
    pub subpartitions: Interval<u32>,
    /// Positions within a single map and subpartition; `None` = all.
    pub rows: Option<Interval<u64>>,
    pub epoch: LeaderEpoch,
    /// Of the TaskManager that is asked.
    pub incarnation: u64,
}

impl ExchangeTicket {
    pub fn sign(&self, key: &TicketKey) -> Bytes {
        let rows = self.rows.unwrap_or(Interval::new(0, 0));
        let mut ticket = BytesMut::with_capacity(102);
        ticket.put_u8(VERSION);
        ticket.put_u128_le(self.exchange.job.0);
        ticket.put_u32_le(self.exchange.exchange.0);
        for bound in [self.maps.start, self.maps.end, self.subpartitions.start, self.subpartitions.end] {
            ticket.put_u32_le(bound);
        }
        ticket.put_u8(u8::from(self.rows.is_some()));
        for word in [rows.start, rows.end, self.epoch.0, self.incarnation] {
            ticket.put_u64_le(word);
        }
        let mac = key.sign(&ticket);
        ticket.put_slice(&mac);
        ticket.freeze()
    }
}

/// What a message of the data plane says about itself, in its `app_metadata`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageInfo {
    /// The first message of a stream is its schema, all others are batches.
    pub is_schema: bool,
    /// Nothing more of this map follows.
    pub end_of_map: bool,
    pub map: u32,
    pub attempt: u32,
    pub rows: u32,
    checksum: u64,
}

impl MessageInfo {
    /// Version (1 byte), kind (1), end of map (1), zero (1), map (4), attempt (4), rows (4), checksum (8); little-endian.
    pub fn parse(app_metadata: &[u8]) -> Result<Self, Malformed> {
        let wrong =
            |found: String| Malformed::Value { field: "app_metadata", found, expected: "a message of the shuffle" };
        let bytes: &[u8; INFO_LEN] =
            app_metadata.try_into().map_err(|_| wrong(format!("{} bytes", app_metadata.len())))?;
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        if bytes[0] != VERSION || bytes[1] > 1 || bytes[2] > 1 {
            return Err(wrong(format!("{:?}", &bytes[..3])));
        }
        Ok(Self {
            is_schema: bytes[1] == 0,
            end_of_map: bytes[2] == 1,
            map: word(4),
            attempt: word(8),
            rows: word(12),
            checksum: u64::from(word(16)) | u64::from(word(20)) << 32,
        })
    }

    /// Whether header and body are what was sent.
    pub fn check(&self, header: &[u8], body: &[u8]) -> Result<(), Malformed> {
        if self.is_schema || self.checksum == xxh3_64_with_seed(body, xxh3_64_with_seed(header, 0)) {
            return Ok(());
        }
        let found = format!("another in a message of map {}", self.map);
        Err(Malformed::Value { field: "checksum", found, expected: "the one that was announced" })
    }

    /// The form [`MessageInfo::parse`] reads, for tests and for whoever plays a TaskManager.
    pub fn batch(map: u32, attempt: u32, rows: u32, end_of_map: bool, header: &[u8], body: &[u8]) -> Vec<u8> {
        let mut out = vec![VERSION, 1, u8::from(end_of_map), 0];
        for word in [map, attempt, rows] {
            out.extend(word.to_le_bytes());
        }
        out.extend(xxh3_64_with_seed(body, xxh3_64_with_seed(header, 0)).to_le_bytes());
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_types::{ExchangeId, JobId};

    #[test]
    fn a_ticket_has_the_agreed_layout() {
        let ticket = ExchangeTicket {
            exchange: ExchangeKey { job: JobId(7), exchange: ExchangeId(3) },
            maps: Interval::new(1, 9),
            subpartitions: Interval::new(64, 128),
            rows: None,
            epoch: LeaderEpoch(11),
            incarnation: 0xDEAD,
        };
        let key = TicketKey::from_token("t");
        let signed = ticket.sign(&key);
        assert_eq!(signed.len(), 70 + 32);
        assert_eq!((signed[0], signed[1], signed[17], signed[21], signed[25]), (1, 7, 3, 1, 9));
        assert_eq!((signed[29], signed[33], signed[37], signed[54]), (64, 128, 0, 11));
        assert_eq!(signed[62..64], [0xAD, 0xDE]);
        assert_ne!(ticket.sign(&TicketKey::from_token("u"))[70..], signed[70..]);
    }

    #[test]
    fn a_message_is_what_it_says_or_refused() {
        let bytes = MessageInfo::batch(3, 2, 10, true, b"head", b"body");
        let info = MessageInfo::parse(&bytes).unwrap();
        assert_eq!((info.map, info.attempt, info.rows, info.end_of_map, info.is_schema), (3, 2, 10, true, false));
        assert!(info.check(b"head", b"body").is_ok());
        assert!(info.check(b"head", b"bodx").is_err());
        assert!(MessageInfo::parse(&bytes[1..]).is_err());
        assert!(MessageInfo::parse(&[9; INFO_LEN]).is_err());
    }
}
