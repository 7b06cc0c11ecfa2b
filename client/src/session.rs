//! A SQL session: settings, statements, and the rows of queries.
//!
//! A query's rows are read with Arrow Flight from the JobManager's own address, so that a client must reach one address only.

use std::collections::{BTreeMap, HashMap};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow_flight::Ticket;
use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::error::FlightError;
use arrow_ipc::reader::StreamReader;
use bytes::Bytes;
use futures::stream::{self, BoxStream, Stream, StreamExt, TryStreamExt};
use thalweg_proto::v1;
use thalweg_proto::v1::execute_response::Result as Answer;
use thalweg_rpc::Malformed;
use thalweg_types::JobId;

use crate::client::Client;
use crate::error::{AnswerError, Error};
use crate::reconnect::until_the_first;
use crate::view::job_id;

/// Planning may list and open many files; nothing a person would wait longer for.
const EXECUTE_DEADLINE: Duration = Duration::from_secs(300);

/// A session of a cluster. It ends with [`Session::close`], or when it was not used for an hour.
#[derive(Debug, Clone)]
pub struct Session {
    client: Client,
    id: Arc<str>,
}

/// What a statement did, and what its writer should know about it.
#[derive(Debug)]
pub struct Executed {
    pub notes: Vec<String>,
    pub outcome: ExecuteOutcome,
}

#[derive(Debug)]
pub enum ExecuteOutcome {
    /// CREATE, DROP, SET, …: what was done.
    Acknowledgement(String),
    /// SHOW, DESCRIBE, EXPLAIN: rows at once.
    Rows { schema: SchemaRef, batches: Vec<RecordBatch> },
    /// A query: its rows are read as the job makes them.
    Query(QueryResult),
}

/// Settings of a session that differ from the cluster's, and remarks.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    pub settings: BTreeMap<String, String>,
    pub notes: Vec<String>,
}

impl Session {
    pub(crate) fn new(client: Client, id: String) -> Self {
        Self { client, id: id.into() }
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    /// Sets and resets configuration, as `SET` and `RESET` do; all of it or nothing.
    pub async fn set<K, V>(&self, set: impl IntoIterator<Item = (K, V)>, reset: &[&str]) -> Result<Settings, Error>
    where
        K: Into<String>,
        V: Into<String>,
    {
        let request = v1::SetRequest {
            session_id: self.id.to_string(),
            set: set.into_iter().map(|(key, value)| (key.into(), value.into())).collect::<HashMap<_, _>>(),
            reset: reset.iter().map(|key| (*key).to_owned()).collect(),
        };
        let mut sessions = self.client.sessions();
        let answer = self.client.within(self.client.deadline(), sessions.set(request)).await?;
        Ok(Settings { settings: answer.settings.into_iter().collect(), notes: answer.notes })
    }

    /// Runs one statement. A query is submitted and answered before it has rows.
    ///
    /// Errors: [`Error::Sql`] when the statement is refused; a failing job shows while its rows are read.
    pub async fn execute(&self, statement: &str) -> Result<Executed, Error> {
        let request = v1::ExecuteRequest { session_id: self.id.to_string(), statement: statement.to_owned() };
        let mut sessions = self.client.sessions();
        let answer = self.client.within(EXECUTE_DEADLINE, sessions.execute(request)).await?;
        let outcome = match answer.result {
            Some(Answer::Acknowledgement(acknowledgement)) => ExecuteOutcome::Acknowledgement(acknowledgement.text),
            Some(Answer::Rows(rows)) => {
                let (schema, batches) = self.arrow(decode_rows(&rows))?;
                ExecuteOutcome::Rows { schema, batches }
            }
            Some(Answer::Query(query)) => ExecuteOutcome::Query(self.query(query)?),
            None => return self.client.checked(Err(Malformed::Missing("result"))),
        };
        Ok(Executed { notes: answer.notes, outcome })
    }

    /// The plan of a query as text.
    pub async fn explain(&self, query: &str) -> Result<String, Error> {
        let request = v1::ExplainRequest { session_id: self.id.to_string(), query: query.to_owned() };
        let mut sessions = self.client.sessions();
        Ok(self.client.within(EXECUTE_DEADLINE, sessions.explain(request)).await?.plan)
    }

    /// Ends the session; its temporary tables and settings go with it.
    pub async fn close(self) -> Result<(), Error> {
        let request = v1::CloseSessionRequest { session_id: self.id.to_string() };
        let mut sessions = self.client.sessions();
        self.client.within(self.client.deadline(), sessions.close_session(request)).await.map(|_| ())
    }

    fn query(&self, query: v1::QueryHandle) -> Result<QueryResult, Error> {
        let job = self.client.checked(job_id(&query.job_id))?;
        let schema: SchemaRef = Arc::new(self.arrow(decode_schema(&query.schema))?);
        let (client, announced, ticket) = (self.client.clone(), schema.clone(), query.ticket);
        let read = move || rows(client.clone(), ticket.clone(), announced.clone());
        let rows = if query.recoverable { until_the_first(read) } else { read() };
        Ok(QueryResult { job, schema, rows })
    }

    fn arrow<T>(&self, decoded: Result<T, ArrowError>) -> Result<T, Error> {
        decoded.map_err(|error| Error::answer(self.client.address(), error))
    }
}

/// A submitted query. Reading is what asks for the rows: until then the job runs and keeps its result.
pub struct QueryResult {
    pub job: JobId,
    pub schema: SchemaRef,
    rows: BoxStream<'static, Result<RecordBatch, Error>>,
}

impl QueryResult {
    /// The next batch, all of the result's schema; `None` at the end. Waits for the job.
    pub async fn next(&mut self) -> Result<Option<RecordBatch>, Error> {
        self.rows.try_next().await
    }

    /// All rows that are left. Takes as much memory as they do.
    pub async fn collect(mut self) -> Result<Vec<RecordBatch>, Error> {
        let mut batches = Vec::new();
        while let Some(batch) = self.next().await? {
            batches.push(batch);
        }
        Ok(batches)
    }
}

impl Stream for QueryResult {
    type Item = Result<RecordBatch, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.rows.poll_next_unpin(context)
    }
}

impl std::fmt::Debug for QueryResult {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QueryResult").field("job", &self.job).field("schema", &self.schema).finish_non_exhaustive()
    }
}

/// DoGet, asked for when first polled: its answer may come only when the job has rows.
fn rows(client: Client, ticket: Bytes, schema: SchemaRef) -> BoxStream<'static, Result<RecordBatch, Error>> {
    let address = client.address().to_owned();
    let opened = async move {
        let answer = client.flight().do_get(Ticket { ticket }).await.map_err(|status| client.status(status))?;
        let data = answer.into_inner().map_err(FlightError::from);
        let batches = FlightRecordBatchStream::new_from_flight_data(data);
        Ok::<_, Error>(batches.map_err(move |error| Error::from_flight(client.address(), error)))
    };
    stream::once(opened)
        .try_flatten()
        .map(move |batch| batch.and_then(|batch| check_batch(batch, &schema, &address)))
        .boxed()
}

/// A batch must have the announced columns; names and metadata do not matter to whoever reads it.
fn check_batch(batch: RecordBatch, announced: &SchemaRef, address: &str) -> Result<RecordBatch, Error> {
    let same = batch.num_columns() == announced.fields().len()
        && batch
            .columns()
            .iter()
            .zip(announced.fields())
            .all(|(column, field)| column.data_type() == field.data_type());
    if same {
        return Ok(batch);
    }
    let source = AnswerError::Schema { announced: columns(announced), found: columns(batch.schema_ref()) };
    Err(Error::Answer { address: address.to_owned(), source })
}

fn columns(schema: &Schema) -> String {
    let columns: Vec<String> =
        schema.fields().iter().map(|field| format!("{} {}", field.name(), field.data_type())).collect();
    columns.join(", ")
}

fn decode_rows(stream: &[u8]) -> Result<(SchemaRef, Vec<RecordBatch>), ArrowError> {
    let reader = StreamReader::try_new(stream, None)?;
    let schema = reader.schema();
    Ok((schema, reader.collect::<Result<_, _>>()?))
}

/// An IPC schema message, with or without the length in front of it.
fn decode_schema(message: &[u8]) -> Result<Schema, ArrowError> {
    match arrow_ipc::convert::try_schema_from_flatbuffer_bytes(message) {
        Ok(schema) => Ok(schema),
        Err(_) => arrow_ipc::convert::try_schema_from_ipc_buffer(message),
    }
}
