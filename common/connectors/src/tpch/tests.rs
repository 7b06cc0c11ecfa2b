use arrow::array::AsArray;
use arrow::datatypes::{DataType, Date32Type, Field, Int32Type, Int64Type};

use super::*;
use crate::test_util::{concat, count_rows, definition, everything, read_split, read_table, schema};
use crate::{AccessRules, create_table};

async fn table(name: &str, options: &[(&str, &str)]) -> Result<Arc<dyn TableSource>, Error> {
    let mut options = options.to_vec();
    options.push(("connector", "tpch"));
    create_table(&definition(name, None, &options), &AccessRules::default()).await
}

fn whole(table: Table, scale_factor: f64) -> Vec<RecordBatch> {
    let schema = table.schema();
    let columns: Vec<usize> = (0..schema.fields().len()).collect();
    let batches = table.generate(scale_factor, 1, 1, 4096);
    batches.map(|batch| project(&batch, &columns, &schema).unwrap()).collect()
}

/// The rows of all parts, for any number of parts, are the rows of one generator that runs over the whole table.
#[test]
fn all_parts_together_are_the_table() {
    let scale_factor = 0.01;
    for table in Table::ALL {
        let schema = table.schema();
        let columns: Vec<usize> = (0..schema.fields().len()).collect();
        let expected = concat(&whole(table, scale_factor));
        if let Some(rows) = table.rows(scale_factor, 1, 1) {
            assert_eq!(expected.num_rows() as u64, rows, "{}", table.name());
        }
        if matches!(table, Table::Region | Table::Nation) {
            assert_eq!(table.parts(1000.0), 1);
            continue;
        }
        for parts in [2, 7] {
            let mut batches = Vec::new();
            for part in 1..=parts {
                let part_batches: Vec<_> = table.generate(scale_factor, part, parts, 1000).collect();
                if let Some(rows) = table.rows(scale_factor, part, parts) {
                    assert_eq!(count_rows(&part_batches) as u64, rows);
                }
                batches.extend(part_batches.iter().map(|batch| project(batch, &columns, &schema).unwrap()));
            }
            assert_eq!(concat(&batches), expected, "{} in {parts} parts", table.name());
        }
    }
}

/// Through the public interface, at the first scale factor whose `orders` has several splits.
#[tokio::test]
async fn splits_of_a_scan_are_the_table() {
    let orders = table("orders", &[("scale-factor", "0.5")]).await.unwrap();
    let plan = orders.plan_scan().await.unwrap();
    assert_eq!((plan.splits.len(), plan.rows), (3, Some(750_000)));
    assert_eq!(plan.splits.iter().map(|split| split.rows.unwrap()).sum::<u64>(), 750_000);
    let request = ScanRequest { projection: vec![4, 0], predicate: None, limit: None, row_filters: vec![] };
    let read = concat(&read_table(&orders, &request, &AccessRules::default()).await.unwrap());
    let expected = concat(&whole(Table::Orders, 0.5)).project(&[4, 0]).unwrap();
    assert_eq!(read, expected);
    assert!(plan.bytes > 0 && plan.column_bytes.iter().sum::<u64>() == plan.bytes);
}

#[tokio::test]
async fn known_rows_and_types() {
    let rules = AccessRules::default();
    let lineitem = table("LineItem", &[("scale-factor", "0.01")]).await.unwrap();
    let plan = lineitem.plan_scan().await.unwrap();
    assert_eq!((plan.rows, plan.splits.len()), (None, 1));
    let batch = concat(&read_table(&lineitem, &everything(&lineitem.schema()), &rules).await.unwrap());
    assert_eq!(batch.num_rows(), 60_175);
    assert_eq!(batch.schema(), Table::LineItem.schema());
    assert_eq!(batch.column(0).as_primitive::<Int64Type>().value(0), 1);
    assert_eq!(batch.column(3).as_primitive::<Int32Type>().value(1), 2);
    let ship_date = batch.column(10).as_primitive::<Date32Type>().value_as_date(0).unwrap();
    assert_eq!(ship_date.to_string(), "1996-03-13");
    let estimated = plan.splits[0].bytes as f64 / batch.get_array_memory_size() as f64;
    assert!((0.5..2.0).contains(&estimated), "estimate / real = {estimated}");

    let aliased = table("r", &[("table", "region")]).await.unwrap();
    assert_eq!(count_rows(&read_table(&aliased, &everything(&aliased.schema()), &rules).await.unwrap()), 5);
}

#[tokio::test]
async fn projection_limit_and_declared_columns() {
    let rules = AccessRules::default();
    let columns = schema(vec![
        Field::new("s_acctbal", DataType::Decimal128(15, 2), true),
        Field::new("s_suppkey", DataType::Int64, true),
    ]);
    let options = [("connector", "tpch"), ("scale-factor", "0.01")];
    let supplier = create_table(&definition("supplier", Some(columns), &options), &rules).await.unwrap();
    assert_eq!(supplier.scan_spec().schema(), supplier.schema());
    assert_eq!(supplier.schema().fields().len(), 2);
    let split = supplier.plan_scan().await.unwrap().splits.remove(0).payload;
    let request = ScanRequest { projection: vec![1], predicate: None, limit: Some(10), row_filters: vec![] };
    let batches = read_split(&supplier.scan_spec(), &split, &request, &rules, 4).await.unwrap();
    assert_eq!(batches.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [4, 4, 2]);
    let keys = concat(&batches);
    assert_eq!(keys.column(0).as_primitive::<Int64Type>().values()[..], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    let request = ScanRequest { projection: vec![], predicate: None, limit: None, row_filters: vec![] };
    let batches = read_split(&supplier.scan_spec(), &split, &request, &rules, 64).await.unwrap();
    assert_eq!((count_rows(&batches), batches[0].num_columns()), (100, 0));
    let request = ScanRequest { projection: vec![0], predicate: None, limit: Some(0), row_filters: vec![] };
    assert!(read_split(&supplier.scan_spec(), &split, &request, &rules, 64).await.unwrap().is_empty());
}

#[tokio::test]
async fn bad_definitions_name_the_fix() {
    for (name, options, expected) in [
        ("orders", vec![("scale-factor", "0")], "'scale-factor' has the value '0', allowed: a number from 0.001"),
        ("orders", vec![("scale-factor", "NaN")], "allowed: a number from"),
        ("orders", vec![("scale_factor", "1")], "did you mean 'scale-factor'"),
        ("t", vec![], "'table' is missing, expected one of region, nation"),
        ("t", vec![("table", "line_item")], "'table' has the value 'line_item', allowed: region"),
    ] {
        let error = table(name, &options).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
    for (field, expected) in [
        (Field::new("r_key", DataType::Int64, true), "does not exist, the columns are r_regionkey, r_name"),
        (Field::new("r_regionkey", DataType::Int32, true), "is declared as INT, expected r_regionkey BIGINT"),
        (Field::new("R_NAME", DataType::Utf8, true), "expected r_name STRING"),
    ] {
        let def = definition("region", Some(schema(vec![field])), &[("connector", "tpch")]);
        let error = create_table(&def, &AccessRules::default()).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[tokio::test]
async fn forged_specs_and_splits_are_refused() {
    let rules = AccessRules::default();
    let region = table("region", &[]).await.unwrap();
    let request = everything(&region.schema());
    for split in ["", "{}", r#"{"part":2,"parts":2}"#, r#"{"part":0,"parts":1}"#, r#"{"part":2,"parts":1}"#] {
        let error = read_split(&region.scan_spec(), split.as_bytes(), &request, &rules, 10).await.unwrap_err();
        assert!(matches!(error, Error::Split { .. }), "{split}: {error}");
    }
    for spec in [
        r#"{"Tpch":{"table":"Region","scale_factor":1.0,"columns":[3]}}"#,
        r#"{"Tpch":{"table":"Region","scale_factor":-1.0,"columns":[0]}}"#,
        r#"{"Tpch":{"table":"Regions","scale_factor":1.0,"columns":[0]}}"#,
    ] {
        assert!(serde_json::from_str::<ScanSpec>(spec).is_err(), "{spec}");
    }
}
