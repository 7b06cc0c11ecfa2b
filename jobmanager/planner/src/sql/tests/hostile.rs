//! No text panics, overflows the stack or takes for ever.

use std::time::{Duration, Instant};

use proptest::prelude::*;

use crate::sql::{SqlError, parse_statement, split_script};

/// Runs on a small stack, as a thread of a server would.
fn on_small_stack<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    std::thread::Builder::new().stack_size(2 << 20).spawn(work).unwrap().join().unwrap()
}

fn must_be_refused_as_complex(text: String) {
    let begin = text.chars().take(60).collect::<String>();
    let error = on_small_stack(move || parse_statement(&text).err());
    assert!(matches!(error, Some(SqlError::TooComplex { .. })), "{begin}… gave {error:?}");
}

#[test]
fn deep_nesting_is_an_error() {
    let depth = 10_000;
    must_be_refused_as_complex(format!("SELECT {}1{}", "(".repeat(depth), ")".repeat(depth)));
    must_be_refused_as_complex(format!("SELECT {}", "(".repeat(depth)));
    must_be_refused_as_complex(format!("SELECT {}1{}", "abs(".repeat(depth), ")".repeat(depth)));
    must_be_refused_as_complex(format!("SELECT * FROM {}t{}", "(".repeat(depth), ")".repeat(depth)));
    must_be_refused_as_complex(format!("{}SELECT 1{}", "SELECT * FROM (".repeat(depth), ")".repeat(depth)));
    must_be_refused_as_complex(format!("SELECT {}1{}", "ARRAY[".repeat(depth), "]".repeat(depth)));
    must_be_refused_as_complex(format!("SELECT {} TRUE", "NOT ".repeat(2000)));
    must_be_refused_as_complex(format!("SELECT {} 1", "- ".repeat(2000)));
    must_be_refused_as_complex(format!("SELECT {} 1", "CASE WHEN ".repeat(depth)));
    must_be_refused_as_complex(format!("CREATE TABLE t (a {}INT{})", "ARRAY<".repeat(depth), ">".repeat(depth)));
    must_be_refused_as_complex(format!("CREATE TABLE t (a {}INT{})", "ROW<a ".repeat(depth), ">".repeat(depth)));
    must_be_refused_as_complex(format!("SELECT CAST(1 AS {}INT{})", "ARRAY<".repeat(depth), ">".repeat(depth)));
}

#[test]
fn long_chains_are_an_error() {
    must_be_refused_as_complex(format!("SELECT 1{}", " + 1".repeat(100_000)));
    must_be_refused_as_complex(format!("SELECT a{} FROM t", "::INT".repeat(50_000)));
    must_be_refused_as_complex(format!("SELECT a FROM t WHERE a{}", " IS NULL".repeat(50_000)));
    must_be_refused_as_complex(format!("SELECT 1{}", " UNION ALL SELECT 1".repeat(10_000)));
    must_be_refused_as_complex(format!("SELECT 1 FROM t{}", " JOIN t ON TRUE".repeat(10_000)));
    must_be_refused_as_complex(format!("SELECT 1 FROM t{}", ", t".repeat(10_000)));
    must_be_refused_as_complex(format!("SELECT '{}'", "x".repeat(2 << 20)));
}

#[test]
fn what_generated_queries_look_like_is_accepted() {
    let ok = |text: String| on_small_stack(move || parse_statement(&text).map(drop)).unwrap();
    ok(format!("SELECT a FROM t WHERE a IN ({}1)", "1, ".repeat(50_000)));
    ok(format!("VALUES {}(1, 'x')", "(1, 'x'), ".repeat(20_000)));
    ok(format!("SELECT a FROM t WHERE {} a = 1", "a = 1 OR ".repeat(390)));
    ok(format!("SELECT {}1{}", "(".repeat(40), ")".repeat(40)));
    ok(format!("SELECT 1{}", " UNION ALL SELECT 1".repeat(200)));
    ok(format!("SELECT CASE {} END FROM t", "WHEN a = 1 THEN 2 ".repeat(5_000)));
}

#[test]
fn nested_brackets_that_end_in_an_error_are_refused_quickly() {
    for open in [
        "(",
        "(SELECT * FROM (",
        "((SELECT * FROM ",
        "f((",
        "CASE WHEN (",
        "EXISTS (SELECT (",
        "CAST((",
        "SUBSTRING(",
        "NOT (",
        "INTERVAL (",
        "x IN ((SELECT ",
        "(((((((",
    ] {
        for repeats in [3, 6, 9, 12, 18, 24, 30, 40] {
            let expression = format!("SELECT * FROM t WHERE x = {}", open.repeat(repeats));
            let table = format!("SELECT * FROM {}", open.repeat(repeats));
            let start = Instant::now();
            assert!(parse_statement(&expression).is_err() && parse_statement(&table).is_err());
            assert!(start.elapsed() < Duration::from_secs(2), "{open} x {repeats} took {:?}", start.elapsed());
        }
    }
}

const WORDS: &[&str] = &[
    "SELECT",
    "FROM",
    "WHERE",
    "GROUP",
    "BY",
    "ORDER",
    "LIMIT",
    "UNION",
    "ALL",
    "JOIN",
    "LEFT",
    "ON",
    "USING",
    "AS",
    "CASE",
    "WHEN",
    "THEN",
    "ELSE",
    "END",
    "CAST",
    "(",
    ")",
    ",",
    ".",
    "*",
    "+",
    "-",
    "/",
    "=",
    "<",
    ">",
    ">>",
    "<=",
    "||",
    "::",
    "[",
    "]",
    "{",
    "}",
    ";",
    ":",
    "?",
    "$1",
    "@",
    "#",
    "!",
    "%",
    "&",
    "|",
    "^",
    "~",
    "a",
    "b",
    "`q`",
    "\"d\"",
    "'s'",
    "1",
    "1.5",
    "1e9",
    "999999999999999999999",
    "NULL",
    "TRUE",
    "NOT",
    "AND",
    "OR",
    "IN",
    "IS",
    "LIKE",
    "ESCAPE",
    "BETWEEN",
    "EXISTS",
    "INTERVAL",
    "DATE",
    "TIME",
    "TIMESTAMP",
    "TIMESTAMP_LTZ",
    "WITH",
    "LOCAL",
    "ZONE",
    "RECURSIVE",
    "VALUES",
    "ROW",
    "ARRAY",
    "MAP",
    "OVER",
    "PARTITION",
    "ROWS",
    "RANGE",
    "FILTER",
    "WITHIN",
    "EXTRACT",
    "TRIM",
    "SUBSTRING",
    "POSITION",
    "OVERLAY",
    "CREATE",
    "TABLE",
    "VIEW",
    "DROP",
    "IF",
    "TEMPORARY",
    "PRIMARY",
    "KEY",
    "ENFORCED",
    "COMMENT",
    "DECIMAL",
    "VARCHAR",
    "STRING",
    "INT",
    "DESCRIBE",
    "EXPLAIN",
    "ANALYZE",
    "SHOW",
    "TABLES",
    "SET",
    "RESET",
    "USE",
    "CATALOG",
    "FOR",
    "SYSTEM_TIME",
    "OF",
    "TABLESAMPLE",
    "LATERAL",
    "UNNEST",
    "MATCH_RECOGNIZE",
    "PATTERN",
    "DEFINE",
    "PIVOT",
    "FETCH",
    "FIRST",
    "ONLY",
    "OFFSET",
    "/*+ H */",
    "/* c */",
    "-- c\n",
    "\n",
    "\u{e9}",
    "\u{1f40d}",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn token_soup_does_not_panic(words in prop::collection::vec(prop::sample::select(WORDS), 0..40)) {
        let text = words.join(" ");
        if let Ok(statements) = split_script(&text) {
            for statement in statements {
                let _ = parse_statement(&statement.text);
            }
        }
        let _ = parse_statement(&text);
    }

    #[test]
    fn soup_after_a_good_beginning_does_not_panic(
        head in prop::sample::select(&["SELECT a FROM t ", "CREATE TABLE t (", "CREATE VIEW v AS ", "SELECT CAST(a AS ", "SET "]),
        words in prop::collection::vec(prop::sample::select(WORDS), 0..12),
    ) {
        let _ = parse_statement(&format!("{head}{}", words.join(" ")));
    }

    #[test]
    fn any_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let text = String::from_utf8_lossy(&bytes);
        let _ = split_script(&text);
        let _ = parse_statement(&text);
    }

    #[test]
    fn any_characters_do_not_panic(text in "\\PC{0,60}") {
        let _ = split_script(&text);
        let _ = parse_statement(&text);
        let _ = parse_statement(&format!("SELECT {text}"));
    }

    /// Cutting and parsing agree on what a string and a comment is.
    #[test]
    fn a_script_of_one_literal_is_one_statement(literal in "[a-z;' \"`/*\n-]{0,30}") {
        let quoted = format!("SELECT '{}'", literal.replace('\'', "''"));
        let statements = split_script(&format!("{quoted};")).unwrap();
        prop_assert_eq!(statements.len(), 1);
        prop_assert_eq!(&statements[0].text, &quoted);
        prop_assert!(parse_statement(&quoted).is_ok());
    }
}
