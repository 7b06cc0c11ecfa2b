//! `thalweg sql`: runs statements in a session and prints what they return.
//!
//! Result sets go to standard output, and with the format `table` acknowledgements too; row counts, notes and progress go to
//! standard error. A script ends at its first error. Ctrl-C, a closed standard output and anything else that ends the reading of a
//! result cancels its job; a second Ctrl-C does not wait for that.

use std::io::Stdout;
use std::path::Path;
use std::pin::pin;
use std::time::{Duration, Instant};

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Schema;
use thalweg_client::format::{Format, ResultWriter, units};
use thalweg_client::script::{self, Statement};
use thalweg_client::{Client, ExecuteOutcome, Executed, QueryResult, Session};
use thalweg_types::JobId;

use crate::args::{Script, Settings, SqlArgs};
use crate::commands::connect::connect;
use crate::commands::shell;
use crate::exit::CliError;
use crate::interrupt::Interrupts;
use crate::progress::Progress;
use crate::terminal::tell;

/// Longest script or statement, bytes. A message must hold it.
pub const MAX_SCRIPT: usize = 16 << 20;
/// How long to wait, once interrupted, for the id of the job that may have been submitted.
const SUBMISSION_GRACE: Duration = Duration::from_secs(2);

pub async fn run(args: SqlArgs) -> Result<(), CliError> {
    // before anything that may take long, so that Ctrl-C is heard
    let mut interrupts = Interrupts::new().map_err(CliError::start)?;
    let (connection, session): (Vec<_>, Vec<_>) =
        args.settings.define.into_iter().partition(|(key, _)| is_of_connection(key));
    let settings = Settings { config: args.settings.config, define: connection };
    let client = connect(&args.connection, &settings).await?;
    run_script(client, session, &args.script, &mut interrupts).await
}

/// Settings that say how to reach the cluster; all others are the session's.
fn is_of_connection(key: &str) -> bool {
    key.starts_with("security.") || key.starts_with("jobmanager.rpc.")
}

/// Runs the script, or what is typed when there is none, in a session of its own.
pub async fn run_script(
    client: Client,
    settings: Vec<(String, String)>,
    script: &Script,
    interrupts: &mut Interrupts,
) -> Result<(), CliError> {
    let init = script.init.as_deref().map(read_script).transpose()?;
    let file = script.file.as_deref().map(read_script).transpose()?;
    let mut runner = Runner::open(client, settings, script.format, interrupts).await?;
    let result = runner.run_all(init.as_deref(), script.execute.as_deref().or(file.as_deref())).await;
    runner.close().await;
    result
}

fn read_script(path: &Path) -> Result<String, CliError> {
    let unreadable = |source| CliError::Read { path: path.to_owned(), source };
    let size = std::fs::metadata(path).map_err(unreadable)?.len();
    if size > MAX_SCRIPT as u64 {
        return Err(CliError::ScriptTooLong { limit: MAX_SCRIPT });
    }
    std::fs::read_to_string(path).map_err(unreadable)
}

/// Runs statements one after the other.
pub struct Runner<'a> {
    client: Client,
    session: Session,
    format: Format,
    writer: ResultWriter<Stdout>,
    pub interrupts: &'a mut Interrupts,
}

impl<'a> Runner<'a> {
    async fn open(
        client: Client,
        settings: Vec<(String, String)>,
        format: Format,
        interrupts: &'a mut Interrupts,
    ) -> Result<Self, CliError> {
        let session = client.open_session(settings).await?;
        Ok(Self { client, session, format, writer: ResultWriter::new(format, std::io::stdout()), interrupts })
    }

    async fn run_all(&mut self, init: Option<&str>, script: Option<&str>) -> Result<(), CliError> {
        if let Some(init) = init {
            self.script(init).await?;
        }
        match script {
            Some(script) => self.script(script).await,
            None => shell::run(self).await,
        }
    }

    async fn script(&mut self, text: &str) -> Result<(), CliError> {
        if text.len() > MAX_SCRIPT {
            return Err(CliError::ScriptTooLong { limit: MAX_SCRIPT });
        }
        let statements = script::statements(text);
        let alone = statements.len() == 1;
        for Statement { text, line } in statements {
            match self.statement(text).await {
                Err(source) if !alone && !source.is_closed_output() => {
                    return Err(CliError::Statement { line, source: Box::new(source) });
                }
                done => done?,
            }
        }
        Ok(())
    }

    /// Runs one statement and prints what it returns.
    pub async fn statement(&mut self, text: &str) -> Result<(), CliError> {
        let started = Instant::now();
        let Executed { notes, outcome } = self.execute(text).await?;
        notes.iter().for_each(|note| tell(&format!("note: {note}")));
        match outcome {
            ExecuteOutcome::Acknowledgement(text) => {
                let text = if text.is_empty() { "OK" } else { text.trim_end() };
                match self.format {
                    Format::Table => self.writer.line(text)?,
                    Format::Csv | Format::Json => tell(text),
                }
            }
            ExecuteOutcome::Rows { schema, batches } if self.format == Format::Table && is_plan(&schema) => {
                for line in batches.iter().flat_map(plan_lines) {
                    self.writer.line(&line)?;
                }
            }
            ExecuteOutcome::Rows { schema, batches } => {
                self.writer.begin(&schema)?;
                for batch in &batches {
                    self.writer.batch(batch)?;
                }
                let rows = self.writer.end()?;
                self.summary(rows, started);
            }
            ExecuteOutcome::Query(result) => {
                let rows = self.query(result).await?;
                self.summary(rows, started);
            }
        }
        Ok(())
    }

    /// Ends the session. It would end by itself as well, so a failure is none.
    async fn close(self) {
        let _ = self.session.close().await;
    }

    async fn execute(&mut self, text: &str) -> Result<Executed, CliError> {
        let session = self.session.clone();
        let mut call = pin!(session.execute(text));
        tokio::select! {
            answer = &mut call => return Ok(answer?),
            () = self.interrupts.next() => {}
        }
        // the statement may have become a job already, and only the answer has its id
        let answer = tokio::select! {
            answer = tokio::time::timeout(SUBMISSION_GRACE, call) => answer.ok(),
            () = self.interrupts.next() => None,
        };
        if let Some(Ok(Executed { outcome: ExecuteOutcome::Query(result), .. })) = answer {
            self.cancel(result.job).await;
        }
        Err(CliError::Interrupted)
    }

    /// Prints a query's rows and returns their number.
    async fn query(&mut self, mut result: QueryResult) -> Result<u64, CliError> {
        let printed = self.print(&mut result).await;
        match &printed {
            // the job has ended, or nobody can be told
            Ok(_) | Err(CliError::Client(_)) => {}
            Err(_) => self.cancel(result.job).await,
        }
        printed
    }

    async fn print(&mut self, result: &mut QueryResult) -> Result<u64, CliError> {
        let schema = result.schema.clone();
        let mut progress = Some(Progress::of(&self.client, result.job));
        loop {
            let batch = tokio::select! {
                batch = result.next() => batch?,
                () = self.interrupts.next() => return Err(CliError::Interrupted),
                () = drive(&mut progress) => continue,
            };
            // the bars go before the first row comes; a job that failed prints no header
            if progress.take().is_some() {
                self.writer.begin(&schema)?;
            }
            match batch {
                Some(batch) => self.writer.batch(&batch)?,
                None => return Ok(self.writer.end()?),
            }
        }
    }

    async fn cancel(&mut self, job: JobId) {
        let answer = tokio::select! {
            answer = self.client.cancel_job(job) => answer,
            () = self.interrupts.next() => return,
        };
        if let Err(error) = answer {
            tell(&format!("job {job} was not cancelled: {}", thalweg_client::chain(&error)));
        }
    }

    fn summary(&self, rows: u64, started: Instant) {
        if self.format == Format::Table {
            let seconds = started.elapsed().as_secs_f64();
            tell(&format!("{} ({seconds:.3} s)", units::counted(rows, "row")));
        }
    }
}

async fn drive(progress: &mut Option<Progress>) {
    match progress {
        Some(progress) => progress.drive().await,
        None => std::future::pending().await,
    }
}

/// What EXPLAIN returns: one column of text lines. A box around them would be as wide as the longest line.
fn is_plan(schema: &Schema) -> bool {
    matches!(schema.fields().as_ref(), [field] if field.name() == "plan")
}

fn plan_lines(batch: &RecordBatch) -> Vec<String> {
    let lines = batch.column(0).as_string_opt::<i32>();
    lines.map(|lines| lines.iter().map(|line| line.unwrap_or_default().to_owned()).collect()).unwrap_or_default()
}
