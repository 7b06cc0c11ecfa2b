//! Connections between TaskManagers, and the memory their unread streams may take.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint};

/// Settings of the reading side.
#[derive(Debug, Clone)]
pub struct ChannelOptions {
    /// How long a connection may take to come up.
    pub connect_timeout: Duration,
    /// After how long without a sign of life a peer is given up.
    pub dead_after: Duration,
    /// Bytes that a stream may have on the way without being read.
    pub stream_window: u32,
    /// Frames that the peer may send.
    pub frame_bytes: u32,
    /// A message larger than this is refused.
    pub max_message_bytes: usize,
    /// How long a stream that is being read may deliver nothing.
    pub progress_timeout: Duration,
    /// How long a reader waits for room in the network budget before it goes on without, so that readers that wait for each
    /// other's windows cannot block for good.
    pub reservation_timeout: Duration,
    /// Sent as `authorization: Bearer <token>`.
    pub token: Option<Arc<str>>,
}

impl Default for ChannelOptions {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(5),
            dead_after: Duration::from_secs(10),
            stream_window: 8 << 20,
            frame_bytes: 1 << 20,
            max_message_bytes: 64 << 20,
            progress_timeout: Duration::from_secs(30),
            reservation_timeout: Duration::from_secs(10),
            token: None,
        }
    }
}

/// An address or a token that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    #[error("{address:?} is no address of a data plane: expected host:port")]
    Address { address: String, source: tonic::transport::Error },
    #[error("the configured token has characters that a header cannot carry")]
    Token,
}

/// One connection per peer, made when first used and made anew when it broke.
#[derive(Debug)]
pub struct DataChannels {
    options: ChannelOptions,
    authorization: Option<MetadataValue<Ascii>>,
    channels: Mutex<HashMap<String, Channel>>,
    budget: Arc<NetworkBudget>,
}

impl DataChannels {
    /// # Errors
    /// [`ChannelError::Token`].
    pub fn new(options: ChannelOptions, budget: Arc<NetworkBudget>) -> Result<Self, ChannelError> {
        let authorization = match &options.token {
            None => None,
            Some(token) => {
                let mut value: MetadataValue<Ascii> =
                    format!("Bearer {token}").parse().map_err(|_| ChannelError::Token)?;
                value.set_sensitive(true);
                Some(value)
            }
        };
        Ok(Self { options, authorization, channels: Mutex::default(), budget })
    }

    pub fn options(&self) -> &ChannelOptions {
        &self.options
    }

    pub fn budget(&self) -> &Arc<NetworkBudget> {
        &self.budget
    }

    pub(super) fn authorization(&self) -> Option<&MetadataValue<Ascii>> {
        self.authorization.as_ref()
    }

    /// The connection to `address` (`host:port`).
    ///
    /// # Errors
    /// [`ChannelError::Address`]; a peer that does not answer shows when the connection is used.
    pub fn get(&self, address: &str) -> Result<Channel, ChannelError> {
        if let Some(channel) = self.channels.lock().get(address) {
            return Ok(channel.clone());
        }
        let endpoint = Endpoint::from_shared(format!("http://{address}"))
            .map_err(|source| ChannelError::Address { address: address.to_owned(), source })?;
        let probe = self.options.dead_after / 2;
        let channel = endpoint
            .connect_timeout(self.options.connect_timeout)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(probe)
            .keep_alive_timeout(probe)
            .keep_alive_while_idle(true)
            // unread streams must not use up what all streams share
            .initial_connection_window_size((1u32 << 31) - 1)
            .initial_stream_window_size(self.options.stream_window)
            .max_frame_size(self.options.frame_bytes)
            .connect_lazy();
        Ok(self.channels.lock().entry(address.to_owned()).or_insert(channel).clone())
    }

    /// Forgets the connection to a peer that is gone.
    pub fn forget(&self, address: &str) {
        self.channels.lock().remove(address);
    }
}

const UNIT: usize = 1 << 10;

/// Bytes that all unread streams of a TaskManager may take together.
#[derive(Debug)]
pub struct NetworkBudget {
    permits: Arc<Semaphore>,
    total: u32,
}

impl NetworkBudget {
    pub fn new(bytes: usize) -> Arc<Self> {
        let total = u32::try_from((bytes / UNIT).max(1)).unwrap_or(u32::MAX >> 4).min(u32::MAX >> 4);
        Arc::new(Self { permits: Arc::new(Semaphore::new(total as usize)), total })
    }

    /// Bytes not reserved now.
    pub fn available(&self) -> usize {
        self.permits.available_permits() * UNIT
    }

    /// Reserves the windows of `streams` streams at once: taking them one by one, two readers could each hold what the other
    /// waits for. More than the whole budget is cut to it. After `timeout` an empty reservation is given, and logged.
    pub async fn reserve(&self, streams: usize, window: u32, timeout: Duration) -> Reservation {
        let units = (streams * (window as usize).div_ceil(UNIT)).min(self.total as usize) as u32;
        let acquire = self.permits.clone().acquire_many_owned(units);
        match tokio::time::timeout(timeout, acquire).await {
            Ok(Ok(permit)) => Reservation { permit: Some(permit), streams },
            Ok(Err(_)) | Err(_) => {
                tracing::warn!(streams, window, "no room in the network budget, going on without");
                Reservation { permit: None, streams }
            }
        }
    }
}

/// Room for the windows of some streams; given back in parts as they end.
#[derive(Debug)]
pub struct Reservation {
    permit: Option<OwnedSemaphorePermit>,
    streams: usize,
}

impl Reservation {
    /// Takes one stream's share off.
    pub fn share(&mut self) -> Reservation {
        let streams = self.streams.max(1);
        self.streams = streams - 1;
        let permit = match &mut self.permit {
            Some(permit) if streams > 1 => permit.split(permit.num_permits() / streams),
            _ => self.permit.take(),
        };
        Reservation { permit, streams: 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn windows_come_back_one_by_one_and_waiting_ends() {
        let budget = NetworkBudget::new(64 << 20);
        let wait = Duration::from_millis(20);
        let mut all = budget.reserve(8, 8 << 20, wait).await;
        assert_eq!(budget.available(), 0);
        let first = all.share();
        drop(first);
        assert_eq!(budget.available(), 8 << 20);
        let fits = budget.reserve(1, 8 << 20, wait).await;
        assert_eq!(budget.available(), 0);
        let over = budget.reserve(1, 8 << 20, wait).await;
        assert!(over.permit.is_none());
        drop((fits, over));
        for _ in 0..7 {
            drop(all.share());
        }
        assert_eq!(budget.available(), 64 << 20);
        let cut = budget.reserve(100, 8 << 20, wait).await;
        assert_eq!(budget.available(), 0, "more than the whole budget is cut to it");
        drop(cut);
        assert_eq!(budget.available(), 64 << 20);
    }
}
