//! Dispatches on a statement's first words. Queries go to sqlparser, then through the checks and rewrites.

use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::cursor::{Cursor, end_of};
use super::error::SqlError;
use super::statement::{ParsedQuery, Statement};
use super::{ddl, guard, refuse, rewrite};

/// Parses one statement; a closing semicolon is allowed.
pub fn parse_statement(text: &str) -> Result<Statement, SqlError> {
    crate::stack::with_deep_stack(|| parse_text(text))
}

fn parse_text(text: &str) -> Result<Statement, SqlError> {
    let mut tokens = rename_local_time_zone(guard::tokenize(text)?);
    if is_word(tokens.first(), "CREATE") && tokens.iter().take(3).any(|token| is_word(Some(token), "TABLE")) {
        tokens = split_shift_right(tokens);
    }
    let mut cursor = Cursor::new(text, tokens);
    let parsed = parse_one(&mut cursor).and_then(|statement| cursor.expect_end().map(|()| statement));
    parsed.map_err(|error| match error {
        // sqlparser gives no place to what it misses at the end
        SqlError::Syntax { position: None, message } if message.ends_with("the end of the statement") => {
            SqlError::syntax(end_of(text), message)
        }
        other => other,
    })
}

/// Parses a text that must be a query, such as a view's.
pub fn parse_query(text: &str) -> Result<ParsedQuery, SqlError> {
    match parse_statement(text)? {
        Statement::Query(query) => Ok(query),
        _ => Err(SqlError::syntax(None, "expected a query")),
    }
}

/// Statements that exist in Flink and are refused by name.
const UNSUPPORTED: &[(&[&str], &str)] = &[
    (&["INSERT"], "query the result with SELECT"),
    (&["UPDATE"], ""),
    (&["DELETE"], ""),
    (&["MERGE"], ""),
    (&["TRUNCATE"], ""),
    (&["ALTER"], "drop the object and create it again"),
    (&["ANALYZE"], "statistics are measured while a query runs"),
    (&["CALL"], ""),
    (&["LOAD"], ""),
    (&["UNLOAD"], ""),
    (&["ADD"], ""),
    (&["REMOVE"], ""),
    (&["EXECUTE"], ""),
    (&["COMPILE"], ""),
    (&["BEGIN"], ""),
    (&["END"], ""),
    (&["STOP"], ""),
    (&["REFRESH"], ""),
];

const STATEMENTS: &str =
    "SELECT, WITH, VALUES, CREATE, DROP, SHOW, DESCRIBE, EXPLAIN, SET, RESET or USE at the start of a statement";

fn parse_one(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let position = cursor.position();
    if cursor.parser.peek_token_ref().token == Token::LParen {
        return Ok(Statement::Query(query(cursor)?));
    }
    let Some(word) = cursor.peek_word(0) else { return Err(cursor.expected(STATEMENTS)) };
    match word.as_str() {
        "SELECT" | "WITH" | "VALUES" => Ok(Statement::Query(query(cursor)?)),
        "CREATE" => ddl::create(cursor),
        "DROP" => ddl::drop(cursor),
        "SET" => set(cursor),
        "RESET" => reset(cursor),
        "SHOW" => show(cursor),
        "DESCRIBE" | "DESC" => describe(cursor),
        "EXPLAIN" => explain(cursor),
        "USE" => use_object(cursor),
        _ => match UNSUPPORTED.iter().find(|(words, _)| cursor.peeks(words)) {
            Some((words, instead)) => {
                Err(SqlError::unsupported(position, format!("statement {}", words.join(" ")), *instead))
            }
            None => Err(cursor.expected(STATEMENTS)),
        },
    }
}

/// Takes the rest of the statement as a query.
pub(crate) fn query(cursor: &mut Cursor<'_>) -> Result<ParsedQuery, SqlError> {
    if !matches!(cursor.peek_word(0).as_deref(), Some("SELECT" | "WITH" | "VALUES"))
        && cursor.parser.peek_token_ref().token != Token::LParen
    {
        return Err(cursor.expected("a query (SELECT, WITH or VALUES)"));
    }
    let text = cursor.remaining_text().to_string();
    let mut ast = cursor.parser.parse_query()?;
    cursor.expect_end()?;
    refuse::check(&ast)?;
    rewrite::apply(&mut ast)?;
    Ok(ParsedQuery { ast, text })
}

/// `SET`, `SET 'key' = 'value'`, and both without quotes.
fn set(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    cursor.expect_words(&["SET"])?;
    while cursor.eat_token(&Token::SemiColon) {}
    if cursor.at_end() {
        return Ok(Statement::SetList);
    }
    let position = cursor.position();
    let key = setting_key(cursor, &Token::Eq)?;
    if !cursor.eat_token(&Token::Eq) {
        return Err(cursor.expected("`=` and a value, as in SET 'key' = 'value'"));
    }
    if let Token::SingleQuotedString(_) = cursor.parser.peek_token_ref().token {
        let value = cursor.string("a value")?;
        return Ok(Statement::Set { key, value });
    }
    let value = cursor.remaining_text().trim().to_string();
    if value.is_empty() {
        return Err(SqlError::syntax(position, format!("no value for `{key}`; write SET '{key}' = 'value'")));
    }
    skip_to_end(cursor);
    Ok(Statement::Set { key, value })
}

fn reset(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    cursor.expect_words(&["RESET"])?;
    while cursor.eat_token(&Token::SemiColon) {}
    if cursor.at_end() {
        return Ok(Statement::Reset { key: None });
    }
    Ok(Statement::Reset { key: Some(setting_key(cursor, &Token::SemiColon)?) })
}

/// A quoted key, or words joined by dots and dashes up to `end`.
fn setting_key(cursor: &mut Cursor<'_>, end: &Token) -> Result<String, SqlError> {
    if let Token::SingleQuotedString(_) = cursor.parser.peek_token_ref().token {
        return cursor.string("a key");
    }
    let mut key = String::new();
    loop {
        match &cursor.parser.peek_token_ref().token {
            Token::Word(word) => key.push_str(&word.value),
            token @ (Token::Period | Token::Minus | Token::Number(..)) => key.push_str(&token.to_string()),
            token if token == end || *token == Token::EOF => break,
            _ => return Err(cursor.expected("a setting's key in single quotes")),
        }
        cursor.parser.advance_token();
    }
    if key.is_empty() { Err(cursor.expected("a setting's key in single quotes")) } else { Ok(key) }
}

fn skip_to_end(cursor: &mut Cursor<'_>) {
    while !cursor.at_end() {
        cursor.parser.advance_token();
    }
}

fn show(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    cursor.expect_words(&["SHOW"])?;
    let simple = [
        (["TABLES"], Statement::ShowTables),
        (["VIEWS"], Statement::ShowViews),
        (["CATALOGS"], Statement::ShowCatalogs),
        (["DATABASES"], Statement::ShowDatabases),
    ];
    for (words, statement) in simple {
        if cursor.eat(&words) {
            if !cursor.at_end() && cursor.parser.peek_token_ref().token != Token::SemiColon {
                let construct = format!("{} after SHOW {}", cursor.found(), words[0]);
                return Err(SqlError::unsupported(cursor.position(), construct, ""));
            }
            return Ok(statement);
        }
    }
    if cursor.eat(&["CREATE", "TABLE"]) {
        return Ok(Statement::ShowCreateTable { name: cursor.name("a table name")? });
    }
    if cursor.eat(&["CREATE", "VIEW"]) {
        return Ok(Statement::ShowCreateView { name: cursor.name("a view name")? });
    }
    Err(cursor.expected("TABLES, VIEWS, CATALOGS, DATABASES, CREATE TABLE or CREATE VIEW"))
}

fn describe(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    cursor.parser.advance_token();
    for refused in ["EXTENDED", "CATALOG", "FUNCTION", "JOB", "DATABASE"] {
        if cursor.peeks(&[refused]) && matches!(cursor.parser.peek_nth_token_ref(1).token, Token::Word(_)) {
            return Err(SqlError::unsupported(cursor.position(), format!("DESCRIBE {refused}"), ""));
        }
    }
    if cursor.peeks(&["TABLE"]) {
        cursor.eat(&["TABLE"]);
    }
    Ok(Statement::Describe { name: cursor.name("a table name")? })
}

/// `EXPLAIN [PLAN FOR] query`, `EXPLAIN ANALYZE query`.
fn explain(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    cursor.expect_words(&["EXPLAIN"])?;
    let analyze = cursor.eat(&["ANALYZE"]);
    if !analyze && cursor.eat(&["PLAN"]) {
        cursor.expect_words(&["FOR"])?;
    }
    for detail in ["ESTIMATED_COST", "CHANGELOG_MODE", "PLAN_ADVICE", "JSON_EXECUTION_PLAN", "VERBOSE", "FORMAT"] {
        if cursor.peeks(&[detail]) {
            let instead = "write EXPLAIN or EXPLAIN ANALYZE before a query";
            return Err(SqlError::unsupported(cursor.position(), format!("EXPLAIN {detail}"), instead));
        }
    }
    Ok(Statement::Explain { analyze, query: query(cursor)? })
}

fn use_object(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    cursor.expect_words(&["USE"])?;
    if cursor.eat(&["CATALOG"]) {
        return Ok(Statement::UseCatalog { catalog: cursor.identifier("a catalog name")? });
    }
    if cursor.peeks(&["MODULES"]) {
        return Err(SqlError::unsupported(cursor.position(), "USE MODULES", ""));
    }
    let position = cursor.position();
    let name = cursor.name("a database name")?;
    if name.parts.len() > 2 {
        return Err(SqlError::invalid(position, format!("`{name}` is not a database; expected [catalog.]database")));
    }
    Ok(Statement::UseDatabase { name })
}

/// `TIMESTAMP[(p)] WITH LOCAL TIME ZONE` is not in sqlparser's grammar of types; `TIMESTAMP_LTZ[(p)]` passes as a custom one.
fn rename_local_time_zone(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    const TAIL: [&str; 4] = ["WITH", "LOCAL", "TIME", "ZONE"];
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let mut rest = tokens.into_iter().filter(|t| !matches!(t.token, Token::Whitespace(_))).collect::<Vec<_>>();
    let mut at = 0;
    while at < rest.len() {
        let modifier = if rest.get(at + 1).is_some_and(|t| t.token == Token::LParen) { 3 } else { 0 };
        let tail = at + 1 + modifier;
        let is_ltz = is_word(rest.get(at), "TIMESTAMP")
            && TAIL.iter().enumerate().all(|(n, word)| is_word(rest.get(tail + n), word));
        if is_ltz {
            if let Token::Word(word) = &mut rest[at].token {
                word.value = "TIMESTAMP_LTZ".to_string();
                word.keyword = sqlparser::keywords::Keyword::NoKeyword;
            }
            out.extend_from_slice(&rest[at..tail]);
            at = tail + TAIL.len();
        } else {
            out.push(rest[at].clone());
            at += 1;
        }
    }
    out
}

/// `ARRAY<ARRAY<INT>>` closes with what is a shift operator elsewhere. Table definitions have no expressions.
fn split_shift_right(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut out = Vec::with_capacity(tokens.len());
    for token in tokens {
        if token.token == Token::ShiftRight {
            let close = TokenWithSpan { token: Token::Gt, span: token.span };
            out.push(close.clone());
            out.push(close);
        } else {
            out.push(token);
        }
    }
    out
}

fn is_word(token: Option<&TokenWithSpan>, word: &str) -> bool {
    matches!(token.map(|t| &t.token), Some(Token::Word(w)) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word))
}
