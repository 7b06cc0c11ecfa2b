//! The 22 TPC-H queries, their tables and their expected answers.

use std::path::PathBuf;

use crate::compare::{self, Expected, Match, Order};
use crate::csv::Table;

/// Every query number.
pub const QUERIES: std::ops::RangeInclusive<u32> = 1..=22;

/// A scale factor that has answer files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// 0.01
    Hundredth,
    /// 1
    One,
}

impl Scale {
    pub fn text(self) -> &'static str {
        match self {
            Scale::Hundredth => "0.01",
            Scale::One => "1",
        }
    }

    /// q11's share of the total value: 0.0001 / scale factor.
    fn fraction(self) -> &'static str {
        match self {
            Scale::Hundredth => "0.01",
            Scale::One => "0.0001",
        }
    }
}

const TABLES: [&str; 8] = ["region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem"];

/// Statements that declare the tables, generated at this scale while they are read.
pub fn ddl(scale: Scale) -> String {
    let table = |name| format!("CREATE TABLE {name} WITH ('connector'='tpch','scale-factor'='{}');\n", scale.text());
    TABLES.into_iter().map(table).collect()
}

/// The text of a query, without a closing semicolon.
pub fn query(number: u32, scale: Scale) -> String {
    read(&format!("queries/q{number:02}.sql")).trim_end().replace("__FRACTION__", scale.fraction())
}

/// Tables and query as one script.
pub fn script(number: u32, scale: Scale) -> String {
    format!("{}{};\n", ddl(scale), query(number, scale))
}

/// Compares a result with the answer file.
pub fn check(number: u32, scale: Scale, actual: &Table) -> Result<Match, String> {
    let expected = Expected::parse(&read(&format!("answers/sf{}/q{number:02}.csv", scale.text())))?;
    let order = Order::of_query(&query(number, scale), &expected.table.columns)?;
    compare::compare(&expected, actual, &order).map_err(|e| format!("q{number:02} at scale {}: {e}", scale.text()))
}

fn read(path: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tpch").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}
