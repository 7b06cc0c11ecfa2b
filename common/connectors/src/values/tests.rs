use arrow::array::{Array, AsArray};
use arrow::datatypes::{Decimal128Type, Int64Type, TimeUnit};
use thalweg_types::Fault;

use super::*;
use crate::AccessRules;
use crate::create_table;
use crate::test_util::{concat, count_rows, definition, everything, read_split, read_table, read_text, schema};

fn columns() -> SchemaRef {
    schema(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("name", DataType::Utf8, true),
        Field::new("price", DataType::Decimal128(38, 2), true),
        Field::new("day", DataType::Date32, true),
        Field::new("at", DataType::Timestamp(TimeUnit::Millisecond, None), true),
        Field::new("ok", DataType::Boolean, true),
        Field::new("raw", DataType::Binary, true),
        Field::new("ratio", DataType::Float64, true),
    ])
}

async fn table(rows: &str) -> Result<Arc<dyn TableSource>, Error> {
    let def = definition("t", Some(columns()), &[("connector", "values"), ("rows", rows)]);
    create_table(&def, &AccessRules::default()).await
}

#[tokio::test]
async fn rows_come_back_exactly() {
    let table = table(
        r#"[[9223372036854775807, "a|b", 123456789012345678901234567890123456.78, "1969-12-31", "1969-12-31 23:59:59.999", true, "00fF", 0.1],
            [-1, null, "-0.5", null, null, null, null, "NaN"],
            [3, "", null, "2024-02-29", "2024-02-29T12:00:00", false, "", -1e-3]]"#,
    )
    .await
    .unwrap();
    let plan = table.plan_scan().await.unwrap();
    assert_eq!((plan.rows, plan.splits.len(), plan.splits[0].rows), (Some(3), 1, Some(3)));
    let batch = concat(&read_table(&table, &everything(&table.schema()), &AccessRules::default()).await.unwrap());
    assert_eq!(batch.column(0).as_primitive::<Int64Type>().values()[..], [i64::MAX, -1, 3]);
    let price = batch.column(2).as_primitive::<Decimal128Type>();
    assert_eq!(price.value(0), 12345678901234567890123456789012345678);
    assert_eq!((price.value(1), price.is_null(2)), (-50, true));
    assert_eq!(batch.column(6).as_binary::<i32>().iter().collect::<Vec<_>>(), [Some(&[0, 255][..]), None, Some(&[])]);
    let text = read_text(&table, &AccessRules::default()).await.unwrap();
    assert_eq!(text[1], "|-1||-0.50|||||NaN|");
    assert_eq!(text[2], "|3|||2024-02-29|2024-02-29T12:00:00|false||-0.001|");
}

#[tokio::test]
async fn projection_limit_and_batch_size_hold() {
    let rows: Vec<String> =
        (0..10).map(|id| format!("[{id}, \"n{id}\", null, null, null, null, null, null]")).collect();
    let table = table(&format!("[{}]", rows.join(","))).await.unwrap();
    let spec = table.scan_spec();
    assert_eq!(spec.schema(), columns());
    let rules = AccessRules::default();
    let request = ScanRequest { projection: vec![1, 0], predicate: None, limit: Some(7), row_filters: vec![] };
    let batches = read_split(&spec, b"", &request, &rules, 4).await.unwrap();
    assert_eq!(batches.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [4, 3]);
    assert_eq!(batches[0].schema().fields().iter().map(|f| f.name().as_str()).collect::<Vec<_>>(), ["name", "id"]);
    assert_eq!(concat(&batches).column(0).as_string::<i32>().value(6), "n6");
    let request = ScanRequest { projection: vec![], predicate: None, limit: None, row_filters: vec![] };
    let batches = read_split(&spec, b"", &request, &rules, 4).await.unwrap();
    assert_eq!((count_rows(&batches), batches[0].num_columns()), (10, 0));
    let request = ScanRequest { projection: vec![8], predicate: None, limit: None, row_filters: vec![] };
    let error = read_split(&spec, b"", &request, &rules, 4).await.unwrap_err();
    assert!(error.to_string().contains("#8"), "{error}");
}

#[tokio::test]
async fn bad_rows_name_row_and_column() {
    let null = "null, null, null, null, null, null, null";
    for (rows, expected) in [
        (format!("[[1, {null}], [2]]"), "row 2: has 1 values, the table has 8 columns"),
        (format!("[[1, {null}], [null, {null}]]"), "row 2, column 'id': 'null' is not a valid BIGINT NOT NULL"),
        (format!("[[1.5, {null}]]"), "row 1, column 'id': '1.5' is not a valid BIGINT"),
        (format!("[[\"1\", {null}]]"), "column 'id': '1' is not a valid BIGINT"),
        (format!("[[9223372036854775808, {null}]]"), "column 'id': '9223372036854775808'"),
        ("[[1, 2, null, null, null, null, null, null]]".into(), "column 'name': '2' is not a valid STRING"),
        ("[[1, null, 1.005, null, null, null, null, null]]".into(), "column 'price': '1.005' is not a valid DECIMAL"),
        ("[[1, null, null, \"1998-13-01\", null, null, null, null]]".into(), "column 'day': '1998-13-01'"),
        ("[[1, null, null, null, \"soon\", null, null, null]]".into(), "column 'at': 'soon'"),
        ("[[1, null, null, null, null, 1, null, null]]".into(), "column 'ok': '1' is not a valid BOOLEAN"),
        ("[[1, null, null, null, null, null, \"0g\", null]]".into(), "column 'raw': '0g' is not a valid BYTES"),
        ("[[1, null, null, null, null, null, null, 1e999]]".into(), "column 'ratio': '1e999' is not a valid DOUBLE"),
        ("[[1, [2], null, null, null, null, null, null]]".into(), "column 'name': 'a nested array or object'"),
        ("[1]".into(), "option 'rows' has the value '[1]', allowed: a JSON array of arrays"),
    ] {
        let error = table(&rows).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{rows}: {error}");
        assert_eq!(error.fault(), Fault::User);
    }
}

#[tokio::test]
async fn no_rows_are_a_table_too() {
    let table = table("[]").await.unwrap();
    assert_eq!(table.plan_scan().await.unwrap().rows, Some(0));
    let batches = read_table(&table, &everything(&table.schema()), &AccessRules::default()).await.unwrap();
    assert_eq!(count_rows(&batches), 0);
}

#[tokio::test]
async fn bad_options_name_the_right_ones() {
    let rules = AccessRules::default();
    for (options, expected) in [
        (vec![("connector", "values"), ("row", "[]")], "'row' is unknown, did you mean 'rows'"),
        (vec![("connector", "values")], "'rows' is missing"),
        (vec![("connector", "value"), ("rows", "[]")], "did you mean 'values'"),
        (vec![("connector", "kafka")], "allowed: filesystem, tpch, values"),
        (vec![("rows", "[]")], "'connector' is missing, expected one of filesystem"),
    ] {
        let error = create_table(&definition("t", Some(columns()), &options), &rules).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
    let error = create_table(&definition("t", None, &[("connector", "values"), ("rows", "[]")]), &rules).await;
    assert!(error.unwrap_err().to_string().contains("needs declared columns"));
}
