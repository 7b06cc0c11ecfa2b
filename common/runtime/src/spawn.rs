//! Tasks with a name and an owner.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::FutureExt;
use tokio::task::JoinHandle;
use tracing::{Instrument, error, info_span};

/// The task ended by a panic; what it said was logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("task {0} panicked")]
pub struct TaskPanicked(pub &'static str);

/// A running task. Dropping it stops the task at its next await; awaiting it gives its outcome.
#[derive(Debug)]
#[must_use = "dropping it stops the task"]
pub struct OwnedTask<T> {
    name: &'static str,
    handle: JoinHandle<Result<T, TaskPanicked>>,
    detached: bool,
}

/// Starts a task that stops with its owner. A panic in it is logged with its name and ends only this task.
pub fn spawn_owned<F>(name: &'static str, future: F) -> OwnedTask<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let guarded = async move {
        AssertUnwindSafe(future).catch_unwind().await.map_err(|panic| {
            error!(task = name, panic = panic_text(&*panic), "task panicked");
            TaskPanicked(name)
        })
    };
    OwnedTask { name, handle: tokio::spawn(guarded.instrument(info_span!("task", name))), detached: false }
}

impl<T> OwnedTask<T> {
    pub fn name(&self) -> &'static str {
        self.name
    }

    pub fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }

    /// Stops the task at its next await.
    pub fn abort(&self) {
        self.handle.abort();
    }

    /// Lets the task run to its own end; it must have one, or last as long as the process.
    pub fn detach(mut self) {
        self.detached = true;
    }
}

impl<T> Future for OwnedTask<T> {
    type Output = Result<T, TaskPanicked>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let name = self.name;
        // the only other way to end is an abort, which only the owner or the runtime's end does
        self.handle.poll_unpin(cx).map(|joined| joined.unwrap_or(Err(TaskPanicked(name))))
    }
}

impl<T> Drop for OwnedTask<T> {
    fn drop(&mut self) {
        if !self.detached {
            self.handle.abort();
        }
    }
}

/// What a panic said.
fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    if let Some(text) = panic.downcast_ref::<&str>() {
        text
    } else if let Some(text) = panic.downcast_ref::<String>() {
        text
    } else {
        "(no text)"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot;

    #[tokio::test]
    async fn a_task_stops_with_its_owner() {
        let (held, gone) = oneshot::channel::<()>();
        let task = spawn_owned("waiter", async move {
            let _held = held;
            std::future::pending::<()>().await;
        });
        drop(task);
        assert!(gone.await.is_err(), "what the task held is dropped");
    }

    #[tokio::test]
    async fn a_panic_is_an_outcome() {
        let task = spawn_owned("bad", async { panic!("on purpose") });
        assert_eq!(task.await, Err::<(), _>(TaskPanicked("bad")));
        assert_eq!(spawn_owned("good", async { 7 }).await, Ok(7));
    }

    #[tokio::test]
    async fn a_detached_task_runs_on() {
        let (tx, rx) = oneshot::channel();
        spawn_owned("sender", async move { tx.send(1).unwrap() }).detach();
        assert_eq!(rx.await, Ok(1));
    }
}
