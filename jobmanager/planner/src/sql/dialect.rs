//! Flink's lexical rules and the query syntax that is let through to the checks.
//!
//! Syntax is switched on either because it is supported or because only then it can be refused by name (`FOR SYSTEM_TIME
//! AS OF`, `MATCH_RECOGNIZE`). Everything else stays a syntax error.

use sqlparser::dialect::Dialect;

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
}
