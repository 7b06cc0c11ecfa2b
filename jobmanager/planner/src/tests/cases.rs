//! Queries from real complaints about other engines: they have to plan, and be optimised, without an error.

use super::Fixture;

const TABLES: &str = "
CREATE TABLE parcels (pid INT, depot INT) WITH ('connector' = 'values', 'rows' = '[[1,10],[2,20],[3,null],[4,30]]');
CREATE TABLE depots (depot INT, city VARCHAR)
  WITH ('connector' = 'values', 'rows' = '[[10,\"Oslo\"],[null,\"Nowhere\"],[30,\"Riga\"]]');
CREATE TABLE crews (depot INT, crew VARCHAR) WITH ('connector' = 'values', 'rows' = '[[10,\"A\"],[10,\"B\"],[null,\"Z\"]]');
CREATE TABLE sales (item INT, qty INT) WITH ('connector' = 'values', 'rows' = '[[7,1],[8,1]]');
CREATE TABLE labels (item INT, label VARCHAR) WITH ('connector' = 'values', 'rows' = '[[7,\"hot\"],[200,\"none\"]]');
CREATE TABLE orders5 (id INT, cust INT) WITH ('connector' = 'values', 'rows' = '[[1,100],[2,null],[3,300]]');
CREATE TABLE blocked (cust INT) WITH ('connector' = 'values', 'rows' = '[[100],[null]]');
CREATE TABLE m7 (id INT, a DECIMAL(10,2)) WITH ('connector' = 'values', 'rows' = '[[1,0.10],[2,0.20],[3,0.30],[4,null]]');
CREATE TABLE w7 (id INT, a DECIMAL(38,3), b DECIMAL(38,3)) WITH ('connector' = 'values', 'rows' = '[[2,1.000,2.500]]');
CREATE TABLE u10 (f INT) WITH ('connector' = 'values', 'rows' = '[[1],[2]]');
CREATE TABLE e10 (f INT) WITH ('connector' = 'values', 'rows' = '[[5]]');
";

const QUERIES: &[&str] = &[
    // outer joins in a chain
    "SELECT p.pid, d.city, c.crew FROM parcels p LEFT JOIN depots d ON p.depot = d.depot LEFT JOIN crews c ON p.depot = c.depot",
    "SELECT p.pid, d.city FROM parcels p FULL JOIN depots d ON p.depot = d.depot",
    // a hot key, six join types
    "SELECT COUNT(*), SUM(qty), COUNT(label) FROM sales s JOIN labels l ON s.item = l.item",
    "SELECT COUNT(*), SUM(qty), COUNT(label) FROM sales s LEFT JOIN labels l ON s.item = l.item",
    "SELECT COUNT(*), SUM(qty), COUNT(label) FROM sales s RIGHT JOIN labels l ON s.item = l.item",
    "SELECT COUNT(*), SUM(qty), COUNT(label) FROM sales s FULL JOIN labels l ON s.item = l.item",
    "SELECT COUNT(*) FROM sales s WHERE EXISTS (SELECT 1 FROM labels l WHERE l.item = s.item)",
    "SELECT COUNT(*) FROM sales s WHERE NOT EXISTS (SELECT 1 FROM labels l WHERE l.item = s.item)",
    // NOT IN and NULL
    "SELECT id FROM orders5 WHERE cust NOT IN (SELECT cust FROM blocked)",
    "SELECT id FROM orders5 o WHERE NOT EXISTS (SELECT 1 FROM blocked b WHERE b.cust = o.cust)",
    "SELECT id FROM orders5 WHERE cust NOT IN (SELECT cust FROM blocked WHERE cust > 1000)",
    "SELECT id FROM orders5 WHERE cust NOT IN (SELECT cust FROM blocked WHERE cust IS NOT NULL)",
    "SELECT id FROM orders5 WHERE cust IN (SELECT cust FROM blocked)",
    // decimals
    "SELECT SUM(a), MIN(a), COUNT(a), COUNT(*) FROM m7",
    "SELECT AVG(a) FROM m7",
    "SELECT a / 3, a * a FROM m7",
    "SELECT AVG(CAST(a AS DECIMAL(38, 2))) FROM m7 WHERE id > 100",
    "SELECT CAST(2.345 AS DECIMAL(10, 2)), CAST(-2.345 AS DECIMAL(10, 2)), 7 / 2",
    "SELECT a + b, a - b FROM w7",
    // a side that turns out empty, and constants
    "SELECT v.x, e.f FROM (VALUES (1)) v(x) LEFT JOIN (SELECT f FROM e10 WHERE f > 100) e ON v.x = e.f",
    "SELECT COUNT(*) FROM (SELECT x FROM (VALUES (1),(2),(3)) v(x) UNION ALL SELECT f FROM u10) q",
    // a non-deterministic split
    "SELECT id, b, ROW_NUMBER() OVER (PARTITION BY b ORDER BY id) AS rn FROM (SELECT id, CAST(RAND() * 8 AS INT) AS b FROM m7)",
];

#[test]
fn all_plan() {
    let mut fixture = Fixture::with(TABLES);
    for query in QUERIES {
        let plan = fixture.optimized(query);
        assert!(!plan.is_empty(), "{query}");
    }
}
