use super::{fails, name, parse, rewritten};
use crate::sql::Statement;

#[test]
fn settings() {
    let set = |key: &str, value: &str| Statement::Set { key: key.to_string(), value: value.to_string() };
    assert_eq!(parse("SET 'table.local-time-zone' = 'Asia/Kolkata';"), set("table.local-time-zone", "Asia/Kolkata"));
    assert_eq!(parse("set 'a' = 'it''s'"), set("a", "it's"));
    assert_eq!(parse("SET execution.checkpoint-interval = 3s"), set("execution.checkpoint-interval", "3s"));
    assert_eq!(parse("SET"), Statement::SetList);
    assert_eq!(parse("SET ;"), Statement::SetList);
    assert_eq!(parse("RESET"), Statement::Reset { key: None });
    assert_eq!(parse("RESET 'a.b-c'"), Statement::Reset { key: Some("a.b-c".to_string()) });
    for text in ["SET 'a'", "SET 'a' =", "SET = 'b'", "SET 'a' = 'b' 'c'", "RESET 'a' 'b'"] {
        fails(text);
    }
}

#[test]
fn short_statements() {
    assert_eq!(parse("SHOW TABLES;"), Statement::ShowTables);
    assert_eq!(parse("show views"), Statement::ShowViews);
    assert_eq!(parse("SHOW CREATE TABLE t"), Statement::ShowCreateTable { name: name(&["t"]) });
    assert_eq!(parse("SHOW CREATE VIEW `v w`"), Statement::ShowCreateView { name: name(&["v w"]) });
    assert_eq!(parse("DESCRIBE a.b.c"), Statement::Describe { name: name(&["a", "b", "c"]) });
    assert_eq!(parse("DESC Orders"), Statement::Describe { name: name(&["Orders"]) });
    assert_eq!(parse("USE CATALOG default_catalog"), Statement::UseCatalog { catalog: "default_catalog".to_string() });
    assert_eq!(parse("USE c.d"), Statement::UseDatabase { name: name(&["c", "d"]) });
    assert_eq!(parse("DROP TABLE IF EXISTS t"), Statement::DropTable { name: name(&["t"]), if_exists: true });
    assert_eq!(parse("DROP TEMPORARY VIEW v"), Statement::DropView { name: name(&["v"]), if_exists: false });
    for text in
        ["SHOW", "SHOW TABLES FROM x", "DESCRIBE", "USE a.b.c", "DROP TABLE a, b", "DROP t", "SHOW TABLES LIKE 'x'"]
    {
        fails(text);
    }
}

#[test]
fn explain_takes_queries_only() {
    for (text, expected) in [
        ("EXPLAIN SELECT 1", false),
        ("EXPLAIN PLAN FOR SELECT 1", false),
        ("explain analyze WITH x AS (SELECT 1) SELECT * FROM x", true),
    ] {
        match parse(text) {
            Statement::Explain { analyze, .. } => assert_eq!(analyze, expected, "{text}"),
            other => panic!("{other:?}"),
        }
    }
    fails("EXPLAIN DROP TABLE t");
    fails("EXPLAIN EXPLAIN SELECT 1");
    fails("EXPLAIN");
}

#[test]
fn queries_keep_their_text_and_their_identifiers() {
    let Statement::Query(query) = parse("SELECT a, A, `select` FROM T -- tail\n;") else { panic!() };
    assert!(query.text.starts_with("SELECT a, A, `select` FROM T"));
    assert_eq!(query.ast.to_string(), "SELECT a, A, `select` FROM T");
    assert_eq!(rewritten("SELECT \"x y\" FROM t"), "SELECT \"x y\" FROM t");
}

#[test]
fn exponents_become_doubles_and_large_integers_decimals() {
    assert_eq!(rewritten("SELECT 1e-1"), "SELECT CAST('1e-1' AS DOUBLE)");
    assert_eq!(rewritten("SELECT 0.1, 12, 1.50"), "SELECT 0.1, 12, 1.50");
    assert_eq!(rewritten("SELECT 9223372036854775807"), "SELECT 9223372036854775807");
    assert_eq!(rewritten("SELECT 9223372036854775808"), "SELECT CAST('9223372036854775808' AS DECIMAL(19,0))");
    assert_eq!(rewritten("SELECT -9223372036854775808"), "SELECT -9223372036854775808");
    let digits = "12345678901234567890.123456789012345678";
    assert_eq!(rewritten(&format!("SELECT {digits}")), format!("SELECT {digits}"));
    assert!(fails(&format!("SELECT {digits}9")).to_string().contains("39 digits"));
    assert!(fails("SELECT 1e999").to_string().contains("out of the range"));
}

#[test]
fn casts_to_bounded_strings_cut_and_pad() {
    assert_eq!(rewritten("SELECT CAST(a AS VARCHAR(3)) FROM t"), "SELECT left(CAST(a AS STRING), 3) FROM t");
    assert_eq!(rewritten("SELECT TRY_CAST(a AS CHAR(3)) FROM t"), "SELECT rpad(TRY_CAST(a AS STRING), 3) FROM t");
    assert_eq!(rewritten("SELECT CAST(a AS VARCHAR) FROM t"), "SELECT CAST(a AS VARCHAR) FROM t");
}

#[test]
fn local_time_zone_is_a_type() {
    let sql = "SELECT CAST(a AS TIMESTAMP_LTZ(3)) FROM t";
    assert_eq!(rewritten("SELECT CAST(a AS TIMESTAMP(3) WITH LOCAL TIME ZONE) FROM t"), sql);
    assert_eq!(
        rewritten("SELECT CAST(a AS timestamp with local time zone) FROM t"),
        "SELECT CAST(a AS TIMESTAMP_LTZ) FROM t"
    );
}

#[test]
fn fetch_is_a_limit() {
    assert_eq!(rewritten("SELECT a FROM t FETCH FIRST 3 ROWS ONLY"), "SELECT a FROM t LIMIT 3");
    assert_eq!(rewritten("SELECT a FROM t FETCH NEXT ROW ONLY"), "SELECT a FROM t LIMIT 1");
    assert_eq!(
        rewritten("SELECT a FROM t OFFSET 2 ROWS FETCH FIRST 3 ROWS ONLY"),
        "SELECT a FROM t LIMIT 3 OFFSET 2 ROWS"
    );
}
