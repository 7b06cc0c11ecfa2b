//! Statements through a session, up to the logical plan.

mod cases;
mod semantics;
mod statements;
mod tpch;
mod views;

use std::time::Duration;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::logical_expr::LogicalPlan;
use thalweg_connectors::AccessRules;

use crate::error::PlanError;
use crate::sql::{Statement, parse_statement, split_script};
use crate::stack::OnDeepStack;
use crate::{Outcome, PlannerOptions, Session};

pub(crate) fn options() -> PlannerOptions {
    PlannerOptions {
        access: AccessRules { allowed_roots: Vec::new() },
        single_task_threshold: 0,
        broadcast_threshold: 0,
        join_order: None,
        runtime_filters: None,
        max_parallelism: 4,
        time_zone: "UTC".to_string(),
        batch_size: 8192,
    }
}

/// A session and the runtime its statements run on.
struct Fixture {
    session: Session,
    runtime: tokio::runtime::Runtime,
    options: PlannerOptions,
}

impl Fixture {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Fixture { session: Session::new(), runtime, options: options() }
    }

    /// A session in which `script` has run.
    fn with(script: &str) -> Self {
        let mut fixture = Fixture::new();
        fixture.run_all(script);
        fixture
    }

    fn run_all(&mut self, script: &str) {
        for statement in split_script(script).unwrap() {
            if let Err(error) = self.run(&statement.text) {
                panic!("{}\n{error}", statement.text);
            }
        }
    }

    fn run(&mut self, text: &str) -> Result<Outcome, PlanError> {
        let statement = parse_statement(text)?;
        self.runtime.block_on(self.session.run(&statement, &self.options))
    }

    fn error(&mut self, text: &str) -> PlanError {
        match self.run(text) {
            Ok(_) => panic!("{text}\nwas accepted"),
            Err(error) => error,
        }
    }

    fn done(&mut self, text: &str) -> String {
        match self.run(text) {
            Ok(Outcome::Done(message)) => message,
            Ok(_) => panic!("{text}\nis not a command"),
            Err(error) => panic!("{text}\n{error}"),
        }
    }

    /// Every row as its values, separated by `|`.
    fn rows(&mut self, text: &str) -> Vec<String> {
        match self.run(text) {
            Ok(Outcome::Rows(batch)) => lines(&batch),
            Ok(_) => panic!("{text}\nhas no rows"),
            Err(error) => panic!("{text}\n{error}"),
        }
    }

    fn plan(&mut self, text: &str) -> Result<LogicalPlan, PlanError> {
        let Statement::Query(query) = parse_statement(text)? else { panic!("{text}\nis not a query") };
        let planning = OnDeepStack::new(self.session.logical_plan(&query, &self.options));
        Ok(self.runtime.block_on(planning)?.1)
    }

    /// The plan after DataFusion's logical optimizer, indented.
    fn optimized(&mut self, text: &str) -> String {
        let Statement::Query(query) = parse_statement(text).unwrap() else { panic!("{text}\nis not a query") };
        let planning = OnDeepStack::new(self.session.logical_plan(&query, &self.options));
        let (state, plan) = self.runtime.block_on(planning).unwrap_or_else(|error| panic!("{text}\n{error}"));
        state.optimize(&plan).unwrap_or_else(|error| panic!("{text}\n{error}")).display_indent().to_string()
    }

    /// The rows of a query without tables, computed by DataFusion.
    fn values(&mut self, text: &str) -> Vec<String> {
        let Statement::Query(query) = parse_statement(text).unwrap() else { panic!("{text}\nis not a query") };
        self.runtime.block_on(async {
            let (state, plan) = self.session.logical_plan(&query, &self.options).await.unwrap();
            let plan = state.create_physical_plan(&plan).await.unwrap();
            let batches = datafusion::physical_plan::collect(plan, state.task_ctx()).await.unwrap();
            batches.iter().flat_map(lines).collect()
        })
    }

    /// The one value of a query without tables, with its Arrow type.
    fn value(&mut self, text: &str) -> (String, String) {
        let data_type = self.plan(text).unwrap().schema().field(0).data_type().to_string();
        let values = self.values(text);
        assert_eq!(values.len(), 1, "{text}");
        (values[0].clone(), data_type)
    }
}

fn lines(batch: &RecordBatch) -> Vec<String> {
    let format = FormatOptions::new().with_null("N");
    let columns: Vec<ArrayFormatter> =
        batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &format).unwrap()).collect();
    let row = |n: usize| columns.iter().map(|column| column.value(n).to_string()).collect::<Vec<_>>().join("|");
    (0..batch.num_rows()).map(row).collect()
}

#[test]
fn planning_a_small_query_is_cheap() {
    let mut fixture = Fixture::new();
    fixture.plan("SELECT 1").unwrap(); // builds the functions and rules once
    let rounds = 50;
    let start = std::time::Instant::now();
    for _ in 0..rounds {
        fixture.plan("SELECT 1").unwrap();
    }
    let each = start.elapsed() / rounds;
    assert!(each < Duration::from_millis(20), "{each:?}"); // far above the goal of 1 ms: test machines are busy
}

#[test]
fn explain_is_one_row_per_line() {
    let mut fixture = Fixture::new();
    let Ok(Outcome::Rows(batch)) = fixture.run("EXPLAIN SELECT 1 AS one") else { panic!() };
    assert_eq!(batch.schema().field(0).name(), "plan");
    let text = batch.column(0).as_string::<i32>();
    assert!(text.len() >= 1 && text.iter().flatten().all(|line| !line.contains('\n')));
    assert!(matches!(fixture.run("EXPLAIN ANALYZE SELECT 1"), Ok(Outcome::ExplainAnalyze(_))));
}
