//! One task per linked TaskManager: the handshake, then messages to the driver and orders to the TaskManager.
//!
//! Guarantees: the driver is told once that a TaskManager is gone, however that was noticed; a TaskManager that is slow to
//! take its orders holds up nobody else.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use thalweg_rpc::link::{FromTaskManager, JobManagerEnd, ToTaskManager};
use thalweg_runtime::{OwnedTask, spawn_owned};
use thalweg_types::TaskManagerId;
use tokio::sync::mpsc;
use tracing::{debug, warn};

use crate::driver::{Arrival, Command, Driver};

/// Orders the driver may be ahead of a TaskManager before it is held for lost.
const ORDERS: usize = 16_384;
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The tasks of all links; they stop with it.
#[derive(Debug, Clone)]
pub(crate) struct Links {
    driver: Driver,
    handshake: Duration,
    tasks: Arc<Mutex<Vec<OwnedTask<()>>>>,
}

impl Links {
    /// A TaskManager has to register within `handshake`.
    pub fn new(driver: Driver, handshake: Duration) -> Self {
        Self { driver, handshake, tasks: Arc::default() }
    }

    pub fn start(&self, end: JobManagerEnd, in_process: bool) {
        let task = spawn_owned("taskmanager link", run(self.driver.clone(), end, self.handshake, in_process));
        let mut tasks = self.tasks.lock();
        tasks.retain(|task| !task.is_finished());
        tasks.push(task);
    }

    pub fn stop(&self) {
        self.tasks.lock().clear();
    }
}

async fn run(driver: Driver, mut end: JobManagerEnd, handshake: Duration, in_process: bool) {
    let (orders, orders_rx) = mpsc::channel(ORDERS);
    let weak = orders.downgrade();
    let first = tokio::time::timeout(handshake, end.rx.recv()).await;
    let tm = match register(&driver, first.ok().flatten(), orders, in_process).await {
        Ok(tm) => tm,
        Err(reason) => {
            warn!(reason, "taskmanager refused");
            // it may be gone, or not listen
            let _ = tokio::time::timeout(handshake, end.tx.send(ToTaskManager::Refused { reason })).await;
            return;
        }
    };
    let JobManagerEnd { tx, rx } = end;
    let detail = tokio::select! {
        () = hear(&driver, &tm, rx) => "its connection ended",
        () = pass_on(orders_rx, tx) => "its link was closed",
    };
    debug!(task_manager = %tm, detail, "link ended");
    // fails only when the driver is gone, and then it matters to nobody
    let _ = driver.tell(Command::Gone { tm, orders: weak, detail: detail.to_owned() }).await;
}

async fn register(
    driver: &Driver,
    first: Option<FromTaskManager>,
    orders: mpsc::Sender<ToTaskManager>,
    in_process: bool,
) -> Result<TaskManagerId, String> {
    let Some(FromTaskManager::Register {
        resource,
        incarnation,
        data_address,
        slots,
        managed_memory,
        slot_memory,
        version,
        held,
    }) = first
    else {
        return Err("a taskmanager has to register first".to_owned());
    };
    if version != VERSION {
        return Err(format!("this jobmanager is of release {VERSION}, the taskmanager of {version}: run one release"));
    }
    let id = TaskManagerId::new(resource, incarnation);
    let arrival =
        Arrival { id: id.clone(), data_address, slots, managed_memory, slot_memory, held, orders, in_process };
    let arrival = Box::new(arrival);
    driver.ask(|reply| Command::Arrived { arrival, reply }).await.map_err(|problem| problem.to_string())??;
    Ok(id)
}

async fn hear(driver: &Driver, tm: &TaskManagerId, mut rx: mpsc::Receiver<FromTaskManager>) {
    while let Some(message) = rx.recv().await {
        let said = Command::Said { tm: tm.clone(), message: Box::new(message) };
        if driver.tell(said).await.is_err() {
            return;
        }
    }
}

async fn pass_on(mut orders: mpsc::Receiver<ToTaskManager>, tx: mpsc::Sender<ToTaskManager>) {
    while let Some(order) = orders.recv().await {
        if tx.send(order).await.is_err() {
            return;
        }
    }
}
