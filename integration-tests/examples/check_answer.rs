//! `check_answer EXPECTED.csv QUERY.sql ACTUAL.csv`: compares a result with an answer file as the tests do, for scripts.
//!
//! The expected header holds `name TYPE` fields. Exit code 0: equal; 1: not, with the difference on standard error.

use std::process::ExitCode;

use thalweg_integration_tests::compare::{self, Expected, Match, Order};
use thalweg_integration_tests::csv;

fn check(args: &[String]) -> Result<Match, String> {
    let [expected, query, actual] = args else {
        return Err("usage: check_answer EXPECTED.csv QUERY.sql ACTUAL.csv".into());
    };
    let read = |path: &String| std::fs::read_to_string(path).map_err(|e| format!("{path}: {e}"));
    let expected = Expected::parse(&read(expected)?)?;
    let order = Order::of_query(&read(query)?, &expected.table.columns)?;
    let actual = csv::parse(&read(actual)?).map_err(|e| e.to_string())?;
    compare::compare(&expected, &actual, &order)
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match check(&args) {
        Ok(_) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}
