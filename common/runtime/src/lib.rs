//! What every daemon needs to run: logging, tasks with an owner, shutdown, backing off, time.
//!
//! Guarantees: a task started here has a name, stops with its owner, and a panic in it is logged. Time is read through
//! [`Clock`], so that tests can say what time it is.

mod backoff;
mod clock;
mod logging;
mod shutdown;
mod spawn;

pub use backoff::Backoff;
pub use clock::{Clock, ManualClock, SystemClock};
pub use logging::{LogFormat, LoggingError, init_logging};
pub use shutdown::Shutdown;
pub use spawn::{OwnedTask, TaskPanicked, spawn_owned};
