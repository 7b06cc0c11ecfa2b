use super::fails;
use crate::sql::{Position, SqlError};

#[test]
fn errors_say_where_what_and_what_else() {
    for (text, line, column, message) in [
        ("SELEC 1", 1, 1, "expected SELECT, WITH, VALUES"),
        ("SELECT a\nFROM\n  WHERE b", 3, 3, "expected a table, found `WHERE`"),
        ("SELECT (1 + 2", 1, 14, "expected `)`, found the end of the statement"),
        ("CREATE TABLE t (\n  a INT,\n  b NOTATYPE)", 3, 5, "data type `NOTATYPE` is not supported"),
        ("CREATE TABLE t (a INT)\n WIT ('k' = 'v')", 2, 2, "expected the end of the statement, found `WIT`"),
        ("DROP TABLE", 1, 11, "expected a table name, found the end of the statement"),
        ("SELECT 'abc", 1, 8, "string is not closed"),
        ("SELECT é, 'ü' FROM t é é", 1, 24, "é"),
    ] {
        let error = fails(text);
        let shown = error.to_string();
        assert!(shown.contains(message), "{text}\n{shown}");
        assert_eq!(error.position(), Some(Position { line, column }), "{text}\n{shown}");
    }
}

#[test]
fn an_error_prints_its_place_first() {
    assert_eq!(
        fails("INSERT INTO t SELECT 1").to_string(),
        "line 1, column 1: statement INSERT is not supported: query the result with SELECT"
    );
}

#[test]
fn empty_text_is_a_syntax_error() {
    for text in ["", "  \n", "-- nothing", ";"] {
        assert!(matches!(fails(text), SqlError::Syntax { .. }), "{text:?}");
    }
}
