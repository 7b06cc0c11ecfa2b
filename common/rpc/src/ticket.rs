//! Tickets: what a holder may read, signed so that nobody can make one up.
//!
//! A ticket is `version (1 byte) | kind (1 byte) | content | HMAC-SHA256 (32 bytes)` over everything before it. The key comes
//! from the cluster's token, so that tickets outlive a JobManager, or is random per JobManager start when there is no token.

use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use thalweg_types::JobId;

const VERSION: u8 = 1;
const KIND_RESULT: u8 = b'R';
pub(crate) const MAC_LEN: usize = 32;
const DERIVATION: &[u8] = b"thalweg ticket key v1";

/// Why a ticket is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TicketError {
    #[error("the ticket is not one of this cluster's: it is {0} bytes long")]
    Length(usize),
    #[error("the ticket is of another version or kind")]
    Kind,
    #[error("the ticket's signature is wrong: it is of another cluster or an earlier start of this one")]
    Signature,
    #[error("a ticket key has 32 bytes, not {0}")]
    Key(usize),
}

/// The key tickets are signed with.
#[derive(Clone, PartialEq, Eq)]
pub struct TicketKey([u8; 32]);

impl TicketKey {
    /// The key every process with the same token derives.
    pub fn from_token(token: &str) -> Self {
        let mut mac = Hmac::<Sha256>::new_from_slice(token.as_bytes()).expect("HMAC takes keys of any length");
        mac.update(DERIVATION);
        Self(mac.finalize().into_bytes().into())
    }

    /// A key for as long as this process lives.
    pub fn random() -> Result<Self, getrandom::Error> {
        let mut key = [0; 32];
        getrandom::fill(&mut key)?;
        Ok(Self(key))
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// A key that another process made.
    ///
    /// # Errors
    /// [`TicketError::Key`] for any other length than a key's.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, TicketError> {
        bytes.try_into().map(Self).map_err(|_| TicketError::Key(bytes.len()))
    }

    /// HMAC-SHA256 of the content.
    pub(crate) fn sign(&self, content: &[u8]) -> [u8; MAC_LEN] {
        self.mac(content).finalize().into_bytes().into()
    }

    /// Whether `mac` is the signature of the content; takes as long whatever it is.
    pub(crate) fn verify(&self, content: &[u8], mac: &[u8]) -> Result<(), TicketError> {
        self.mac(content).verify_slice(mac).map_err(|_| TicketError::Signature)
    }

    fn mac(&self, content: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        mac.update(content);
        mac
    }
}

impl fmt::Debug for TicketKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TicketKey(******)")
    }
}

/// Leave to read the result of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResultTicket {
    pub job: JobId,
}

impl ResultTicket {
    pub fn sign(&self, key: &TicketKey) -> Bytes {
        let mut ticket = BytesMut::with_capacity(2 + 16 + MAC_LEN);
        ticket.put_u8(VERSION);
        ticket.put_u8(KIND_RESULT);
        ticket.put_u128(self.job.0);
        let mac = key.sign(&ticket);
        ticket.put_slice(&mac);
        ticket.freeze()
    }

    pub fn verify(ticket: &[u8], key: &TicketKey) -> Result<Self, TicketError> {
        if ticket.len() != 2 + 16 + MAC_LEN {
            return Err(TicketError::Length(ticket.len()));
        }
        let (content, mac) = ticket.split_at(ticket.len() - MAC_LEN);
        if content[..2] != [VERSION, KIND_RESULT] {
            return Err(TicketError::Kind);
        }
        key.verify(content, mac)?;
        let job = content[2..].try_into().expect("the length was checked");
        Ok(Self { job: JobId(u128::from_be_bytes(job)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_untouched_ticket_of_the_same_key_passes() {
        let key = TicketKey::from_token("t");
        let ticket = ResultTicket { job: JobId(42) };
        let signed = ticket.sign(&key);
        assert_eq!(ResultTicket::verify(&signed, &TicketKey::from_token("t")), Ok(ticket));
        assert_eq!(ResultTicket::verify(&signed, &TicketKey::from_token("u")), Err(TicketError::Signature));
        for i in 0..signed.len() {
            let mut forged = signed.to_vec();
            forged[i] ^= 1;
            assert!(ResultTicket::verify(&forged, &key).is_err(), "byte {i}");
        }
        assert_eq!(ResultTicket::verify(&signed[1..], &key), Err(TicketError::Length(49)));
        assert_ne!(TicketKey::random().unwrap(), TicketKey::random().unwrap());
        assert_eq!(TicketKey::from_bytes(key.as_bytes()).unwrap(), key);
        assert_eq!(TicketKey::from_bytes(&[0; 31]), Err(TicketError::Key(31)));
    }
}
