//! Configuration of a cluster: what may be set, what holds when it is not, and what is wrong with a file.
//!
//! Decides: the names, types, defaults and limits of every option ([`registry`]), the order of the layers
//! (defaults < file < `-D` < environment token < SQL `SET`), and which settings contradict each other.
//!
//! Guarantees: a [`Config`] that came out of [`Config::load`] is complete and within its limits; an unknown key or a
//! bad value is never ignored; every problem of the layers is reported in one [`ConfigErrors`], with file and line; a
//! secret is never printed, in an error neither.
//!
//! Does not: bind, connect, create directories or resolve names. Each daemon calls [`Config::check_exposure`] for the
//! addresses it is about to bind and [`memory_layout`] for the memory it is about to use. A note (see [`Note`]) is no
//! error: the key is known but sets nothing here.
//!
//! Vocabulary: *key* a dotted name such as `rest.port`; *section* a prefix of keys; *raw* a value as written; *origin*
//! the layer, and in a file the line, that a value came from.

mod check;
mod config;
mod error;
mod load;
mod memory;
mod origin;
mod reference;
pub mod registry;
mod secret;
mod setting;
pub mod syntax;
mod yaml;

pub use check::Role;
pub use config::{
    AutoParallelism, BroadcastStrategy, BroadcastThreshold, ClientLimits, Config, Execution, Filesystem, Heartbeat,
    HighAvailability, HighAvailabilityType, JobManager, JobRecovery, JoinOrder, LocalAggregate, Log, LogFormat, Memory,
    PortRange, Rest, RuntimeFilter, RuntimeMode, Scheduler, Security, SkewStrategy, SkewedJoin, Table, TaskManager,
};
pub use error::{ConfigErrors, Problem, ProblemKind};
pub use load::{Loaded, TOKEN_VARIABLE};
pub use memory::{MemoryError, MemoryLayout, default_process_size, memory_layout};
pub use origin::{Note, Origin};
pub use reference::reference_markdown;
pub use registry::session_keys;
pub use secret::Secret;

#[cfg(test)]
mod tests;
