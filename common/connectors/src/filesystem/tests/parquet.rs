use std::sync::Arc;

use ::parquet::file::properties::{EnabledStatistics, WriterProperties};
use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, Float64Array, Int32Array,
    Int64Array, LargeStringArray, RecordBatch, StringArray, StringViewArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field, Int32Type, Int64Type, SchemaRef, TimeUnit};
use datafusion::common::ScalarValue;
use datafusion::common::stats::Precision;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{binary, col, lit};
use datafusion::physical_plan::PhysicalExpr;
use thalweg_types::Fault;

use super::{PARQUET, table, write_batches, write_groups, write_parquet};
use crate::test_util::{concat, count_rows, everything, read_split, read_table, read_text, rules_for, schema};
use crate::{Error, ScanRequest};

fn mixed() -> (SchemaRef, Vec<ArrayRef>) {
    let dictionary: DictionaryArray<Int32Type> = vec![Some("x"), None, Some("x")].into_iter().collect();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("view", Arc::new(StringViewArray::from(vec![Some("a text of more than twelve bytes"), Some(""), None]))),
        ("large", Arc::new(LargeStringArray::from(vec!["l", "m", "n"]))),
        ("dict", Arc::new(dictionary)),
        (
            "price",
            Arc::new(Decimal128Array::from(vec![Some(-150), None, Some(5)]).with_precision_and_scale(10, 2).unwrap()),
        ),
        ("day", Arc::new(Date32Array::from(vec![Some(-1), Some(-719_162), None]))),
        ("at", Arc::new(TimestampMicrosecondArray::from(vec![-1000, 0, 1_000_000]))),
        ("small", Arc::new(Int32Array::from(vec![1, 2, 3]))),
    ];
    let fields = columns.iter().map(|(name, column)| Field::new(*name, column.data_type().clone(), true)).collect();
    (schema(fields), columns.into_iter().map(|(_, column)| column).collect())
}

#[tokio::test]
async fn types_become_plain() {
    let dir = tempfile::tempdir().unwrap();
    let rules = rules_for(dir.path());
    let (file_schema, columns) = mixed();
    let batch = RecordBatch::try_new(file_schema.clone(), columns).unwrap();
    let path = write_batches(&dir.path().join("a.parquet"), &file_schema, &[batch], WriterProperties::default());
    let table = table(&path, None, &PARQUET, &rules).await.unwrap();
    let types: Vec<_> = table.schema().fields().iter().map(|field| field.data_type().clone()).collect();
    assert_eq!(types[..3], [DataType::Utf8, DataType::Utf8, DataType::Utf8]);
    let batches = read_table(&table, &everything(&table.schema()), &rules).await.unwrap();
    assert_eq!(batches[0].schema(), table.schema());
    assert_eq!(
        read_text(&table, &rules).await.unwrap(),
        [
            "|a text of more than twelve bytes|l|x|-1.50|1969-12-31|1969-12-31T23:59:59.999|1|",
            "||m|||0001-01-01|1970-01-01T00:00:00|2|",
            "||n|x|0.05||1970-01-01T00:00:01|3|",
        ]
    );
}

#[tokio::test]
async fn declared_columns_are_matched_by_name_and_cast() {
    let dir = tempfile::tempdir().unwrap();
    let rules = rules_for(dir.path());
    let (file_schema, columns) = mixed();
    let batch = RecordBatch::try_new(file_schema.clone(), columns).unwrap();
    let path = write_batches(&dir.path().join("a.parquet"), &file_schema, &[batch], WriterProperties::default());
    let declared = schema(vec![
        Field::new("small", DataType::Int64, true),
        Field::new("price", DataType::Decimal128(20, 3), true),
        Field::new("at", DataType::Timestamp(TimeUnit::Millisecond, None), true),
        Field::new("dict", DataType::Utf8, true),
    ]);
    let bound = table(&path, Some(declared.clone()), &PARQUET, &rules).await.unwrap();
    assert_eq!(bound.schema(), declared);
    assert_eq!(
        read_text(&bound, &rules).await.unwrap(),
        ["|1|-1.500|1969-12-31T23:59:59.999|x|", "|2||1970-01-01T00:00:00||", "|3|0.050|1970-01-01T00:00:01|x|",]
    );
    let plan = bound.plan_scan().await.unwrap();
    assert_eq!(plan.column_statistics[0].max_value, Precision::Exact(ScalarValue::Int64(Some(3))));
    for (field, expected) in [
        (Field::new("Small", DataType::Int32, true), "column 'Small': is not in the file, which has view, large"),
        (Field::new("small", DataType::Utf8, true), "is declared as STRING, but is INT in this file"),
        (
            Field::new("price", DataType::Decimal128(10, 1), true),
            "is declared as DECIMAL(10, 1), but is DECIMAL(10, 2)",
        ),
    ] {
        let error = table(&path, Some(schema(vec![field])), &PARQUET, &rules).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        assert!(error.to_string().contains("a.parquet'"), "{error}");
    }
}

#[tokio::test]
async fn a_value_that_does_not_fit_the_declared_type_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let rules = rules_for(dir.path());
    write_parquet(dir.path(), "a.parquet", &[&[1, i64::from(i32::MAX) + 1]]);
    let declared = schema(vec![Field::new("a", DataType::Int32, true)]);
    let table = table(dir.path(), Some(declared), &PARQUET, &rules).await.unwrap();
    assert!(matches!(table.plan_scan().await.unwrap().column_statistics[0].max_value, Precision::Absent));
    let error = read_text(&table, &rules).await.unwrap_err();
    assert!(matches!(error, Error::Data { .. }), "{error:?}");
    assert_eq!(error.fault(), Fault::User);
    assert!(error.to_string().contains("a.parquet'") && error.to_string().contains("2147483648"), "{error}");
}

#[tokio::test]
async fn files_must_agree() {
    let dir = tempfile::tempdir().unwrap();
    let rules = rules_for(dir.path());
    write_parquet(dir.path(), "a.parquet", &[&[1]]);
    let bound = table(dir.path(), None, &PARQUET, &rules).await.unwrap();
    let other = schema(vec![Field::new("a", DataType::Int32, true)]);
    let columns: Vec<(&str, ArrayRef)> = vec![("a", Arc::new(Int32Array::from(vec![1])))];
    let path = write_groups(&dir.path().join("b.parquet"), &other, &[columns]);
    // found by a new table, and by the next query of an old one
    for error in [table(dir.path(), None, &PARQUET, &rules).await.unwrap_err(), bound.plan_scan().await.unwrap_err()] {
        let expected = "b.parquet': column 'a': is in the first file a BIGINT, but is INT in this file";
        assert!(error.to_string().contains(expected), "{error}");
    }
    let wider = schema(vec![Field::new("a", DataType::Int64, true), Field::new("b", DataType::Int64, true)]);
    write_groups(&path, &wider, &[]);
    let error = table(dir.path(), None, &PARQUET, &rules).await.unwrap_err();
    assert!(error.to_string().contains("column 'b': is not in the first file"), "{error}");
    std::fs::write(&path, "PAR1 this is not a footer PAR1").unwrap();
    let error = table(dir.path(), None, &PARQUET, &rules).await.unwrap_err();
    assert!(matches!(&error, Error::Data { file, .. } if file.ends_with("b.parquet")), "{error:?}");
}

#[tokio::test]
async fn not_null_needs_every_file() {
    let dir = tempfile::tempdir().unwrap();
    let rules = rules_for(dir.path());
    let column = |nullable| schema(vec![Field::new("a", DataType::Int64, nullable)]);
    let values: Vec<(&str, ArrayRef)> = vec![("a", Arc::new(Int64Array::from(vec![1])))];
    write_groups(&dir.path().join("a.parquet"), &column(false), &[values]);
    let bound = table(dir.path(), None, &PARQUET, &rules).await.unwrap();
    assert!(!bound.schema().field(0).is_nullable());
    let values: Vec<(&str, ArrayRef)> = vec![("a", Arc::new(Int64Array::from(vec![None])))];
    write_groups(&dir.path().join("b.parquet"), &column(true), &[values]);
    assert!(bound.plan_scan().await.unwrap_err().to_string().contains("create the table again"));
    for declared in [None, Some(column(false))] {
        let bound = table(dir.path(), declared, &PARQUET, &rules).await.unwrap();
        assert!(bound.schema().field(0).is_nullable());
        assert_eq!(read_text(&bound, &rules).await.unwrap(), ["|1|", "||"]);
    }
}

#[tokio::test]
async fn splits_are_runs_of_row_groups() {
    let dir = tempfile::tempdir().unwrap();
    let rules = rules_for(dir.path());
    // row groups of about 12 MB: two share a split
    let group: Vec<i64> =
        (0..1_500_000).map(|value: i64| value.wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as i64)).collect();
    let properties =
        WriterProperties::builder().set_dictionary_enabled(false).set_max_row_group_row_count(Some(2_000_000));
    let fields = schema(vec![Field::new("a", DataType::Int64, true)]);
    let batch = RecordBatch::try_new(fields.clone(), vec![Arc::new(Int64Array::from(group))]).unwrap();
    let batches = vec![batch; 5];
    write_batches(&dir.path().join("big.parquet"), &fields, &batches, properties.build());
    write_parquet(dir.path(), "small.parquet", &[&[1], &[2, 3]]);
    let table = table(dir.path(), None, &PARQUET, &rules).await.unwrap();
    let plan = table.plan_scan().await.unwrap();
    let rows: Vec<_> = plan.splits.iter().map(|split| split.rows.unwrap()).collect();
    assert_eq!(rows, [3_000_000, 3_000_000, 1_500_000, 3]);
    assert_eq!(plan.rows, Some(7_500_003));
    assert_eq!(plan.splits.iter().map(|split| split.bytes).sum::<u64>(), plan.column_bytes[0]);
    assert!(plan.column_bytes[0] > 60_000_000, "{:?}", plan.column_bytes);
    for (split, rows) in plan.splits.iter().zip(rows) {
        let batches = read_split(&table.scan_spec(), &split.payload, &everything(&fields), &rules, 8192).await.unwrap();
        assert_eq!(count_rows(&batches) as u64, rows);
        assert!(batches.iter().all(|batch| batch.num_rows() <= 8192));
    }
}

#[tokio::test]
async fn files_without_rows_or_row_groups() {
    let dir = tempfile::tempdir().unwrap();
    let rules = rules_for(dir.path());
    write_parquet(dir.path(), "none.parquet", &[]);
    for expected in [0, 0, 2] {
        let table = table(dir.path(), None, &PARQUET, &rules).await.unwrap();
        let plan = table.plan_scan().await.unwrap();
        assert_eq!((plan.rows, plan.splits.len()), (Some(expected), 1));
        let batches = read_table(&table, &everything(&table.schema()), &rules).await.unwrap();
        assert_eq!(count_rows(&batches) as u64, expected);
        match dir.path().join("rowless.parquet").exists() {
            false => write_parquet(dir.path(), "rowless.parquet", &[&[]]),
            true => write_parquet(dir.path(), "rows.parquet", &[&[1, 2]]),
        };
    }
}

fn request(projection: &[usize]) -> ScanRequest {
    ScanRequest { projection: projection.to_vec(), predicate: None, limit: None, row_filters: vec![] }
}

#[tokio::test]
async fn projection_order_limit_and_no_columns() {
    let dir = tempfile::tempdir().unwrap();
    let rules = rules_for(dir.path());
    let fields = schema(vec![
        Field::new("a", DataType::Int64, true),
        Field::new("b", DataType::Utf8, true),
        Field::new("c", DataType::Boolean, true),
    ]);
    let group = |start: i64| -> Vec<(&str, ArrayRef)> {
        vec![
            ("a", Arc::new(Int64Array::from_iter_values(start..start + 100))),
            ("b", Arc::new(StringArray::from_iter_values((start..start + 100).map(|value| format!("n{value}"))))),
            ("c", Arc::new(BooleanArray::from_iter((start..start + 100).map(|value| Some(value % 2 == 0))))),
        ]
    };
    write_groups(&dir.path().join("a.parquet"), &fields, &[group(0), group(100)]);
    let table = table(dir.path(), None, &PARQUET, &rules).await.unwrap();
    let split = table.plan_scan().await.unwrap().splits.remove(0).payload;
    let spec = table.scan_spec();
    let batches = read_split(&spec, &split, &request(&[2, 0]), &rules, 64).await.unwrap();
    let names: Vec<_> = batches[0].schema().fields().iter().map(|field| field.name().clone()).collect();
    assert_eq!(names, ["c", "a"]);
    let all = concat(&batches);
    assert_eq!(all.column(1).as_primitive::<Int64Type>().values().to_vec(), (0..200).collect::<Vec<_>>());
    let limited = ScanRequest { limit: Some(150), ..request(&[1]) };
    let batches = read_split(&spec, &split, &limited, &rules, 64).await.unwrap();
    assert_eq!(count_rows(&batches), 150);
    assert_eq!(concat(&batches).column(0).as_string::<i32>().value(149), "n149");
    let batches = read_split(&spec, &split, &request(&[]), &rules, 64).await.unwrap();
    assert_eq!((count_rows(&batches), batches[0].num_columns()), (200, 0));
}

fn compare(schema: &SchemaRef, column: &str, op: Operator, value: ScalarValue) -> Arc<dyn PhysicalExpr> {
    binary(col(column, schema).unwrap(), op, lit(value), schema).unwrap()
}

#[tokio::test]
async fn a_predicate_skips_row_groups_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let rules = rules_for(dir.path());
    let fields = schema(vec![Field::new("x", DataType::Float64, true), Field::new("a", DataType::Int64, true)]);
    let group = |x: Vec<f64>, a: Vec<i64>| -> Vec<(&str, ArrayRef)> {
        vec![("x", Arc::new(Float64Array::from(x))), ("a", Arc::new(Int64Array::from(a)))]
    };
    let groups = [group(vec![1.0, f64::NAN], vec![1, 2]), group(vec![2.0, 3.0, 4.0], vec![3, 4, 50])];
    write_groups(&dir.path().join("a.parquet"), &fields, &groups);
    let table = table(dir.path(), None, &PARQUET, &rules).await.unwrap();
    let split = table.plan_scan().await.unwrap().splits.remove(0).payload;
    let spec = table.scan_spec();
    let int = |value| ScalarValue::Int64(Some(value));
    let cases = [
        (compare(&fields, "a", Operator::Gt, int(10)), 3),
        (compare(&fields, "a", Operator::Lt, int(3)), 2),
        (compare(&fields, "a", Operator::Gt, int(100)), 0),
        (compare(&fields, "a", Operator::Gt, int(0)), 5),
        // NaN is greater than 9, and no footer tells that it is there
        (compare(&fields, "x", Operator::Gt, ScalarValue::Float64(Some(9.0))), 5),
    ];
    for (predicate, expected) in cases {
        // the column of the predicate need not be projected
        for projection in [&[1_usize][..], &[0], &[]] {
            let request = ScanRequest { predicate: Some(predicate.clone()), ..request(projection) };
            let batches = read_split(&spec, &split, &request, &rules, 64).await.unwrap();
            assert_eq!(count_rows(&batches), expected, "{predicate} {projection:?}");
        }
    }
}

#[tokio::test]
async fn a_predicate_on_a_cast_column_skips_correctly() {
    let dir = tempfile::tempdir().unwrap();
    let rules = rules_for(dir.path());
    let file_schema = schema(vec![Field::new("a", DataType::Int32, true)]);
    let group = |values: Vec<i32>| -> Vec<(&str, ArrayRef)> { vec![("a", Arc::new(Int32Array::from(values)))] };
    write_groups(&dir.path().join("a.parquet"), &file_schema, &[group(vec![-5, 5]), group(vec![50, 500])]);
    let declared = schema(vec![Field::new("a", DataType::Int64, true)]);
    let table = table(dir.path(), Some(declared.clone()), &PARQUET, &rules).await.unwrap();
    let split = table.plan_scan().await.unwrap().splits.remove(0).payload;
    let predicate = compare(&declared, "a", Operator::LtEq, ScalarValue::Int64(Some(-5)));
    let request = ScanRequest { predicate: Some(predicate), ..request(&[0]) };
    let batches = read_split(&table.scan_spec(), &split, &request, &rules, 64).await.unwrap();
    assert_eq!(concat(&batches).column(0).as_primitive::<Int64Type>().values()[..], [-5, 5]);
}

#[tokio::test]
async fn statistics_are_exact_or_say_so() {
    let dir = tempfile::tempdir().unwrap();
    let rules = rules_for(dir.path());
    let fields = schema(vec![
        Field::new("a", DataType::Int64, true),
        Field::new("s", DataType::Utf8, true),
        Field::new("x", DataType::Float64, true),
        Field::new("d", DataType::Date32, true),
        Field::new("n", DataType::Int64, true),
    ]);
    let group = |a: Vec<Option<i64>>, s: &str, d: i32| -> Vec<(&str, ArrayRef)> {
        let rows = a.len();
        vec![
            ("a", Arc::new(Int64Array::from(a)) as ArrayRef),
            ("s", Arc::new(StringArray::from(vec![s; rows]))),
            ("x", Arc::new(Float64Array::from(vec![f64::from(d); rows]))),
            ("d", Arc::new(Date32Array::from(vec![d; rows]))),
            ("n", Arc::new(Int64Array::from(vec![None; rows]))),
        ]
    };
    let first = [group(vec![Some(5), None], "m", -10), group(vec![None], "k", 3)];
    write_groups(&dir.path().join("a.parquet"), &fields, &first);
    write_groups(&dir.path().join("b.parquet"), &fields, &[group(vec![Some(-7)], &"z".repeat(200), 4)]);
    let bound = table(dir.path(), None, &PARQUET, &rules).await.unwrap();
    let statistics = bound.plan_scan().await.unwrap().column_statistics;
    let int = |value| Precision::Exact(ScalarValue::Int64(Some(value)));
    assert_eq!((&statistics[0].min_value, &statistics[0].max_value), (&int(-7), &int(5)));
    assert_eq!(statistics[0].null_count, Precision::Exact(2));
    // the bound of the long text is shortened, and then rounded up
    assert!(
        matches!(&statistics[1].max_value, Precision::Inexact(ScalarValue::Utf8(Some(text))) if text.as_str() > "zz")
    );
    assert_eq!(statistics[2].max_value, Precision::Inexact(ScalarValue::Float64(Some(4.0))));
    assert_eq!(statistics[3].min_value, Precision::Exact(ScalarValue::Date32(Some(-10))));
    assert_eq!((&statistics[4].min_value, &statistics[4].null_count), (&Precision::Absent, &Precision::Exact(4)));

    // one file without statistics makes them unknown
    let batch = RecordBatch::try_new(
        fields.clone(),
        group(vec![Some(1000)], "a", 0).into_iter().map(|(_, column)| column).collect(),
    );
    let silent = WriterProperties::builder().set_statistics_enabled(EnabledStatistics::None).build();
    write_batches(&dir.path().join("c.parquet"), &fields, &[batch.unwrap()], silent);
    let bound = table(dir.path(), None, &PARQUET, &rules).await.unwrap();
    let plan = bound.plan_scan().await.unwrap();
    assert_eq!(plan.rows, Some(5));
    let a = &plan.column_statistics[0];
    assert_eq!((&a.min_value, &a.null_count), (&Precision::Absent, &Precision::Absent));
}

#[tokio::test]
async fn a_changed_file_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let rules = rules_for(dir.path());
    let path = write_parquet(dir.path(), "a.parquet", &[&[1, 2, 3]]);
    let table = table(&path, None, &PARQUET, &rules).await.unwrap();
    let split = table.plan_scan().await.unwrap().splits.remove(0).payload;
    let all = everything(&table.schema());
    write_parquet(dir.path(), "a.parquet", &[&[1, 2, 3], &[4]]);
    let error = read_split(&table.scan_spec(), &split, &all, &rules, 64).await.unwrap_err();
    assert!(error.to_string().contains("a.parquet': changed while the query ran"), "{error}");
    assert_eq!(error.fault(), Fault::User);
    // same length, another time
    let split = table.plan_scan().await.unwrap().splits.remove(0).payload;
    let later = std::fs::metadata(&path).unwrap().modified().unwrap() + std::time::Duration::from_secs(1);
    std::fs::File::options().append(true).open(&path).unwrap().set_modified(later).unwrap();
    let error = read_split(&table.scan_spec(), &split, &all, &rules, 64).await.unwrap_err();
    assert!(error.to_string().contains("changed while the query ran"), "{error}");
    // the next query reads the new file
    assert_eq!(read_text(&table, &rules).await.unwrap(), ["|1|", "|2|", "|3|", "|4|"]);
    std::fs::remove_file(&path).unwrap();
    let error = read_split(&table.scan_spec(), &split, &all, &rules, 64).await.unwrap_err();
    assert!(error.to_string().contains("a.parquet' does not exist"), "{error}");
}

#[tokio::test]
async fn forged_splits_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let rules = rules_for(dir.path());
    let path = write_parquet(dir.path(), "a.parquet", &[&[1]]);
    let table = table(&path, None, &PARQUET, &rules).await.unwrap();
    let split = table.plan_scan().await.unwrap().splits.remove(0).payload;
    let all = everything(&table.schema());
    let mut forged: serde_json::Value = serde_json::from_slice(&split).unwrap();
    for (start, end) in [(0, 2), (1, 0), (7, 9)] {
        (forged["start"], forged["end"]) = (start.into(), end.into());
        let error = read_split(&table.scan_spec(), forged.to_string().as_bytes(), &all, &rules, 64).await.unwrap_err();
        assert!(error.to_string().contains("has 1 row groups, the split wants"), "{error}");
    }
    let error = read_split(&table.scan_spec(), b"\x00\xff", &all, &rules, 64).await.unwrap_err();
    assert_eq!(error.fault(), Fault::Internal);
}
