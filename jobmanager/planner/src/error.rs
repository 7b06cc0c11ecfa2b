//! Why a statement was not planned: whose fault it is and what to do.

use datafusion::common::{DataFusionError, SchemaError};
use thalweg_types::Fault;

use crate::sql::SqlError;

/// Everything that can go wrong between a statement's text and its plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    #[error(transparent)]
    Sql(#[from] SqlError),
    /// `near` are names that exist and look alike.
    #[error("{kind} `{name}` not found{}", did_you_mean(near))]
    NotFound { kind: &'static str, name: String, near: Vec<String> },
    #[error("{kind} `{name}` exists already: drop it first, or write IF NOT EXISTS")]
    AlreadyExists { kind: &'static str, name: String },
    /// A view where a table is wanted, or the reverse.
    #[error("`{name}` is a {actual}, not a {expected}")]
    WrongKind { name: String, actual: &'static str, expected: &'static str },
    /// A definition that contradicts itself or the session.
    #[error("{what}")]
    Definition { what: String },
    /// A setting whose value cannot be used.
    #[error("setting '{key}' = '{value}': {problem}")]
    Setting { key: &'static str, value: String, problem: String },
    #[error("{what} is not supported{}", suffix(fix))]
    Unsupported { what: String, fix: String },
    /// A connector refused the table or could not read it.
    #[error("table `{table}`: {source}")]
    Connector { table: String, source: thalweg_connectors::Error },
    /// The query does not make sense for the tables it names.
    #[error("{message}")]
    Query { message: String, source: Box<DataFusionError> },
    /// The cut into stages made something that is no plan template: a defect.
    #[error("internal error while planning: {0}")]
    InvalidTemplate(thalweg_graph::InvalidTemplate),
    /// A defect, of ours or of a library.
    #[error("internal error while planning: {message}")]
    Internal { message: String, source: Box<DataFusionError> },
}

fn did_you_mean(near: &[String]) -> String {
    if near.is_empty() {
        return String::new();
    }
    let quoted: Vec<String> = near.iter().map(|name| format!("`{name}`")).collect();
    format!("; did you mean {}? names are case-sensitive", quoted.join(" or "))
}

fn suffix(fix: &str) -> String {
    if fix.is_empty() { String::new() } else { format!(": {fix}") }
}

impl PlanError {
    pub fn fault(&self) -> Fault {
        match self {
            PlanError::Internal { .. } | PlanError::InvalidTemplate(_) => Fault::Internal,
            PlanError::Connector { source, .. } => source.fault(),
            _ => Fault::User,
        }
    }

    pub(crate) fn unsupported(what: impl Into<String>, fix: impl Into<String>) -> Self {
        PlanError::Unsupported { what: what.into(), fix: fix.into() }
    }
}

/// Drops DataFusion's wrappers, prefixes and backtraces from the message; the error itself stays as the source.
impl From<DataFusionError> for PlanError {
    fn from(error: DataFusionError) -> Self {
        let (message, internal) = describe(&error);
        let source = Box::new(error);
        match internal {
            true => PlanError::Internal { message, source },
            false => PlanError::Query { message, source },
        }
    }
}

/// The message for people, and whether it is a defect.
fn describe(error: &DataFusionError) -> (String, bool) {
    match error {
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => describe(inner),
        DataFusionError::Shared(inner) => describe(inner),
        DataFusionError::Collection(errors) => match errors.first() {
            Some(first) => describe(first),
            None => ("unknown error".to_string(), true),
        },
        DataFusionError::SchemaError(schema, _) => (describe_schema(schema), false),
        DataFusionError::Plan(message) => (plain(message), false),
        DataFusionError::NotImplemented(message) => (format!("not supported: {}", plain(message)), false),
        DataFusionError::Configuration(message) | DataFusionError::Execution(message) => (plain(message), false),
        DataFusionError::SQL(parser, _) => (plain(&parser.to_string()), false),
        DataFusionError::ArrowError(arrow, _) => (plain(&arrow.to_string()), false),
        DataFusionError::Internal(message) => (plain(message), true),
        DataFusionError::External(inner) => (plain(&inner.to_string()), false),
        other => (plain(&other.strip_backtrace()), true),
    }
}

/// The first part of a message: no backtrace, no "please report" tail.
fn plain(message: &str) -> String {
    let message = message.split(DataFusionError::BACK_TRACE_SEP).next().unwrap_or_default();
    let message = message.split("This issue was likely caused by a bug").next().unwrap_or_default();
    let message = message.replace("Error during planning: ", "").replace("Execution error: ", "");
    let message = message.trim().trim_start_matches("Internal error: ").trim_start_matches("internal error: ");
    let message = message.trim_end_matches('.');
    let mut chars = message.chars();
    match (chars.next(), chars.clone().next()) {
        (Some(first), Some(second)) if first.is_uppercase() && !second.is_uppercase() => {
            first.to_lowercase().chain(chars).collect()
        }
        _ => message.to_string(),
    }
}

fn describe_schema(error: &SchemaError) -> String {
    match error {
        SchemaError::FieldNotFound { field, valid_fields } => {
            let names: Vec<String> = valid_fields.iter().map(|column| column.name.clone()).collect();
            let near = crate::catalog::nearest(&field.name, names.iter().map(String::as_str));
            let hint = match near.is_empty() {
                false => did_you_mean(&near),
                true => known_columns(names),
            };
            format!("column `{}` not found{hint}", field.flat_name())
        }
        SchemaError::AmbiguousReference { field } => {
            let name = &field.name;
            format!("column `{name}` is ambiguous: put the table's name or alias before it, as in t.{name}")
        }
        SchemaError::DuplicateQualifiedField { qualifier, name } => {
            format!("`{qualifier}` has two columns `{name}`: give one of them another name, or the table an alias")
        }
        SchemaError::DuplicateUnqualifiedField { name } => {
            format!("two columns are named `{name}`: give one of them another name with AS")
        }
    }
}

fn known_columns(mut names: Vec<String>) -> String {
    const SHOWN: usize = 12;
    names.dedup();
    if names.is_empty() {
        return String::new();
    }
    let more = names.len().saturating_sub(SHOWN);
    let shown: Vec<String> = names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
    let tail = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("; there are {}{tail}", shown.join(", "))
}
