//! The thread that keeps a store under its budget.

use std::sync::Weak;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;

use super::{ExchangeStore, describe};

/// Owned by its store; ends with it.
#[derive(Debug)]
pub(super) struct Evictor {
    wake: Mutex<Option<SyncSender<()>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Evictor {
    /// Without a thread (the system refuses one) only writers spill; that is logged.
    pub fn start(store: Weak<ExchangeStore>, interval: Duration) -> Self {
        let (wake, woken) = sync_channel::<()>(1);
        let run = move || {
            loop {
                match woken.recv_timeout(interval) {
                    Err(RecvTimeoutError::Disconnected) => return,
                    Ok(()) | Err(RecvTimeoutError::Timeout) => {}
                }
                if let Some(store) = store.upgrade()
                    && store.budget.over(100) > 0
                    && let Err(error) = store.evict()
                {
                    tracing::warn!(error = describe(&error), "cannot spill in the background");
                    std::thread::sleep(interval); // a failing disk is not asked again at once
                }
            }
        };
        let thread = std::thread::Builder::new().name("thalweg-evict".to_owned()).spawn(run);
        let thread = thread.inspect_err(|error| tracing::warn!(%error, "no thread for spilling")).ok();
        Self { wake: Mutex::new(Some(wake)), thread: Mutex::new(thread) }
    }

    /// Asks for a look at the budget; does nothing if one is pending.
    pub fn wake(&self) {
        if let Some(wake) = &*self.wake.lock() {
            let _ = wake.try_send(());
        }
    }

    /// Ends the thread and waits for it, unless this is it (it may hold the last reference to the store).
    pub fn stop(&self) {
        self.wake.lock().take();
        if let Some(thread) = self.thread.lock().take()
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
    }
}
