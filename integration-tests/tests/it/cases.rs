//! Small inputs on which engines have been wrong before, at 1, 2, 4 and 8 slots: the answers may not depend on it.

use thalweg_integration_tests::cluster::{Cluster, Options};
use thalweg_integration_tests::data::{parquet_table, values_table, write_parquet};

/// Exchanges happen even for a handful of rows.
const DISTRIBUTED: [(&str, &str); 1] = [("execution.batch.single-task-threshold", "0")];

/// TaskManagers and slots of each: 1, 2, 4 and 8 slots together.
const SHAPES: [(usize, u32); 4] = [(1, 1), (2, 1), (2, 2), (2, 4)];

/// A query and its rows as a sorted bag of comma-joined values, `N` for NULL.
type Case = (&'static str, &'static [&'static str]);

fn check(cluster: &Cluster, name: &str, tables: &str, cases: &[Case], failures: &mut Vec<String>) {
    for (query, rows) in cases {
        let result = cluster.sql(&format!("{tables}{query};\n"), &DISTRIBUTED);
        match result.map(|table| table.bag()) {
            Ok(got) if got == *rows => {}
            Ok(got) => failures.push(format!("{name}: {query}\n  got      {got:?}\n  expected {rows:?}")),
            Err(why) => failures.push(format!("{name}: {query}\n  {why}")),
        }
    }
}

/// NULL joins nothing, also not in the second join of a chain.
fn outer_join_chain(cluster: &Cluster, failures: &mut Vec<String>) {
    let tables = [
        values_table("parcels", "pid INT, depot INT", "[[1,10],[2,20],[3,null],[4,30]]"),
        values_table("depots", "depot INT, city STRING", r#"[[10,"Oslo"],[null,"Nowhere"],[30,"Riga"]]"#),
        values_table("crews", "depot INT, crew STRING", r#"[[10,"A"],[10,"B"],[null,"Z"]]"#),
    ];
    let cases: &[Case] = &[
        (
            "SELECT p.pid, d.city, c.crew FROM parcels p LEFT JOIN depots d ON p.depot = d.depot \
             LEFT JOIN crews c ON p.depot = c.depot",
            &["1,Oslo,A", "1,Oslo,B", "2,N,N", "3,N,N", "4,Riga,N"],
        ),
        (
            "SELECT p.pid, d.city FROM parcels p FULL JOIN depots d ON p.depot = d.depot",
            &["1,Oslo", "2,N", "3,N", "4,Riga", "N,Nowhere"],
        ),
    ];
    check(cluster, "outer join chain", &tables.concat(), cases, failures);
}

/// 98 % of the rows have one key.
fn hot_key(cluster: &Cluster, failures: &mut Vec<String>) {
    let dir = cluster.data().join("sales");
    let item: fn(i64) -> i64 = |i| if i < 50_000 { 7 } else { 1 + (i - 50_000) % 100 };
    write_parquet(&dir, 51_000, 8, &[("item", item), ("qty", |_| 1)]);
    let tables = [
        parquet_table("sales", "item BIGINT, qty BIGINT", &dir),
        values_table("labels", "item BIGINT, label STRING", r#"[[7,"hot"],[7,"hot2"],[8,"x"],[200,"none"]]"#),
    ];
    let cases: &[Case] = &[
        (
            "SELECT COUNT(*), SUM(qty), COUNT(label) FROM sales s JOIN labels l ON s.item = l.item",
            &["100030,100030,100030"],
        ),
        (
            "SELECT COUNT(*), SUM(qty), COUNT(label) FROM sales s LEFT JOIN labels l ON s.item = l.item",
            &["101010,101010,100030"],
        ),
        (
            "SELECT COUNT(*), SUM(qty), COUNT(label) FROM sales s RIGHT JOIN labels l ON s.item = l.item",
            &["100031,100030,100031"],
        ),
        (
            "SELECT COUNT(*), SUM(qty), COUNT(label) FROM sales s FULL JOIN labels l ON s.item = l.item",
            &["101011,101010,100031"],
        ),
        ("SELECT COUNT(*) FROM sales s WHERE EXISTS (SELECT 1 FROM labels l WHERE l.item = s.item)", &["50020"]),
        ("SELECT COUNT(*) FROM sales s WHERE NOT EXISTS (SELECT 1 FROM labels l WHERE l.item = s.item)", &["980"]),
    ];
    check(cluster, "hot key", &tables.concat(), cases, failures);
}

/// NOT IN has to know of a NULL anywhere in the other side, and whether that side is empty.
fn not_in_and_null(cluster: &Cluster, failures: &mut Vec<String>) {
    let tables = [
        values_table("orders5", "id INT, cust INT", "[[1,100],[2,null],[3,300]]"),
        values_table("blocked", "cust INT", "[[100],[null]]"),
    ];
    let cases: &[Case] = &[
        ("SELECT id FROM orders5 WHERE cust NOT IN (SELECT cust FROM blocked)", &[]),
        ("SELECT id FROM orders5 o WHERE NOT EXISTS (SELECT 1 FROM blocked b WHERE b.cust = o.cust)", &["2", "3"]),
        ("SELECT id FROM orders5 WHERE cust NOT IN (SELECT cust FROM blocked WHERE cust > 1000)", &["1", "2", "3"]),
        ("SELECT id FROM orders5 WHERE cust NOT IN (SELECT cust FROM blocked WHERE cust IS NOT NULL)", &["3"]),
        ("SELECT id FROM orders5 WHERE cust IN (SELECT cust FROM blocked)", &["1"]),
    ];
    check(cluster, "NOT IN and NULL", &tables.concat(), cases, failures);
}

fn decimal_aggregates(cluster: &Cluster, failures: &mut Vec<String>) {
    let table = values_table("m7", "id INT, a DECIMAL(10,2)", r#"[[1,"0.10"],[2,"0.20"],[3,"0.30"],[4,null]]"#);
    let cases: &[Case] = &[("SELECT SUM(a), MIN(a), COUNT(a), COUNT(*) FROM m7", &["0.60,0.10,3,4"])];
    check(cluster, "decimal aggregates", &table, cases, failures);
}

/// A constant input comes from one task only, and an empty side is still a side.
fn empty_sides(cluster: &Cluster, failures: &mut Vec<String>) {
    let tables = [values_table("u10", "f INT", "[[1],[2]]"), values_table("e10", "f INT", "[[5]]")];
    let cases: &[Case] = &[
        ("SELECT v.x, e.f FROM (VALUES (1)) v(x) LEFT JOIN (SELECT f FROM e10 WHERE f > 100) e ON v.x = e.f", &["1,N"]),
        ("SELECT COUNT(*) FROM (SELECT x FROM (VALUES (1),(2),(3)) v(x) UNION ALL SELECT f FROM u10) q", &["5"]),
        // An aggregate without groups has one row, also over nothing, also when many tasks saw nothing.
        ("SELECT COUNT(*), SUM(f) FROM e10 WHERE f > 100", &["0,N"]),
        ("SELECT f, COUNT(*) FROM e10 WHERE f > 100 GROUP BY f", &[]),
    ];
    check(cluster, "empty sides", &tables.concat(), cases, failures);
}

/// 100,000 facts in eight files: 1000 groups of 100.
fn group_totals(cluster: &Cluster, failures: &mut Vec<String>) {
    let dir = cluster.data().join("facts");
    write_parquet(&dir, 100_000, 8, &[("k", |i| i % 1000), ("v", |i| i)]);
    let table = parquet_table("facts", "k BIGINT, v BIGINT", &dir);
    match cluster.sql(&format!("{table}SELECT k, COUNT(*), SUM(v) FROM facts GROUP BY k;"), &DISTRIBUTED) {
        Ok(result) => {
            let mut expected: Vec<String> = (0..1000).map(|k| format!("{k},100,{}", 100 * k + 4_950_000)).collect();
            expected.sort();
            if result.bag() != expected {
                failures.push(format!("group totals: {} groups, first {:?}", result.rows.len(), result.bag().first()));
            }
        }
        Err(why) => failures.push(format!("group totals: {why}")),
    }
}

/// NULL is a key of its own in a grouping, and the empty string is not NULL.
fn null_groups(cluster: &Cluster, failures: &mut Vec<String>) {
    let table = values_table("g", "k STRING, v INT", r#"[["",1],[null,2],["a",3],[null,4],["",5]]"#);
    let cases: &[Case] = &[
        ("SELECT k, SUM(v) FROM g GROUP BY k", &[",6", "N,6", "a,3"]),
        ("SELECT COUNT(*), COUNT(k), COUNT(DISTINCT k) FROM g", &["5,3,2"]),
        ("SELECT l.v, r.v FROM g l JOIN g r ON l.k = r.k WHERE l.v < r.v", &["1,5"]),
    ];
    check(cluster, "NULL groups", &table, cases, failures);
}

fn run_at(shape: (usize, u32)) {
    let cluster = Cluster::start(Options::new(shape.0, shape.1));
    let mut failures = Vec::new();
    outer_join_chain(&cluster, &mut failures);
    hot_key(&cluster, &mut failures);
    not_in_and_null(&cluster, &mut failures);
    decimal_aggregates(&cluster, &mut failures);
    empty_sides(&cluster, &mut failures);
    group_totals(&cluster, &mut failures);
    null_groups(&cluster, &mut failures);
    assert!(failures.is_empty(), "{} wrong at {shape:?}\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn one_slot() {
    run_at(SHAPES[0]);
}

#[test]
fn two_slots() {
    run_at(SHAPES[1]);
}

#[test]
fn four_slots() {
    run_at(SHAPES[2]);
}

#[test]
fn eight_slots() {
    run_at(SHAPES[3]);
}
