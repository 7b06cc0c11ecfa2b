//! CREATE and DROP of tables and views.

use std::collections::{BTreeMap, BTreeSet};

use sqlparser::tokenizer::Token;

use super::cursor::Cursor;
use super::error::{Position, SqlError};
use super::parse::query;
use super::statement::{Column, CreateTable, CreateView, Statement};
use super::types::{parse_not_null, parse_type};

pub(crate) fn create(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    cursor.expect_words(&["CREATE"])?;
    let or_replace_at = cursor.position();
    let or_replace = cursor.eat(&["OR", "REPLACE"]);
    let temporary = cursor.eat(&["TEMPORARY"]);
    let kind_at = cursor.position();
    if cursor.eat(&["TABLE"]) {
        if or_replace {
            let instead = "drop the table first, or use IF NOT EXISTS";
            return Err(SqlError::unsupported(or_replace_at, "CREATE OR REPLACE TABLE", instead));
        }
        return Ok(Statement::CreateTable(create_table(cursor, temporary)?));
    }
    if cursor.eat(&["VIEW"]) {
        return Ok(Statement::CreateView(create_view(cursor, or_replace, temporary)?));
    }
    for refused in ["MATERIALIZED", "CATALOG", "DATABASE", "FUNCTION", "SYSTEM", "MODEL", "CONNECTION", "EXTERNAL"] {
        if cursor.peeks(&[refused]) {
            let instead = "CREATE TABLE and CREATE VIEW are";
            return Err(SqlError::unsupported(kind_at, format!("CREATE {refused}"), instead));
        }
    }
    Err(cursor.expected("TABLE or VIEW"))
}

pub(crate) fn drop(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    cursor.expect_words(&["DROP"])?;
    cursor.eat(&["TEMPORARY"]); // every object is the session's in this version
    let table = if cursor.eat(&["TABLE"]) {
        true
    } else if cursor.eat(&["VIEW"]) {
        false
    } else if cursor.peek_word(0).is_some_and(|word| ["CATALOG", "DATABASE", "FUNCTION"].contains(&word.as_str())) {
        return Err(SqlError::unsupported(cursor.position(), format!("DROP {}", cursor.found()), ""));
    } else {
        return Err(cursor.expected("TABLE or VIEW"));
    };
    let if_exists = cursor.eat(&["IF", "EXISTS"]);
    let name = cursor.name(if table { "a table name" } else { "a view name" })?;
    if cursor.parser.peek_token_ref().token == Token::Comma || cursor.peeks(&["CASCADE"]) {
        let construct = format!("{} in DROP", cursor.found());
        return Err(SqlError::unsupported(cursor.position(), construct, "drop one object per statement"));
    }
    Ok(if table { Statement::DropTable { name, if_exists } } else { Statement::DropView { name, if_exists } })
}

/// What stands between the brackets of CREATE TABLE.
#[derive(Default)]
struct Elements {
    columns: Vec<Column>,
    primary_key: Option<(Position, Vec<String>)>,
}

fn create_table(cursor: &mut Cursor<'_>, temporary: bool) -> Result<CreateTable, SqlError> {
    let if_not_exists = cursor.eat(&["IF", "NOT", "EXISTS"]);
    let name = cursor.name("a table name")?;
    let mut elements = Elements::default();
    if cursor.eat_token(&Token::LParen) {
        loop {
            table_element(cursor, &mut elements)?;
            if !cursor.eat_token(&Token::Comma) {
                break;
            }
        }
        if !cursor.eat_token(&Token::RParen) {
            refuse_column_clause(cursor)?;
            return Err(cursor.expected("`,` or `)` after a column"));
        }
    }
    let comment = comment(cursor)?;
    refuse_table_clause(cursor)?;
    let options = if cursor.eat(&["WITH"]) { options(cursor)? } else { BTreeMap::new() };
    refuse_table_clause(cursor)?;
    let primary_key = checked_key(&mut elements)?;
    Ok(CreateTable { name, if_not_exists, temporary, columns: elements.columns, primary_key, comment, options })
}

fn table_element(cursor: &mut Cursor<'_>, elements: &mut Elements) -> Result<(), SqlError> {
    let position = cursor.position();
    if cursor.peeks(&["WATERMARK"]) && cursor.peek_word(1).as_deref() == Some("FOR") {
        return Err(SqlError::unsupported(position, "WATERMARK", "event time comes with streaming; leave it out"));
    }
    if cursor.eat(&["CONSTRAINT"]) {
        cursor.identifier("a constraint name")?;
        if !cursor.peeks(&["PRIMARY", "KEY"]) {
            let construct = format!("constraint {}", cursor.found());
            return Err(SqlError::unsupported(cursor.position(), construct, "only PRIMARY KEY … NOT ENFORCED is"));
        }
    }
    if cursor.eat(&["PRIMARY", "KEY"]) {
        let key = cursor.list(|cursor| cursor.identifier("a column name"))?;
        not_enforced(cursor)?;
        return set_key(elements, position, key);
    }
    for refused in ["UNIQUE", "FOREIGN", "CHECK", "PERIOD", "INDEX"] {
        if cursor.peeks(&[refused]) && matches!(cursor.parser.peek_nth_token_ref(1).token, Token::LParen) {
            return Err(SqlError::unsupported(position, format!("constraint {refused}"), ""));
        }
    }
    column(cursor, elements)
}

fn column(cursor: &mut Cursor<'_>, elements: &mut Elements) -> Result<(), SqlError> {
    let position = cursor.position();
    let name = cursor.identifier("a column name")?;
    if cursor.peeks(&["AS"]) {
        let instead = "compute it in a view over the table";
        return Err(SqlError::unsupported(cursor.position(), format!("computed column `{name}`"), instead));
    }
    let sql_type = parse_type(cursor)?;
    let mut not_null = parse_not_null(cursor);
    if cursor.eat(&["PRIMARY", "KEY"]) {
        not_enforced(cursor)?;
        set_key(elements, position, vec![name.clone()])?;
        not_null |= parse_not_null(cursor);
    }
    let comment = comment(cursor)?;
    refuse_column_clause(cursor)?;
    if elements.columns.iter().any(|column| column.name == name) {
        return Err(SqlError::invalid(position, format!("column `{name}` is defined twice")));
    }
    elements.columns.push(Column { name, sql_type, not_null, comment, position });
    Ok(())
}

fn refuse_column_clause(cursor: &Cursor<'_>) -> Result<(), SqlError> {
    for refused in ["METADATA", "VIRTUAL", "DEFAULT", "GENERATED", "UNIQUE", "REFERENCES", "CHECK", "COLLATE", "AS"] {
        if cursor.peeks(&[refused]) {
            let construct = format!("{refused} in a column definition");
            return Err(SqlError::unsupported(
                cursor.position(),
                construct,
                "columns have a name, a type and NOT NULL",
            ));
        }
    }
    Ok(())
}

fn refuse_table_clause(cursor: &Cursor<'_>) -> Result<(), SqlError> {
    let refused: [(&[&str], &str, &str); 8] = [
        (&["PARTITIONED", "BY"], "PARTITIONED BY", "leave it out; files are pruned by their statistics"),
        (&["DISTRIBUTED"], "DISTRIBUTED BY", ""),
        (&["LIKE"], "LIKE in CREATE TABLE", "write the columns and options out"),
        (&["AS"], "CREATE TABLE AS SELECT", "use CREATE VIEW"),
        (&["ON", "COMMIT"], "ON COMMIT", ""),
        (&["USING"], "USING in CREATE TABLE", "write WITH ('connector' = '…')"),
        (&["STORED"], "STORED AS", "write WITH ('connector' = '…')"),
        (&["LOCATION"], "LOCATION", "write WITH ('path' = '…')"),
    ];
    for (words, construct, instead) in refused {
        if cursor.peeks(words) {
            return Err(SqlError::unsupported(cursor.position(), construct, instead));
        }
    }
    Ok(())
}

fn not_enforced(cursor: &mut Cursor<'_>) -> Result<(), SqlError> {
    if cursor.eat(&["NOT", "ENFORCED"]) {
        return Ok(());
    }
    let instead = "write NOT ENFORCED after it; the data is the owner's, it is not checked";
    Err(SqlError::unsupported(cursor.position(), "an enforced PRIMARY KEY", instead))
}

fn set_key(elements: &mut Elements, position: Position, key: Vec<String>) -> Result<(), SqlError> {
    if elements.primary_key.replace((position, key)).is_some() {
        return Err(SqlError::invalid(position, "a table has at most one PRIMARY KEY"));
    }
    Ok(())
}

/// Checks the key's columns and makes them NOT NULL, as a primary key's are.
fn checked_key(elements: &mut Elements) -> Result<Vec<String>, SqlError> {
    let Some((position, key)) = elements.primary_key.take() else { return Ok(Vec::new()) };
    let mut seen = BTreeSet::new();
    for name in &key {
        if !seen.insert(name) {
            return Err(SqlError::invalid(position, format!("column `{name}` is in the PRIMARY KEY twice")));
        }
        match elements.columns.iter_mut().find(|column| column.name == *name) {
            Some(column) => column.not_null = true,
            None => {
                let message = format!("PRIMARY KEY column `{name}` is not a column of the table");
                return Err(SqlError::invalid(position, message));
            }
        }
    }
    Ok(key)
}

fn comment(cursor: &mut Cursor<'_>) -> Result<Option<String>, SqlError> {
    if cursor.eat(&["COMMENT"]) { cursor.string("a comment").map(Some) } else { Ok(None) }
}

/// `('key' = 'value', …)`.
fn options(cursor: &mut Cursor<'_>) -> Result<BTreeMap<String, String>, SqlError> {
    let pairs = cursor.list(|cursor| {
        let position = cursor.position();
        let key = cursor.string("an option's key")?;
        cursor.expect_token(&Token::Eq)?;
        Ok((position, key, cursor.string("an option's value")?))
    })?;
    let mut options = BTreeMap::new();
    for (position, key, value) in pairs {
        if options.contains_key(&key) {
            return Err(SqlError::invalid(position, format!("option '{key}' is given twice")));
        }
        options.insert(key, value);
    }
    Ok(options)
}

fn create_view(cursor: &mut Cursor<'_>, or_replace: bool, temporary: bool) -> Result<CreateView, SqlError> {
    let position = cursor.position();
    let if_not_exists = cursor.eat(&["IF", "NOT", "EXISTS"]);
    if or_replace && if_not_exists {
        return Err(SqlError::invalid(position, "OR REPLACE and IF NOT EXISTS exclude each other; keep one"));
    }
    let name = cursor.name("a view name")?;
    let mut columns = Vec::new();
    if cursor.parser.peek_token_ref().token == Token::LParen {
        columns = cursor.list(|cursor| {
            let position = cursor.position();
            let name = cursor.identifier("a column name")?;
            if cursor.peeks(&["COMMENT"]) {
                return Err(SqlError::unsupported(position, "COMMENT on a view's column", ""));
            }
            Ok((position, name))
        })?;
    }
    for (n, (position, name)) in columns.iter().enumerate() {
        if columns[..n].iter().any(|(_, earlier)| earlier == name) {
            return Err(SqlError::invalid(*position, format!("column `{name}` is named twice")));
        }
    }
    let columns = columns.into_iter().map(|(_, name)| name).collect();
    let comment = comment(cursor)?;
    cursor.expect_words(&["AS"])?;
    Ok(CreateView { name, if_not_exists, or_replace, temporary, columns, comment, query: query(cursor)? })
}
