//! Half-open intervals `[start, end)` of small integers: subpartitions, maps, rows.

use std::fmt;

use serde::{Deserialize, Serialize};

/// `[start, end)`. Empty when `start >= end`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Interval<T> {
    pub start: T,
    pub end: T,
}

impl<T: Copy + PartialOrd> Interval<T> {
    pub fn new(start: T, end: T) -> Self {
        Self { start, end }
    }

    pub fn is_empty(&self) -> bool {
        self.start >= self.end
    }

    pub fn contains(&self, value: T) -> bool {
        self.start <= value && value < self.end
    }

    /// True if `other` lies inside this interval; an empty one lies inside every interval.
    pub fn covers(&self, other: &Self) -> bool {
        other.is_empty() || (self.start <= other.start && other.end <= self.end)
    }

    /// The common part; empty if there is none.
    pub fn intersect(&self, other: &Self) -> Self {
        let start = if self.start > other.start { self.start } else { other.start };
        let end = if self.end < other.end { self.end } else { other.end };
        Self { start, end }
    }

    pub fn overlaps(&self, other: &Self) -> bool {
        !self.intersect(other).is_empty()
    }
}

impl Interval<u32> {
    pub fn len(&self) -> u32 {
        self.end.saturating_sub(self.start)
    }

    pub fn iter(&self) -> std::ops::Range<u32> {
        self.start..self.end
    }
}

impl<T: fmt::Display> fmt::Display for Interval<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{},{})", self.start, self.end)
    }
}

impl<T: fmt::Display> fmt::Debug for Interval<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
