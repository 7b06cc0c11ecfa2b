//! The Rust API of a Thalweg cluster, over gRPC and Arrow Flight.
//!
//! ```no_run
//! # async fn example() -> Result<(), thalweg_client::Error> {
//! use thalweg_client::{Client, ExecuteOutcome};
//!
//! let client = Client::connect("localhost:6123", None, std::time::Duration::from_secs(10)).await?;
//! let session = client.open_session([("parallelism.default", "4")]).await?;
//! if let ExecuteOutcome::Query(mut result) = session.execute("SELECT 1 AS one").await?.outcome {
//!     while let Some(batch) = result.next().await? {
//!         println!("{} rows of job {}", batch.num_rows(), result.job);
//!     }
//! }
//! session.close().await
//! # }
//! ```
//!
//! Decides: how rows are printed ([`format`]), where a script's statements end ([`script`]), whose fault an error is
//! ([`Error`]). Guarantees: nothing of an answer is believed before it is checked (ids, schemas, the types of batches);
//! every call but reading a result has a deadline. Reading waits for the job, which the cluster bounds by its stall timeout;
//! a connection that died is noticed by keep-alive pings.
//!
//! Does not: retry a statement, which may have had its effect although its answer was lost. Reading and watching a job that goes
//! on after a loss of the JobManager does so as well.

mod client;
mod error;
pub mod format;
mod reconnect;
pub mod script;
mod session;
pub mod view;

pub use client::Client;
pub use error::{AnswerError, Error, ErrorKind, chain};
pub use session::{ExecuteOutcome, Executed, QueryResult, Session, Settings};
