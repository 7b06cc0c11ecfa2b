//! A sqlparser `Parser` with the few helpers a hand-written statement parser needs.

use sqlparser::ast::ObjectNamePart;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Location, Token, TokenWithSpan};

use super::dialect::FlinkDialect;
use super::error::{Position, SqlError};
use super::statement::Name;

/// Levels of sub-queries and sub-expressions that sqlparser follows.
const PARSER_DEPTH: usize = 100;

static DIALECT: FlinkDialect = FlinkDialect;

pub(crate) struct Cursor<'a> {
    pub(crate) parser: Parser<'a>,
    text: &'a str,
}

impl<'a> Cursor<'a> {
    /// `tokens` of `text`, in order.
    pub(crate) fn new(text: &'a str, tokens: Vec<TokenWithSpan>) -> Self {
        let parser = Parser::new(&DIALECT).with_recursion_limit(PARSER_DEPTH).with_tokens_with_locations(tokens);
        Cursor { parser, text }
    }

    /// The next token's place; the end of the text when there is none.
    pub(crate) fn position(&self) -> Position {
        Position::of(self.parser.peek_token_ref().span).unwrap_or_else(|| end_of(self.text))
    }

    pub(crate) fn at_end(&self) -> bool {
        self.parser.peek_token_ref().token == Token::EOF
    }

    /// The unquoted word that is `n` tokens ahead, in capitals.
    pub(crate) fn peek_word(&self, n: usize) -> Option<String> {
        match &self.parser.peek_nth_token_ref(n).token {
            Token::Word(word) if word.quote_style.is_none() => Some(word.value.to_ascii_uppercase()),
            _ => None,
        }
    }

    pub(crate) fn peeks(&self, words: &[&str]) -> bool {
        words.iter().enumerate().all(|(n, word)| self.peek_word(n).as_deref() == Some(word))
    }

    /// Takes all of `words` (capitals) or nothing.
    pub(crate) fn eat(&mut self, words: &[&str]) -> bool {
        let found = self.peeks(words);
        if found {
            words.iter().for_each(|_| self.parser.advance_token());
        }
        found
    }

    pub(crate) fn eat_token(&mut self, token: &Token) -> bool {
        self.parser.consume_token(token)
    }

    pub(crate) fn expect_words(&mut self, words: &[&str]) -> Result<(), SqlError> {
        if self.eat(words) { Ok(()) } else { Err(self.expected(&words.join(" "))) }
    }

    pub(crate) fn expect_token(&mut self, token: &Token) -> Result<(), SqlError> {
        if self.eat_token(token) { Ok(()) } else { Err(self.expected(&format!("`{token}`"))) }
    }

    pub(crate) fn expect_end(&mut self) -> Result<(), SqlError> {
        while self.eat_token(&Token::SemiColon) {}
        if self.at_end() { Ok(()) } else { Err(self.expected("the end of the statement")) }
    }

    pub(crate) fn expected(&self, what: &str) -> SqlError {
        SqlError::syntax(self.position(), format!("expected {what}, found {}", self.found()))
    }

    /// The next token as an error should show it.
    pub(crate) fn found(&self) -> String {
        match &self.parser.peek_token_ref().token {
            Token::EOF => "the end of the statement".to_string(),
            token => format!("`{token}`"),
        }
    }

    pub(crate) fn identifier(&mut self, what: &str) -> Result<String, SqlError> {
        match &self.parser.peek_token_ref().token {
            Token::Word(word) => {
                let value = word.value.clone();
                if value.is_empty() {
                    return Err(SqlError::invalid(self.position(), format!("empty {what}")));
                }
                self.parser.advance_token();
                Ok(value)
            }
            _ => Err(self.expected(what)),
        }
    }

    pub(crate) fn string(&mut self, what: &str) -> Result<String, SqlError> {
        match &self.parser.peek_token_ref().token {
            Token::SingleQuotedString(value) => {
                let value = value.clone();
                self.parser.advance_token();
                Ok(value)
            }
            _ => Err(self.expected(&format!("{what} in single quotes"))),
        }
    }

    /// A name of one to three parts.
    pub(crate) fn name(&mut self, what: &str) -> Result<Name, SqlError> {
        let position = self.position();
        if !matches!(self.parser.peek_token_ref().token, Token::Word(_)) {
            return Err(self.expected(what));
        }
        let name = self.parser.parse_object_name(false)?;
        let parts: Option<Vec<String>> = name.0.iter().map(identifier_part).collect();
        let parts = parts.ok_or_else(|| SqlError::syntax(position, format!("`{name}` is not {what}")))?;
        if parts.len() > 3 {
            let message = format!("`{name}` has {} parts; expected [catalog.][database.]name", parts.len());
            return Err(SqlError::invalid(position, message));
        }
        if parts.iter().any(String::is_empty) {
            return Err(SqlError::invalid(position, format!("`{name}` has an empty part")));
        }
        Ok(Name { parts })
    }

    /// `( item, item, … )`.
    pub(crate) fn list<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<T, SqlError>,
    ) -> Result<Vec<T>, SqlError> {
        self.expect_token(&Token::LParen)?;
        let mut items = vec![item(self)?];
        while self.eat_token(&Token::Comma) {
            items.push(item(self)?);
        }
        if !self.eat_token(&Token::RParen) {
            return Err(self.expected("`,` or `)`"));
        }
        Ok(items)
    }

    /// The statement's text from the next token on, without a closing semicolon.
    pub(crate) fn remaining_text(&self) -> &'a str {
        let position = self.position();
        let from = byte_offset(self.text, Location { line: position.line, column: position.column });
        self.text[from..].trim_end_matches(|ch: char| ch.is_whitespace() || ch == ';')
    }
}

fn identifier_part(part: &ObjectNamePart) -> Option<String> {
    part.as_ident().map(|ident| ident.value.clone())
}

pub(crate) fn end_of(text: &str) -> Position {
    let line = text.matches('\n').count() as u64 + 1;
    let last = text.rsplit('\n').next().unwrap_or_default();
    Position { line, column: last.chars().count() as u64 + 1 }
}

/// The byte that `location` (columns in characters, from 1) points at; the end of `text` if it lies behind it.
fn byte_offset(text: &str, location: Location) -> usize {
    let mut start = 0;
    for _ in 1..location.line {
        match text[start..].find('\n') {
            Some(at) => start += at + 1,
            None => return text.len(),
        }
    }
    let column = location.column.saturating_sub(1) as usize;
    text[start..].char_indices().nth(column).map_or(text.len(), |(at, _)| start + at)
}
