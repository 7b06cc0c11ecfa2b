//! What a map output holds per subpartition, in as few bytes as its largest count needs.
//!
//! Exchanges have maps times subpartitions of these, and most are small: ten thousand maps into sixteen thousand subpartitions take
//! a quarter to a half of what 64-bit counts would.

use std::ops::Range;

use thalweg_graph::OutputStats;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cells {
    Bytes(Box<[u8]>),
    Halves(Box<[u16]>),
    Words(Box<[u32]>),
    Longs(Box<[u64]>),
}

impl Cells {
    pub fn len(&self) -> usize {
        match self {
            Cells::Bytes(cells) => cells.len(),
            Cells::Halves(cells) => cells.len(),
            Cells::Words(cells) => cells.len(),
            Cells::Longs(cells) => cells.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn get(&self, at: usize) -> Option<u64> {
        match self {
            Cells::Bytes(cells) => cells.get(at).map(|&c| c.into()),
            Cells::Halves(cells) => cells.get(at).map(|&c| c.into()),
            Cells::Words(cells) => cells.get(at).map(|&c| c.into()),
            Cells::Longs(cells) => cells.get(at).copied(),
        }
    }

    /// `None` if the range ends behind the last one.
    pub fn sum(&self, range: Range<usize>) -> Option<u64> {
        (range.end <= self.len()).then(|| range.filter_map(|at| self.get(at)).sum())
    }

    /// Calls `each` with every position and count.
    pub fn for_each(&self, mut each: impl FnMut(usize, u64)) {
        match self {
            Cells::Bytes(cells) => cells.iter().enumerate().for_each(|(at, &c)| each(at, c.into())),
            Cells::Halves(cells) => cells.iter().enumerate().for_each(|(at, &c)| each(at, c.into())),
            Cells::Words(cells) => cells.iter().enumerate().for_each(|(at, &c)| each(at, c.into())),
            Cells::Longs(cells) => cells.iter().enumerate().for_each(|(at, &c)| each(at, c)),
        }
    }
}

impl From<Vec<u64>> for Cells {
    fn from(counts: Vec<u64>) -> Self {
        let largest = counts.iter().copied().max().unwrap_or(0);
        // `as` loses nothing: the largest fits
        if largest <= u64::from(u8::MAX) {
            Cells::Bytes(counts.iter().map(|&c| c as u8).collect())
        } else if largest <= u64::from(u16::MAX) {
            Cells::Halves(counts.iter().map(|&c| c as u16).collect())
        } else if largest <= u64::from(u32::MAX) {
            Cells::Words(counts.iter().map(|&c| c as u32).collect())
        } else {
            Cells::Longs(counts.into())
        }
    }
}

/// What a finished attempt reported.
#[derive(Debug)]
pub(crate) struct MapStats {
    pub rows: Cells,
    pub bytes: Cells,
    pub total_rows: u64,
    pub total_bytes: u64,
    /// All but its counts per subpartition.
    pub attempt: OutputStats,
}

impl From<OutputStats> for MapStats {
    fn from(mut stats: OutputStats) -> Self {
        let (total_rows, total_bytes) = (stats.total_rows(), stats.total_bytes());
        let (rows, bytes) = (std::mem::take(&mut stats.rows), std::mem::take(&mut stats.bytes));
        MapStats { rows: rows.into(), bytes: bytes.into(), total_rows, total_bytes, attempt: stats }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn nothing_is_lost(shift in 0u32..64, counts in prop::collection::vec(any::<u64>(), 0..20), at in 0usize..25) {
            let counts: Vec<u64> = counts.into_iter().map(|c| c >> shift).collect();
            let cells = Cells::from(counts.clone());
            prop_assert_eq!(cells.len(), counts.len());
            prop_assert_eq!(cells.get(at), counts.get(at).copied());
            let mut seen = vec![];
            cells.for_each(|at, count| seen.push((at, count)));
            prop_assert_eq!(seen, counts.iter().copied().enumerate().collect::<Vec<_>>());
            let small: Vec<u64> = counts.iter().map(|c| c >> 8).collect();
            let sum = small.get(..at).map(|part| part.iter().sum::<u64>());
            prop_assert_eq!(Cells::from(small).sum(0..at), sum);
        }
    }

    #[test]
    fn small_counts_take_little() {
        assert!(matches!(Cells::from(vec![0, 255]), Cells::Bytes(_)));
        assert!(matches!(Cells::from(vec![0, 256]), Cells::Halves(_)));
        assert!(matches!(Cells::from(vec![65_536]), Cells::Words(_)));
        assert!(matches!(Cells::from(vec![1 << 32]), Cells::Longs(_)));
        assert!(Cells::from(vec![]).is_empty());
    }
}
