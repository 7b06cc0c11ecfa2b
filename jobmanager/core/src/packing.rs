//! Cutting a list of slices into contiguous ranges of about equal bytes.
//!
//! Decides where one task's share ends and the next one's starts, given only sizes. Pure functions; knows nothing of stages,
//! exchanges or clusters. A *slice* is the smallest piece that may not be cut (one hash bucket, one map's bucket); a *range* is a
//! run of neighbouring slices. Every function returns ranges that tile `[0, n)` without gaps or overlaps.

use thalweg_types::Interval;

/// How the ranges of [`pack_within`] came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// The byte budget itself gave an allowed number of ranges.
    Budget,
    /// The budget was lowered to `limit` bytes to reach the least number of ranges.
    Lowered { limit: u64 },
    /// The budget was raised to `limit` bytes to stay within the largest number of ranges.
    Raised { limit: u64 },
    /// No budget gives an allowed number (many empty slices): the slices were counted instead.
    EvenByCount,
}

/// Ranges and the rule that gave them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packed {
    pub ranges: Vec<Interval<u32>>,
    pub rule: Rule,
}

/// Greedy: a range takes slices while it stays within `limit` bytes; a slice larger than that stands alone.
pub fn pack(sizes: &[u64], limit: u64) -> Vec<Interval<u32>> {
    let mut ranges = Vec::new();
    let mut start = 0;
    let mut open = 0u64;
    for (i, &size) in sizes.iter().enumerate() {
        let grown = open.saturating_add(size);
        if i > start && grown > limit {
            ranges.push(Interval::new(start as u32, i as u32));
            start = i;
            open = size;
        } else {
            open = grown;
        }
    }
    if start < sizes.len() {
        ranges.push(Interval::new(start as u32, sizes.len() as u32));
    }
    ranges
}

/// Number of ranges [`pack`] would return.
fn count(sizes: &[u64], limit: u64) -> usize {
    let mut ranges = 0;
    let mut open = 0u64;
    for &size in sizes {
        let grown = open.saturating_add(size);
        if ranges == 0 || grown > limit {
            ranges += 1;
            open = size;
        } else {
            open = grown;
        }
    }
    ranges
}

/// Packs with a budget of `limit` bytes into `lo..=hi` ranges, moving the budget where that number demands it.
///
/// The number of ranges never grows with the budget, so both searches are bisections. `lo` and `hi` are cut to the number of
/// slices; `lo > hi` counts as `lo = hi`.
pub fn pack_within(sizes: &[u64], limit: u64, lo: usize, hi: usize) -> Packed {
    let hi = hi.clamp(1, sizes.len().max(1));
    let lo = lo.clamp(1, hi);
    let found = count(sizes, limit);
    if sizes.is_empty() || (lo..=hi).contains(&found) {
        return Packed { ranges: pack(sizes, limit), rule: Rule::Budget };
    }
    let moved = if found < lo { lower(sizes, limit, lo) } else { raise(sizes, limit, hi) };
    if let Some(limit) = moved
        && (lo..=hi).contains(&count(sizes, limit))
    {
        let rule = if found < lo { Rule::Lowered { limit } } else { Rule::Raised { limit } };
        return Packed { ranges: pack(sizes, limit), rule };
    }
    Packed { ranges: even_by_count(sizes.len(), sizes.len().min(hi)), rule: Rule::EvenByCount }
}

/// The most even limit for the number of ranges that the largest limit with at least `lo` ranges gives.
fn lower(sizes: &[u64], limit: u64, lo: usize) -> Option<u64> {
    let least = sizes.iter().copied().min().unwrap_or(0).min(limit);
    if count(sizes, least) < lo {
        return None;
    }
    // the first limit with too few ranges; the one before it is the largest that still has enough
    let too_large = first_limit(least, limit, |l| count(sizes, l) < lo);
    let ranges = count(sizes, too_large.saturating_sub(1));
    Some(first_limit(least, too_large, |l| count(sizes, l) <= ranges))
}

/// The smallest limit with at most `hi` ranges.
fn raise(sizes: &[u64], limit: u64, hi: usize) -> Option<u64> {
    let total = sizes.iter().fold(0u64, |sum, s| sum.saturating_add(*s));
    Some(first_limit(limit, total, |l| count(sizes, l) <= hi))
}

/// The first value of `[from, to]` that satisfies a condition which, once true, stays true; `to` if there is none before it.
fn first_limit(mut from: u64, mut to: u64, holds: impl Fn(u64) -> bool) -> u64 {
    while from < to {
        let middle = from + (to - from) / 2;
        if holds(middle) {
            to = middle;
        } else {
            from = middle + 1;
        }
    }
    from
}

/// `k` ranges of `n` slices with equal numbers of slices (±1): the distribution without any sizes. `k` is at most `n`.
pub fn even_by_count(n: usize, k: usize) -> Vec<Interval<u32>> {
    let (n, k) = (n as u64, k.min(n) as u64);
    (0..k).map(|i| Interval::new((i * n / k) as u32, ((i + 1) * n / k) as u32)).collect()
}

/// What one consumer reads of a pointwise exchange when there are no sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PointwiseShare {
    pub maps: Interval<u32>,
    pub subpartitions: Interval<u32>,
}

/// Distribution by number of `producers` outputs over `consumers` tasks. Several producers per consumer are read whole;
/// several consumers of one producer share its `subpartitions` evenly. All three are at least 1.
pub fn pointwise_by_count(producers: u32, consumers: u32, subpartitions: u32) -> Vec<PointwiseShare> {
    let (n, p) = (u64::from(producers.max(1)), u64::from(consumers.max(1)));
    let s = u64::from(subpartitions.max(1));
    if n >= p {
        return (0..p)
            .map(|i| PointwiseShare {
                maps: Interval::new((i * n / p) as u32, ((i + 1) * n / p) as u32),
                subpartitions: Interval::new(0, s as u32),
            })
            .collect();
    }
    let mut shares = Vec::with_capacity(p as usize);
    for producer in 0..n {
        let first = (producer * p).div_ceil(n);
        let end = ((producer + 1) * p).div_ceil(n);
        let siblings = end - first;
        for i in 0..siblings {
            shares.push(PointwiseShare {
                maps: Interval::new(producer as u32, producer as u32 + 1),
                subpartitions: Interval::new((i * s / siblings) as u32, ((i + 1) * s / siblings) as u32),
            });
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SIZES: [u64; 6] = [10, 20, 30, 40, 50, 60];

    fn ranges(list: &[(u32, u32)]) -> Vec<Interval<u32>> {
        list.iter().map(|&(a, b)| Interval::new(a, b)).collect()
    }

    #[test]
    fn the_budget_alone_decides_between_the_bounds() {
        let packed = pack_within(&SIZES, 100, 1, 128);
        assert_eq!(packed, Packed { ranges: ranges(&[(0, 4), (4, 5), (5, 6)]), rule: Rule::Budget });
    }

    #[test]
    fn too_few_ranges_lower_the_budget_to_the_most_even_cut() {
        let packed = pack_within(&SIZES, 100, 4, 128);
        assert_eq!(packed.ranges, ranges(&[(0, 3), (3, 4), (4, 5), (5, 6)]));
        assert_eq!(packed.rule, Rule::Lowered { limit: 60 });
        assert_eq!(count(&SIZES, 89), 4);
        assert_eq!(count(&SIZES, 90), 3, "89 is the largest limit with four ranges");
    }

    #[test]
    fn too_many_ranges_raise_the_budget() {
        let packed = pack_within(&SIZES, 100, 1, 2);
        assert_eq!(packed, Packed { ranges: ranges(&[(0, 4), (4, 6)]), rule: Rule::Raised { limit: 110 } });
    }

    #[test]
    fn pointwise_cells_pack_into_equal_runs() {
        let packed = pack_within(&[1, 2, 1, 2, 1, 2], 3, 3, 3);
        assert_eq!(packed.ranges, ranges(&[(0, 2), (2, 4), (4, 6)]));
    }

    #[test]
    fn slices_of_a_skewed_bucket_stay_alone() {
        let packed = pack_within(&[7, 7, 13, 13, 13, 13, 7], 12, 1, 128);
        assert_eq!(packed.ranges.len(), 7);
    }

    #[test]
    fn a_raised_limit_joins_what_the_budget_kept_apart() {
        // left producers [42, 95] × right [19, 96, 4] listed row by row, budget 100, at most 4
        let sizes = [42 + 19, 42 + 96, 42 + 4, 95 + 19, 95 + 96, 95 + 4];
        let packed = pack_within(&sizes, 100, 1, 4);
        assert!(packed.ranges.len() <= 4);
        assert!(matches!(packed.rule, Rule::Raised { .. }));
    }

    #[test]
    fn empty_slices_are_counted() {
        let packed = pack_within(&[0; 10], 100, 4, 4);
        assert_eq!(packed, Packed { ranges: ranges(&[(0, 2), (2, 5), (5, 7), (7, 10)]), rule: Rule::EvenByCount });
    }

    #[test]
    fn one_slice_too_large_for_any_budget_stays_whole() {
        assert_eq!(pack(&[5, 500, 5], 10), ranges(&[(0, 1), (1, 2), (2, 3)]));
    }

    #[test]
    fn sizes_near_the_end_of_the_number_range_do_not_overflow() {
        let packed = pack_within(&[u64::MAX, u64::MAX, 1], 10, 1, 2);
        assert!((1..=2).contains(&packed.ranges.len()));
    }

    #[test]
    fn no_slices_no_ranges() {
        assert!(pack_within(&[], 10, 1, 5).ranges.is_empty());
        assert!(even_by_count(0, 3).is_empty());
    }

    #[test]
    fn pointwise_with_more_producers_groups_them() {
        let shares = pointwise_by_count(5, 2, 3);
        let maps: Vec<_> = shares.iter().map(|s| s.maps).collect();
        assert_eq!(maps, ranges(&[(0, 2), (2, 5)]));
        assert!(shares.iter().all(|s| s.subpartitions == Interval::new(0, 3)));
    }

    #[test]
    fn pointwise_with_fewer_producers_shares_each_evenly() {
        let shares = pointwise_by_count(2, 5, 6);
        let maps: Vec<_> = shares.iter().map(|s| s.maps.start).collect();
        assert_eq!(maps, [0, 0, 0, 1, 1], "producer 0 serves ceil(0)..ceil(2.5)");
        let subs: Vec<_> = shares.iter().map(|s| s.subpartitions).collect();
        assert_eq!(subs, ranges(&[(0, 2), (2, 4), (4, 6), (0, 3), (3, 6)]));
    }

    proptest! {
        #[test]
        fn ranges_tile_and_stay_within_the_bounds(
            sizes in proptest::collection::vec(0u64..200, 1..60),
            limit in 1u64..500, lo in 1usize..20, extra in 0usize..20,
        ) {
            let hi = lo + extra;
            let packed = pack_within(&sizes, limit, lo, hi);
            let mut at = 0;
            for range in &packed.ranges {
                prop_assert_eq!(range.start, at);
                prop_assert!(range.end > range.start);
                at = range.end;
            }
            prop_assert_eq!(at as usize, sizes.len());
            prop_assert!(packed.ranges.len() <= hi.min(sizes.len()));
            prop_assert!(packed.ranges.len() >= lo.min(sizes.len()));
        }

        #[test]
        fn more_budget_never_makes_more_ranges(sizes in proptest::collection::vec(0u64..50, 1..40), limit in 0u64..300) {
            prop_assert!(count(&sizes, limit + 1) <= count(&sizes, limit));
            prop_assert_eq!(count(&sizes, limit), pack(&sizes, limit).len());
        }

        #[test]
        fn pointwise_covers_every_cell_once(n in 1u32..12, p in 1u32..12, s in 1u32..12) {
            let shares = pointwise_by_count(n, p, s);
            prop_assert_eq!(shares.len() as u32, p);
            for map in 0..n {
                for sub in 0..s {
                    let readers = shares.iter().filter(|x| x.maps.contains(map) && x.subpartitions.contains(sub)).count();
                    prop_assert_eq!(readers, 1);
                }
            }
        }
    }
}
