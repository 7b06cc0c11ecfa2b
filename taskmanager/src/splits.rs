//! The split queue of an attempt: asked of the JobManager one at a time, or given with the order to run.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use datafusion::error::{DataFusionError, Result};
use parking_lot::Mutex;
use thalweg_exec::failure::Caused;
use thalweg_exec::io::TaskSplits;
use thalweg_graph::SplitPolicy;
use thalweg_rpc::link::FromTaskManager;
use thalweg_types::{AttemptId, ErrorKind, FailureCause};
use tokio::sync::{mpsc, oneshot};

/// A JobManager that does not answer a request for this long is as good as gone; the link's own watch notices earlier.
const ANSWER_DEADLINE: Duration = Duration::from_secs(120);

type Answer = Option<(u32, Bytes)>;

/// Requests that wait for the JobManager's answer; one per link.
#[derive(Debug, Default)]
pub struct SplitRequests {
    next: AtomicU64,
    waiting: Mutex<HashMap<u64, oneshot::Sender<Answer>>>,
}

impl SplitRequests {
    /// Hands an answer to whoever asked; an answer nobody waits for any more is dropped.
    pub fn answer(&self, request: u64, split: Answer) {
        if let Some(waiter) = self.waiting.lock().remove(&request) {
            // the attempt may have been cancelled meanwhile
            let _ = waiter.send(split);
        }
    }

    fn ask(&self) -> (u64, oneshot::Receiver<Answer>) {
        let request = self.next.fetch_add(1, Ordering::Relaxed);
        let (tx, rx) = oneshot::channel();
        self.waiting.lock().insert(request, tx);
        (request, rx)
    }

    fn forget(&self, request: u64) {
        self.waiting.lock().remove(&request);
    }
}

/// Forgets its request when the attempt goes away before the answer comes.
struct Asked<'a> {
    requests: &'a SplitRequests,
    request: u64,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.requests.forget(self.request);
    }
}

/// The splits of one attempt, and the record of what it read.
pub struct AttemptSplits {
    attempt: AttemptId,
    requests: Arc<SplitRequests>,
    link: mpsc::Sender<FromTaskManager>,
    sources: Vec<SourceState>,
}

struct SourceState {
    policy: SplitPolicy,
    /// Payloads of [`SplitPolicy::Exactly`], in its order.
    exact: Vec<Bytes>,
    /// Positions read so far, in order.
    read: Mutex<Vec<u32>>,
}

impl AttemptSplits {
    /// `exact` has one list per source; an error if the lists do not fit the policies.
    pub fn new(
        attempt: AttemptId,
        policies: Vec<SplitPolicy>,
        exact: Vec<Vec<Bytes>>,
        requests: Arc<SplitRequests>,
        link: mpsc::Sender<FromTaskManager>,
    ) -> std::result::Result<Self, FailureCause> {
        let fits = policies.len() == exact.len()
            && policies.iter().zip(&exact).all(|(policy, payloads)| match policy {
                SplitPolicy::Ask => payloads.is_empty(),
                SplitPolicy::Exactly(splits) => splits.len() == payloads.len(),
            });
        if !fits {
            let message = format!("the order to run {attempt} carries other splits than it names");
            return Err(FailureCause::Task { kind: ErrorKind::Internal, message });
        }
        let sources = policies
            .into_iter()
            .zip(exact)
            .map(|(policy, exact)| SourceState { policy, exact, read: Mutex::default() })
            .collect();
        Ok(Self { attempt, requests, link, sources })
    }

    /// Positions of the splits read, per source, in reading order.
    pub fn read(&self) -> Vec<Vec<u32>> {
        self.sources.iter().map(|source| source.read.lock().clone()).collect()
    }

    async fn ask(&self, source: u32) -> Result<Answer> {
        let (request, answer) = self.requests.ask();
        let _asked = Asked { requests: &self.requests, request };
        let lost = |what: &str| {
            let message = format!("the jobmanager {what} when {} asked for a split", self.attempt);
            DataFusionError::from(Caused(FailureCause::Task { kind: ErrorKind::Internal, message }))
        };
        let message = FromTaskManager::NextSplit { attempt: self.attempt, source, request };
        self.link.send(message).await.map_err(|_| lost("was gone"))?;
        match tokio::time::timeout(ANSWER_DEADLINE, answer).await {
            Ok(Ok(split)) => Ok(split),
            Ok(Err(_)) => Err(lost("was gone")),
            Err(_) => Err(lost("did not answer")),
        }
    }
}

#[async_trait]
impl TaskSplits for AttemptSplits {
    async fn next(&self, slot: usize) -> Result<Option<Arc<[u8]>>> {
        let source = self
            .sources
            .get(slot)
            .ok_or_else(|| DataFusionError::Internal(format!("the stage has no source number {slot}")))?;
        let next = match &source.policy {
            SplitPolicy::Ask => self.ask(slot as u32).await?,
            SplitPolicy::Exactly(splits) => {
                let at = source.read.lock().len();
                splits.get(at).map(|&split| (split, source.exact[at].clone()))
            }
        };
        Ok(next.map(|(split, payload)| {
            source.read.lock().push(split);
            Arc::from(payload.as_ref())
        }))
    }
}
