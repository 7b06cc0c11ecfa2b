//! Where the dialect differs from DataFusion's own.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan};

use super::Fixture;

fn fixture() -> Fixture {
    Fixture::with(
        "CREATE TABLE t (id INT, Id BIGINT, name STRING, price DECIMAL(10, 2), ts TIMESTAMP_LTZ(3)) \
         WITH ('connector' = 'values', 'rows' = '[]');
         CREATE TABLE T (x INT) WITH ('connector' = 'values', 'rows' = '[[1]]');",
    )
}

/// Each sort key of the plan, windows included, as (ascending, nulls first).
fn sort_keys(plan: &LogicalPlan) -> Vec<(bool, bool)> {
    let mut keys = Vec::new();
    plan.apply(|node| {
        if let LogicalPlan::Sort(sort) = node {
            keys.extend(sort.expr.iter().map(|key| (key.asc, key.nulls_first)));
        }
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                if let Expr::WindowFunction(window) = expr {
                    keys.extend(window.params.order_by.iter().map(|key| (key.asc, key.nulls_first)));
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })
    .unwrap();
    keys
}

#[test]
fn nulls_are_the_smallest() {
    let mut fixture = fixture();
    for (order, expected) in [
        ("id", (true, true)),
        ("id ASC", (true, true)),
        ("id DESC", (false, false)),
        ("id NULLS LAST", (true, false)),
        ("id DESC NULLS FIRST", (false, true)),
    ] {
        let plan = fixture.plan(&format!("SELECT id FROM t ORDER BY {order}")).unwrap();
        assert_eq!(sort_keys(&plan), [expected], "{order}");
        let plan = fixture.plan(&format!("SELECT RANK() OVER (PARTITION BY name ORDER BY {order}) FROM t")).unwrap();
        assert!(
            sort_keys(&plan).iter().all(|key| *key == expected) && !sort_keys(&plan).is_empty(),
            "{order} in a window"
        );
        let union = format!("SELECT id FROM t UNION ALL SELECT id FROM t ORDER BY {order}");
        assert_eq!(sort_keys(&fixture.plan(&union).unwrap()), [expected], "{order} after UNION");
    }
    assert_eq!(fixture.values("SELECT x FROM (VALUES (2), (NULL), (1)) v(x) ORDER BY x"), ["N", "1", "2"]);
    assert_eq!(fixture.values("SELECT x FROM (VALUES (2), (NULL), (1)) v(x) ORDER BY x DESC"), ["2", "1", "N"]);
}

#[test]
fn identifiers_keep_their_case() {
    let mut fixture = fixture();
    let plan = fixture.plan("SELECT id, Id, `Id` AS `My Id` FROM t").unwrap();
    let names: Vec<&str> = plan.schema().fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(names, ["id", "Id", "My Id"]);
    fixture.plan("SELECT x FROM T").unwrap();
    assert_eq!(
        fixture.error("SELECT X FROM T").to_string(),
        "column `X` not found; did you mean `x`? names are case-sensitive"
    );
    assert_eq!(fixture.error("SELECT 1 FROM Parcel").to_string(), "table or view `Parcel` not found");
    fixture.plan("SELECT T.x FROM default_catalog.default_database.T JOIN `t` ON T.x = t.`id`").unwrap();
    fixture.plan("SELECT default_catalog.default_database.T.x FROM default_catalog.default_database.T").unwrap();
}

#[test]
fn functions_and_keywords_have_no_case() {
    let mut fixture = fixture();
    for query in [
        "SELECT COUNT(*), Count(id), count(DISTINCT id), SUM(id), Sum(id), sUm(id) FROM t",
        "select Upper(name), LOWER(name), SubString(name FROM 1 FOR 2), Extract(YEAR FROM DATE '2020-01-01') from t",
        "SELECT COALESCE(name, 'x'), NULLIF(id, 1), ABS(id), Cast(id AS String), CURRENT_DATE, CHAR_LENGTH(name) FROM t",
        "SELECT ROW_NUMBER() OVER (ORDER BY id), Lag(id) OVER (ORDER BY id), First_Value(id) OVER w FROM t WINDOW w AS (ORDER BY id)",
        "SELECT SUM(id) FILTER (WHERE id > 1) FROM t GROUP BY ROLLUP (name, Id)",
    ] {
        fixture.optimized(query);
    }
}

#[test]
fn a_column_may_be_selected_twice() {
    let mut fixture = fixture();
    let plan = fixture.plan("SELECT id, id, SUM(id), Sum(id), name, id FROM t GROUP BY id, name").unwrap();
    let names: Vec<&str> = plan.schema().fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(names, ["id", "id0", "sum(t.id)", "EXPR$3", "name", "id1"]);
}

#[test]
fn decimal_literals_are_exact() {
    let mut fixture = fixture();
    let (value, data_type) = fixture.value("SELECT 0.1 + 0.2");
    assert_eq!(value, "0.3");
    assert!(data_type.starts_with("Decimal128"), "{data_type}");
    let digits = "12345678901234567890.123456789012345678";
    assert_eq!(fixture.value(&format!("SELECT {digits}")), (digits.to_string(), "Decimal128(38, 18)".to_string()));
    assert_eq!(fixture.value("SELECT 1e-1"), ("0.1".to_string(), "Float64".to_string()));
    assert_eq!(fixture.value("SELECT -9223372036854775808"), ("-9223372036854775808".to_string(), "Int64".to_string()));
    assert_eq!(
        fixture.value("SELECT 9223372036854775808"),
        ("9223372036854775808".to_string(), "Decimal128(19, 0)".to_string())
    );
    assert_eq!(fixture.value("SELECT CAST(2.345 AS DECIMAL(10, 2))").0, "2.35");
    assert_eq!(fixture.value("SELECT CAST(-2.345 AS DECIMAL(10, 2))").0, "-2.35");
    assert_eq!(fixture.value("SELECT 7 / 2").0, "3");
    assert_eq!(fixture.value("SELECT CAST('7' AS DECIMAL)").1, "Decimal128(10, 0)");
}

#[test]
fn bounded_strings_are_cut_and_padded() {
    let mut fixture = fixture();
    assert_eq!(fixture.value("SELECT CAST('abcdef' AS VARCHAR(3))").0, "abc");
    assert_eq!(fixture.value("SELECT '[' || CAST('a' AS CHAR(3)) || ']'").0, "[a  ]");
    assert_eq!(fixture.value("SELECT CAST('abcdef' AS CHAR(2))").0, "ab");
    assert_eq!(fixture.value("SELECT CAST(12345 AS VARCHAR(3))").0, "123");
    assert_eq!(fixture.value("SELECT 'a ' = 'a'").0, "false");
}

#[test]
fn strings_are_never_views() {
    let mut fixture = fixture();
    for query in [
        "SELECT CAST(1 AS STRING)",
        "SELECT CAST(1 AS VARCHAR)",
        "SELECT 'x'",
        "SELECT 'a' || 'b'",
        "SELECT UPPER('x')",
    ] {
        assert_eq!(fixture.value(query).1, "Utf8", "{query}");
    }
    assert_eq!(fixture.plan("SELECT name FROM t").unwrap().schema().field(0).data_type().to_string(), "Utf8");
}

#[test]
fn timestamps_have_microseconds_and_the_sessions_zone() {
    let mut fixture = fixture();
    let (value, data_type) = fixture.value("SELECT TIMESTAMP '2021-03-14 01:30:00.123456'");
    assert_eq!((value.as_str(), data_type.as_str()), ("2021-03-14T01:30:00.123456", "Timestamp(µs)"));
    fixture.options.time_zone = "America/Los_Angeles".to_string();
    let instant = "SELECT CAST(CAST('2021-03-14 01:30:00' AS TIMESTAMP_LTZ(3)) AS BIGINT)";
    assert_eq!(fixture.value(instant).0, "1615714200000000");
    fixture.options.time_zone = "UTC".to_string();
    assert_eq!(fixture.value(instant).0, "1615685400000000");
    fixture.options.time_zone = "Mars/Olympus".to_string();
    assert!(fixture.error("SELECT 1").to_string().starts_with("setting 'table.local-time-zone' = 'Mars/Olympus'"));
}

#[test]
fn rand_is_volatile_and_in_range() {
    let mut fixture = fixture();
    let rows = "(VALUES (1), (2), (3), (4)) v(x)";
    for call in ["RAND()", "rand(7)", "Rand(x)"] {
        let values = fixture.values(&format!("SELECT {call} FROM {rows}"));
        let mut numbers: Vec<f64> = values.iter().map(|value| value.parse().unwrap()).collect();
        assert!(numbers.iter().all(|number| (0.0..1.0).contains(number)), "{call}: {numbers:?}");
        numbers.sort_by(f64::total_cmp);
        numbers.dedup();
        assert_eq!(numbers.len(), 4, "{call} repeats itself: {values:?}");
    }
    let first = fixture.values(&format!("SELECT RAND() FROM {rows}"));
    assert_ne!(first, fixture.values(&format!("SELECT RAND() FROM {rows}")));
    assert!(fixture.optimized("SELECT RAND() FROM T").contains("rand()"), "RAND() was folded to a constant");
}

#[test]
fn modifiers_on_scalar_functions_are_refused() {
    let mut fixture = fixture();
    for (call, modifier) in [
        ("ABS(id) FILTER (WHERE id > 1)", "FILTER"),
        ("ABS(DISTINCT id)", "DISTINCT"),
        ("ABS(id) OVER (ORDER BY id)", "OVER"),
        ("UPPER(name) IGNORE NULLS", "IGNORE NULLS"),
    ] {
        let message = fixture.error(&format!("SELECT {call} FROM t")).to_string();
        assert!(message.contains(modifier) && message.contains("scalar function"), "{call}: {message}");
    }
}

#[test]
fn errors_are_the_users_and_without_backtraces() {
    let mut fixture = fixture();
    for (query, part) in [
        ("SELECT nme FROM t", "did you mean `name`"),
        ("SELECT x.id FROM t", "column `x.id` not found"),
        ("SELECT id FROM t JOIN T ON TRUE JOIN t AS u ON TRUE", "ambiguous"),
        ("SELECT nosuch(id) FROM t", "nosuch"),
        ("SELECT id FROM t GROUP BY name", "id"),
        ("SELECT SUM(name) FROM t", ""),
        ("SELECT a FROM nocat.nodb.t", "catalog `nocat` not found; did you mean `default_catalog`"),
        ("SELECT a FROM nodb.t", "database `nodb` not found"),
        ("SELECT 1 FROM tt", "did you mean `T` or `t`"),
        ("SELECT id FROM t UNION ALL SELECT id, name FROM t", ""),
    ] {
        let error = match fixture.run(query) {
            Err(error) => error,
            Ok(_) => panic!("{query}\nwas accepted"),
        };
        let message = error.to_string();
        assert!(message.contains(part), "{query}: {message}");
        assert_eq!(error.fault(), thalweg_types::Fault::User, "{query}: {message}");
        for noise in ["backtrace", "Error during planning", "Schema error", "DataFusion"] {
            assert!(!message.contains(noise), "{query}: {message}");
        }
    }
}

/// As a server's thread runs it, through the session to the placeholder or real compiler.
#[test]
fn the_largest_accepted_queries_plan_on_a_small_stack() {
    let sums = format!("SELECT x{} FROM T", " + x".repeat(390));
    let ors = format!("SELECT x FROM T WHERE {} x = 1", "x = 1 OR ".repeat(390));
    let unions = format!("SELECT x FROM T{}", " UNION ALL SELECT x FROM T".repeat(190));
    let joined: String = (0..40).map(|n| format!(" JOIN T AS u{n} ON u{n}.x = T.x")).collect();
    let joins = format!("SELECT T.x FROM T{joined}");
    let nested = format!("{}SELECT x FROM T{}", "SELECT x FROM (".repeat(30), ") AS s".repeat(30));
    let calls = |depth| format!("SELECT {}x{} FROM T", "ABS(".repeat(depth), ")".repeat(depth));
    let plan = |query: String| {
        let work = move || fixture().run(&query).map(drop);
        std::thread::Builder::new().stack_size(2 << 20).spawn(work).unwrap().join().unwrap()
    };
    for query in [sums, ors, unions, joins, nested, calls(40)] {
        let begin: String = query.chars().take(60).collect();
        let result = plan(query);
        assert!(result.is_ok(), "{begin}… {}", result.unwrap_err());
    }
    // deeper than a message to a task may be: planned and encoded to its end, then refused
    let refused = plan(calls(90)).unwrap_err().to_string();
    assert!(refused.contains("too many levels"), "{refused}");
}
