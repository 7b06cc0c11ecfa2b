//! The Flink SQL dialect: text in, [`Statement`] out.
//!
//! Decides what a script's statements are, what each of them says, and what is refused. The grammar of queries is
//! sqlparser's; statements around them (DDL, SET, EXPLAIN …) are parsed here, because no stock dialect knows Flink's.
//!
//! Guarantees: whatever is parsed is either represented in the [`Statement`] and understood by the planner, or refused by
//! name; nothing is dropped silently. No input panics, overflows the stack or takes more than a bounded effort.
//! Names are not resolved here and nothing is known about tables.
//!
//! Vocabulary: a *script* is text with several statements; a *position* is a line and a column (both from 1, columns in
//! characters) in the text of one statement.

mod cursor;
mod ddl;
mod dialect;
mod error;
mod guard;
mod parse;
mod refuse;
mod rewrite;
mod split;
mod statement;
mod types;

pub use error::{Position, SqlError};
pub use parse::{parse_query, parse_statement};
pub use split::{ScriptStatement, split_script};
pub use statement::{Column, CreateTable, CreateView, Name, ParsedQuery, Statement};
pub(crate) use types::from_sqlparser;
pub use types::{Field, SqlType};

#[cfg(test)]
mod tests;
