//! Why a JobManager does not start.

use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot bind {address}: change {host_key} or {key}")]
    Bind {
        address: String,
        host_key: &'static str,
        key: &'static str,
        #[source]
        source: io::Error,
    },
    #[error("the bound address cannot be read")]
    LocalAddress(#[source] io::Error),
    #[error("filesystem.allowed-roots: {} cannot be used", path.display())]
    Root {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("no random numbers for the ticket key")]
    Random(#[source] getrandom::Error),
    #[error(transparent)]
    HighAvailability(#[from] crate::ha::HaError),
    #[error("the jobmanager has ended")]
    Ended,
}
