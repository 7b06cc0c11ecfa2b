//! Three tables of one shape: a big one with a hot key, a small one, and one that is empty for some seeds.

use std::sync::Arc;

use arrow::array::{ArrayRef, Date32Array, Decimal128Array, Int32Array, Int64Array, RecordBatch, StringArray};

use super::Dice;

/// A table: its declaration's columns and its rows.
#[derive(Debug, Clone)]
pub struct Input {
    pub name: &'static str,
    pub columns: &'static str,
    pub batch: RecordBatch,
}

const COLUMNS: &str = "id BIGINT, k INT, s STRING, d DECIMAL(12,2), t DATE";

/// The tables of a seed: `big`, `small` and `few`.
pub fn inputs(seed: u64) -> Vec<Input> {
    let mut dice = Dice::new(seed);
    let few = if dice.chance(30) { 0 } else { 1 + dice.below(4) };
    let sizes = [("big", 3000 + dice.below(3000)), ("small", 50 + dice.below(150)), ("few", few)];
    sizes.map(|(name, rows)| Input { name, columns: COLUMNS, batch: rows_of(&mut dice, rows) }).into()
}

fn rows_of(dice: &mut Dice, rows: u64) -> RecordBatch {
    let id = Int64Array::from_iter_values((0..rows as i64).map(|i| i * 3));
    let key = |dice: &mut Dice| match dice.below(100) {
        0..10 => None,
        10..50 => Some(7),
        _ => Some(dice.below(90) as i32),
    };
    let k: Int32Array = (0..rows).map(|_| key(dice)).collect();
    let words = ["", "a", "b", "longer than twelve bytes", "ü", "x,\"y\""];
    let s: StringArray = (0..rows).map(|_| (!dice.chance(10)).then(|| dice.pick(&words))).collect();
    let d: Decimal128Array =
        (0..rows).map(|_| (!dice.chance(10)).then(|| i128::from(dice.below(2_000_000)) - 1_000_000)).collect();
    let d = d.with_precision_and_scale(12, 2).expect("values of at most seven digits");
    let t: Date32Array = (0..rows).map(|_| (!dice.chance(10)).then(|| 9000 + dice.below(40) as i32)).collect();
    let columns: [(&str, ArrayRef, bool); 5] = [
        ("id", Arc::new(id), true),
        ("k", Arc::new(k), true),
        ("s", Arc::new(s), true),
        ("d", Arc::new(d), true),
        ("t", Arc::new(t), true),
    ];
    RecordBatch::try_from_iter_with_nullable(columns).expect("columns of one length")
}
