//! How the parts of a cluster talk: domain messages and their conversion to and from protobuf, typed errors over gRPC, the
//! bearer token, tickets, and the views people are shown.
//!
//! Guarantees: nothing that came from a socket leaves this crate unchecked; a token or key is never printed.

pub mod auth;
pub mod channel;
pub mod error;
pub mod exchange;
pub mod link;
pub mod ticket;
pub mod views;

pub use auth::{RequireToken, SendToken};
pub use channel::{ClientChannel, MAX_MESSAGE, client_channel, connect};
pub use error::{KIND_KEY, Malformed, Problem, RpcError};
pub use exchange::{ExchangeTicket, MessageInfo};
pub use ticket::{ResultTicket, TicketError, TicketKey};
