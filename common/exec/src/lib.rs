//! What planner and executor share of DataFusion: the session both plan and run under, the nodes that stand where a stage
//! meets the rest of the cluster, and the encoding of a stage's operators.
//!
//! A task runs a **single-partition plan**: every leaf yields one partition, so no operator's own idea of hashing or of
//! parallelism is ever involved. Leaves reach the outside through [`io::TaskIo`], which the TaskManager puts into the task's
//! context; the exchange implements it, this crate only calls it.

pub mod concat;
pub mod environment;
pub mod exchange_input;
pub mod failure;
pub mod fragment;
pub mod functions;
pub mod io;
pub mod memory;
pub mod metrics;
pub mod once;
pub mod session;
pub mod source;
pub mod stable_hash;

mod bloom;
mod codec;
mod key_filter;
mod runtime_filter;

pub use codec::Codec;
pub use concat::ConcatExec;
pub use exchange_input::ExchangeInputExec;
pub use once::OnceExec;
pub use runtime_filter::RuntimeFilterRule;
pub use source::{SourceExec, SourceTable};
