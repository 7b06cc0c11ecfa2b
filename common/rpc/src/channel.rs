//! Connections to a JobManager or TaskManager.

use std::time::Duration;

use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};

use crate::auth::SendToken;
use crate::error::RpcError;

/// Largest message in either direction, bytes.
pub const MAX_MESSAGE: usize = 64 << 20;
/// HTTP/2 pings: how often, and how long to wait for the answer.
pub const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
pub const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);
/// Receive windows: enough for one message to be in flight whole on a fast link.
const STREAM_WINDOW: u32 = 8 << 20;

/// A connection that brings the token along.
pub type ClientChannel = InterceptedService<Channel, SendToken>;

/// A connection that is made when first used, and made again when it broke.
pub fn client_channel(address: &str, token: Option<&str>) -> Result<ClientChannel, RpcError> {
    let channel = endpoint(address)?.connect_lazy();
    Ok(InterceptedService::new(channel, SendToken::new(token)?))
}

/// Connects at once, and says so if nobody answers within `deadline`.
pub async fn connect(address: &str, token: Option<&str>, deadline: Duration) -> Result<ClientChannel, RpcError> {
    let send = SendToken::new(token)?;
    let endpoint = endpoint(address)?.connect_timeout(deadline);
    let channel = tokio::time::timeout(deadline, endpoint.connect())
        .await
        .map_err(|_| RpcError::Deadline { address: address.to_owned(), waited: deadline })?
        .map_err(|source| RpcError::Unreachable { address: address.to_owned(), source })?;
    Ok(InterceptedService::new(channel, send))
}

fn endpoint(address: &str) -> Result<Endpoint, RpcError> {
    let url = if address.contains("://") { address.to_owned() } else { format!("http://{address}") };
    let wrong = |source| RpcError::Address { address: address.to_owned(), source };
    let endpoint = Endpoint::from_shared(url).map_err(|source| wrong(Some(source)))?;
    if endpoint.uri().port_u16().is_none() {
        return Err(wrong(None));
    }
    Ok(endpoint
        .connect_timeout(Duration::from_secs(10))
        .tcp_nodelay(true)
        .http2_keep_alive_interval(KEEPALIVE_INTERVAL)
        .keep_alive_timeout(KEEPALIVE_TIMEOUT)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(4 * STREAM_WINDOW))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_address_needs_a_port_and_somebody_behind_it() {
        assert!(matches!(client_channel("host name:1", None), Err(RpcError::Address { .. })));
        assert!(matches!(client_channel("localhost", None), Err(RpcError::Address { .. })));
        let refused = connect("127.0.0.1:1", None, Duration::from_secs(5)).await;
        assert!(matches!(refused, Err(RpcError::Unreachable { address, .. }) if address == "127.0.0.1:1"));
    }
}
