//! The 22 queries plan against tables that the `tpch` connector describes.

use std::path::Path;

use super::Fixture;

const TABLES: [&str; 8] = ["region", "nation", "part", "supplier", "partsupp", "customer", "orders", "lineitem"];

fn tpch() -> Fixture {
    let mut fixture = Fixture::new();
    for table in TABLES {
        let options = format!("'connector' = 'tpch', 'table' = '{table}', 'scale-factor' = '0.01'");
        fixture.done(&format!("CREATE TABLE {table} WITH ({options})"));
    }
    fixture
}

#[test]
fn all_queries_plan_and_optimize() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../integration-tests/tpch/queries");
    let mut fixture = tpch();
    for number in 1..=22 {
        let path = folder.join(format!("q{number:02}.sql"));
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let text = text.replace("__FRACTION__", "0.000100000000");
        let plan = fixture.optimized(text.trim_end());
        assert!(plan.contains("TableScan"), "q{number:02}:\n{plan}");
        if number == 11 {
            assert!(plan.contains("Decimal128(Some(100000000),12,12)") || plan.contains("0.000100000000"), "{plan}");
        }
    }
}

#[test]
fn connector_columns_are_described_in_flinks_types() {
    let rows = tpch().rows("DESCRIBE lineitem");
    assert_eq!(rows.len(), 16);
    assert_eq!(rows[0], "l_orderkey|BIGINT|false|N|N|N");
    assert_eq!(rows[4], "l_quantity|DECIMAL(15, 2)|false|N|N|N");
    assert!(rows.iter().any(|row| row.starts_with("l_shipdate|DATE|")));
}
