//! The data plane's agreement: what a `DoGet` of a TaskManager takes, and what its messages say about themselves.
//!
//! Both ends are of one release. Nothing of a message is believed before [`MessageInfo::check`] passed.

use std::ops::Deref;

use bytes::{BufMut, Bytes, BytesMut};
use thalweg_types::{ExchangeId, ExchangeKey, Interval, JobId, LeaderEpoch};
use xxhash_rust::xxh3::{Xxh3, xxh3_64_with_seed};

use crate::error::Malformed;
use crate::ticket::{MAC_LEN, TicketError, TicketKey};

const VERSION: u8 = 1;
const CONTENT_LEN: usize = 1 + 16 + 4 + 8 + 8 + 1 + 16 + 8 + 8;
const INFO_LEN: usize = 1 + 1 + 1 + 1 + 4 + 4 + 4 + 8;

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
        let mut ticket = BytesMut::with_capacity(CONTENT_LEN + MAC_LEN);
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

    /// Reads a ticket that was signed with `key`. The signature is compared in constant time.
    ///
    /// # Errors
    /// Anything else.
    pub fn verify(ticket: &[u8], key: &TicketKey) -> Result<Self, TicketError> {
        if ticket.len() != CONTENT_LEN + MAC_LEN {
            return Err(TicketError::Length(ticket.len()));
        }
        let (mut rest, mac) = ticket.split_at(CONTENT_LEN);
        key.verify(rest, mac)?;
        if take::<1>(&mut rest) != [VERSION] {
            return Err(TicketError::Kind);
        }
        let job = JobId(u128::from_le_bytes(take(&mut rest)));
        let mut word = || u32::from_le_bytes(take(&mut rest));
        let exchange = ExchangeKey { job, exchange: ExchangeId(word()) };
        let (maps, subpartitions) = (Interval::new(word(), word()), Interval::new(word(), word()));
        let has_rows = take::<1>(&mut rest)[0];
        let mut long = || u64::from_le_bytes(take(&mut rest));
        let rows = Interval::new(long(), long());
        let (epoch, incarnation) = (LeaderEpoch(long()), long());
        let rows = match has_rows {
            0 => None,
            1 => Some(rows),
            _ => return Err(TicketError::Kind),
        };
        Ok(Self { exchange, maps, subpartitions, rows, epoch, incarnation })
    }
}

/// The next `N` bytes. The caller has checked the length of the whole.
fn take<const N: usize>(rest: &mut &[u8]) -> [u8; N] {
    let (head, tail) = rest.split_first_chunk().expect("the length was checked before");
    *rest = tail;
    *head
}

/// What a message of the data plane says about itself, in its `app_metadata`.
///
/// As bytes: version (1), kind (1), end of map (1), zero (1), map (4), attempt (4), rows (4), checksum (8); little-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageInfo {
    /// The first message of a stream is its schema, all others are batches.
    pub is_schema: bool,
    /// Nothing more of this map follows.
    pub end_of_map: bool,
    pub map: u32,
    pub attempt: u32,
    pub rows: u32,
    /// Of a batch: of header and body. Of a schema: the sender's fingerprint of the column types.
    pub checksum: u64,
}

impl MessageInfo {
    pub fn schema(fingerprint: u64) -> Self {
        Self { is_schema: true, end_of_map: false, map: 0, attempt: 0, rows: 0, checksum: fingerprint }
    }

    /// About a batch of a map with this header and this body, which may be in parts.
    pub fn batch<P: Deref<Target = [u8]>>(
        map: u32,
        attempt: u32,
        rows: u32,
        end_of_map: bool,
        header: &[u8],
        body: &[P],
    ) -> Self {
        Self { is_schema: false, end_of_map, map, attempt, rows, checksum: checksum_of_parts(header, body) }
    }

    /// Bytes of its encoded form.
    pub const ENCODED_LEN: usize = INFO_LEN;

    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(INFO_LEN);
        out.put_slice(&[VERSION, u8::from(!self.is_schema), u8::from(self.end_of_map), 0]);
        for word in [self.map, self.attempt, self.rows] {
            out.put_u32_le(word);
        }
        out.put_u64_le(self.checksum);
        out.freeze()
    }

    /// # Errors
    /// Anything but what [`encode`](Self::encode) makes.
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

    /// Whether header and body of a batch are what was sent.
    ///
    /// # Errors
    /// Another checksum.
    pub fn check(&self, header: &[u8], body: &[u8]) -> Result<(), Malformed> {
        if self.is_schema || self.checksum == checksum(header, body) {
            return Ok(());
        }
        let found = format!("another in a message of map {}", self.map);
        Err(Malformed::Value { field: "checksum", found, expected: "the one that was announced" })
    }
}

/// xxh3-64 of header and body of a message.
pub fn checksum(header: &[u8], body: &[u8]) -> u64 {
    xxh3_64_with_seed(body, xxh3_64_with_seed(header, 0))
}

/// [`checksum`] of a body that is in parts.
fn checksum_of_parts<P: Deref<Target = [u8]>>(header: &[u8], body: &[P]) -> u64 {
    let mut state = Xxh3::with_seed(xxh3_64_with_seed(header, 0));
    body.iter().for_each(|part| state.update(part));
    state.digest()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticket(rows: Option<Interval<u64>>) -> ExchangeTicket {
        ExchangeTicket {
            exchange: ExchangeKey { job: JobId(7), exchange: ExchangeId(3) },
            maps: Interval::new(1, 9),
            subpartitions: Interval::new(64, 128),
            rows,
            epoch: LeaderEpoch(11),
            incarnation: 0xDEAD,
        }
    }

    #[test]
    fn a_ticket_has_the_agreed_layout() {
        let signed = ticket(None).sign(&TicketKey::from_token("t"));
        assert_eq!(signed.len(), 70 + 32);
        assert_eq!((signed[0], signed[1], signed[17], signed[21], signed[25]), (1, 7, 3, 1, 9));
        assert_eq!((signed[29], signed[33], signed[37], signed[54]), (64, 128, 0, 11));
        assert_eq!(signed[62..64], [0xAD, 0xDE]);
    }

    #[test]
    fn a_ticket_reads_back_and_no_changed_byte_is_accepted() {
        let key = TicketKey::from_token("t");
        for rows in [None, Some(Interval::new(5, 1 << 40))] {
            let signed = ticket(rows).sign(&key);
            assert_eq!(ExchangeTicket::verify(&signed, &key).unwrap(), ticket(rows));
            for i in 0..signed.len() {
                let mut bad = signed.to_vec();
                bad[i] ^= 1;
                assert_eq!(ExchangeTicket::verify(&bad, &key), Err(TicketError::Signature), "byte {i}");
            }
            let other = TicketKey::from_token("u");
            assert_eq!(ExchangeTicket::verify(&signed, &other), Err(TicketError::Signature));
            assert_eq!(ExchangeTicket::verify(&signed[1..], &key), Err(TicketError::Length(signed.len() - 1)));
        }
        assert_eq!(ExchangeTicket::verify(&[0; 5000], &key), Err(TicketError::Length(5000)));
    }

    #[test]
    fn a_message_is_what_it_says_or_refused() {
        let info = MessageInfo::batch(3, 2, 10, true, b"head", &[b"body".as_slice()]);
        let bytes = info.encode();
        assert_eq!(MessageInfo::parse(&bytes).unwrap(), info);
        assert_eq!((info.map, info.attempt, info.rows, info.end_of_map, info.is_schema), (3, 2, 10, true, false));
        assert!(info.check(b"head", b"body").is_ok());
        assert!(info.check(b"head", b"bodx").is_err());
        assert_eq!(MessageInfo::parse(&MessageInfo::schema(5).encode()).unwrap(), MessageInfo::schema(5));
        assert!(MessageInfo::parse(&bytes[1..]).is_err());
        for (at, value) in [(0, 9), (1, 7), (2, 2)] {
            let mut bad = bytes.to_vec();
            bad[at] = value;
            assert!(MessageInfo::parse(&bad).is_err(), "byte {at} = {value}");
        }
    }
    #[test]
    fn a_body_in_parts_has_the_checksum_of_the_whole() {
        let body: Vec<u8> = (0..5000).map(|i| (i * 7 + i / 251) as u8).collect();
        for len in [0, 1, 240, 241, 1024, 1025, body.len()] {
            let body = &body[..len];
            for piece in [1, 64, 1000, 2048, 6000] {
                let parts: Vec<&[u8]> = body.chunks(piece).flat_map(|part| [part, b""]).collect();
                assert_eq!(checksum_of_parts(b"head", &parts), checksum(b"head", body), "{len} bytes by {piece}");
            }
        }
    }
}
