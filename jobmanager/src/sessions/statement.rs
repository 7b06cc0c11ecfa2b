//! One session, and what each statement does.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::SchemaRef;
use thalweg_config::HighAvailabilityType;
use thalweg_planner::compile::CompiledQuery;
use thalweg_planner::sql::{Statement, parse_statement, split_script};
use thalweg_planner::{Outcome, PlanError, Session};
use thalweg_rpc::Problem;
use thalweg_types::{Fault, JobId};

use super::analyze;
use super::options::{Environment, job_options, planner_options};
use super::settings::Settings;
use crate::driver::Submission;

/// Longest text of one statement or script, bytes.
const MAX_TEXT: usize = 4 << 20;

/// What a statement came to.
#[derive(Debug)]
pub enum Executed {
    /// One line for people.
    Done(String),
    Rows(RecordBatch),
    /// A job was submitted.
    Query {
        /// The job goes on after a loss of the JobManager.
        recoverable: bool,
        job: JobId,
        schema: SchemaRef,
    },
}

/// A session: its settings and its tables and views.
pub struct SqlSession {
    environment: Environment,
    settings: Settings,
    planner: Session,
}

impl fmt::Debug for SqlSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqlSession").field("settings", self.settings.changed()).finish_non_exhaustive()
    }
}

impl SqlSession {
    pub fn new(environment: Environment, settings: &BTreeMap<String, String>) -> Result<Self, Problem> {
        let mut own = Settings::new(environment.config.clone());
        own.change(settings, &[])?;
        Ok(Self { environment, settings: own, planner: Session::new() })
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    pub fn change_settings(
        &mut self,
        set: &BTreeMap<String, String>,
        reset: &[String],
    ) -> Result<Vec<String>, Problem> {
        self.settings.change(set, reset)
    }

    /// Runs one statement; a query is submitted and not waited for. Gives remarks as well.
    pub async fn execute(&mut self, text: &str) -> Result<(Executed, Vec<String>), Problem> {
        check_length(text)?;
        let statement = parse_statement(text).map_err(|error| problem(&error.into()))?;
        self.run(statement).await
    }

    /// Runs a script whose last statement is a query, which is submitted.
    pub async fn submit_script(&mut self, script: &str) -> Result<(JobId, SchemaRef), Problem> {
        check_length(script)?;
        let statements = split_script(script).map_err(|error| problem(&error.into()))?;
        let no_query = || Problem::Statement { message: "the last statement of a script must be a query".to_owned() };
        let (last, before) = statements.split_last().ok_or_else(no_query)?;
        for statement in before {
            let at_line = |problem| in_line(problem, statement.line);
            let parsed = parse_statement(&statement.text).map_err(|error| at_line(problem(&error.into())))?;
            if let Statement::Query(_) = parsed {
                return Err(at_line(no_query()));
            }
            self.run(parsed).await.map_err(at_line)?;
        }
        let at_line = |problem| in_line(problem, last.line);
        let parsed = parse_statement(&last.text).map_err(|error| at_line(problem(&error.into())))?;
        if !matches!(parsed, Statement::Query(_)) {
            return Err(at_line(no_query()));
        }
        match self.run(parsed).await.map_err(at_line)?.0 {
            Executed::Query { job, schema, .. } => Ok((job, schema)),
            _ => Err(no_query()),
        }
    }

    /// The plan of a query as text.
    pub async fn explain(&mut self, query: &str) -> Result<String, Problem> {
        check_length(query)?;
        let Statement::Query(query) = parse_statement(query).map_err(|error| problem(&error.into()))? else {
            return Err(Problem::Statement { message: "only a query can be explained".to_owned() });
        };
        match self.plan(&Statement::Explain { analyze: false, query }).await? {
            Outcome::Rows(rows) => Ok(lines_of(&rows)),
            _ => Err(Problem::Internal { message: "the planner explained nothing".to_owned() }),
        }
    }

    async fn run(&mut self, statement: Statement) -> Result<(Executed, Vec<String>), Problem> {
        let done = |text| Ok((Executed::Done(text), Vec::new()));
        match statement {
            Statement::Set { key, value } => {
                let text = format!("{key} set to {value}");
                let notes = self.settings.change(&BTreeMap::from([(key, value)]), &[])?;
                Ok((Executed::Done(text), notes))
            }
            Statement::Reset { key: Some(key) } => {
                self.settings.change(&BTreeMap::new(), std::slice::from_ref(&key))?;
                done(format!("{key} reset"))
            }
            Statement::Reset { key: None } => {
                self.settings.reset_all();
                done("all settings reset".to_owned())
            }
            Statement::SetList => {
                let (keys, values): (Vec<_>, Vec<_>) = self.settings.list().into_iter().unzip();
                Ok((Executed::Rows(text_columns(&[("key", keys), ("value", values)])?), Vec::new()))
            }
            statement => {
                let executed = match self.plan(&statement).await? {
                    Outcome::Done(text) => Executed::Done(text),
                    Outcome::Rows(rows) => Executed::Rows(rows),
                    Outcome::Query(query) => self.submit(*query).await?,
                    Outcome::ExplainAnalyze(query) => {
                        let submission = self.submission(*query);
                        let lines = analyze::run(&self.environment.driver, submission).await?;
                        Executed::Rows(text_columns(&[("plan", lines)])?)
                    }
                };
                Ok((executed, Vec::new()))
            }
        }
    }

    async fn plan(&mut self, statement: &Statement) -> Result<Outcome, Problem> {
        let Environment { access, driver, .. } = &self.environment;
        let options = planner_options(self.settings.effective(), access, driver.cluster_size());
        self.planner.run(statement, &options).await.map_err(|error| problem(&error))
    }

    async fn submit(&self, query: CompiledQuery) -> Result<Executed, Problem> {
        let submission = self.submission(query);
        let (schema, recoverable) = (submission.schema.clone(), submission.recoverable);
        let job = self.environment.driver.submit(submission).await?;
        Ok(Executed::Query { job, schema, recoverable })
    }

    fn submission(&self, query: CompiledQuery) -> Submission {
        let config = self.settings.effective();
        Submission {
            template: Arc::new(query.template),
            schema: query.schema,
            statement: query.statement.into(),
            plan: query.explain.into(),
            options: job_options(config, self.environment.driver.cluster_size()),
            settings: self.settings.for_tasks(),
            result_ttl: config.client.result_ttl,
            result_max_size: config.client.result_max_size,
            recoverable: config.high_availability.kind == HighAvailabilityType::Filesystem
                && config.execution.job_recovery.enabled.unwrap_or(true),
        }
    }
}

fn check_length(text: &str) -> Result<(), Problem> {
    if text.len() > MAX_TEXT {
        return Err(Problem::Limit { what: "bytes in a statement".to_owned(), limit: MAX_TEXT as u64 });
    }
    Ok(())
}

fn problem(error: &PlanError) -> Problem {
    match error.fault() {
        Fault::Internal => {
            tracing::error!(error = error as &dyn std::error::Error, "planning failed");
            Problem::Internal { message: error.to_string() }
        }
        Fault::User | Fault::External => Problem::Statement { message: error.to_string() },
    }
}

/// Says where in a script it was.
fn in_line(problem: Problem, line: u64) -> Problem {
    let place = |message| format!("statement at line {line}: {message}");
    match problem {
        Problem::Statement { message } => Problem::Statement { message: place(message) },
        Problem::Setting { message } => Problem::Setting { message: place(message) },
        other => other,
    }
}

fn text_columns(columns: &[(&str, Vec<String>)]) -> Result<RecordBatch, Problem> {
    let columns = columns.iter().map(|(name, values)| {
        let values: ArrayRef = Arc::new(StringArray::from_iter_values(values));
        (*name, values, false)
    });
    RecordBatch::try_from_iter_with_nullable(columns).map_err(|error| Problem::Internal { message: error.to_string() })
}

fn lines_of(rows: &RecordBatch) -> String {
    use arrow::array::AsArray;
    let Some(column) = rows.columns().first().and_then(|column| column.as_string_opt::<i32>()) else {
        return String::new();
    };
    column.iter().flatten().collect::<Vec<_>>().join("\n")
}
