//! Orders of joins over tables that are only described.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use async_trait::async_trait;
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue};
use datafusion::logical_expr::LogicalPlan;
use proptest::prelude::*;
use thalweg_connectors::{AccessRules, Error, ScanPlan, ScanSpec, TableDefinition, TableSource, create_table};

use super::cost::{CostModel, Costed};
use super::graph::{Graph, Set};
use super::region::{self, Region};
use super::search::Candidates;
use super::{JoinOrderOptions, order_joins, search};
use crate::Session;
use crate::sql::{Statement, parse_statement};
use crate::stack::OnDeepStack;

/// A table with other rows and statistics than its own.
#[derive(Debug)]
struct Described {
    table: Arc<dyn TableSource>,
    plan: ScanPlan,
}

#[async_trait]
impl TableSource for Described {
    fn schema(&self) -> SchemaRef {
        self.table.schema()
    }

    fn scan_spec(&self) -> ScanSpec {
        self.table.scan_spec()
    }

    async fn plan_scan(&self) -> Result<ScanPlan, Error> {
        Ok(self.plan.clone())
    }
}

async fn table(name: &str, columns: Option<SchemaRef>, options: &[(&str, &str)]) -> Arc<dyn TableSource> {
    let options = options.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    let definition = TableDefinition { name: name.to_owned(), columns, options };
    create_table(&definition, &AccessRules { allowed_roots: vec![] }).await.unwrap()
}

/// A range of whole numbers, in the column's own type.
fn range(data_type: &DataType, least: i64, greatest: i64) -> ColumnStatistics {
    let value = |v: i64| {
        Precision::Exact(match data_type {
            DataType::Int32 => ScalarValue::Int32(Some(v as i32)),
            DataType::Date32 => ScalarValue::Date32(Some(v as i32)),
            DataType::Decimal128(precision, scale) => ScalarValue::Decimal128(Some(i128::from(v)), *precision, *scale),
            _ => ScalarValue::Int64(Some(v)),
        })
    };
    let mut column = ColumnStatistics::new_unknown();
    (column.min_value, column.max_value) = (value(least), value(greatest));
    column
}

/// TPC-H's tables as the footers of their files describe them at scale factor 10.
async fn tpch_session() -> Session {
    const KEYS: [(&str, i64); 4] =
        [("custkey", 1_500_000), ("partkey", 2_000_000), ("suppkey", 100_000), ("orderkey", 60_000_000)];
    const OTHERS: [(&str, i64, i64); 9] = [
        ("regionkey", 0, 4),
        ("nationkey", 0, 24),
        ("size", 1, 50),
        ("quantity", 100, 5000),
        ("availqty", 1, 9999),
        ("orderdate", 8035, 10440),
        ("shipdate", 8036, 10561),
        ("commitdate", 8065, 10530),
        ("receiptdate", 8037, 10591),
    ];
    let rows = [
        ("region", 5),
        ("nation", 25),
        ("supplier", 100_000),
        ("customer", 1_500_000),
        ("part", 2_000_000),
        ("partsupp", 8_000_000),
        ("orders", 15_000_000),
        ("lineitem", 60_000_000),
    ];
    let mut session = Session::new();
    for (name, rows) in rows {
        let table = table(name, None, &[("connector", "tpch"), ("scale-factor", "0.01")]).await;
        let fields = table.schema().fields().clone();
        let column = |name: &str, data_type: &DataType| {
            let key = KEYS.iter().find(|(key, _)| name.ends_with(key)).map(|(_, most)| range(data_type, 1, *most));
            let other = OTHERS.iter().find(|(key, ..)| name.ends_with(key)).map(|(_, a, b)| range(data_type, *a, *b));
            key.or(other).unwrap_or_else(ColumnStatistics::new_unknown)
        };
        let plan = ScanPlan {
            rows: Some(rows),
            column_bytes: vec![8 * rows; fields.len()],
            bytes: 8 * rows * fields.len() as u64,
            column_statistics: fields.iter().map(|f| column(f.name(), f.data_type())).collect(),
            splits: vec![],
        };
        session.register_table(name, Arc::new(Described { table, plan })).unwrap();
    }
    session
}

async fn optimized(session: &mut Session, text: &str) -> LogicalPlan {
    let Statement::Query(query) = parse_statement(text).unwrap() else { panic!("{text} is no query") };
    let options = crate::tests::options();
    let (state, plan) = OnDeepStack::new(session.logical_plan(&query, &options)).await.unwrap();
    state.optimize(&plan).unwrap()
}

async fn changes(session: &mut Session, text: &str) -> Vec<String> {
    let plan = optimized(session, text).await;
    let schema = Arc::clone(plan.schema());
    let ordered = order_joins(plan, &OPTIONS).unwrap();
    assert_eq!(ordered.plan.schema(), &schema, "{text}");
    ordered.changes
}

const OPTIONS: JoinOrderOptions = JoinOrderOptions { bushy_threshold: 12, broadcast_bytes: 64 << 20 };

/// The part of a change that tells the order.
fn order(change: &str) -> &str {
    change.trim_start_matches("join order: ").split(';').next().unwrap_or_default()
}

#[tokio::test]
async fn tpch_orders() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../integration-tests/tpch/queries");
    let mut session = tpch_session().await;
    let mut found = vec![];
    for number in 1..=22 {
        let text = std::fs::read_to_string(folder.join(format!("q{number:02}.sql"))).unwrap();
        let text = text.replace("__FRACTION__", "0.0001");
        for change in changes(&mut session, text.trim_end()).await {
            found.push(format!("q{number:02} {}", order(&change)));
        }
    }
    let expected = [
        "q02 (((region ⋈ nation) ⋈ supplier) ⋈ partsupp)",
        "q05 (supplier ⋈ ((((region ⋈ nation) ⋈ customer) ⋈ orders) ⋈ lineitem))",
        "q07 (((n2 ⋈ customer) ⋈ orders) ⋈ ((n1 ⋈ supplier) ⋈ lineitem))",
        "q08 ((n2 ⋈ supplier) ⋈ (part ⋈ ((((region ⋈ n1) ⋈ customer) ⋈ orders) ⋈ lineitem)))",
        "q09 (orders ⋈ (((nation ⋈ supplier) ⋈ (part ⋈ partsupp)) ⋈ lineitem))",
        "q10 (nation ⋈ ((orders ⋈ lineitem) ⋈ customer))",
        "q11 ((nation ⋈ supplier) ⋈ partsupp)",
        "q11 ((nation ⋈ supplier) ⋈ partsupp)",
        "q18 ((customer ⋈ (orders ⋉ lineitem)) ⋈ lineitem)",
        "q21 (((orders ⋈ ((nation ⋈ supplier) ⋈ l1)) ⋉ l2) ▷ l3)",
    ];
    assert_eq!(found, expected, "{found:#?}");
}

/// Tables t0 to t7 of very different sizes, with four whole-number columns each.
async fn numbered_session(rows: &[u64]) -> Session {
    let mut session = Session::new();
    for (n, &rows) in rows.iter().enumerate() {
        let fields = ["a", "b", "c", "d"].map(|name| arrow::datatypes::Field::new(name, DataType::Int64, true));
        let schema = Arc::new(arrow::datatypes::Schema::new(fields.to_vec()));
        let name = format!("t{n}");
        let table = table(&name, Some(schema), &[("connector", "values"), ("rows", "[[1,2,3,4]]")]).await;
        let column_statistics = vec![range(&DataType::Int64, 0, rows as i64); 4];
        let plan = ScanPlan { rows: Some(rows), bytes: rows * 32, column_statistics, ..ScanPlan::default() };
        session.register_table(&name, Arc::new(Described { table, plan })).unwrap();
    }
    session
}

/// The first region from the top.
fn first_region(plan: &LogicalPlan) -> Option<&LogicalPlan> {
    if region::is_member(plan) {
        return Some(plan);
    }
    plan.inputs().into_iter().find_map(first_region)
}

/// Every split of every set, the slow and obvious way.
fn cheapest_of_all(graph: &Graph, costs: &CostModel) -> Option<Costed> {
    let edges = graph.edges();
    let mut best: HashMap<Set, Candidates> = HashMap::new();
    for set in 1..=graph.all() {
        if set.count_ones() == 1 {
            best.insert(set, Candidates::of(costs.relation(set.trailing_zeros() as usize)));
            continue;
        }
        for left in 1..set {
            let right = set & !left;
            let within = |small: Set, large: Set| small & !large == 0;
            let connected = edges.iter().any(|&(a, b)| within(a, left) && within(b, right));
            if left & !set != 0
                || right == 0
                || !(connected || edges.iter().any(|&(a, b)| within(b, left) && within(a, right)))
            {
                continue;
            }
            let (Some(l), Some(r)) = (best.get(&left), best.get(&right)) else { continue };
            let joined: Vec<Costed> = l.joined(r, costs).collect();
            best.entry(set).or_default().extend(joined);
        }
    }
    best.remove(&graph.all())?.cheapest()
}

#[derive(Debug, Clone)]
struct Case {
    rows: Vec<u64>,
    text: String,
}

fn case() -> impl Strategy<Value = Case> {
    let rows = prop::collection::vec(prop::sample::select(vec![3u64, 100, 5_000, 200_000, 10_000_000]), 3..7);
    rows.prop_flat_map(|rows| {
        let tables = rows.len();
        let column = (0..tables, prop::sample::select(vec!["a", "b", "c", "d"])).prop_map(|(t, c)| format!("t{t}.{c}"));
        let column = column.boxed();
        let condition = prop_oneof![
            6 => (column.clone(), column.clone()).prop_map(|(l, r)| format!("{l} = {r}")),
            1 => (column.clone(), column.clone(), column.clone()).prop_map(|(a, b, c)| format!("{a} + {b} = {c}")),
            1 => (column.clone(), column.clone()).prop_map(|(l, r)| format!("{l} < {r}")),
            1 => (column.clone(), column.clone())
                .prop_map(|(l, r)| format!("EXISTS (SELECT 1 FROM t0 x WHERE x.a = {l} AND x.b <> {r})")),
            1 => column.clone().prop_map(|c| format!("NOT EXISTS (SELECT 1 FROM t1 x WHERE x.c = {c})")),
            1 => column.prop_map(|c| format!("{c} < 50")),
        ];
        (Just(rows), prop::collection::vec(condition, tables - 1..2 * tables))
    })
    .prop_map(|(rows, conditions)| {
        let from: Vec<String> = (0..rows.len()).map(|n| format!("t{n}")).collect();
        let text = format!("SELECT COUNT(*) FROM {} WHERE {}", from.join(", "), conditions.join(" AND "));
        Case { rows, text }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.min(1000), ..ProptestConfig::default() })]

    #[test]
    fn the_search_finds_the_cheapest(case in case()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut session = numbered_session(&case.rows).await;
            let plan = optimized(&mut session, &case.text).await;
            let Some(plan) = first_region(&plan) else { return };
            let Some(graph) = Graph::new(Region::of(plan)) else { return };
            let costs = CostModel::new(&graph, 1 << 20);
            let slow = cheapest_of_all(&graph, &costs);
            let found = search::best(&graph, &costs, 64).unwrap();
            if let Some(slow) = slow {
                assert!((found.cost / slow.cost - 1.0).abs() < 1e-9, "{case:?}\n{found:?}\n{slow:?}");
            }
            // the cost of the tree is the one that was promised, and greedy trees are whole
            assert!((costs.of(&found.tree).cost / found.cost - 1.0).abs() < 1e-9);
            let greedy = search::best(&graph, &costs, 0).unwrap();
            assert_eq!(greedy.set, graph.all());
            assert!(greedy.cost >= found.cost * (1.0 - 1e-9) || slow_is_none(&graph, &costs));
            for tree in [&found.tree, &greedy.tree] {
                costs.build(tree).unwrap();
            }
        });
    }
}

/// Whether the graph falls apart, so that a tree needs a cross product.
fn slow_is_none(graph: &Graph, costs: &CostModel) -> bool {
    cheapest_of_all(graph, costs).is_none()
}
