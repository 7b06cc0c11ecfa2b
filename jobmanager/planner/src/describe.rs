//! Shows tables and views in Flink's words.

use std::fmt::Write;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use datafusion::common::DataFusionError;

use crate::catalog::{Object, ObjectId, Table};
use crate::error::PlanError;
use crate::sql::SqlType;

/// DESCRIBE: name, type, null, key, extras, watermark; and the comments, if there is one.
pub(crate) fn describe(object: &Object) -> Result<RecordBatch, PlanError> {
    let schema = schema_of(object);
    let declared = match object {
        Object::Table(table) => table.columns.as_slice(),
        Object::View(_) => &[],
    };
    let key = match object {
        Object::Table(table) if !table.primary_key.is_empty() => Some(format!("PRI({})", table.primary_key.join(", "))),
        _ => None,
    };
    let in_key = |name: &str| matches!(object, Object::Table(table) if table.primary_key.iter().any(|k| k == name));
    let fields = schema.fields();
    let names = StringArray::from_iter_values(fields.iter().map(|field| field.name()));
    let types = StringArray::from_iter_values(fields.iter().map(|field| type_of(object, field)));
    let nulls = BooleanArray::from_iter(fields.iter().map(|field| Some(field.is_nullable() && !in_key(field.name()))));
    let keys = StringArray::from_iter(fields.iter().map(|field| key.clone().filter(|_| in_key(field.name()))));
    let empty = StringArray::from(vec![None::<&str>; fields.len()]);
    let text = |name: &str| Field::new(name, DataType::Utf8, true);
    let mut columns = vec![text("name"), text("type"), Field::new("null", DataType::Boolean, true)];
    columns.extend([text("key"), text("extras"), text("watermark")]);
    let mut arrays: Vec<ArrayRef> = vec![Arc::new(names), Arc::new(types), Arc::new(nulls), Arc::new(keys)];
    arrays.extend([Arc::new(empty.clone()) as ArrayRef, Arc::new(empty)]);
    if declared.iter().any(|column| column.comment.is_some()) {
        let comments = fields.iter().map(|field| {
            declared.iter().find(|column| column.name == *field.name()).and_then(|column| column.comment.clone())
        });
        columns.push(text("comment"));
        arrays.push(Arc::new(StringArray::from_iter(comments)));
    }
    RecordBatch::try_new(Arc::new(Schema::new(columns)), arrays).map_err(arrow_error)
}

/// A statement that would create the object again, options in alphabetical order.
pub(crate) fn create_statement(id: &ObjectId, object: &Object) -> String {
    let name = format!("{}.{}.{}", quoted(&id.catalog), quoted(&id.database), quoted(&id.name));
    match object {
        Object::View(view) => {
            let temporary = if view.temporary { "TEMPORARY " } else { "" };
            let columns: Vec<String> = schema_of(object).fields().iter().map(|field| quoted(field.name())).collect();
            let mut text = format!("CREATE {temporary}VIEW {name} (\n  {}\n)\n", columns.join(",\n  "));
            push_comment(&mut text, view.comment.as_deref());
            text + &format!("AS {}", view.query.text)
        }
        Object::Table(table) => create_table_statement(&name, object, table),
    }
}

fn create_table_statement(name: &str, object: &Object, table: &Table) -> String {
    let temporary = if table.temporary { "TEMPORARY " } else { "" };
    let mut lines: Vec<String> = Vec::new();
    for field in schema_of(object).fields() {
        let mut line = format!("  {} {}", quoted(field.name()), type_of(object, field));
        if !field.is_nullable() {
            line.push_str(" NOT NULL");
        }
        let declared = table.columns.iter().find(|column| column.name == *field.name());
        if let Some(comment) = declared.and_then(|column| column.comment.as_deref()) {
            let _ = write!(line, " COMMENT {}", string(comment));
        }
        lines.push(line);
    }
    if !table.primary_key.is_empty() {
        let key: Vec<String> = table.primary_key.iter().map(|column| quoted(column)).collect();
        lines.push(format!("  PRIMARY KEY ({}) NOT ENFORCED", key.join(", ")));
    }
    let mut text = format!("CREATE {temporary}TABLE {name} (\n{}\n)\n", lines.join(",\n"));
    push_comment(&mut text, table.comment.as_deref());
    let options: Vec<String> =
        table.options.iter().map(|(key, value)| format!("  {} = {}", string(key), string(value))).collect();
    text + &format!("WITH (\n{}\n)", options.join(",\n"))
}

fn push_comment(text: &mut String, comment: Option<&str>) {
    if let Some(comment) = comment {
        let _ = writeln!(text, "COMMENT {}", string(comment));
    }
}

fn schema_of(object: &Object) -> SchemaRef {
    match object {
        Object::Table(table) => table.source.schema(),
        Object::View(view) => Arc::clone(&view.schema),
    }
}

/// As declared, or as the connector's Arrow type is called.
fn type_of(object: &Object, field: &Field) -> String {
    let declared = match object {
        Object::Table(table) => table.columns.iter().find(|column| column.name == *field.name()),
        Object::View(_) => None,
    };
    match declared {
        Some(column) => column.sql_type.to_string(),
        None => SqlType::from_arrow(field.data_type()).map_or_else(|| field.data_type().to_string(), |t| t.to_string()),
    }
}

fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

fn string(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

pub(crate) fn arrow_error(error: ArrowError) -> PlanError {
    let message = error.to_string();
    PlanError::Internal { message, source: Box::new(DataFusionError::ArrowError(Box::new(error), None)) }
}
