use super::{fails, name, parse};
use crate::sql::{CreateTable, CreateView, Field, SqlType, Statement};

fn table(text: &str) -> CreateTable {
    match parse(text) {
        Statement::CreateTable(table) => table,
        other => panic!("{text}\nis {other:?}"),
    }
}

fn view(text: &str) -> CreateView {
    match parse(text) {
        Statement::CreateView(view) => view,
        other => panic!("{text}\nis {other:?}"),
    }
}

fn type_of(text: &str) -> SqlType {
    table(&format!("CREATE TABLE t (c {text})")).columns.remove(0).sql_type
}

#[test]
fn a_whole_table() {
    let table = table(
        "CREATE TEMPORARY TABLE IF NOT EXISTS cat.db.`My Table` (\n\
           id BIGINT NOT NULL COMMENT 'it''s the key',\n\
           `Name` STRING,\n\
           amount DECIMAL(18, 2) NULL,\n\
           CONSTRAINT pk PRIMARY KEY (id, `Name`) NOT ENFORCED\n\
         ) COMMENT 'about' WITH ('connector' = 'filesystem', 'path' = '/data')",
    );
    assert_eq!(table.name, name(&["cat", "db", "My Table"]));
    assert!(table.if_not_exists && table.temporary);
    let columns: Vec<_> = table.columns.iter().map(|c| (c.name.as_str(), c.sql_type.to_string(), c.not_null)).collect();
    assert_eq!(
        columns,
        [
            ("id", "BIGINT".to_string(), true),
            ("Name", "STRING".to_string(), true), // part of the key
            ("amount", "DECIMAL(18, 2)".to_string(), false),
        ]
    );
    assert_eq!(table.columns[0].comment.as_deref(), Some("it's the key"));
    assert_eq!(table.primary_key, ["id", "Name"]);
    assert_eq!(table.comment.as_deref(), Some("about"));
    assert_eq!(table.options["connector"], "filesystem");
    assert_eq!(table.options["path"], "/data");
}

#[test]
fn columns_and_options_may_be_absent() {
    let with_options = table("CREATE TABLE t WITH ('connector' = 'tpch')");
    assert!(with_options.columns.is_empty() && with_options.options.len() == 1);
    let with_columns = table("CREATE TABLE t (a INT PRIMARY KEY NOT ENFORCED, b INT)");
    assert_eq!(with_columns.primary_key, ["a"]);
    assert!(with_columns.columns[0].not_null && with_columns.options.is_empty());
}

#[test]
fn types_have_flinks_names_and_defaults() {
    for (text, shown) in [
        ("BOOLEAN", "BOOLEAN"),
        ("tinyint", "TINYINT"),
        ("INTEGER", "INT"),
        ("FLOAT", "FLOAT"),
        ("DOUBLE PRECISION", "DOUBLE"),
        ("DEC", "DECIMAL(10, 0)"),
        ("NUMERIC(5)", "DECIMAL(5, 0)"),
        ("DECIMAL(38, 38)", "DECIMAL(38, 38)"),
        ("CHAR", "CHAR(1)"),
        ("VARCHAR(25)", "VARCHAR(25)"),
        ("VARCHAR", "STRING"),
        ("BYTES", "BYTES"),
        ("VARBINARY(4)", "VARBINARY(4)"),
        ("TIME", "TIME(0)"),
        ("TIMESTAMP", "TIMESTAMP(6)"),
        ("TIMESTAMP(3) WITHOUT TIME ZONE", "TIMESTAMP(3)"),
        ("TIMESTAMP(9) WITH LOCAL TIME ZONE", "TIMESTAMP_LTZ(9)"),
        ("TIMESTAMP_LTZ", "TIMESTAMP_LTZ(6)"),
        ("ARRAY<ARRAY<INT NOT NULL>>", "ARRAY<ARRAY<INT NOT NULL>>"),
        ("MAP<STRING, ARRAY<INT>>", "MAP<STRING, ARRAY<INT>>"),
        ("ROW<a INT, `b c` ROW<d DATE NOT NULL>>", "ROW<`a` INT, `b c` ROW<`d` DATE NOT NULL>>"),
    ] {
        assert_eq!(type_of(text).to_string(), shown, "{text}");
    }
}

#[test]
fn arrow_types_are_never_views() {
    use arrow::datatypes::{DataType, TimeUnit};
    assert_eq!(type_of("STRING").to_arrow(), DataType::Utf8);
    assert_eq!(type_of("CHAR(5)").to_arrow(), DataType::Utf8);
    assert_eq!(type_of("BYTES").to_arrow(), DataType::Binary);
    assert_eq!(type_of("DECIMAL(15, 2)").to_arrow(), DataType::Decimal128(15, 2));
    assert_eq!(type_of("TIMESTAMP(3)").to_arrow(), DataType::Timestamp(TimeUnit::Microsecond, None));
    assert_eq!(type_of("TIMESTAMP(7)").to_arrow(), DataType::Timestamp(TimeUnit::Nanosecond, None));
    assert_eq!(type_of("TIMESTAMP_LTZ(3)").to_arrow(), DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())));
    assert_eq!(type_of("FLOAT").to_arrow(), DataType::Float32);
    let nested = type_of("ROW<a ARRAY<INT>, m MAP<STRING, DATE>>");
    let SqlType::Row(fields) = SqlType::from_arrow(&nested.to_arrow()).unwrap() else { panic!() };
    assert_eq!(fields[0].name, "a");
    let element = Field { name: "item".to_string(), sql_type: SqlType::Int, not_null: false };
    assert_eq!(fields[0].sql_type, SqlType::Array(Box::new(element)));
}

#[test]
fn views() {
    let view = view("CREATE OR REPLACE TEMPORARY VIEW v (a, `B`) COMMENT 'c' AS\n SELECT 1, 2 ;");
    assert!(view.or_replace && view.temporary && !view.if_not_exists);
    assert_eq!(view.columns, ["a", "B"]);
    assert_eq!(view.comment.as_deref(), Some("c"));
    assert_eq!(view.query.text, "SELECT 1, 2");
    fails("CREATE VIEW v (a, a) AS SELECT 1, 2");
    fails("CREATE VIEW v");
    fails("CREATE VIEW v AS DROP TABLE t");
    fails("CREATE OR REPLACE VIEW IF NOT EXISTS v AS SELECT 1");
}

#[test]
fn contradictions_are_errors_that_say_which() {
    for (text, part) in [
        ("CREATE TABLE t (a INT, a INT)", "column `a` is defined twice"),
        ("CREATE TABLE t (a INT, PRIMARY KEY (b) NOT ENFORCED)", "`b` is not a column"),
        ("CREATE TABLE t (a INT, PRIMARY KEY (a, a) NOT ENFORCED)", "twice"),
        ("CREATE TABLE t (a INT PRIMARY KEY NOT ENFORCED, PRIMARY KEY (a) NOT ENFORCED)", "at most one"),
        ("CREATE TABLE t WITH ('a' = '1', 'a' = '2')", "option 'a' is given twice"),
        ("CREATE TABLE t (a DECIMAL(39, 0))", "DECIMAL(39, 0) is out of range"),
        ("CREATE TABLE t (a DECIMAL(5, 6))", "DECIMAL(5, 6) is out of range"),
        ("CREATE TABLE t (a TIMESTAMP(10))", "10 fractional digits"),
        ("CREATE TABLE t (a VARCHAR(0))", "length 0"),
        ("CREATE TABLE a.b.c.d (a INT)", "has 4 parts"),
        ("CREATE TABLE t ()", "expected a column name, found `)`"),
        ("CREATE TABLE t (a)", "expected a data type, found `)`"),
        ("CREATE TABLE t (a INT", "expected `,` or `)`"),
        ("CREATE TABLE t (a INT) WITH (connector = 'x')", "expected an option's key in single quotes"),
    ] {
        let error = fails(text).to_string();
        assert!(error.contains(part), "{text}\n{error}");
    }
}
