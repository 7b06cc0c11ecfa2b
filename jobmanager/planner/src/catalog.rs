//! The tables and views of one session.
//!
//! Names have three levels; this version has one catalog with one database, both named as in Flink. Guarantees that a name
//! means one object, table or view, and that no view reads itself. Says nothing about data.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::utils::datafusion_strsim::levenshtein;
use thalweg_connectors::TableSource;

use crate::error::PlanError;
use crate::sql::{Column, CreateTable, Name, ParsedQuery};

pub const DEFAULT_CATALOG: &str = "default_catalog";
pub const DEFAULT_DATABASE: &str = "default_database";
/// Tables and views of a session.
const MAX_OBJECTS: usize = 10_000;
const MAX_NEAR_NAMES: usize = 3;

/// A full name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId {
    pub catalog: String,
    pub database: String,
    pub name: String,
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.catalog, self.database, self.name)
    }
}

/// Where a name without catalog or database is looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespace {
    pub catalog: String,
    pub database: String,
}

impl Default for Namespace {
    fn default() -> Self {
        Namespace { catalog: DEFAULT_CATALOG.to_string(), database: DEFAULT_DATABASE.to_string() }
    }
}

impl Namespace {
    pub fn resolve(&self, name: &Name) -> ObjectId {
        let mut parts = name.parts.iter().rev();
        let mut next = |default: &str| parts.next().cloned().unwrap_or_else(|| default.to_string());
        let table = next("");
        let database = next(&self.database);
        ObjectId { catalog: next(&self.catalog), database, name: table }
    }
}

/// A table bound to its connector.
#[derive(Debug, Clone)]
pub struct Table {
    /// As written; empty when the connector brought the columns.
    pub columns: Vec<Column>,
    pub primary_key: Vec<String>,
    pub comment: Option<String>,
    pub options: BTreeMap<String, String>,
    pub temporary: bool,
    pub source: Arc<dyn TableSource>,
}

impl Table {
    pub(crate) fn new(definition: &CreateTable, source: Arc<dyn TableSource>) -> Self {
        Table {
            columns: definition.columns.clone(),
            primary_key: definition.primary_key.clone(),
            comment: definition.comment.clone(),
            options: definition.options.clone(),
            temporary: definition.temporary,
            source,
        }
    }
}

/// A named query, planned anew wherever it is used.
#[derive(Debug, Clone)]
pub struct View {
    pub query: ParsedQuery,
    /// Names for the query's columns; empty keeps its own.
    pub columns: Vec<String>,
    pub comment: Option<String>,
    /// What its names meant when it was created, and still mean.
    pub namespace: Namespace,
    /// When it was created; for DESCRIBE.
    pub schema: SchemaRef,
    pub temporary: bool,
}

#[derive(Debug, Clone)]
pub enum Object {
    Table(Table),
    View(View),
}

impl Object {
    pub fn kind(&self) -> &'static str {
        match self {
            Object::Table(_) => "table",
            Object::View(_) => "view",
        }
    }
}

/// What exists, by full name.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    objects: BTreeMap<ObjectId, Object>,
}

impl Catalog {
    pub fn get(&self, id: &ObjectId) -> Option<&Object> {
        self.objects.get(id)
    }

    /// The object, or an error that names those that look alike.
    pub fn require(&self, id: &ObjectId) -> Result<&Object, PlanError> {
        Self::check_database(&id.catalog, &id.database)?;
        self.objects.get(id).ok_or_else(|| self.not_found("table or view", id))
    }

    pub(crate) fn not_found(&self, kind: &'static str, id: &ObjectId) -> PlanError {
        let near = nearest(&id.name, self.objects.keys().map(|other| other.name.as_str()));
        PlanError::NotFound { kind, name: id.name.clone(), near }
    }

    /// Adds or replaces. The caller has checked what stands there.
    pub(crate) fn put(&mut self, id: ObjectId, object: Object) -> Result<(), PlanError> {
        Self::check_database(&id.catalog, &id.database)?;
        if self.objects.len() >= MAX_OBJECTS && !self.objects.contains_key(&id) {
            let what = format!("the session has {MAX_OBJECTS} tables and views already; drop some");
            return Err(PlanError::Definition { what });
        }
        self.objects.insert(id, object);
        Ok(())
    }

    pub(crate) fn remove(&mut self, id: &ObjectId) -> Option<Object> {
        self.objects.remove(id)
    }

    /// Names in `namespace`, sorted; of views only, or of tables and views.
    pub fn names(&self, namespace: &Namespace, views_only: bool) -> Vec<String> {
        self.objects
            .iter()
            .filter(|(id, _)| id.catalog == namespace.catalog && id.database == namespace.database)
            .filter(|(_, object)| !views_only || matches!(object, Object::View(_)))
            .map(|(id, _)| id.name.clone())
            .collect()
    }

    pub(crate) fn check_database(catalog: &str, database: &str) -> Result<(), PlanError> {
        if catalog != DEFAULT_CATALOG {
            let near = vec![DEFAULT_CATALOG.to_string()];
            return Err(PlanError::NotFound { kind: "catalog", name: catalog.to_string(), near });
        }
        if database != DEFAULT_DATABASE {
            let near = vec![DEFAULT_DATABASE.to_string()];
            return Err(PlanError::NotFound { kind: "database", name: database.to_string(), near });
        }
        Ok(())
    }
}

/// Up to three of `names` that differ from `wanted` by case or a few letters, nearest first.
pub(crate) fn nearest<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let lower = wanted.to_lowercase();
    let tolerance = 1 + wanted.chars().count() / 4;
    let mut near: Vec<(usize, &str)> = names
        .map(|name| (levenshtein(&name.to_lowercase(), &lower), name))
        .filter(|(distance, name)| *distance <= tolerance && *name != wanted)
        .collect();
    near.sort();
    near.dedup();
    near.into_iter().take(MAX_NEAR_NAMES).map(|(_, name)| name.to_string()).collect()
}
