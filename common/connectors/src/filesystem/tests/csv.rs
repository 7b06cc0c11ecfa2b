use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, SchemaRef, TimeUnit};

use super::table;
use crate::test_util::{concat, count_rows, everything, read_split, read_text, rules_for, schema};
use crate::{Error, ScanRequest};

fn columns() -> SchemaRef {
    schema(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("name", DataType::Utf8, true),
        Field::new("price", DataType::Decimal128(15, 2), true),
        Field::new("day", DataType::Date32, true),
    ])
}

/// The rows of a file with `text`, or the error of reading it.
async fn read(text: &str, columns: SchemaRef, options: &[(&str, &str)]) -> Result<Vec<String>, Error> {
    let dir = tempfile::tempdir().unwrap();
    let rules = rules_for(dir.path());
    let path = dir.path().join("t.csv");
    std::fs::write(&path, text).unwrap();
    let options: Vec<_> = [("format", "csv")].iter().chain(options).copied().collect();
    let table = table(&path, Some(columns), &options, &rules).await?;
    read_text(&table, &rules).await
}

#[tokio::test]
async fn values_nulls_and_quotes() {
    let text =
        "1,plain,12.50,1969-12-31\n-2,\"a,b\"\"c\",-0.05,0001-01-01\n3,, , \n\n4,\"x\ny\", 7 ,2024-02-29\r\n5,last,,";
    let rows = read(text, columns(), &[]).await.unwrap();
    let expected = ["|1|plain|12.50|1969-12-31|", "|-2|a,b\"c|-0.05|0001-01-01|", "|3||||", "|4|x|7.00|2024-02-29|"];
    assert_eq!(rows[..4], expected);
    assert_eq!(rows.last().unwrap(), "|5|last|||");
    // an empty field of a STRING column is the empty string, unless it is the null literal
    let name_is_null =
        schema(vec![Field::new("id", DataType::Int64, false), Field::new("name", DataType::Utf8, false)]);
    assert_eq!(read("1,\n", name_is_null.clone(), &[]).await.unwrap(), ["|1||"]);
    let error = read("1,\n", name_is_null, &[("csv.null-literal", "")]).await.unwrap_err();
    assert!(error.to_string().contains("line 1: column 'name' is NOT NULL, but has no value"), "{error}");
}

#[tokio::test]
async fn dialects() {
    let two = || schema(vec![Field::new("a", DataType::Int32, true), Field::new("b", DataType::Utf8, true)]);
    /// Text, options, rows.
    type Case = (&'static str, &'static [(&'static str, &'static str)], &'static [&'static str]);
    let cases: [Case; 7] = [
        ("1\t'x\ty'\n", &[("csv.field-delimiter", "\\t"), ("csv.quote-character", "'")], &["|1|x\ty|"]),
        ("1;\"x\n", &[("csv.field-delimiter", ";"), ("csv.disable-quote-character", "true")], &["|1|\"x|"]),
        ("a,b\n1,x\n", &[("csv.header", "true")], &["|1|x|"]),
        ("#no,1\n1,#x\n", &[("csv.allow-comments", "true")], &["|1|#x|"]),
        ("1,\\N\n\\N,x\n", &[("csv.null-literal", "\\N")], &["|1||", "||x|"]),
        ("1,\"x\\\"y\"\n", &[("csv.escape-character", "\\")], &["|1|x\"y|"]),
        ("1,x\nq,y\n2\n3,z,4\n5,w\n", &[("csv.ignore-parse-errors", "true")], &["|1|x|", "||y|", "|5|w|"]),
    ];
    for (text, options, expected) in cases {
        assert_eq!(read(text, two(), options).await.unwrap(), expected, "{options:?}");
    }
}

#[tokio::test]
async fn bad_rows_name_file_line_column_and_value() {
    for (text, expected) in [
        (
            "1,a,1.00,\n2,\"b\nb\",2.00,\n3,c,x7,\n",
            "t.csv', line 4, column 'price': 'x7' is not a valid DECIMAL(15, 2)",
        ),
        ("9223372036854775808,a,,\n", "line 1, column 'id': '9223372036854775808' is not a valid BIGINT"),
        ("1,a,,1998-02-29\n", "column 'day': '1998-02-29' is not a valid DATE"),
        ("1,a,,\n2,b\n", "line 2: has 2 fields, the table has 4 columns"),
        ("1,a,,\n\n,b,,\n", "line 3: column 'id' is NOT NULL, but has no value"),
        ("1,a,,\r\n\r\n2,b,,\r\n3,c,q,\r\n", "line 4, column 'price': 'q'"),
        ("1,\"never closed,,\n2,b,,\n", "line 1: has 2 fields"),
    ] {
        let error = read(text, columns(), &[]).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{text:?}: {error}");
    }
}

#[tokio::test]
async fn comments_and_headers_count_as_lines() {
    let text = "id,name,price,day\n#a comment\n1,a,,\n# one, two\n\n2,b,x,\n";
    let error = read(text, columns(), &[("csv.header", "true"), ("csv.allow-comments", "true")]).await.unwrap_err();
    assert!(error.to_string().contains("line 6, column 'price': 'x'"), "{error}");
}

#[tokio::test]
async fn text_must_be_utf8() {
    let dir = tempfile::tempdir().unwrap();
    let rules = rules_for(dir.path());
    std::fs::write(dir.path().join("t.csv"), b"1,ok,,\n2,\xff,,\n").unwrap();
    let table = table(dir.path(), Some(columns()), &[("format", "csv")], &rules).await.unwrap();
    let error = read_text(&table, &rules).await.unwrap_err();
    assert!(error.to_string().contains("line 2, column 'name': '\u{fffd}' is not a valid UTF-8 text"), "{error}");
}

#[tokio::test]
async fn projection_limit_and_splits() {
    let dir = tempfile::tempdir().unwrap();
    let rules = rules_for(dir.path());
    for file in 0..2 {
        let rows: String = (0..100).map(|row| format!("{},n{row},,\n", file * 100 + row)).collect();
        std::fs::write(dir.path().join(format!("{file}.csv")), rows).unwrap();
    }
    std::fs::write(dir.path().join("2.csv"), "").unwrap();
    let table = table(dir.path(), Some(columns()), &[("format", "csv")], &rules).await.unwrap();
    let plan = table.plan_scan().await.unwrap();
    assert_eq!((plan.splits.len(), plan.rows, plan.splits[2].bytes), (3, None, 0));
    let spec = table.scan_spec();
    let request = ScanRequest { projection: vec![1, 0], predicate: None, limit: Some(50), row_filters: vec![] };
    let batches = read_split(&spec, &plan.splits[1].payload, &request, &rules, 20).await.unwrap();
    assert_eq!(batches.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [20, 20, 10]);
    let names: Vec<_> = batches[0].schema().fields().iter().map(|field| field.name().clone()).collect();
    assert_eq!((names.join(","), concat(&batches).num_rows()), ("name,id".to_owned(), 50));
    let request = ScanRequest { projection: vec![], predicate: None, limit: None, row_filters: vec![] };
    let batches = read_split(&spec, &plan.splits[0].payload, &request, &rules, 20).await.unwrap();
    assert_eq!((count_rows(&batches), batches[0].num_columns()), (100, 0));
    let batches = read_split(&spec, &plan.splits[2].payload, &everything(&columns()), &rules, 20).await.unwrap();
    assert_eq!(count_rows(&batches), 0);

    std::fs::write(dir.path().join("0.csv"), "1,a,,\n").unwrap();
    let error = read_split(&spec, &plan.splits[0].payload, &request, &rules, 20).await.unwrap_err();
    assert!(error.to_string().contains("0.csv': changed while the query ran (planned with 880 bytes"), "{error}");
}

#[tokio::test]
async fn types_without_text_are_refused() {
    let list = schema(vec![Field::new("l", DataType::Binary, true)]);
    let error = read("1\n", list, &[]).await.unwrap_err();
    assert!(error.to_string().contains("column 'l': type BYTES cannot be read from CSV"), "{error}");
    let timestamp = schema(vec![Field::new("t", DataType::Timestamp(TimeUnit::Millisecond, None), true)]);
    assert_eq!(read("1969-12-31 23:59:59.999\n", timestamp, &[]).await.unwrap(), ["|1969-12-31T23:59:59.999|"]);
}
