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
/// Operators between two separators of the same bracket: bounds the depth of the expression they form. Planning clones,
/// compares and drops expressions recursively, on the stack of a server's thread.
pub(crate) const MAX_OPERATORS: usize = 400;
/// Tokens between two separators of the same bracket, whatever they are.
pub(crate) const MAX_CHAIN: usize = 10_000;
/// UNION, INTERSECT, EXCEPT and JOIN in one bracket.
pub(crate) const MAX_INPUTS: usize = 200;
/// Superfluous brackets around open sub-queries.
pub(crate) const MAX_DOUBLED: usize = 8;

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
    /// Tokens since the last separator.
    chain: usize,
    /// Operators since the last separator, loosest binding first; a looser one begins the tighter ones anew. Their sum
    /// bounds the depth of the tree that these tokens become.
    operators: [usize; CLASSES],
    inputs: usize,
    /// Opened right behind another opening bracket.
    adjacent: bool,
    /// Brackets right around the sub-query that begins here. sqlparser tries each as a sub-query and as a join, so a nest
    /// of them takes exponential time when it ends in an error.
    doubled: usize,
}

const CLASSES: usize = 5;

/// How tightly an operator binds, as an index; `None` for what is not one.
fn operator_class(token: &Token) -> Option<usize> {
    match token {
        Token::Word(word) if word.quote_style.is_none() => match word.value.to_ascii_uppercase().as_str() {
            "OR" | "XOR" => Some(0),
            "AND" => Some(1),
            "IS" | "LIKE" | "ILIKE" | "IN" | "BETWEEN" | "SIMILAR" | "RLIKE" | "REGEXP" | "OVERLAPS" | "MEMBER" => {
                Some(2)
            }
            "DIV" => Some(3),
            "AT" | "COLLATE" => Some(4),
            _ => None,
        },
        Token::Word(_) | Token::Number(..) | Token::SingleQuotedString(_) => None,
        Token::LParen | Token::RParen | Token::LBracket | Token::RBracket | Token::LBrace | Token::RBrace => None,
        Token::Comma | Token::SemiColon | Token::Period => None,
        Token::Eq | Token::DoubleEq | Token::Neq | Token::Lt | Token::Gt | Token::LtEq | Token::GtEq => Some(2),
        Token::Plus | Token::Minus | Token::Mul | Token::Div | Token::Mod | Token::StringConcat => Some(3),
        _ => Some(4),
    }
}

/// Prefix operators: each one nests what follows it.
fn is_prefix(token: &Token) -> bool {
    match token {
        Token::Word(word) => word.quote_style.is_none() && word.value.eq_ignore_ascii_case("NOT"),
        Token::Minus | Token::Plus | Token::Tilde | Token::ExclamationMark => true,
        _ => false,
    }
}

#[derive(Default)]
struct Complexity {
    levels: Vec<Level>,
    /// `<` of types and CASE that are still open.
    angles: usize,
    cases: usize,
    prefixes: usize,
    /// Sum of the open levels' `doubled`.
    doubled: usize,
    type_before: bool,
    open_before: bool,
}

fn check_complexity(tokens: &[TokenWithSpan]) -> Result<(), SqlError> {
    let mut complexity = Complexity { levels: vec![Level::default()], ..Complexity::default() };
    for TokenWithSpan { token, span } in tokens {
        if matches!(token, Token::Whitespace(_)) {
            continue;
        }
        complexity.count(token);
        if let Some(message) = complexity.excess() {
            return Err(SqlError::TooComplex { position: Position::of(*span), message });
        }
    }
    Ok(())
}

impl Complexity {
    fn level(&mut self) -> &mut Level {
        self.levels.last_mut().expect("the outermost level is never popped")
    }

    fn count(&mut self, token: &Token) {
        let (type_before, open_before) = (self.type_before, self.open_before);
        (self.type_before, self.open_before) = (false, false);
        self.prefixes = if is_prefix(token) { self.prefixes + 1 } else { 0 };
        let level = self.level();
        level.chain += 1;
        if let Some(class) = operator_class(token) {
            level.operators[class] += 1;
            level.operators[class + 1..].fill(0);
        }
        match token {
            Token::LParen | Token::LBracket | Token::LBrace => {
                self.levels.push(Level { adjacent: open_before, ..Level::default() });
                self.open_before = true;
            }
            Token::RParen | Token::RBracket | Token::RBrace if self.levels.len() > 1 => {
                let doubled = self.levels.pop().map_or(0, |level| level.doubled);
                self.doubled -= doubled;
            }
            Token::Lt if type_before => self.angles += 1,
            Token::Gt => self.angles = self.angles.saturating_sub(1),
            Token::ShiftRight => self.angles = self.angles.saturating_sub(2),
            Token::Comma | Token::SemiColon => self.separate(),
            Token::Word(word) if word.quote_style.is_none() => {
                self.count_word(&word.value.to_ascii_uppercase(), open_before);
            }
            _ => {}
        }
    }

    fn count_word(&mut self, word: &str, open_before: bool) {
        match word {
            "ARRAY" | "MAP" | "ROW" | "STRUCT" | "MULTISET" => self.type_before = true,
            "CASE" => self.cases += 1,
            "END" => self.cases = self.cases.saturating_sub(1),
            "FROM" | "WHERE" | "GROUP" | "HAVING" | "ORDER" | "WHEN" | "THEN" | "ELSE" | "ON" => self.separate(),
            "UNION" | "INTERSECT" | "EXCEPT" | "MINUS" | "JOIN" | "APPLY" => {
                self.separate();
                self.level().inputs += 1;
            }
            "SELECT" | "WITH" | "VALUES" => {
                self.separate();
                if open_before {
                    let doubled = self.levels.iter().rev().take_while(|level| level.adjacent).count();
                    self.level().doubled = doubled;
                    self.doubled += doubled;
                }
            }
            _ => {}
        }
    }

    fn separate(&mut self) {
        let level = self.level();
        level.chain = 0;
        level.operators = [0; CLASSES];
    }

    fn excess(&mut self) -> Option<String> {
        let nesting = self.levels.len() + self.angles + self.cases + self.prefixes;
        if nesting > MAX_NESTING {
            return Some(format!("more than {MAX_NESTING} levels of nesting; split it with WITH or a view"));
        }
        if self.doubled > MAX_DOUBLED {
            return Some("too many brackets around sub-queries in sub-queries; one pair is enough".to_string());
        }
        let level = self.level();
        if level.operators.iter().sum::<usize>() > MAX_OPERATORS {
            let fix = "use IN, a join with VALUES, or brackets around parts of it";
            return Some(format!("more than {MAX_OPERATORS} operators in a row; {fix}"));
        }
        if level.chain > MAX_CHAIN {
            return Some(format!("more than {MAX_CHAIN} tokens without a comma; put brackets around parts of it"));
        }
        if level.inputs > MAX_INPUTS {
            return Some(format!("more than {MAX_INPUTS} joins and set operations; split it with views"));
        }
        None
    }
}
