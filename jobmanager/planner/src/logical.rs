//! From a parsed query to a logical plan.
//!
//! Finds the tables and views a query names, loads only those into a fresh DataFusion session, and lets DataFusion plan the
//! syntax tree. Views are planned where they are used, with the names they had when they were created. Reads no data.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::catalog::{
    CatalogProvider, CatalogProviderList, MemoryCatalogProvider, MemoryCatalogProviderList, MemorySchemaProvider,
    SchemaProvider, TableProvider,
};
use datafusion::common::TableReference;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::ViewTable;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder};
use datafusion::prelude::Expr;
use datafusion::sql::parser::Statement as PlannerStatement;
use futures::future::BoxFuture;
use sqlparser::ast;
use thalweg_exec::SourceTable;
use thalweg_exec::functions::scalar_functions;
use thalweg_exec::session::session_config;

use crate::catalog::{Catalog, Namespace, Object, ObjectId, View};
use crate::error::PlanError;
use crate::functions::FlinkTypes;
use crate::session::PlannerOptions;
use crate::sql::{Name, ParsedQuery};

/// Nodes of the plan that a view may unfold to: views of views grow it exponentially.
const MAX_VIEW_NODES: usize = 20_000;
const MAX_VIEW_DEPTH: usize = 64;

/// The session states of statements come from one that is built once per pair of these.
#[derive(PartialEq, Eq)]
struct BaseKey {
    time_zone: String,
    batch_size: usize,
}

/// Builds session states; keeps the expensive part (functions and rules).
#[derive(Default)]
pub(crate) struct States {
    base: Option<(BaseKey, SessionState)>,
}

impl States {
    /// A session state with the dialect's settings and no tables.
    pub(crate) fn new_state(&mut self, options: &PlannerOptions) -> Result<SessionState, PlanError> {
        let key = BaseKey { time_zone: options.time_zone.clone(), batch_size: options.batch_size };
        if let Some((known, base)) = &self.base
            && *known == key
        {
            return Ok(started(base));
        }
        let base = build_base(options)?;
        let state = started(&base);
        self.base = Some((key, base));
        Ok(state)
    }
}

fn started(base: &SessionState) -> SessionState {
    let mut state = base.clone();
    state.mark_start_execution();
    state.register_catalog_list(Arc::new(MemoryCatalogProviderList::new()));
    state
}

fn build_base(options: &PlannerOptions) -> Result<SessionState, PlanError> {
    check_options(options)?;
    let mut config = session_config(2, options.batch_size);
    config.options_mut().execution.time_zone = Some(options.time_zone.clone());
    let types = FlinkTypes { time_zone: options.time_zone.as_str().into() };
    let mut builder = SessionStateBuilder::new()
        .with_default_features()
        .with_config(config)
        .with_type_planner(Arc::new(types))
        .with_table_functions(HashMap::new());
    builder.scalar_functions().get_or_insert_default().extend(scalar_functions());
    Ok(builder.build())
}

fn check_options(options: &PlannerOptions) -> Result<(), PlanError> {
    if options.time_zone.parse::<arrow::array::timezone::Tz>().is_err() {
        return Err(PlanError::Setting {
            key: "table.local-time-zone",
            value: options.time_zone.clone(),
            problem: "not a time zone; write a name or an offset, for example 'Europe/Berlin' or '+02:00'".to_string(),
        });
    }
    if options.batch_size == 0 {
        let problem = "a batch has at least one row, for example 8192".to_string();
        return Err(PlanError::Setting { key: "batch size", value: "0".to_string(), problem });
    }
    Ok(())
}

/// Plans queries of one statement against the catalog. Each table and view is loaded once.
pub(crate) struct QueryPlanner<'a> {
    catalog: &'a Catalog,
    /// A state without tables.
    state: SessionState,
    loaded: HashMap<ObjectId, Arc<dyn TableProvider>>,
    /// The views being unfolded, outermost first.
    unfolding: Vec<ObjectId>,
}

impl<'a> QueryPlanner<'a> {
    pub(crate) fn new(catalog: &'a Catalog, state: SessionState) -> Self {
        QueryPlanner { catalog, state, loaded: HashMap::new(), unfolding: Vec::new() }
    }

    /// The plan, and the session state (with the query's tables) that made it.
    pub(crate) fn plan<'s>(
        &'s mut self,
        query: &'s ParsedQuery,
        namespace: &'s Namespace,
    ) -> BoxFuture<'s, Result<(SessionState, LogicalPlan), PlanError>> {
        Box::pin(async move {
            crate::checks::check_calls(&query.ast, &self.state)?;
            let statement = ast::Statement::Query(query.ast.clone());
            let statement = PlannerStatement::Statement(Box::new(statement));
            let references = self.state.resolve_table_references(&statement)?;
            let mut tables = Vec::with_capacity(references.len());
            for reference in references {
                let id = namespace.resolve(&name_of(&reference));
                let provider = self.load(&id).await?;
                tables.push((id, provider));
            }
            let state = self.state_with(namespace, tables)?;
            let plan = state.statement_to_plan(statement).await?;
            Ok((state, plan))
        })
    }

    async fn load(&mut self, id: &ObjectId) -> Result<Arc<dyn TableProvider>, PlanError> {
        if let Some(provider) = self.loaded.get(id) {
            return Ok(Arc::clone(provider));
        }
        let provider: Arc<dyn TableProvider> = match self.catalog.require(id)? {
            Object::Table(table) => {
                let source = Arc::clone(&table.source);
                let table = SourceTable::try_new(id.name.clone(), source).await;
                Arc::new(table.map_err(|source| PlanError::Connector { table: id.name.clone(), source })?)
            }
            Object::View(view) => Arc::new(ViewTable::new(self.unfold(id, view).await?, None)),
        };
        self.loaded.insert(id.clone(), Arc::clone(&provider));
        Ok(provider)
    }

    async fn unfold(&mut self, id: &ObjectId, view: &View) -> Result<LogicalPlan, PlanError> {
        if self.unfolding.contains(id) {
            let what = format!("view `{}` reads itself; drop it and create it again", id.name);
            return Err(PlanError::Definition { what });
        }
        if self.unfolding.len() >= MAX_VIEW_DEPTH {
            let what = format!("view `{}` lies under {MAX_VIEW_DEPTH} other views; make the chain shorter", id.name);
            return Err(PlanError::Definition { what });
        }
        self.unfolding.push(id.clone());
        let planned = self.plan(&view.query, &view.namespace).await;
        self.unfolding.pop();
        let (_, plan) = planned.map_err(|error| in_view(&id.name, error))?;
        view_plan(&id.name, plan, &view.columns)
    }

    fn state_with(
        &self,
        namespace: &Namespace,
        tables: Vec<(ObjectId, Arc<dyn TableProvider>)>,
    ) -> Result<SessionState, PlanError> {
        let mut state = self.state.clone();
        let settings = &mut state.config_mut().options_mut().catalog;
        settings.default_catalog = namespace.catalog.clone();
        settings.default_schema = namespace.database.clone();
        let catalogs = MemoryCatalogProviderList::new();
        for (id, provider) in tables {
            let catalog = catalogs.catalog(&id.catalog).unwrap_or_else(|| {
                let catalog: Arc<dyn CatalogProvider> = Arc::new(MemoryCatalogProvider::new());
                catalogs.register_catalog(id.catalog.clone(), Arc::clone(&catalog));
                catalog
            });
            let schema = match catalog.schema(&id.database) {
                Some(schema) => schema,
                None => {
                    let schema: Arc<dyn SchemaProvider> = Arc::new(MemorySchemaProvider::new());
                    catalog.register_schema(&id.database, Arc::clone(&schema))?;
                    schema
                }
            };
            // Two spellings of one table are two references to it.
            if !schema.table_exist(&id.name) {
                schema.register_table(id.name, provider)?;
            }
        }
        state.register_catalog_list(Arc::new(catalogs));
        Ok(state)
    }
}

/// Checks a view's plan and gives its columns their names.
pub(crate) fn view_plan(name: &str, plan: LogicalPlan, columns: &[String]) -> Result<LogicalPlan, PlanError> {
    let mut nodes = 0;
    plan.apply_with_subqueries(|_| {
        nodes += 1;
        Ok(if nodes > MAX_VIEW_NODES { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if nodes > MAX_VIEW_NODES {
        let what = format!("view `{name}` unfolds to more than {MAX_VIEW_NODES} operators; read fewer views of views");
        return Err(PlanError::Definition { what });
    }
    let schema = Arc::clone(plan.schema());
    if !columns.is_empty() && columns.len() != schema.fields().len() {
        let (named, found) = (columns.len(), schema.fields().len());
        let what = format!("view `{name}` names {named} columns, its query has {found}");
        return Err(PlanError::Definition { what });
    }
    let names: Vec<String> = match columns.is_empty() {
        true => schema.fields().iter().map(|field| field.name().clone()).collect(),
        false => columns.to_vec(),
    };
    for (n, column) in names.iter().enumerate() {
        if names[..n].contains(column) {
            let what =
                format!("view `{name}` has two columns `{column}`: name them with AS, or list names after the view's");
            return Err(PlanError::Definition { what });
        }
    }
    let renamed = schema.columns().into_iter().zip(&names).map(|(column, name)| Expr::Column(column).alias(name));
    Ok(LogicalPlanBuilder::from(plan).project(renamed.collect::<Vec<_>>())?.build()?)
}

fn in_view(view: &str, error: PlanError) -> PlanError {
    match error {
        PlanError::Query { message, source } => {
            PlanError::Query { message: format!("in view `{view}`: {message}"), source }
        }
        PlanError::NotFound { name, near, .. } => {
            PlanError::NotFound { kind: "table or view (read by a view)", name, near }
        }
        other => other,
    }
}

fn name_of(reference: &TableReference) -> Name {
    let parts = [reference.catalog(), reference.schema(), Some(reference.table())];
    Name { parts: parts.into_iter().flatten().map(str::to_string).collect() }
}
