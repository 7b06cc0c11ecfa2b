use super::Fixture;

fn fixture() -> Fixture {
    Fixture::with("CREATE TABLE t (a INT, b STRING) WITH ('connector' = 'values', 'rows' = '[[1, \"x\"]]')")
}

#[test]
fn a_view_is_unfolded_where_it_is_used() {
    let mut fixture = fixture();
    fixture.run_all(
        "CREATE VIEW v (n, `Up`) AS SELECT a + 1, UPPER(b) FROM t WHERE a > 0;
         CREATE VIEW w AS SELECT n, `Up` FROM v WHERE n > 1;",
    );
    let plan = fixture.optimized("SELECT w1.n, w2.`Up` FROM w AS w1 JOIN w AS w2 ON w1.n = w2.n ORDER BY 1");
    assert_eq!(plan.matches("TableScan: ").count(), 2, "{plan}");
    assert!(!plan.contains("TableScan: w") && !plan.contains("TableScan: v"), "{plan}");
    assert!(fixture.error("SELECT a FROM v").to_string().contains("column `a` not found"));
}

#[test]
fn a_cte_hides_a_view_and_a_table() {
    let mut fixture = fixture();
    fixture.done("CREATE VIEW v AS SELECT a FROM t");
    let plan = fixture.optimized("WITH v AS (SELECT 7 AS z), t AS (SELECT 8 AS y) SELECT z, y FROM v, t");
    assert!(!plan.contains("TableScan"), "{plan}");
    let plan = fixture.optimized("WITH v AS (SELECT a AS z FROM v) SELECT z FROM v");
    assert!(plan.contains("TableScan"), "{plan}");
}

#[test]
fn a_definition_is_checked_when_it_is_made() {
    let mut fixture = fixture();
    for (text, part) in [
        ("CREATE VIEW v AS SELECT nosuch FROM t", "column `nosuch` not found"),
        ("CREATE VIEW v AS SELECT 1 FROM nosuch", "`nosuch` not found"),
        ("CREATE VIEW v AS SELECT * FROM v", "`v` not found"),
        ("CREATE VIEW v (x) AS SELECT a, b FROM t", "names 1 columns, its query has 2"),
        ("CREATE VIEW v AS SELECT t.a, u.a FROM t JOIN t AS u ON t.a = u.a", "two columns `a`"),
        ("CREATE VIEW t AS SELECT 1 AS x", "table `t` exists already"),
        ("CREATE OR REPLACE VIEW t AS SELECT 1 AS x", "table `t` exists already"),
    ] {
        let message = fixture.error(text).to_string();
        assert!(message.contains(part), "{text}: {message}");
    }
    assert_eq!(fixture.rows("SHOW TABLES"), ["t"]);
    fixture.done("CREATE VIEW v (x, y) AS SELECT t.a, u.a FROM t JOIN t AS u ON t.a = u.a");
    fixture.done("CREATE VIEW IF NOT EXISTS v AS SELECT nosuch");
    fixture.done("CREATE OR REPLACE VIEW v AS SELECT a AS z FROM t");
    assert_eq!(fixture.rows("DESCRIBE v"), ["z|INT|true|N|N|N"]);
}

#[test]
fn a_view_cannot_read_itself() {
    let mut fixture = fixture();
    fixture.run_all("CREATE VIEW v AS SELECT a FROM t; CREATE VIEW w AS SELECT a FROM v;");
    let message = fixture.error("CREATE OR REPLACE VIEW v AS SELECT a FROM w").to_string();
    assert!(message.contains("reads itself"), "{message}");
    let plan = fixture.optimized("SELECT a FROM w"); // the old definition still stands
    assert!(plan.contains("TableScan"), "{plan}");
    fixture.run_all("DROP VIEW v; CREATE VIEW x AS SELECT 1 AS a;");
    let message = fixture.error("CREATE VIEW v AS SELECT a FROM w").to_string();
    assert!(message.contains("not found"), "{message}");
}

#[test]
fn views_of_views_have_a_bound() {
    let mut fixture = fixture();
    fixture.done("CREATE VIEW v0 AS SELECT a FROM t");
    let mut refused = None;
    for n in 1..40 {
        let previous = n - 1;
        let text = format!("CREATE VIEW v{n} AS SELECT x.a FROM v{previous} x JOIN v{previous} y ON x.a = y.a");
        if let Err(error) = fixture.run(&text) {
            refused = Some(error.to_string());
            break;
        }
    }
    let message = refused.expect("a doubling chain is stopped");
    assert!(message.contains("unfolds to more than"), "{message}");
}
