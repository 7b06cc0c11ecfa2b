//! The link over gRPC: two pumps per side, one per direction.
//!
//! ```text
//! owner ── tx ──► sending pump ── + heartbeats ──► stream ──► receiving pump ── rx ──► owner
//!                                                             (checks, silence ⇒ lost)
//! ```
//! An owner that drops its end closes its direction and what it sent before still arrives. A link that is lost (silence, a
//! malformed message, a broken connection) ends both pumps of a side: the owner sees `rx` end and `tx` closed. A full `rx`
//! holds the stream back and is not counted as silence of the peer.

use std::time::Duration;

use thalweg_proto::v1;
use thalweg_proto::v1::task_manager_link_client::TaskManagerLinkClient;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{Status, Streaming};
use tracing::{debug, warn};

use super::{FromTaskManager, JobManagerEnd, LINK_CAPACITY, TaskManagerEnd, ToTaskManager};
use crate::channel::{MAX_MESSAGE, connect};
use crate::error::{Malformed, RpcError};

/// Messages between a pump and the HTTP/2 stream; what waits longer waits in the link's own channel.
const STREAM_BUFFER: usize = 16;
/// How long a side that closed waits for the other one to close as well.
const LINGER: Duration = Duration::from_secs(2);

/// How often a side says that it is alive, and how long it bears the other one's silence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heartbeats {
    pub interval: Duration,
    pub timeout: Duration,
}

/// What a JobManager's service answers a `Link` call with.
pub type ToTaskManagerStream = ReceiverStream<Result<v1::ToTaskManager, Status>>;

/// Why a link is lost.
#[derive(Debug, thiserror::Error)]
enum Lost {
    #[error("nothing was heard for {0:?}")]
    Silence(Duration),
    #[error("the connection broke")]
    Broken(#[source] Box<Status>),
    #[error("a message was malformed: {0}")]
    Malformed(#[from] Malformed),
}

/// Dials a JobManager. Fails when it does not answer within `deadline` or refuses the token.
pub async fn dial(address: &str, token: Option<&str>, deadline: Duration) -> Result<TaskManagerEnd, RpcError> {
    let channel = connect(address, token, deadline).await?;
    let mut client = TaskManagerLinkClient::new(channel)
        .max_decoding_message_size(MAX_MESSAGE)
        .max_encoding_message_size(MAX_MESSAGE);
    let (out_tx, out_rx) = mpsc::channel(STREAM_BUFFER);
    let response = tokio::time::timeout(deadline, client.link(ReceiverStream::new(out_rx)))
        .await
        .map_err(|_| RpcError::Deadline { address: address.to_owned(), waited: deadline })??;

    let (tx, owner_rx) = mpsc::channel(LINK_CAPACITY);
    let (owner_tx, rx) = mpsc::channel(LINK_CAPACITY);
    // until the JobManager names its own figures, silence is borne as long as the dialling was
    let (set_pace, pace) = watch::channel(Heartbeats { interval: deadline / 4, timeout: deadline });
    let keep = move |message: &ToTaskManager| {
        if let ToTaskManager::Registered { heartbeat_interval, heartbeat_timeout, .. } = message {
            set_pace.send_replace(Heartbeats { interval: *heartbeat_interval, timeout: *heartbeat_timeout });
        }
        *message != ToTaskManager::Heartbeat
    };
    let lost = CancellationToken::new();
    let receiver = Receiver { peer: format!("jobmanager {address}"), pace: pace.clone(), lost: lost.clone() };
    tokio::spawn(receiver.run(response.into_inner(), owner_tx, keep, |_| ()));
    let outgoing = |message: Option<FromTaskManager>| message.unwrap_or(FromTaskManager::Heartbeat).into();
    tokio::spawn(send(owner_rx, outgoing, out_tx, pace, lost));
    Ok(TaskManagerEnd { tx, rx })
}

/// The JobManager's half: turns a `Link` call into an end, and the stream to answer the call with. Heartbeats of the
/// TaskManager are handed on to the owner, who may note when it was last heard of.
pub fn serve(
    peer: String,
    stream: Streaming<v1::FromTaskManager>,
    pace: Heartbeats,
) -> (JobManagerEnd, ToTaskManagerStream) {
    let (out_tx, out_rx) = mpsc::channel(STREAM_BUFFER);
    let (tx, owner_rx) = mpsc::channel(LINK_CAPACITY);
    let (owner_tx, rx) = mpsc::channel(LINK_CAPACITY);
    let (_, pace) = watch::channel(pace);
    let lost = CancellationToken::new();
    let receiver = Receiver { peer, pace: pace.clone(), lost: lost.clone() };
    let complaints = out_tx.downgrade();
    let complain = move |lost: &Lost| {
        if let (Lost::Malformed(malformed), Some(out)) = (lost, complaints.upgrade()) {
            // nobody reads it if the stream is full or gone
            let _ = out.try_send(Err(malformed.clone().into()));
        }
    };
    tokio::spawn(receiver.run(stream, owner_tx, |_: &FromTaskManager| true, complain));
    let outgoing = |message: Option<ToTaskManager>| Ok(message.unwrap_or(ToTaskManager::Heartbeat).into());
    tokio::spawn(send(owner_rx, outgoing, out_tx, pace, lost));
    (JobManagerEnd { tx, rx }, ReceiverStream::new(out_rx))
}

/// The receiving pump.
struct Receiver {
    peer: String,
    pace: watch::Receiver<Heartbeats>,
    lost: CancellationToken,
}

impl Receiver {
    async fn run<P, D>(
        self,
        mut stream: Streaming<P>,
        owner: mpsc::Sender<D>,
        keep: impl Fn(&D) -> bool + Send + 'static,
        complain: impl FnOnce(&Lost) + Send + 'static,
    ) where
        P: Send + 'static,
        D: TryFrom<P, Error = Malformed> + Send + 'static,
    {
        let _both = self.lost.clone().drop_guard();
        loop {
            let timeout = self.pace.borrow().timeout;
            let message = tokio::select! {
                biased;
                () = self.lost.cancelled() => return,
                () = owner.closed() => return self.linger(stream).await,
                message = next(&mut stream, timeout) => message,
            };
            match message {
                Ok(Some(message)) if !keep(&message) => {}
                Ok(Some(message)) => {
                    if owner.send(message).await.is_err() {
                        return self.linger(stream).await;
                    }
                }
                Ok(None) => {
                    debug!(peer = %self.peer, "link closed by the peer");
                    return;
                }
                Err(lost) => {
                    warn!(peer = %self.peer, error = %lost, source = ?std::error::Error::source(&lost), "link lost");
                    return complain(&lost);
                }
            }
        }
    }

    /// Resetting the stream at once would take away what the sending pump still has on the way.
    async fn linger<P>(&self, mut stream: Streaming<P>) {
        let drained = async { while let Ok(Some(_)) = stream.message().await {} };
        tokio::select! {
            () = self.lost.cancelled() => {}
            _ = tokio::time::timeout(LINGER, drained) => {}
        }
    }
}

async fn next<P, D>(stream: &mut Streaming<P>, timeout: Duration) -> Result<Option<D>, Lost>
where
    D: TryFrom<P, Error = Malformed>,
{
    let message = tokio::time::timeout(timeout, stream.message())
        .await
        .map_err(|_| Lost::Silence(timeout))?
        .map_err(|status| Lost::Broken(Box::new(status)))?;
    Ok(message.map(D::try_from).transpose()?)
}

/// The sending pump. `convert` is given nothing when it is time for a heartbeat.
async fn send<D, P>(
    mut owner: mpsc::Receiver<D>,
    convert: impl Fn(Option<D>) -> P + Send + 'static,
    out: mpsc::Sender<P>,
    mut pace: watch::Receiver<Heartbeats>,
    lost: CancellationToken,
) {
    loop {
        let interval = pace.borrow_and_update().interval;
        let message = tokio::select! {
            biased;
            () = lost.cancelled() => return,
            // the peer's transport is gone; the receiving pump says why
            () = out.closed() => return lost.cancel(),
            message = owner.recv() => match message {
                Some(message) => Some(message),
                None => return,
            },
            Ok(()) = pace.changed() => continue,
            () = tokio::time::sleep(interval) => None,
        };
        tokio::select! {
            () = lost.cancelled() => return,
            sent = out.send(convert(message)) => if sent.is_err() {
                return lost.cancel();
            },
        }
    }
}
