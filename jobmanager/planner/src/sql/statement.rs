//! What a statement says, with names as written.

use std::collections::BTreeMap;
use std::fmt;

use super::error::Position;
use super::types::SqlType;

/// A name of one to three parts, case kept: `table`, `database.table` or `catalog.database.table`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name {
    pub parts: Vec<String>,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.parts.join("."))
    }
}

/// A query that passed every check. `ast` already carries the dialect's rewrites; `text` is what the user wrote.
#[derive(Debug, Clone, PartialEq)]
pub struct ParsedQuery {
    pub ast: Box<sqlparser::ast::Query>,
    pub text: String,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Statement {
    CreateTable(CreateTable),
    CreateView(CreateView),
    DropTable {
        name: Name,
        if_exists: bool,
    },
    DropView {
        name: Name,
        if_exists: bool,
    },
    /// `SET 'key' = 'value'`.
    Set {
        key: String,
        value: String,
    },
    /// `SET` alone: list the settings.
    SetList,
    /// `RESET 'key'`, or all of them.
    Reset {
        key: Option<String>,
    },
    ShowTables,
    ShowViews,
    ShowCatalogs,
    ShowDatabases,
    ShowCreateTable {
        name: Name,
    },
    ShowCreateView {
        name: Name,
    },
    Describe {
        name: Name,
    },
    Explain {
        analyze: bool,
        query: ParsedQuery,
    },
    Query(ParsedQuery),
    UseCatalog {
        catalog: String,
    },
    /// `USE [catalog.]database`.
    UseDatabase {
        name: Name,
    },
}

/// `CREATE [TEMPORARY] TABLE …`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateTable {
    pub name: Name,
    pub if_not_exists: bool,
    pub temporary: bool,
    /// Empty when the statement has no column list: the connector says what the columns are.
    pub columns: Vec<Column>,
    /// Columns of `PRIMARY KEY (…) NOT ENFORCED`, in key order; empty without one.
    pub primary_key: Vec<String>,
    pub comment: Option<String>,
    pub options: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    pub name: String,
    pub sql_type: SqlType,
    pub not_null: bool,
    pub comment: Option<String>,
    pub position: Position,
}

/// `CREATE [OR REPLACE] [TEMPORARY] VIEW …`.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateView {
    pub name: Name,
    pub if_not_exists: bool,
    pub or_replace: bool,
    pub temporary: bool,
    /// Names for the query's columns; empty keeps its own.
    pub columns: Vec<String>,
    pub comment: Option<String>,
    pub query: ParsedQuery,
}
