use super::Fixture;
use crate::error::PlanError;

const VALUES: &str = "WITH ('connector' = 'values', 'rows' = '[]')";

#[test]
fn tables_come_and_go() {
    let mut fixture = Fixture::new();
    assert_eq!(fixture.done(&format!("CREATE TABLE b (a INT) {VALUES}")), "table `b` created");
    fixture.done(&format!("CREATE TABLE default_catalog.default_database.A (a INT) {VALUES}"));
    fixture.done("CREATE VIEW c AS SELECT a FROM b");
    assert_eq!(fixture.rows("SHOW TABLES"), ["A", "b", "c"]);
    assert_eq!(fixture.rows("SHOW VIEWS"), ["c"]);
    let error = fixture.error(&format!("CREATE TABLE b (a INT) {VALUES}"));
    assert_eq!(error.to_string(), "table `b` exists already: drop it first, or write IF NOT EXISTS");
    assert!(fixture.done(&format!("CREATE TABLE IF NOT EXISTS b (x INT) {VALUES}")).contains("nothing done"));
    assert_eq!(fixture.error("DROP TABLE c").to_string(), "`c` is a view, not a table");
    assert_eq!(
        fixture.error("DROP TABLE B").to_string(),
        "table `B` not found; did you mean `b` or `A` or `c`? names are case-sensitive"
    );
    assert!(fixture.done("DROP TABLE IF EXISTS nothing").contains("nothing done"));
    assert_eq!(fixture.done("DROP TABLE b"), "table `b` dropped");
    assert_eq!(fixture.rows("SHOW TABLES"), ["A", "c"]);
    assert!(fixture.error("SELECT a FROM c").to_string().contains("`b` not found"));
}

#[test]
fn a_refused_table_leaves_nothing_behind() {
    let mut fixture = Fixture::new();
    for text in [
        "CREATE TABLE t (a INT) WITH ('connector' = 'nosuch')",
        "CREATE TABLE t (a INT)",
        "CREATE TABLE x.y.t (a INT) WITH ('connector' = 'values', 'rows' = '[]')",
        "CREATE TABLE t (a INT) WITH ('connector' = 'filesystem', 'path' = '/etc/passwd', 'format' = 'csv')",
    ] {
        fixture.error(text);
    }
    assert!(fixture.rows("SHOW TABLES").is_empty());
}

#[test]
fn describe_prints_what_flink_prints() {
    let mut fixture = Fixture::new();
    fixture.done(&format!(
        "CREATE TABLE t (id BIGINT COMMENT 'the key', c CHAR(3), d DECIMAL(5, 1) NOT NULL, ts TIMESTAMP_LTZ(3), \
         PRIMARY KEY (id) NOT ENFORCED) {VALUES}"
    ));
    assert_eq!(
        fixture.rows("DESCRIBE t"),
        [
            "id|BIGINT|false|PRI(id)|N|N|the key",
            "c|CHAR(3)|true|N|N|N|N",
            "d|DECIMAL(5, 1)|false|N|N|N|N",
            "ts|TIMESTAMP_LTZ(3)|true|N|N|N|N",
        ]
    );
    fixture.done("CREATE VIEW v AS SELECT c, COUNT(*) AS n FROM t GROUP BY c");
    assert_eq!(fixture.rows("DESCRIBE v"), ["c|STRING|true|N|N|N", "n|BIGINT|false|N|N|N"]);
    assert!(fixture.error("DESCRIBE w").to_string().contains("`w` not found"));
}

#[test]
fn show_create_gives_a_statement_that_works() {
    let mut fixture = Fixture::new();
    fixture.done(&format!(
        "CREATE TABLE `my t` (id BIGINT COMMENT 'it''s', `a b` STRING, PRIMARY KEY (id) NOT ENFORCED) COMMENT 'c' {VALUES}"
    ));
    let create = fixture.rows("SHOW CREATE TABLE `my t`").remove(0);
    let described = fixture.rows("DESCRIBE `my t`");
    fixture.done("DROP TABLE `my t`");
    fixture.done(&create);
    assert_eq!(fixture.rows("DESCRIBE `my t`"), described);
    assert_eq!(fixture.rows("SHOW CREATE TABLE `my t`").remove(0), create);
    fixture.done("CREATE VIEW v (x) AS SELECT id FROM `my t`");
    let create = fixture.rows("SHOW CREATE VIEW v").remove(0);
    fixture.done("DROP VIEW v");
    fixture.done(&create);
    assert_eq!(fixture.rows("DESCRIBE v").len(), 1);
}

#[test]
fn one_catalog_one_database() {
    let mut fixture = Fixture::new();
    assert_eq!(fixture.rows("SHOW CATALOGS"), ["default_catalog"]);
    assert_eq!(fixture.rows("SHOW DATABASES"), ["default_database"]);
    fixture.done("USE CATALOG default_catalog");
    fixture.done("USE default_catalog.default_database");
    assert!(fixture.error("USE other").to_string().contains("did you mean `default_database`"));
    assert!(fixture.error("USE CATALOG other").to_string().contains("did you mean `default_catalog`"));
}

#[test]
fn settings_are_the_callers() {
    let mut fixture = Fixture::new();
    for text in ["SET 'a' = 'b'", "SET", "RESET", "RESET 'a'"] {
        assert!(matches!(fixture.error(text), PlanError::Unsupported { .. }), "{text}");
    }
}
