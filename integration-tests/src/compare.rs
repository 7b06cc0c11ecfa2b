//! Decides whether a result is the expected one.
//!
//! Exact: integers, decimals (by value: `1.50` is `1.5`), text, dates, NULL. Near: a DOUBLE to 1e-9 relative; a QUOTIENT
//! (an average or quotient of decimals, for which engines keep different numbers of digits) to 1e-6 relative, or to one
//! unit of the last digit when the actual value is a decimal with six digits or more behind the point.
//! A query that orders is compared row by row. Rows whose sort keys are equal may come in any order: that is reported as
//! [`Match::UpToTies`], never as a silent success. Any other query is compared as a bag.
//! Not decided here: whether column names match (engines name unnamed columns differently).

use std::cmp::Ordering;
use std::fmt::Write as _;

use crate::csv::{self, Row, Table};

/// How the values of a column are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Integers and decimals, by value.
    Number,
    Double,
    Quotient,
    /// Text, dates, booleans.
    Text,
}

impl Kind {
    fn of(type_name: &str) -> Result<Kind, String> {
        let base = type_name.split('(').next().unwrap_or_default();
        match base {
            "TINYINT" | "SMALLINT" | "INTEGER" | "INT" | "BIGINT" | "HUGEINT" | "DECIMAL" => Ok(Kind::Number),
            "DOUBLE" | "FLOAT" => Ok(Kind::Double),
            "QUOTIENT" => Ok(Kind::Quotient),
            "VARCHAR" | "DATE" | "BOOLEAN" => Ok(Kind::Text),
            other => Err(format!("column type {other} is not known to the comparison")),
        }
    }
}

/// An expected result with the kinds of its columns.
#[derive(Debug, Clone)]
pub struct Expected {
    pub kinds: Vec<Kind>,
    pub table: Table,
}

impl Expected {
    /// Reads an answer file: CSV whose header fields are `name TYPE`.
    pub fn parse(text: &str) -> Result<Expected, String> {
        let mut table = csv::parse(text).map_err(|e| e.to_string())?;
        let mut kinds = Vec::new();
        for column in &mut table.columns {
            let (name, type_name) = column.split_once(' ').ok_or_else(|| format!("column {column} has no type"))?;
            kinds.push(Kind::of(type_name)?);
            *column = name.to_string();
        }
        Ok(Expected { kinds, table })
    }
}

/// What order the rows have to come in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    Any,
    /// Sorted by these columns; the expected rows show the direction.
    By(Vec<usize>),
}

impl Order {
    /// The outermost ORDER BY of a query whose sort keys are names of its output columns.
    pub fn of_query(query: &str, columns: &[String]) -> Result<Order, String> {
        let upper = query.to_uppercase();
        let last_close = upper.rfind(')').map_or(0, |at| at + 1);
        let Some(at) = upper[last_close..].find("ORDER BY") else { return Ok(Order::Any) };
        let keys = upper[last_close + at + "ORDER BY".len()..].split("LIMIT").next().unwrap_or_default();
        let index = |key: &str| {
            let name = key.split_whitespace().next().unwrap_or_default().to_lowercase();
            columns.iter().position(|c| *c == name).ok_or_else(|| format!("sort key {name} is not an output column"))
        };
        keys.split(',').map(index).collect::<Result<Vec<_>, _>>().map(Order::By)
    }
}

/// How well a right result matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Match {
    Exact,
    /// The same rows in the asked order, but rows with equal sort keys changed places.
    UpToTies,
}

/// Compares; the error is a text that shows where the results part.
pub fn compare(expected: &Expected, actual: &Table, order: &Order) -> Result<Match, String> {
    let width = expected.kinds.len();
    if actual.columns.len() != width {
        return Err(format!("{} columns {:?}, expected {width}", actual.columns.len(), actual.columns));
    }
    let (want, got) = (&expected.table.rows, &actual.rows);
    if want.len() != got.len() {
        return Err(format!("{} rows, expected {}\n{}", got.len(), want.len(), bag_difference(expected, actual)));
    }
    let Order::By(keys) = order else {
        return bags_equal(expected, want, got).then_some(Match::Exact).ok_or_else(|| bag_difference(expected, actual));
    };
    if rows_equal(expected, want, got) {
        return Ok(Match::Exact);
    }
    if equal_up_to_ties(expected, want, got, keys) {
        return Ok(Match::UpToTies);
    }
    Err(row_difference(expected, want, got))
}

fn rows_equal(expected: &Expected, want: &[Row], got: &[Row]) -> bool {
    want.len() == got.len() && want.iter().zip(got).all(|(w, g)| unequal_column(&expected.kinds, w, g).is_none())
}

fn bags_equal(expected: &Expected, want: &[Row], got: &[Row]) -> bool {
    rows_equal(expected, &sorted(&expected.kinds, want), &sorted(&expected.kinds, got))
}

/// Cuts both sides into the runs of rows with equal sort keys the expected side has, and compares run by run.
fn equal_up_to_ties(expected: &Expected, want: &[Row], got: &[Row], keys: &[usize]) -> bool {
    let same_key = |a: &Row, b: &Row| keys.iter().all(|k| values_equal(expected.kinds[*k], &a[*k], &b[*k]));
    let mut start = 0;
    while start < want.len() {
        let run = want[start..].iter().take_while(|row| same_key(row, &want[start])).count();
        let end = start + run;
        if !bags_equal(expected, &want[start..end], &got[start..end]) {
            return false;
        }
        start = end;
    }
    true
}

fn unequal_column(kinds: &[Kind], want: &Row, got: &Row) -> Option<usize> {
    (0..kinds.len()).find(|i| !values_equal(kinds[*i], &want[*i], &got[*i]))
}

fn values_equal(kind: Kind, want: &Option<String>, got: &Option<String>) -> bool {
    let (Some(want), Some(got)) = (want, got) else { return want.is_none() && got.is_none() };
    match kind {
        Kind::Text => want == got,
        Kind::Number => canonical(want).is_some_and(|w| Some(w) == canonical(got)),
        Kind::Double => near(want, got, |want, _| 1e-9 * want.abs()),
        Kind::Quotient => near(want, got, |want, got| (1e-6 * want.abs()).max(last_digit(got))),
    }
}

fn near(want: &str, got: &str, tolerance: impl Fn(f64, &str) -> f64) -> bool {
    let (Ok(w), Ok(g)) = (want.parse::<f64>(), got.parse::<f64>()) else { return false };
    w == g || (w.is_nan() && g.is_nan()) || (w - g).abs() <= tolerance(w, got)
}

/// One unit of the last digit of a decimal text with at least six digits behind the point, else 0.
fn last_digit(text: &str) -> f64 {
    match text.split_once('.') {
        Some((_, digits)) if digits.len() >= 6 && digits.bytes().all(|b| b.is_ascii_digit()) => {
            10f64.powi(-(digits.len() as i32))
        }
        _ => 0.0,
    }
}

/// A decimal text without leading zeros, trailing zeros behind the point, or a sign on zero; `None` if it is no decimal.
fn canonical(text: &str) -> Option<String> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all_digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !all_digits(whole) || !all_digits(fraction) {
        return None;
    }
    let (whole, fraction) = (whole.trim_start_matches('0'), fraction.trim_end_matches('0'));
    let sign = if negative && !(whole.is_empty() && fraction.is_empty()) { "-" } else { "" };
    Some(format!("{sign}{}.{fraction}", if whole.is_empty() { "0" } else { whole }))
}

/// Rows in one agreed order: exact columns first, near ones by value.
fn sorted(kinds: &[Kind], rows: &[Row]) -> Vec<Row> {
    let mut rows = rows.to_vec();
    rows.sort_by(|a, b| compare_rows(kinds, a, b));
    rows
}

fn compare_rows(kinds: &[Kind], a: &Row, b: &Row) -> Ordering {
    let exact = |kind: &Kind| matches!(kind, Kind::Text | Kind::Number);
    let text = |kind: Kind, v: &Option<String>| match kind {
        Kind::Number => v.as_deref().map(|t| canonical(t).unwrap_or_else(|| t.to_string())),
        _ => v.clone(),
    };
    let number = |v: &Option<String>| v.as_deref().map_or(f64::NEG_INFINITY, |t| t.parse().unwrap_or(f64::NAN));
    let by_exact = (0..kinds.len())
        .filter(|i| exact(&kinds[*i]))
        .map(|i| text(kinds[i], &a[i]).cmp(&text(kinds[i], &b[i])))
        .find(|o| o.is_ne());
    let by_near = || {
        (0..kinds.len())
            .filter(|i| !exact(&kinds[*i]))
            .map(|i| number(&a[i]).total_cmp(&number(&b[i])))
            .find(|o| o.is_ne())
    };
    by_exact.or_else(by_near).unwrap_or(Ordering::Equal)
}

const SHOWN: usize = 5;

fn row_difference(expected: &Expected, want: &[Row], got: &[Row]) -> String {
    let differing = want
        .iter()
        .zip(got)
        .enumerate()
        .filter_map(|(i, (w, g))| unequal_column(&expected.kinds, w, g).map(|column| (i, column, w, g)));
    let mut text = String::new();
    let mut count = 0;
    for (i, column, w, g) in differing {
        count += 1;
        if count <= SHOWN {
            let name = &expected.table.columns[column];
            let _ = writeln!(text, "row {}, column {name}: {} expected {}", i + 1, show(&g[column]), show(&w[column]));
            let _ = writeln!(text, "  got      {}\n  expected {}", show_row(g), show_row(w));
        }
    }
    format!("{count} of {} rows differ\n{text}", want.len())
}

/// What one bag has and the other has not, by merging the two sorted sides.
fn bag_difference(expected: &Expected, actual: &Table) -> String {
    let kinds = &expected.kinds;
    let (want, got) = (sorted(kinds, &expected.table.rows), sorted(kinds, &actual.rows));
    let (mut missing, mut extra) = (Vec::new(), Vec::new());
    let (mut i, mut j) = (0, 0);
    while i < want.len() || j < got.len() {
        match (want.get(i), got.get(j)) {
            (Some(w), Some(g)) if unequal_column(kinds, w, g).is_none() => (i, j) = (i + 1, j + 1),
            (Some(w), Some(g)) if compare_rows(kinds, w, g).is_gt() => {
                extra.push(show_row(g));
                j += 1;
            }
            (Some(w), _) => {
                missing.push(show_row(w));
                i += 1;
            }
            (None, Some(g)) => {
                extra.push(show_row(g));
                j += 1;
            }
            (None, None) => break,
        }
    }
    let list = |rows: &[String]| rows.iter().take(SHOWN).map(|r| format!("  {r}\n")).collect::<String>();
    let (m, e) = (missing.len(), extra.len());
    format!("{m} expected rows are missing\n{}{e} rows were not expected\n{}", list(&missing), list(&extra))
}

fn show(value: &Option<String>) -> String {
    value.as_ref().map_or("NULL".to_string(), |text| format!("{text:?}"))
}

fn show_row(row: &Row) -> String {
    row.iter().map(show).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
