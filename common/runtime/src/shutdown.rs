//! Shutdown is a path: one signal asks for it, everybody hears it, a second signal ends the process at once.

use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::spawn::spawn_owned;

/// The wish to end. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    token: CancellationToken,
}

impl Shutdown {
    pub fn new() -> Self {
        Self::default()
    }

    /// One that SIGTERM and SIGINT ask for. A second signal ends the process with status 130.
    pub fn on_signals() -> std::io::Result<Self> {
        let shutdown = Self::new();
        let mut signals = Signals::new()?;
        let asked = shutdown.clone();
        let listener = spawn_owned("signals", async move {
            let signal = signals.next().await;
            info!(signal, "shutting down");
            asked.request();
            let signal = signals.next().await;
            warn!(signal, "asked again, ending at once");
            std::process::exit(130);
        });
        // listens as long as the process lives
        listener.detach();
        Ok(shutdown)
    }

    pub fn request(&self) {
        self.token.cancel();
    }

    pub fn is_requested(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Returns when shutdown is asked for.
    pub async fn requested(&self) {
        self.token.cancelled().await;
    }

    /// The token itself, for those who select on one.
    pub fn token(&self) -> &CancellationToken {
        &self.token
    }

    /// One that ends with this one, and can be asked for alone.
    pub fn child(&self) -> Self {
        Self { token: self.token.child_token() }
    }
}

#[cfg(unix)]
struct Signals {
    term: tokio::signal::unix::Signal,
    int: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { term: signal(SignalKind::terminate())?, int: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.term.recv() => "SIGTERM",
            _ = self.int.recv() => "SIGINT",
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) -> &'static str {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        "Ctrl-C"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_child_hears_its_parent_and_not_the_other_way() {
        let parent = Shutdown::new();
        let (first, second) = (parent.child(), parent.child());
        first.request();
        assert!(first.is_requested() && !parent.is_requested() && !second.is_requested());
        parent.request();
        second.requested().await;
    }
}
