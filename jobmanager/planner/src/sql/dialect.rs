//! Flink's lexical rules and the query syntax that is let through to the checks.
//!
//! Syntax is switched on either because it is supported or because only then it can be refused by name (`FOR SYSTEM_TIME
//! AS OF`, `MATCH_RECOGNIZE`). Everything else stays a syntax error.

use sqlparser::ast::Expr;
use sqlparser::dialect::Dialect;
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};

/// Back-quoted identifiers as in Flink; double-quoted ones too, because that is what the SQL standard and most tools write.
/// Strings are single-quoted, without backslash escapes. Block comments do not nest.
#[derive(Debug)]
pub(crate) struct FlinkDialect;

impl Dialect for FlinkDialect {
    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        ch == '`' || ch == '"'
    }

    fn identifier_quote_style(&self, _identifier: &str) -> Option<char> {
        Some('`')
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        ch.is_alphabetic() || ch == '_'
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        ch.is_alphanumeric() || ch == '_' || ch == '$'
    }

    fn supports_filter_during_aggregation(&self) -> bool {
        true
    }

    /// GROUPING SETS, CUBE and ROLLUP.
    fn supports_group_by_expr(&self) -> bool {
        true
    }

    fn supports_window_clause_named_window_reference(&self) -> bool {
        true
    }

    fn supports_table_versioning(&self) -> bool {
        true
    }

    fn supports_match_recognize(&self) -> bool {
        true
    }

    fn supports_table_sample_before_alias(&self) -> bool {
        true
    }

    fn supports_parens_around_table_factor(&self) -> bool {
        true
    }

    /// sqlparser would try an INTERVAL as a typed string and then again as an expression: exponential time for a nest of
    /// them that ends in an error.
    fn parse_prefix(&self, parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
        parser.parse_keyword(Keyword::INTERVAL).then(|| parser.parse_interval())
    }

    /// Words that begin an expression of their own. When such an expression does not parse, sqlparser tries the others as
    /// identifiers, once per level of nesting, which is exponential as well.
    fn is_reserved_for_identifier(&self, kw: Keyword) -> bool {
        matches!(
            kw,
            Keyword::ARRAY
                | Keyword::CASE
                | Keyword::CAST
                | Keyword::CEIL
                | Keyword::CONVERT
                | Keyword::EXISTS
                | Keyword::EXTRACT
                | Keyword::FLOOR
                | Keyword::INTERVAL
                | Keyword::NOT
                | Keyword::OVERLAY
                | Keyword::POSITION
                | Keyword::SAFE_CAST
                | Keyword::STRUCT
                | Keyword::SUBSTR
                | Keyword::SUBSTRING
                | Keyword::TRIM
                | Keyword::TRY_CAST
        )
    }
}
