//! Which timers are set, in the order they fire.

use std::collections::BTreeSet;

use thalweg_core::{Time, TimerId};
use thalweg_types::JobId;

/// What a timer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    Core(TimerId),
    /// The result's time to live is over.
    ResultTtl(JobId),
}

impl Timer {
    fn job(self) -> Option<JobId> {
        match self {
            Timer::Core(id) => id.job(),
            Timer::ResultTtl(job) => Some(job),
        }
    }
}

/// A timer set for two times fires twice; one set twice for the same time fires once.
#[derive(Debug, Default)]
pub(super) struct Timers {
    set: BTreeSet<(Time, Timer)>,
}

impl Timers {
    pub fn set(&mut self, timer: Timer, at: Time) {
        self.set.insert((at, timer));
    }

    pub fn next_at(&self) -> Option<Time> {
        self.set.first().map(|(at, _)| *at)
    }

    /// The earliest timer that is due.
    pub fn pop_due(&mut self, now: Time) -> Option<Timer> {
        (self.next_at()? <= now).then(|| self.set.pop_first())?.map(|(_, timer)| timer)
    }

    pub fn forget(&mut self, job: JobId) {
        self.set.retain(|(_, timer)| timer.job() != Some(job));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn timers_fire_in_order_and_not_early() {
        let at = |s| Time(Duration::from_secs(s));
        let (stall, ttl) = (Timer::Core(TimerId::Stall(JobId(1))), Timer::ResultTtl(JobId(2)));
        let mut timers = Timers::default();
        timers.set(stall, at(5));
        timers.set(stall, at(5));
        timers.set(ttl, at(3));
        assert_eq!(timers.pop_due(at(2)), None);
        assert_eq!(timers.pop_due(at(9)), Some(ttl));
        assert_eq!(timers.pop_due(at(9)), Some(stall));
        assert_eq!(timers.pop_due(at(9)), None);
        timers.set(ttl, at(3));
        timers.forget(JobId(2));
        assert_eq!(timers.next_at(), None);
    }
}
