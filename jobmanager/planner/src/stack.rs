//! Room for recursion over syntax trees and plans.
//!
//! sqlparser's and DataFusion's trees are cloned, compared and printed recursively, with frames of many kilobytes; the stack
//! of a server's thread (2 MiB) is too small for what the token guard lets through. Here such work gets a stack of its own.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Bytes that must be left on the stack for the work to stay on it.
const ENOUGH: usize = 16 << 20;
/// Bytes of the stack that is made otherwise; only pages that are touched cost memory.
const STACK: usize = 64 << 20;

pub(crate) fn with_deep_stack<T>(work: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(ENOUGH, STACK, work)
}

/// A future that is polled on a deep stack.
pub(crate) struct OnDeepStack<F> {
    inner: Pin<Box<F>>,
}

impl<F: Future> OnDeepStack<F> {
    pub(crate) fn new(inner: F) -> Self {
        OnDeepStack { inner: Box::pin(inner) }
    }
}

impl<F: Future> Future for OnDeepStack<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        with_deep_stack(|| self.inner.as_mut().poll(context))
    }
}
