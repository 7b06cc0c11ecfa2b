//! Monotonic time since some start, injected.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Time since the clock was made; never goes back.
pub trait Clock: Debug + Send + Sync {
    fn now(&self) -> Duration;
}

/// The machine's monotonic clock.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock {
    start: Instant,
    at_start: Duration,
}

impl SystemClock {
    pub fn new() -> Self {
        Self::showing(Duration::ZERO)
    }

    /// A clock that shows `at_start` now.
    pub fn showing(at_start: Duration) -> Self {
        Self { start: Instant::now(), at_start }
    }

    /// When the clock was made.
    pub fn start(&self) -> Instant {
        self.start
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.at_start + self.start.elapsed()
    }
}

/// A clock that stands still until it is told to move.
#[derive(Debug, Default)]
pub struct ManualClock {
    now: Mutex<Duration>,
}

impl ManualClock {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn advance(&self, by: Duration) {
        *self.now.lock() += by;
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Duration {
        *self.now.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_moves_when_told() {
        let clock = ManualClock::new();
        assert_eq!(clock.now(), Duration::ZERO);
        clock.advance(Duration::from_secs(2));
        assert_eq!(clock.now(), Duration::from_secs(2));
    }

    #[test]
    fn the_system_clock_never_goes_back() {
        let clock = SystemClock::new();
        let first = clock.now();
        assert!(clock.now() >= first);
    }
}
