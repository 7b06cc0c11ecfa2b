//! One user's session: its tables and views, and what each statement does to them.
//!
//! Settings (SET, RESET) belong to the caller, who passes what planning needs as [`PlannerOptions`]. A failed statement
//! changes nothing.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use thalweg_connectors::{AccessRules, TableDefinition, TableSource};
use thalweg_exec::RuntimeFilterRule;

use crate::catalog::{Catalog, DEFAULT_CATALOG, DEFAULT_DATABASE, Namespace, Object, ObjectId, Table, View};
use crate::compile::{CompiledQuery, compile};
use crate::describe;
use crate::error::PlanError;
use crate::logical::{QueryPlanner, States, view_plan};
use crate::order::JoinOrderOptions;
use crate::sql::{CreateTable, CreateView, Name, ParsedQuery, Statement};
use crate::stack::OnDeepStack;

/// What planning needs to know of the session's settings and the cluster.
#[derive(Debug, Clone)]
pub struct PlannerOptions {
    /// Files that tables may read.
    pub access: AccessRules,
    /// Bytes of input up to which a query runs as one task.
    pub single_task_threshold: u64,
    /// Bytes of a join's side up to which it is broadcast; 0 turns it off.
    pub broadcast_threshold: u64,
    /// `None`: joins stay in the order they are written in.
    pub join_order: Option<JoinOrderOptions>,
    /// `None`: scans take no runtime filters.
    pub runtime_filters: Option<RuntimeFilterOptions>,
    /// Tasks per stage at most.
    pub max_parallelism: u32,
    /// `table.local-time-zone`: a name (`Europe/Berlin`) or an offset (`+02:00`).
    pub time_zone: String,
    /// Rows per batch.
    pub batch_size: usize,
}

/// Which scans take runtime filters, and which filters.
#[derive(Debug, Clone, Copy)]
pub struct RuntimeFilterOptions {
    /// Uncompressed bytes that a scan reads at least.
    pub min_probe_bytes: u64,
    pub rule: RuntimeFilterRule,
}

/// What a statement came to.
pub enum Outcome {
    /// Something was changed; one line for people.
    Done(String),
    Rows(RecordBatch),
    Query(Box<CompiledQuery>),
    /// Run the query, throw its rows away and show what was measured.
    ExplainAnalyze(Box<CompiledQuery>),
}

#[derive(Default)]
pub struct Session {
    catalog: Catalog,
    namespace: Namespace,
    states: States,
}

impl Session {
    pub fn new() -> Self {
        Session::default()
    }

    /// Runs a statement as far as the planner goes. `SET` and `RESET` are refused: the caller keeps the settings.
    pub async fn run(&mut self, statement: &Statement, options: &PlannerOptions) -> Result<Outcome, PlanError> {
        OnDeepStack::new(self.run_statement(statement, options)).await
    }

    async fn run_statement(&mut self, statement: &Statement, options: &PlannerOptions) -> Result<Outcome, PlanError> {
        match statement {
            Statement::CreateTable(definition) => self.create_table(definition, options).await,
            Statement::CreateView(definition) => self.create_view(definition, options).await,
            Statement::DropTable { name, if_exists } => self.drop_object(name, *if_exists, "table"),
            Statement::DropView { name, if_exists } => self.drop_object(name, *if_exists, "view"),
            Statement::Set { .. } | Statement::SetList | Statement::Reset { .. } => {
                Err(PlanError::unsupported("a setting in the planner", "the session's owner keeps the settings"))
            }
            Statement::ShowTables => rows("table name", self.catalog.names(&self.namespace, false)),
            Statement::ShowViews => rows("view name", self.catalog.names(&self.namespace, true)),
            Statement::ShowCatalogs => rows("catalog name", vec![DEFAULT_CATALOG.to_string()]),
            Statement::ShowDatabases => rows("database name", vec![DEFAULT_DATABASE.to_string()]),
            Statement::ShowCreateTable { name } => self.show_create(name, "table"),
            Statement::ShowCreateView { name } => self.show_create(name, "view"),
            Statement::Describe { name } => {
                let id = self.namespace.resolve(name);
                Ok(Outcome::Rows(describe::describe(self.catalog.require(&id)?)?))
            }
            Statement::Explain { analyze: true, query } => {
                Ok(Outcome::ExplainAnalyze(Box::new(self.compile(query, options).await?)))
            }
            Statement::Explain { analyze: false, query } => {
                let compiled = self.compile(query, options).await?;
                rows("plan", compiled.explain.lines().map(str::to_string).collect())
            }
            Statement::Query(query) => Ok(Outcome::Query(Box::new(self.compile(query, options).await?))),
            Statement::UseCatalog { catalog } => {
                self.use_namespace(Namespace { catalog: catalog.clone(), ..Namespace::default() })
            }
            Statement::UseDatabase { name } => self.use_database(name),
        }
    }

    /// Adds a table that needs no CREATE TABLE, in the current database. Fails if the name is taken.
    pub fn register_table(&mut self, name: &str, source: Arc<dyn TableSource>) -> Result<(), PlanError> {
        let name = Name { parts: vec![name.to_string()] };
        let id = self.namespace.resolve(&name);
        self.check_free(&id)?;
        let definition = CreateTable {
            name,
            if_not_exists: false,
            temporary: true,
            columns: Vec::new(),
            primary_key: Vec::new(),
            comment: None,
            options: Default::default(),
        };
        self.catalog.put(id, Object::Table(Table::new(&definition, source)))
    }

    async fn compile(&mut self, query: &ParsedQuery, options: &PlannerOptions) -> Result<CompiledQuery, PlanError> {
        let (state, plan) = self.logical_plan(query, options).await?;
        let mut compiled = compile(&state, &plan, options).await?;
        compiled.statement = query.text.clone();
        Ok(compiled)
    }

    /// The query's plan before any optimisation, and the DataFusion session it belongs to.
    pub(crate) async fn logical_plan(
        &mut self,
        query: &ParsedQuery,
        options: &PlannerOptions,
    ) -> Result<(datafusion::execution::SessionState, datafusion::logical_expr::LogicalPlan), PlanError> {
        let state = self.states.new_state(options)?;
        QueryPlanner::new(&self.catalog, state).plan(query, &self.namespace).await
    }

    async fn create_table(&mut self, definition: &CreateTable, options: &PlannerOptions) -> Result<Outcome, PlanError> {
        let id = self.namespace.resolve(&definition.name);
        Catalog::check_database(&id.catalog, &id.database)?;
        if self.catalog.get(&id).is_some() && definition.if_not_exists {
            return Ok(Outcome::Done(format!("table `{}` exists already, nothing done", id.name)));
        }
        self.check_free(&id)?;
        let table = TableDefinition {
            name: id.name.clone(),
            columns: declared_schema(definition),
            options: definition.options.clone(),
        };
        let source = thalweg_connectors::create_table(&table, &options.access)
            .await
            .map_err(|source| PlanError::Connector { table: id.name.clone(), source })?;
        check_primary_key(definition, &source.schema())?;
        let name = id.name.clone();
        self.catalog.put(id, Object::Table(Table::new(definition, source)))?;
        Ok(Outcome::Done(format!("table `{name}` created")))
    }

    async fn create_view(&mut self, definition: &CreateView, options: &PlannerOptions) -> Result<Outcome, PlanError> {
        let id = self.namespace.resolve(&definition.name);
        Catalog::check_database(&id.catalog, &id.database)?;
        match self.catalog.get(&id) {
            Some(_) if definition.if_not_exists => {
                return Ok(Outcome::Done(format!("view `{}` exists already, nothing done", id.name)));
            }
            Some(Object::View(_)) if definition.or_replace => {}
            _ => self.check_free(&id)?,
        }
        let (_, plan) = self.logical_plan(&definition.query, options).await?;
        let plan = view_plan(&id.name, plan, &definition.columns)?;
        let view = View {
            query: definition.query.clone(),
            columns: definition.columns.clone(),
            comment: definition.comment.clone(),
            namespace: self.namespace.clone(),
            schema: Arc::clone(plan.schema().inner()),
            temporary: definition.temporary,
        };
        self.put_view(id, view, options).await
    }

    /// Puts the view in its place, and takes it out again if it now reads itself (which only a replaced view can).
    async fn put_view(&mut self, id: ObjectId, view: View, options: &PlannerOptions) -> Result<Outcome, PlanError> {
        let query = view.query.clone();
        let before = self.catalog.get(&id).cloned();
        self.catalog.put(id.clone(), Object::View(view))?;
        if let Some(before) = before
            && let Err(error) = self.logical_plan(&query, options).await
        {
            self.catalog.put(id, before)?;
            return Err(error);
        }
        Ok(Outcome::Done(format!("view `{}` created", id.name)))
    }

    fn drop_object(&mut self, name: &Name, if_exists: bool, kind: &'static str) -> Result<Outcome, PlanError> {
        let id = self.namespace.resolve(name);
        match self.catalog.get(&id) {
            Some(object) if object.kind() == kind => {
                self.catalog.remove(&id);
                Ok(Outcome::Done(format!("{kind} `{}` dropped", id.name)))
            }
            Some(object) => Err(PlanError::WrongKind { name: id.name.clone(), actual: object.kind(), expected: kind }),
            None if if_exists => Ok(Outcome::Done(format!("{kind} `{}` does not exist, nothing done", id.name))),
            None => {
                Catalog::check_database(&id.catalog, &id.database)?;
                Err(self.catalog.not_found(kind, &id))
            }
        }
    }

    fn show_create(&self, name: &Name, kind: &'static str) -> Result<Outcome, PlanError> {
        let id = self.namespace.resolve(name);
        let object = self.catalog.require(&id)?;
        if object.kind() != kind {
            return Err(PlanError::WrongKind { name: id.name, actual: object.kind(), expected: kind });
        }
        rows("result", vec![describe::create_statement(&id, object)])
    }

    fn use_database(&mut self, name: &Name) -> Result<Outcome, PlanError> {
        let namespace = match name.parts.as_slice() {
            [catalog, database] => Namespace { catalog: catalog.clone(), database: database.clone() },
            parts => Namespace {
                catalog: self.namespace.catalog.clone(),
                database: parts.last().cloned().unwrap_or_default(),
            },
        };
        self.use_namespace(namespace)
    }

    fn use_namespace(&mut self, namespace: Namespace) -> Result<Outcome, PlanError> {
        Catalog::check_database(&namespace.catalog, &namespace.database)?;
        let text = format!("using {}.{}", namespace.catalog, namespace.database);
        self.namespace = namespace;
        Ok(Outcome::Done(text))
    }

    fn check_free(&self, id: &ObjectId) -> Result<(), PlanError> {
        match self.catalog.get(id) {
            Some(object) => Err(PlanError::AlreadyExists { kind: object.kind(), name: id.name.clone() }),
            None => Ok(()),
        }
    }
}

/// The declared columns as the connector is told them; `None` without a column list.
fn declared_schema(definition: &CreateTable) -> Option<SchemaRef> {
    if definition.columns.is_empty() {
        return None;
    }
    let fields = definition.columns.iter();
    let fields = fields.map(|column| Field::new(&column.name, column.sql_type.to_arrow(), !column.not_null));
    Some(Arc::new(Schema::new(fields.collect::<Vec<_>>())))
}

fn check_primary_key(definition: &CreateTable, schema: &Schema) -> Result<(), PlanError> {
    for column in &definition.primary_key {
        if schema.field_with_name(column).is_err() {
            let what = format!("PRIMARY KEY column `{column}` is not a column of the table");
            return Err(PlanError::Definition { what });
        }
    }
    Ok(())
}

/// One column of text.
fn rows(column: &str, values: Vec<String>) -> Result<Outcome, PlanError> {
    let schema = Arc::new(Schema::new(vec![Field::new(column, DataType::Utf8, false)]));
    let values: ArrayRef = Arc::new(StringArray::from(values));
    Ok(Outcome::Rows(RecordBatch::try_new(schema, vec![values]).map_err(describe::arrow_error)?))
}
