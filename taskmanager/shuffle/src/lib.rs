//! The batch exchange: how rows get from the tasks that produce them to the tasks that consume them.
//!
//! ```text
//!  map task ── MapWriter ── packed blocks ──┐                     ┌── MapReader ── coalesced batches ── same TaskManager
//!              (hash → subpartition)        ├── ExchangeStore ────┤
//!                                  spill files                    └── Flight DoGet ── InputReader ──── other TaskManagers
//! ```
//!
//! Decides how rows are packed ([`partition`]), what stays in memory ([`ExchangeStore`]) and how it travels ([`flight`]).
//! Guarantees that a reader gets every row of its rectangle exactly once, maps ascending and each map's blocks in the order they
//! were written, or a typed error that names the map output that is lost. Does not decide which rectangles are read by whom, and
//! never retries: the scheduler does both.
//!
//! Vocabulary: a *subpartition* is an interval of hash space; a *block* is a batch sorted by subpartition, cut at their bounds; a
//! *region* is what one flush of a writer's buffer makes: a sorted run of blocks.

mod broadcast;
pub mod budget;
pub mod coalesce;
pub mod codec;
mod error;
pub mod flight;
mod input;
pub mod lz4;
pub mod partition;
pub mod reader;
pub mod schema;
pub mod sizes;
mod store;
mod writer;

pub use broadcast::{Broadcast, BroadcastCache, BroadcastHandle};
pub use budget::{Budget, MemoryGauge};
pub use coalesce::Coalescer;
pub use error::Error;
pub use input::{InputReader, InputSpec, InputStream, Location, MapSource, ReadContext, ReadError, ReadMetrics};
pub use partition::subpartition;
pub use reader::{MapReader, Slice};
pub use schema::exchange_schema;
pub use store::{ExchangeStore, StoreOptions, Usage};
pub use writer::{MapStats, MapWriter};
