//! One statement per construct that is understood well enough to be refused by name.

use super::fails;
use crate::sql::SqlError;

const REFUSED: &[(&str, &str)] = &[
    // table definitions
    ("CREATE TABLE t (a INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)", "WATERMARK"),
    ("CREATE TABLE t (a INT, b AS a + 1)", "computed column `b`"),
    ("CREATE TABLE t (a INT METADATA FROM 'x')", "METADATA"),
    ("CREATE TABLE t (a INT METADATA VIRTUAL)", "METADATA"),
    ("CREATE TABLE t (a INT DEFAULT 1)", "DEFAULT"),
    ("CREATE TABLE t (a INT UNIQUE)", "UNIQUE"),
    ("CREATE TABLE t (a INT, UNIQUE (a))", "constraint UNIQUE"),
    ("CREATE TABLE t (a INT, CONSTRAINT c CHECK (a > 1))", "constraint `CHECK`"),
    ("CREATE TABLE t (a INT, PRIMARY KEY (a))", "an enforced PRIMARY KEY"),
    ("CREATE TABLE t (a INT) PARTITIONED BY (a)", "PARTITIONED BY"),
    ("CREATE TABLE t (a INT) DISTRIBUTED BY HASH(a) INTO 4 BUCKETS", "DISTRIBUTED BY"),
    ("CREATE TABLE t (a INT) WITH ('connector' = 'x') LIKE s", "LIKE in CREATE TABLE"),
    ("CREATE TABLE t LIKE s", "LIKE in CREATE TABLE"),
    ("CREATE TABLE t AS SELECT 1", "CREATE TABLE AS SELECT"),
    ("CREATE TABLE t WITH ('connector' = 'x') AS SELECT 1", "CREATE TABLE AS SELECT"),
    ("CREATE TEMPORARY TABLE t (a INT) ON COMMIT DROP", "ON COMMIT"),
    ("CREATE OR REPLACE TABLE t (a INT)", "CREATE OR REPLACE TABLE"),
    ("CREATE TABLE t (a MULTISET<INT>)", "data type `MULTISET`"),
    ("CREATE TABLE t (a INTERVAL DAY)", "data type `INTERVAL`"),
    ("CREATE TABLE t (a TIMESTAMP(3) WITH TIME ZONE)", "TIMESTAMP WITH TIME ZONE"),
    ("CREATE MATERIALIZED TABLE t AS SELECT 1", "CREATE MATERIALIZED"),
    ("CREATE EXTERNAL TABLE t (a INT)", "CREATE EXTERNAL"),
    ("CREATE FUNCTION f AS 'x'", "CREATE FUNCTION"),
    ("CREATE CATALOG c", "CREATE CATALOG"),
    ("CREATE DATABASE d", "CREATE DATABASE"),
    ("CREATE VIEW v (a COMMENT 'x') AS SELECT 1", "COMMENT on a view's column"),
    ("DROP DATABASE d", "DROP `DATABASE`"),
    // statements
    ("INSERT INTO t SELECT 1", "statement INSERT"),
    ("UPDATE t SET a = 1", "statement UPDATE"),
    ("DELETE FROM t", "statement DELETE"),
    ("MERGE INTO t USING s ON a = b WHEN MATCHED THEN DELETE", "statement MERGE"),
    ("ALTER TABLE t ADD (a INT)", "statement ALTER"),
    ("TRUNCATE TABLE t", "statement TRUNCATE"),
    ("ANALYZE TABLE t COMPUTE STATISTICS", "statement ANALYZE"),
    ("EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1; END", "statement EXECUTE"),
    ("WITH x AS (SELECT 1) INSERT INTO t SELECT * FROM x", "a statement that changes data"),
    ("SHOW TABLES LIKE 'a%'", "after SHOW TABLES"),
    ("DESCRIBE EXTENDED t", "DESCRIBE EXTENDED"),
    ("EXPLAIN CHANGELOG_MODE SELECT 1", "EXPLAIN CHANGELOG_MODE"),
    ("USE MODULES core", "USE MODULES"),
    // hints
    ("SELECT /*+ BROADCAST(t) */ a FROM t", "hint `/*+ BROADCAST(t) */`"),
    ("SELECT a FROM t /*+ OPTIONS('k' = 'v') */", "hint `/*+ OPTIONS('k' = 'v') */`"),
    ("/*+ X */ SELECT 1", "hint `/*+ X */`"),
    // tables
    ("SELECT * FROM t FOR SYSTEM_TIME AS OF TIMESTAMP '2020-01-01 00:00:00'", "FOR SYSTEM_TIME AS OF"),
    ("SELECT * FROM a JOIN t FOR SYSTEM_TIME AS OF a.ts AS b ON a.x = b.x", "FOR SYSTEM_TIME AS OF"),
    ("SELECT * FROM t TABLESAMPLE BERNOULLI (10)", "TABLESAMPLE"),
    ("SELECT * FROM t WITH (NOLOCK)", "WITH (…) after a table"),
    ("SELECT * FROM f(1)", "table function `f`"),
    ("SELECT * FROM range(10) AS r(i)", "table function `range`"),
    ("SELECT * FROM TABLE(f(1))", "TABLE("),
    ("SELECT * FROM a, LATERAL (SELECT * FROM b WHERE b.x = a.x) c", "LATERAL"),
    ("SELECT * FROM a, LATERAL f(a.x)", "LATERAL table function `f`"),
    ("SELECT * FROM a.b.c.d", "has 4 parts"),
    ("SELECT * FROM t UNPIVOT (v FOR n IN (a, b))", "UNPIVOT"),
    ("SELECT * FROM t PIVOT (SUM(a) FOR b IN (1, 2))", "PIVOT"),
    (
        "SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY a ORDER BY b MEASURES a AS x PATTERN (A B) DEFINE A AS a > 1)",
        "MATCH_RECOGNIZE",
    ),
    ("SELECT * FROM UNNEST(ARRAY[1]) WITH ORDINALITY", "table function `UNNEST`"),
    // joins
    ("SELECT * FROM a RIGHT JOIN b USING (x)", "USING or NATURAL with a RIGHT or FULL join"),
    ("SELECT * FROM a FULL JOIN b USING (x)", "USING or NATURAL with a RIGHT or FULL join"),
    ("SELECT * FROM a NATURAL FULL JOIN b", "USING or NATURAL with a RIGHT or FULL join"),
    ("SELECT * FROM (a NATURAL RIGHT JOIN b)", "USING or NATURAL with a RIGHT or FULL join"),
    ("SELECT * FROM a CROSS APPLY f(a.x)", "APPLY"),
    ("SELECT * FROM a ANTI JOIN b ON a.x = b.x", "ANTI JOIN"),
    ("SELECT * FROM a GLOBAL JOIN b ON a.x = b.x", "GLOBAL JOIN"),
    // queries
    ("WITH RECURSIVE r AS (SELECT 1) SELECT * FROM r", "WITH RECURSIVE"),
    ("SELECT * FROM t FOR UPDATE", "FOR UPDATE"),
    ("SELECT * FROM t FOR SHARE", "FOR UPDATE or FOR SHARE"),
    ("SELECT * FROM t FETCH FIRST 3 ROWS WITH TIES", "WITH TIES"),
    ("SELECT * FROM t FETCH FIRST 3 PERCENT ROWS ONLY", "PERCENT"),
    ("SELECT * FROM t LIMIT 1 FETCH FIRST 3 ROWS ONLY", "FETCH together with LIMIT"),
    ("SELECT 1 INTERSECT ALL SELECT 1", "INTERSECT ALL"),
    ("SELECT 1 EXCEPT ALL SELECT 1", "EXCEPT ALL"),
    ("SELECT 1 UNION BY NAME SELECT 1", "BY NAME"),
    ("(SELECT 1 EXCEPT ALL SELECT 1) UNION ALL SELECT 2", "EXCEPT ALL"),
    ("SELECT DISTINCT ON (a) a FROM t", "SELECT DISTINCT ON"),
    ("SELECT TOP 3 a FROM t", "TOP"),
    ("SELECT a INTO s FROM t", "SELECT INTO"),
    ("SELECT a FROM t LATERAL VIEW explode(b) x", "LATERAL VIEW"),
    ("SELECT a FROM t SORT BY a", "SORT BY"),
    ("SELECT a FROM t CLUSTER BY a", "CLUSTER BY"),
    ("SELECT a FROM t DISTRIBUTE BY a", "DISTRIBUTE BY"),
    ("SELECT a, COUNT(*) FROM t GROUP BY ALL", "GROUP BY ALL"),
    // expressions
    ("SELECT ?", "parameter `?`"),
    ("SELECT $1", "parameter `$1`"),
    ("SELECT CAST(a AS BINARY(3)) FROM t", "CAST to BINARY(3)"),
    ("SELECT CAST(a AS UUID) FROM t", "data type `UUID` is not supported"),
    ("SELECT CAST(a AS TIMESTAMP WITH TIME ZONE) FROM t", "TIMESTAMP WITH TIME ZONE"),
    ("SELECT CAST(a AS UNSIGNED) FROM t", "data type"),
    ("SELECT a COLLATE x FROM t", "COLLATE"),
    ("SELECT CAST(a AS DATE FORMAT 'YYYY') FROM t", "FORMAT"),
];

#[test]
fn each_construct_is_refused_by_name() {
    let mut wrong = Vec::new();
    for (text, part) in REFUSED {
        let error = fails(text);
        let refused = matches!(error, SqlError::Unsupported { .. } | SqlError::Invalid { .. });
        if !refused || !error.to_string().contains(part) {
            wrong.push(format!("{text}\n    expected …{part}…, got {error:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Syntax of other dialects must not slip through either, whatever the error is called.
#[test]
fn other_dialects_are_not_accepted() {
    for text in [
        "FROM t SELECT a",
        "SELECT * FROM t SETTINGS x = 1",
        "SELECT * FROM t FORMAT JSON",
        "SELECT a FROM t PREWHERE b",
        "SELECT a FROM t LIMIT 1 BY a",
        "SELECT a FROM t |> WHERE a > 1",
        "SELECT a FROM t START WITH a = 1 CONNECT BY PRIOR a = b",
        "SELECT a FROM t ORDER BY a WITH FILL",
        "SELECT * EXCLUDE (a) FROM t",
        "SELECT * EXCEPT (a) FROM t",
        "SELECT * REPLACE (1 AS a) FROM t",
        "SELECT FROM t",
        "SELECT a FROM t GROUP BY a WITH ROLLUP",
        "SELECT a FROM t FOR XML AUTO",
        "SELECT #a FROM t",
        "SELECT @a FROM t",
        "SELECT {fn abs(1)}",
        "SELECT a FROM t LIMIT 1, 2",
        "SELECT f(1)(2)",
        "WITH r AS MATERIALIZED (SELECT 1) SELECT * FROM r",
        "SELECT CAST(1 AS INT",
        "TABLE t",
        "SELECT 1 SELECT 2",
        "SELECT 1; SELECT 2",
        "COPY t TO 'x'",
        "SELECT 1,",
    ] {
        fails(text);
    }
}
