//! How long a future was being polled: the CPU time of a task that never blocks its thread on anything but work.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Instant;

/// Adds the time spent in `poll` to a counter, nanoseconds.
pub struct Busy<F> {
    inner: Pin<Box<F>>,
    nanos: Arc<AtomicU64>,
}

impl<F: Future> Busy<F> {
    pub fn new(inner: F, nanos: Arc<AtomicU64>) -> Self {
        Self { inner: Box::pin(inner), nanos }
    }
}

impl<F: Future> Future for Busy<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let start = Instant::now();
        let polled = self.inner.as_mut().poll(cx);
        self.nanos.fetch_add(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
        polled
    }
}
