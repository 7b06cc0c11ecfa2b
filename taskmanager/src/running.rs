//! The attempts that run now, and what the JobManager told us about their jobs.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use thalweg_exec::environment::OperatorOptions;
use thalweg_graph::{Part, Placement, TaskSpec};
use thalweg_rpc::link::FromTaskManager;
use thalweg_shuffle::ReadContext;
use thalweg_types::{AttemptId, ErrorKind, ExchangeKey, FailureCause, JobId, LeaderEpoch, StageKey, TaskManagerId};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tracing::{debug, warn};

use crate::busy::Busy;
use crate::inputs::{AttemptInputs, Placements};
use crate::options::operator_options;
use crate::shared::Shared;
use crate::splits::{AttemptSplits, SplitRequests};
use crate::task::{Attempt, TaskProgress};

/// Versions of a placement kept: the current one, and those that cancelled attempts may still refer to.
const KEPT_PLACEMENTS: usize = 4;

struct StageOperators {
    parts: Arc<[Part]>,
    options: OperatorOptions,
}

struct Running {
    abort: AbortHandle,
    progress: Arc<TaskProgress>,
    reported: [u64; 3],
}

/// State of one link; dropped with it, which cancels every attempt.
pub struct Attempts {
    shared: Arc<Shared>,
    context: ReadContext,
    epoch: LeaderEpoch,
    cpu: Handle,
    link: mpsc::Sender<FromTaskManager>,
    requests: Arc<SplitRequests>,
    stages: HashMap<StageKey, StageOperators>,
    placements: HashMap<ExchangeKey, Vec<Arc<Placement>>>,
    addresses: HashMap<TaskManagerId, String>,
    running: HashMap<AttemptId, Running>,
    ended: mpsc::UnboundedSender<AttemptId>,
}

impl Attempts {
    /// `ended` is told of every attempt whose future is over, so that its entry goes.
    pub fn new(
        shared: Arc<Shared>,
        context: ReadContext,
        epoch: LeaderEpoch,
        cpu: Handle,
        link: mpsc::Sender<FromTaskManager>,
        ended: mpsc::UnboundedSender<AttemptId>,
    ) -> Self {
        Self {
            shared,
            context,
            epoch,
            cpu,
            link,
            requests: Arc::default(),
            stages: HashMap::new(),
            placements: HashMap::new(),
            addresses: HashMap::new(),
            running: HashMap::new(),
            ended,
        }
    }

    pub fn stage(&mut self, key: StageKey, parts: Vec<Part>, settings: &[(String, String)]) {
        self.stages.insert(key, StageOperators { parts: parts.into(), options: operator_options(settings) });
    }

    pub fn place(&mut self, job: JobId, placement: Arc<Placement>, addresses: Vec<(TaskManagerId, String)>) {
        self.addresses.extend(addresses);
        let versions = self.placements.entry(ExchangeKey { job, exchange: placement.exchange }).or_default();
        if versions.len() == KEPT_PLACEMENTS {
            versions.remove(0);
        }
        versions.push(placement);
    }

    pub fn answer(&self, request: u64, split: Option<(u32, Bytes)>) {
        self.requests.answer(request, split);
    }

    /// Starts an attempt. An order of another leader, or the same order again, changes nothing; one that cannot be followed is
    /// answered with a failure.
    pub async fn deploy(&mut self, spec: TaskSpec, exact: Vec<Vec<Bytes>>) {
        let attempt = spec.attempt;
        if spec.epoch != self.epoch || self.running.contains_key(&attempt) {
            warn!(%attempt, epoch = spec.epoch.0, "refused a stale order to run");
            return;
        }
        match self.prepare(spec, exact) {
            Ok(prepared) => self.start(attempt, prepared),
            Err(cause) => {
                // the link's owner notices a closed link by itself
                let _ = self.link.send(FromTaskManager::Failed { attempt, cause }).await;
            }
        }
    }

    fn prepare(&self, spec: TaskSpec, exact: Vec<Vec<Bytes>>) -> Result<Attempt, FailureCause> {
        let task = spec.attempt.task;
        let stage = self.stages.get(&StageKey { job: task.job, stage: task.stage }).ok_or_else(|| {
            let message = format!("the operators of stage {} never arrived", task.stage);
            FailureCause::Task { kind: ErrorKind::Internal, message }
        })?;
        let placements = Placements { versions: &self.placements, addresses: &self.addresses };
        let broadcasts = Arc::clone(&self.shared.broadcasts);
        let of = (task.job, self.epoch);
        let inputs = AttemptInputs::new(self.context.clone(), broadcasts, of, &spec.inputs, &placements)?;
        let splits = AttemptSplits::new(
            spec.attempt,
            spec.splits.clone(),
            exact,
            Arc::clone(&self.requests),
            self.link.clone(),
        )?;
        Ok(Attempt {
            parts: Arc::clone(&stage.parts),
            options: stage.options,
            inputs: Arc::new(inputs),
            splits: Arc::new(splits),
            progress: Arc::default(),
            shared: Arc::clone(&self.shared),
            spec,
        })
    }

    fn start(&mut self, attempt: AttemptId, prepared: Attempt) {
        debug!(%attempt, "deploying");
        let progress = Arc::clone(&prepared.progress);
        let busy = Busy::new(prepared.run(), Arc::clone(&progress.busy_nanos));
        let work = self.cpu.spawn(busy);
        let abort = work.abort_handle();
        let (link, ended) = (self.link.clone(), self.ended.clone());
        tokio::spawn(async move {
            let report = match work.await {
                Ok(report) => report,
                Err(error) if error.is_panic() => {
                    let message = format!("the task panicked: {}", panic_text(error.into_panic()));
                    let cause = FailureCause::Task { kind: ErrorKind::Internal, message };
                    FromTaskManager::Failed { attempt, cause }
                }
                // the slot is free from now on, and not before
                Err(_) => {
                    let cause = FailureCause::Task { kind: ErrorKind::Cancelled, message: "cancelled".to_owned() };
                    FromTaskManager::Failed { attempt, cause }
                }
            };
            // the entry goes first: the next order may come as soon as the report is out
            let _ = ended.send(attempt);
            let _ = link.send(report).await;
        });
        self.running.insert(attempt, Running { abort, progress, reported: [0; 3] });
    }

    pub fn ended(&mut self, attempt: AttemptId) {
        self.running.remove(&attempt);
    }

    pub fn cancel(&mut self, attempt: AttemptId) {
        if let Some(running) = self.running.remove(&attempt) {
            debug!(%attempt, "cancelling");
            running.abort.abort();
        }
    }

    pub fn release_exchange(&mut self, exchange: ExchangeKey) {
        self.placements.remove(&exchange);
        self.shared.broadcasts.release_exchange(exchange);
        self.shared.store.release_exchange(exchange);
    }

    pub fn release_job(&mut self, job: JobId) {
        let of_job: Vec<_> = self.running.keys().filter(|a| a.task.job == job).copied().collect();
        for attempt in of_job {
            self.cancel(attempt);
        }
        self.stages.retain(|stage, _| stage.job != job);
        self.placements.retain(|exchange, _| exchange.job != job);
        self.shared.broadcasts.release_job(job);
        self.shared.store.release_job(job);
    }

    /// Messages for the attempts whose totals grew since the last call.
    pub fn progress(&mut self) -> Vec<FromTaskManager> {
        let mut messages = Vec::new();
        for (attempt, running) in &mut self.running {
            let progress = &running.progress;
            let totals = [&progress.rows, &progress.bytes, &*progress.busy_nanos].map(|t| t.load(Ordering::Relaxed));
            if totals != running.reported {
                running.reported = totals;
                let [rows, bytes, busy_nanos] = totals;
                messages.push(FromTaskManager::Progress { attempt: *attempt, rows, bytes, busy_nanos });
            }
        }
        messages
    }
}

impl Drop for Attempts {
    fn drop(&mut self) {
        for running in self.running.values() {
            running.abort.abort();
        }
    }
}

fn panic_text(payload: Box<dyn std::any::Any + Send>) -> String {
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => payload.downcast_ref::<&str>().map_or_else(|| "no message".to_owned(), |s| (*s).to_owned()),
    }
}
