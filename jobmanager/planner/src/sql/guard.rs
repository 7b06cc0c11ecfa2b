//! What is checked on the tokens, before any parser recurses over them.
//!
//! Bounds nesting and the length of operator chains: sqlparser turns `1 + 1 + …` into a tree that is as deep as the chain
//! is long, and such a tree overflows the stack when it is dropped. Refuses `/*+ … */` hints, which the tokenizer would
//! otherwise hand on as comments.

use sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer, Whitespace};

use super::dialect::FlinkDialect;
use super::error::{Position, SqlError};

/// Bytes of one statement.
pub(crate) const MAX_BYTES: usize = 1 << 20;
/// Brackets inside each other.
pub(crate) const MAX_NESTING: usize = 100;
/// Tokens between two separators of the same bracket: bounds the depth of the expression they form.
pub(crate) const MAX_CHAIN: usize = 4000;
/// UNION, INTERSECT, EXCEPT and JOIN in one bracket.
pub(crate) const MAX_INPUTS: usize = 500;

/// The tokens of `text`, with places; or why they will not be parsed.
pub(crate) fn tokenize(text: &str) -> Result<Vec<TokenWithSpan>, SqlError> {
    if text.len() > MAX_BYTES {
        let message = format!("{} bytes, at most {MAX_BYTES} are accepted; load data through a table", text.len());
        return Err(SqlError::TooComplex { position: None, message });
    }
    let tokens = Tokenizer::new(&FlinkDialect, text).tokenize_with_location().map_err(|error| {
        let message = match error.message.strip_prefix("Unterminated string literal") {
            Some(_) => "string is not closed: expected `'`".to_string(),
            None => error.message.to_lowercase(),
        };
        SqlError::syntax(Position::from(error.location), message)
    })?;
    refuse_hints(&tokens)?;
    check_complexity(&tokens)?;
    Ok(tokens)
}

fn refuse_hints(tokens: &[TokenWithSpan]) -> Result<(), SqlError> {
    for token in tokens {
        if let Token::Whitespace(Whitespace::MultiLineComment(comment)) = &token.token
            && let Some(hint) = comment.strip_prefix('+')
        {
            let construct = format!("hint `/*+ {} */`", hint.trim());
            let instead = "no hint is known in this version; remove it or use SET";
            return Err(SqlError::unsupported(Position::of(token.span), construct, instead));
        }
    }
    Ok(())
}

/// What was counted inside one bracket.
#[derive(Default)]
struct Level {
    chain: usize,
    inputs: usize,
}

fn check_complexity(tokens: &[TokenWithSpan]) -> Result<(), SqlError> {
    let mut levels = vec![Level::default()];
    let mut angles = 0_usize;
    let mut type_before = false;
    for TokenWithSpan { token, span } in tokens {
        let too_complex = |message: String| Err(SqlError::TooComplex { position: Position::of(*span), message });
        if matches!(token, Token::Whitespace(_)) {
            continue;
        }
        let depth = levels.len();
        let level = levels.last_mut().expect("the outermost level is never popped");
        level.chain += 1;
        let mut is_type = false;
        match token {
            Token::LParen | Token::LBracket | Token::LBrace => levels.push(Level::default()),
            Token::RParen | Token::RBracket | Token::RBrace if depth > 1 => drop(levels.pop()),
            Token::Lt if type_before => angles += 1,
            Token::Gt => angles = angles.saturating_sub(1),
            Token::ShiftRight => angles = angles.saturating_sub(2),
            Token::Comma | Token::SemiColon => level.chain = 0,
            Token::Word(word) if word.quote_style.is_none() => {
                let word = word.value.to_ascii_uppercase();
                is_type = matches!(word.as_str(), "ARRAY" | "MAP" | "ROW" | "STRUCT" | "MULTISET");
                match word.as_str() {
                    "SELECT" | "FROM" | "WHERE" | "GROUP" | "HAVING" | "ORDER" | "WHEN" | "THEN" | "ELSE" | "ON" => {
                        level.chain = 0;
                    }
                    "UNION" | "INTERSECT" | "EXCEPT" | "MINUS" | "JOIN" | "APPLY" => {
                        level.chain = 0;
                        level.inputs += 1;
                    }
                    _ => {}
                }
            }
            _ => {}
        }
        type_before = is_type;
        if levels.len() + angles > MAX_NESTING {
            return too_complex(format!("more than {MAX_NESTING} levels of nesting; split it with WITH or a view"));
        }
        let level = levels.last().expect("the outermost level is never popped");
        if level.chain > MAX_CHAIN {
            let fix = "use IN, a join with VALUES, or parentheses around parts of it";
            return too_complex(format!("an expression of more than {MAX_CHAIN} tokens without a comma; {fix}"));
        }
        if level.inputs > MAX_INPUTS {
            return too_complex(format!("more than {MAX_INPUTS} joins and set operations; split it with views"));
        }
    }
    Ok(())
}
