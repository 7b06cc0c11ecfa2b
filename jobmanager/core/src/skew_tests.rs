//! The vectors of the definition, and what the parts promise.

use proptest::prelude::*;
use thalweg_graph::{ExchangeKind, InputRole};
use thalweg_types::ExchangeId;

use super::*;
use crate::parallelism::Cell;

/// Bytes per map and subpartition; a row is one byte.
#[derive(Debug)]
struct Matrix(Vec<Vec<u64>>);

impl MapOutputs for Matrix {
    fn cell(&self, map: u32, subpartition: u32) -> Option<Cell> {
        let bytes = *self.0.get(map as usize)?.get(subpartition as usize)?;
        Some(Cell { rows: bytes, bytes })
    }
}

fn sums(matrix: &Matrix) -> Vec<u64> {
    (0..matrix.0[0].len()).map(|s| matrix.0.iter().map(|map| map[s]).sum()).collect()
}

fn side<'a>(x: u32, matrix: &'a Matrix, bytes: &'a [u64], divisible: bool) -> MeasuredInput<'a> {
    MeasuredInput {
        exchange: ExchangeId(x),
        kind: ExchangeKind::Hash { subpartitions: bytes.len() as u32 },
        role: if x == 0 { InputRole::Build } else { InputRole::Probe },
        type_number: x,
        divisible,
        replicated: false,
        maps: matrix.0.len() as u32,
        rows: bytes,
        bytes,
        outputs: matrix,
    }
}

fn options(factor: f64, threshold: u64) -> SkewOptions {
    SkewOptions { enabled: true, factor, threshold }
}

fn bounds(share: u64, most_tasks: usize) -> Bounds {
    Bounds { share, room: 0, most_tasks }
}

fn maps(parts: &[Part]) -> Vec<(u32, u32)> {
    parts.iter().map(|p| (p.maps.start, p.maps.end)).collect()
}

#[test]
fn a_hot_subpartition_is_divided_by_maps() {
    let left = Matrix(vec![vec![1, 1, 10, 1]; 4]);
    let right = Matrix(vec![vec![3, 3, 3, 3]]);
    let (l, r) = (sums(&left), sums(&right));
    let inputs = [side(0, &left, &l, true), side(1, &right, &r, true)];
    let division = divide(&inputs, &options(2.0, 10), bounds(12, 128));
    assert_eq!(division.hot.keys().copied().collect::<Vec<_>>(), [2]);
    let hot = &division.hot[&2][0];
    assert_eq!((hot.input, hot.bytes, hot.median, hot.limit), (0, 40, 4, 10));
    assert_eq!(maps(&hot.parts), [(0, 1), (1, 2), (2, 3), (3, 4)]);
    assert_eq!((division.tasks(), division.fewest_ranges(4)), (4, 3));
}

#[test]
fn hot_is_strictly_more_than_factor_and_threshold() {
    let left = Matrix(vec![vec![4, 4, 20, 4], vec![4, 4, 20, 4]]);
    let right = Matrix(vec![vec![1; 4]]);
    let (l, r) = (sums(&left), sums(&right));
    let inputs = [side(0, &left, &l, true), side(1, &right, &r, true)];
    let is_hot = |factor, threshold| !divide(&inputs, &options(factor, threshold), bounds(1, 128)).hot.is_empty();
    assert!(is_hot(4.0, 39));
    assert!(!is_hot(4.0, 40));
    assert!(!is_hot(5.0, 0), "40 is not more than 5 times 8");
    assert!(is_hot(4.9, 0));
    let off = SkewOptions { enabled: false, ..options(1.0, 0) };
    assert!(divide(&inputs, &off, bounds(1, 128)).hot.is_empty());
}

#[test]
fn only_divisible_sides_of_a_join_are_divided() {
    let left = Matrix(vec![vec![1, 100], vec![1, 100]]);
    let right = Matrix(vec![vec![1, 1]]);
    let (l, r) = (sums(&left), sums(&right));
    let hot = options(1.0, 0);
    let fixed = [side(0, &left, &l, false), side(1, &right, &r, true)];
    assert!(divide(&fixed, &hot, bounds(10, 128)).hot.is_empty());
    let alone = [side(0, &left, &l, true)];
    assert!(divide(&alone, &hot, bounds(10, 128)).hot.is_empty(), "an aggregate has no other side");
    let union = [side(0, &left, &l, true), MeasuredInput { type_number: 0, ..side(1, &right, &r, true) }];
    assert!(divide(&union, &hot, bounds(10, 128)).hot.is_empty());
}

#[test]
fn one_map_that_holds_the_hot_key_is_cut_by_rows() {
    let left = Matrix(vec![vec![0, 1], vec![0, 100], vec![0, 1]]);
    let right = Matrix(vec![vec![1, 1]]);
    let (l, r) = (sums(&left), sums(&right));
    let inputs = [side(0, &left, &l, true), side(1, &right, &r, true)];
    let division = divide(&inputs, &options(1.0, 60), bounds(40, 128));
    let parts = &division.hot[&1][0].parts;
    assert_eq!(maps(parts), [(0, 1), (1, 2), (1, 2), (2, 3)]);
    let rows: Vec<_> = parts.iter().map(|p| p.rows).collect();
    assert_eq!(rows, [None, Some(Interval::new(0, 50)), Some(Interval::new(50, u64::MAX)), None]);
}

#[test]
fn parts_grow_until_the_tasks_are_few_enough() {
    let left = Matrix(vec![vec![1, 1, 10, 1]; 8]);
    let right = Matrix(vec![vec![1, 1, 10, 1]; 8]);
    let (l, r) = (sums(&left), sums(&right));
    let inputs = [side(0, &left, &l, true), side(1, &right, &r, true)];
    let tasks = |most| divide(&inputs, &options(2.0, 10), bounds(10, most)).tasks();
    assert_eq!(tasks(128), 64, "a grid of eight by eight");
    assert!((2..=18).contains(&tasks(20)));
    assert_eq!(tasks(3), 0, "two ranges for the others and one task leave nothing to divide");
}

#[test]
fn a_build_side_is_divided_to_fit() {
    let left = Matrix(vec![vec![1, 50], vec![1, 50]]);
    let right = Matrix(vec![vec![1, 1]]);
    let (l, r) = (sums(&left), sums(&right));
    let inputs = [side(0, &left, &l, true), side(1, &right, &r, true)];
    let division = |room| divide(&inputs, &options(1.0, 10), Bounds { share: 1000, room, most_tasks: 128 });
    assert!(division(0).hot.is_empty(), "a share of 1000 holds it all");
    assert_eq!(division(60).hot[&1][0].parts.len(), 2);
}

#[test]
fn the_third_hot_side_stays_whole() {
    let hot = Matrix(vec![vec![1, 100], vec![1, 100]]);
    let bytes = sums(&hot);
    let inputs = [side(0, &hot, &bytes, true), side(1, &hot, &bytes, true), side(2, &hot, &bytes, true)];
    assert_eq!(divide(&inputs, &options(1.0, 10), bounds(50, 128)).hot[&1].len(), 2);
}

#[test]
fn medians() {
    assert_eq!((median(&[]), median(&[3]), median(&[9, 1, 5]), median(&[1, 4])), (0, 3, 5, 2));
    assert_eq!(median(&[u64::MAX, u64::MAX]), u64::MAX);
    assert_eq!(median(&[1, 3]), 2);
}

proptest! {
    #[test]
    fn parts_tile_a_subpartition(cells in proptest::collection::vec(0u64..1000, 1..20), target in 1u64..500) {
        let matrix = Matrix(cells.iter().map(|&b| vec![b]).collect());
        let parts = parts(&matrix, cells.len() as u32, 0, target);
        let mut next = (0u32, 0u64);
        for part in &parts {
            let start = part.rows.map_or(0, |r| r.start);
            prop_assert_eq!((part.maps.start, start), next);
            next = match part.rows {
                Some(rows) if rows.end != u64::MAX => (part.maps.start, rows.end),
                _ => (part.maps.end, 0),
            };
            prop_assert!(part.maps.len() == 1 || part.bytes < target);
            prop_assert!(part.bytes <= 2 * target + 1, "{} bytes against {}", part.bytes, target);
        }
        prop_assert_eq!(next, (cells.len() as u32, 0));
        prop_assert_eq!(parts.iter().map(|p| p.bytes).sum::<u64>(), cells.iter().sum::<u64>());
    }
}
