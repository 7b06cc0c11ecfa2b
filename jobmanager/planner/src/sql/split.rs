//! Cuts a script into statements at `;`.
//!
//! Knows strings, quoted identifiers and comments, and nothing else of the language: a statement that does not parse still
//! ends at its semicolon.

use super::error::{Position, SqlError};

/// One statement of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptStatement {
    /// From its first token on, without the semicolon and the white space around it.
    pub text: String,
    /// The line of the script that `text` begins on, from 1.
    pub line: u64,
}

/// Statements in order; pieces with nothing but white space and comments are dropped. An unclosed string, quoted identifier
/// or comment is an error at the place where it was opened.
pub fn split_script(script: &str) -> Result<Vec<ScriptStatement>, SqlError> {
    let mut scanner = Scanner::new(script);
    let mut statements = Vec::new();
    let mut start: Option<(usize, u64)> = None;
    let mut end = 0; // after the last character that is neither white space nor comment
    while let Some(ch) = scanner.peek() {
        let (offset, line) = (scanner.offset, scanner.position.line);
        match ch {
            ';' => {
                scanner.advance();
                if let Some((from, line)) = start.take() {
                    statements.push(ScriptStatement { text: script[from..end].to_string(), line });
                }
                continue;
            }
            // A comment inside a statement stays part of it (it may be a hint); one before it does not.
            '-' if scanner.rest().starts_with("--") => {
                scanner.skip_line();
                continue;
            }
            '/' if scanner.rest().starts_with("/*") => {
                let is_hint = scanner.rest().starts_with("/*+");
                scanner.skip_block_comment()?;
                if !is_hint {
                    continue;
                }
            }
            '\'' | '"' | '`' => scanner.skip_quoted(ch)?,
            ch if ch.is_whitespace() => {
                scanner.advance();
                continue;
            }
            _ => scanner.advance(),
        }
        start.get_or_insert((offset, line));
        end = scanner.offset;
    }
    if let Some((from, line)) = start {
        statements.push(ScriptStatement { text: script[from..end].to_string(), line });
    }
    Ok(statements)
}

struct Scanner<'a> {
    text: &'a str,
    offset: usize,
    position: Position,
}

impl<'a> Scanner<'a> {
    fn new(text: &'a str) -> Self {
        Scanner { text, offset: 0, position: Position { line: 1, column: 1 } }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.offset..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn advance(&mut self) {
        let Some(ch) = self.peek() else { return };
        self.offset += ch.len_utf8();
        if ch == '\n' {
            self.position = Position { line: self.position.line + 1, column: 1 };
        } else {
            self.position.column += 1;
        }
    }

    fn skip_line(&mut self) {
        while self.peek().is_some_and(|ch| ch != '\n') {
            self.advance();
        }
    }

    fn skip_block_comment(&mut self) -> Result<(), SqlError> {
        let opened = self.position;
        self.advance();
        self.advance();
        while !self.rest().starts_with("*/") {
            if self.peek().is_none() {
                return Err(SqlError::syntax(opened, "comment is not closed: expected `*/`"));
            }
            self.advance();
        }
        self.advance();
        self.advance();
        Ok(())
    }

    /// A doubled quote inside is a quote; it looks like two quoted pieces side by side, which ends at the same place.
    fn skip_quoted(&mut self, quote: char) -> Result<(), SqlError> {
        let opened = self.position;
        self.advance();
        while self.peek().is_some_and(|ch| ch != quote) {
            self.advance();
        }
        if self.peek().is_none() {
            let what = if quote == '\'' { "string" } else { "quoted identifier" };
            return Err(SqlError::syntax(opened, format!("{what} is not closed: expected `{quote}`")));
        }
        self.advance();
        Ok(())
    }
}
