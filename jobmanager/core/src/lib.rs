//! The pure heart of the JobManager: events in, actions out.

mod protocol;

pub use protocol::*;
