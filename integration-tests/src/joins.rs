//! Joins of every type over two tables with NULLs and repeated keys.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};

use crate::random_sql::Dice;

const HOT: i64 = 7;

/// `rows` keys below 200 of which `hot` per cent are the hot one and a few are NULL, and a value that is sometimes NULL.
pub fn table(dice: &mut Dice, rows: u64, hot: u64) -> RecordBatch {
    let mut key = |_| match (dice.chance(hot), dice.below(40)) {
        (true, _) => Some(HOT),
        (false, 0) => None,
        _ => Some(dice.below(200) as i64),
    };
    let keys: ArrayRef = Arc::new((0..rows).map(&mut key).collect::<Int64Array>());
    let value = |row: u64| (!row.is_multiple_of(11)).then_some(row as i64);
    let values: ArrayRef = Arc::new((0..rows).map(value).collect::<Int64Array>());
    RecordBatch::try_from_iter_with_nullable([("k", keys, true), ("v", values, true)]).unwrap()
}

/// Joins of the tables `big` and `small`, and whether the big one's rows may be spread over tasks that each have all of the small one.
pub const JOINS: [(&str, bool); 12] = [
    ("big a JOIN small b ON a.k = b.k", true),
    ("small b JOIN big a ON a.k = b.k", true),
    ("big a LEFT JOIN small b ON a.k = b.k", true),
    ("small b LEFT JOIN big a ON a.k = b.k", false),
    ("small b RIGHT JOIN big a ON a.k = b.k", true),
    ("big a RIGHT JOIN small b ON a.k = b.k", false),
    ("big a FULL JOIN small b ON a.k = b.k", false),
    ("big a LEFT JOIN small b ON a.k = b.k AND a.v > b.v", true),
    ("big a WHERE EXISTS (SELECT 1 FROM small b WHERE b.k = a.k)", true),
    ("big a WHERE NOT EXISTS (SELECT 1 FROM small b WHERE b.k = a.k)", true),
    ("small a WHERE EXISTS (SELECT 1 FROM big b WHERE b.k = a.k)", false),
    ("small a WHERE NOT EXISTS (SELECT 1 FROM big b WHERE b.k = a.k)", false),
];

/// Counts and sums of a join's rows.
pub fn query(join: &str) -> String {
    let columns = if join.contains("EXISTS") {
        "COUNT(*), COUNT(a.k), SUM(a.v)"
    } else {
        "COUNT(*), COUNT(a.k), COUNT(b.k), SUM(a.v), SUM(b.v)"
    };
    format!("SELECT {columns} FROM {join}")
}
