//! What can be wrong with a statement's text, and where.

use std::fmt;

use sqlparser::parser::ParserError;
use sqlparser::tokenizer::{Location, Span};

/// A place in the text of a statement; both count from 1, columns in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub line: u64,
    pub column: u64,
}

impl Position {
    /// `None` for the empty span that syntax without tokens of its own carries.
    pub(crate) fn of(span: Span) -> Option<Position> {
        (span.start.line > 0).then_some(Position { line: span.start.line, column: span.start.column })
    }
}

impl From<Location> for Position {
    fn from(location: Location) -> Self {
        Position { line: location.line.max(1), column: location.column.max(1) }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// Why a text is not a statement of this dialect. Always the user's to fix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SqlError {
    /// The grammar does not allow it.
    #[error("{}{message}", at(*.position))]
    Syntax { position: Option<Position>, message: String },
    /// It is SQL, but not something this engine does (yet). `instead` says what to write, or is empty.
    #[error("{}{construct} is not supported{}", at(*.position), instead_of(instead))]
    Unsupported { position: Option<Position>, construct: String, instead: String },
    /// The grammar allows it, the meaning does not.
    #[error("{}{message}", at(*.position))]
    Invalid { position: Option<Position>, message: String },
    /// Longer or deeper than the parser will follow.
    #[error("{}statement too complex: {message}", at(*.position))]
    TooComplex { position: Option<Position>, message: String },
}

fn at(position: Option<Position>) -> String {
    position.map(|p| format!("{p}: ")).unwrap_or_default()
}

fn instead_of(instead: &str) -> String {
    if instead.is_empty() { String::new() } else { format!(": {instead}") }
}

impl SqlError {
    pub fn position(&self) -> Option<Position> {
        match self {
            SqlError::Syntax { position, .. }
            | SqlError::Unsupported { position, .. }
            | SqlError::Invalid { position, .. }
            | SqlError::TooComplex { position, .. } => *position,
        }
    }

    pub(crate) fn syntax(position: impl Into<Option<Position>>, message: impl Into<String>) -> Self {
        SqlError::Syntax { position: position.into(), message: message.into() }
    }

    pub(crate) fn invalid(position: impl Into<Option<Position>>, message: impl Into<String>) -> Self {
        SqlError::Invalid { position: position.into(), message: message.into() }
    }

    pub(crate) fn unsupported(
        position: impl Into<Option<Position>>,
        construct: impl Into<String>,
        instead: impl Into<String>,
    ) -> Self {
        SqlError::Unsupported { position: position.into(), construct: construct.into(), instead: instead.into() }
    }
}

/// sqlparser keeps the place only in the message's tail (`… at Line: 2, Column: 7`); it is taken out of there.
impl From<ParserError> for SqlError {
    fn from(error: ParserError) -> Self {
        let text = match error {
            ParserError::TokenizerError(text) | ParserError::ParserError(text) => text,
            ParserError::RecursionLimitExceeded => {
                let message = "too many levels of nesting; split it with WITH or a view".to_string();
                return SqlError::TooComplex { position: None, message };
            }
        };
        let (message, position) = split_position(&text);
        let message = match message.strip_prefix("Expected: ").and_then(|m| m.split_once(", found: ")) {
            Some((expected, found)) => {
                format!("expected {}, found {}", describe_expected(expected), describe_found(found))
            }
            None => lower_first(message),
        };
        SqlError::Syntax { position, message }
    }
}

/// Punctuation needs quotes to be seen.
fn describe_expected(expected: &str) -> String {
    if expected.chars().any(char::is_alphanumeric) { expected.to_string() } else { format!("`{expected}`") }
}

fn describe_found(found: &str) -> String {
    if found == "EOF" { "the end of the statement".to_string() } else { format!("`{found}`") }
}

fn split_position(text: &str) -> (&str, Option<Position>) {
    let Some((message, tail)) = text.rsplit_once(" at Line: ") else { return (text, None) };
    let numbers = tail.split_once(", Column: ").and_then(|(l, c)| Some((l.parse().ok()?, c.parse().ok()?)));
    match numbers {
        Some((0, _)) => (message, None),
        Some((line, column)) => (message, Some(Position { line, column })),
        None => (text, None),
    }
}

fn lower_first(message: &str) -> String {
    let mut chars = message.chars();
    match (chars.next(), chars.clone().next()) {
        // `JSON …` and the like keep their capitals
        (Some(first), Some(second)) if first.is_uppercase() && !second.is_uppercase() => {
            first.to_lowercase().chain(chars).collect()
        }
        _ => message.to_string(),
    }
}
