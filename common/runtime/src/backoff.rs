//! How long to wait before the next try: exponential, capped, a limited number of times.

use std::time::Duration;

/// The waits between tries. Each is `factor` times the one before, up to `max`.
#[derive(Debug, Clone)]
pub struct Backoff {
    initial: Duration,
    max: Duration,
    factor: f64,
    /// Waits left before giving up; `None` = for ever.
    left: Option<u32>,
    limit: Option<u32>,
    next: Duration,
}

impl Backoff {
    /// Doubles from `initial` up to `max`, for ever.
    pub fn new(initial: Duration, max: Duration) -> Self {
        let initial = initial.min(max);
        Self { initial, max, factor: 2.0, left: None, limit: None, next: initial }
    }

    /// Gives up after `waits` of them.
    pub fn limited(mut self, waits: u32) -> Self {
        self.left = Some(waits);
        self.limit = self.left;
        self
    }

    pub fn factor(mut self, factor: f64) -> Self {
        self.factor = factor.max(1.0);
        self
    }

    /// How long to wait before the next try; `None` when there is to be none.
    pub fn next_wait(&mut self) -> Option<Duration> {
        if let Some(left) = &mut self.left {
            *left = left.checked_sub(1)?;
        }
        let wait = self.next;
        self.next = wait.mul_f64(self.factor).min(self.max);
        Some(wait)
    }

    /// A try succeeded: the next failure starts over.
    pub fn reset(&mut self) {
        self.next = self.initial;
        self.left = self.limit;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_the_cap_and_end_at_the_limit() {
        let ms = Duration::from_millis;
        let mut backoff = Backoff::new(ms(100), ms(350)).limited(4);
        let mut waits = Vec::new();
        while let Some(wait) = backoff.next_wait() {
            waits.push(wait);
        }
        assert_eq!(waits, [ms(100), ms(200), ms(350), ms(350)]);
        backoff.reset();
        assert_eq!(backoff.next_wait(), Some(ms(100)));
    }
}
