//! What a reader asks for, signed so that only the cluster's own processes can ask.

use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use thalweg_types::{ExchangeId, ExchangeKey, Interval, JobId, LeaderEpoch};

const VERSION: u8 = 1;
const BODY_LEN: usize = 1 + 16 + 4 + 8 + 8 + 1 + 16 + 8 + 8;
const MAC_LEN: usize = 32;

/// A rectangle of an exchange on one incarnation of a TaskManager.
///
/// Encoded as version (1 byte), job (16), exchange (4), maps (4 + 4), subpartitions (4 + 4), whether rows are given (1), rows
/// (8 + 8), epoch (8), incarnation (8), all little-endian, and the HMAC-SHA256 of these bytes (32).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    pub exchange: ExchangeKey,
    pub maps: Interval<u32>,
    pub subpartitions: Interval<u32>,
    /// Positions within a single map and subpartition; `None` = all.
    pub rows: Option<Interval<u64>>,
    pub epoch: LeaderEpoch,
    /// Of the TaskManager that is asked.
    pub incarnation: u64,
}

/// Why a ticket is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TicketError {
    #[error("a ticket has {expected} bytes, not {got}", expected = BODY_LEN + MAC_LEN)]
    Length { got: usize },
    #[error("ticket version {got} is unknown: this process speaks version {VERSION}")]
    Version { got: u8 },
    #[error("the ticket is not signed by this cluster")]
    Signature,
    #[error("the ticket's row flag is neither 0 nor 1")]
    Flag,
}

/// The secret that a cluster's processes share.
#[derive(Clone)]
pub struct TicketKey(Hmac<Sha256>);

impl std::fmt::Debug for TicketKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TicketKey(..)")
    }
}

impl TicketKey {
    pub fn new(secret: &[u8]) -> Self {
        Self(Hmac::new_from_slice(secret).expect("a key of any length is accepted"))
    }

    fn mac(&self, bytes: &[u8]) -> Hmac<Sha256> {
        let mut mac = self.0.clone();
        mac.update(bytes);
        mac
    }
}

impl Ticket {
    pub fn encode(&self, key: &TicketKey) -> Bytes {
        let mut out = Vec::with_capacity(BODY_LEN + MAC_LEN);
        let rows = self.rows.unwrap_or(Interval::new(0, 0));
        out.push(VERSION);
        out.extend(self.exchange.job.0.to_le_bytes());
        for word in
            [self.exchange.exchange.0, self.maps.start, self.maps.end, self.subpartitions.start, self.subpartitions.end]
        {
            out.extend(word.to_le_bytes());
        }
        out.push(u8::from(self.rows.is_some()));
        for word in [rows.start, rows.end, self.epoch.0, self.incarnation] {
            out.extend(word.to_le_bytes());
        }
        let mac = key.mac(&out).finalize().into_bytes();
        out.extend_from_slice(&mac);
        out.into()
    }

    /// # Errors
    /// Anything but a ticket of this version signed with `key`. The signature is compared in constant time.
    pub fn decode(bytes: &[u8], key: &TicketKey) -> Result<Self, TicketError> {
        if bytes.len() != BODY_LEN + MAC_LEN {
            return Err(TicketError::Length { got: bytes.len() });
        }
        let (body, mac) = bytes.split_at(BODY_LEN);
        key.mac(body).verify_slice(mac).map_err(|_| TicketError::Signature)?;
        let mut rest = body;
        let version = take::<1>(&mut rest)[0];
        if version != VERSION {
            return Err(TicketError::Version { got: version });
        }
        let job = JobId(u128::from_le_bytes(take(&mut rest)));
        let mut word = || u32::from_le_bytes(take(&mut rest));
        let exchange = ExchangeKey { job, exchange: ExchangeId(word()) };
        let maps = Interval::new(word(), word());
        let subpartitions = Interval::new(word(), word());
        let flag = take::<1>(&mut rest)[0];
        let mut long = || u64::from_le_bytes(take(&mut rest));
        let rows = Interval::new(long(), long());
        let (epoch, incarnation) = (LeaderEpoch(long()), long());
        let rows = match flag {
            0 => None,
            1 => Some(rows),
            _ => return Err(TicketError::Flag),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn ticket() -> Ticket {
        Ticket {
            exchange: ExchangeKey { job: JobId(7), exchange: ExchangeId(3) },
            maps: Interval::new(1, 9),
            subpartitions: Interval::new(64, 128),
            rows: Some(Interval::new(5, 6)),
            epoch: LeaderEpoch(11),
            incarnation: 0xDEAD,
        }
    }

    #[test]
    fn a_ticket_reads_back_and_no_changed_byte_is_accepted() {
        let key = TicketKey::new(b"secret");
        let bytes = ticket().encode(&key);
        assert_eq!(Ticket::decode(&bytes, &key).unwrap(), ticket());
        for i in 0..bytes.len() {
            let mut bad = bytes.to_vec();
            bad[i] ^= 1;
            assert_eq!(Ticket::decode(&bad, &key), Err(TicketError::Signature), "byte {i}");
        }
        assert_eq!(Ticket::decode(&bytes, &TicketKey::new(b"other")), Err(TicketError::Signature));
        assert_eq!(Ticket::decode(&bytes[1..], &key), Err(TicketError::Length { got: bytes.len() - 1 }));
        assert_eq!(Ticket::decode(&[0; 5000], &key), Err(TicketError::Length { got: 5000 }));
    }
}
