mod ddl;
mod errors;
mod hostile;
mod refusals;
mod split;
mod statements;

use super::{Name, SqlError, Statement, parse_statement};

fn parse(text: &str) -> Statement {
    parse_statement(text).unwrap_or_else(|error| panic!("{text}\n{error}"))
}

fn fails(text: &str) -> SqlError {
    match parse_statement(text) {
        Ok(statement) => panic!("{text}\nwas accepted as {statement:?}"),
        Err(error) => error,
    }
}

fn name(parts: &[&str]) -> Name {
    Name { parts: parts.iter().map(|part| part.to_string()).collect() }
}

/// The query after the dialect's rewrites, as SQL.
fn rewritten(text: &str) -> String {
    match parse(text) {
        Statement::Query(query) => query.ast.to_string(),
        other => panic!("{text}\nis not a query but {other:?}"),
    }
}
