//! The data plane between TaskManagers: Arrow Flight `DoGet`.
//!
//! One call per (consumer task, input, producing TaskManager). The ticket names a rectangle, never a list of maps; the server
//! sends what it holds of it, maps ascending. The stream is plain Flight: a schema, then record batches without compression; what
//! the reader needs to trust them (map, attempt, row count, checksum, end of map) is in each message's `app_metadata`.
//! Nothing that comes from a socket is believed before it is checked.

mod channels;
mod client;
mod fingerprint;
mod server;
mod wire;

pub use channels::{ChannelError, ChannelOptions, DataChannels, NetworkBudget, Reservation};
pub use client::{FetchError, FetchItem, FetchStream, fetch};
pub use server::{ExchangeService, ServerOptions};
pub use wire::ExchangeServer;
