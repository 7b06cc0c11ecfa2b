//! One physical type per logical type.
//!
//! Decides what a schema looks like inside an exchange: dictionaries are hydrated and view types become plain ones, so that
//! hashes, blocks and fingerprints of both sides agree. Unions, run-end encoded arrays and list views are refused.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow::error::ArrowError;

use crate::error::Error;

/// The schema that blocks of an exchange with `schema` have. The same schema is returned when nothing changes.
///
/// # Errors
/// [`Error::UnsupportedType`] naming the column.
pub fn exchange_schema(schema: &SchemaRef) -> Result<SchemaRef, Error> {
    let mut changed = false;
    let mut fields = Vec::with_capacity(schema.fields().len());
    for field in schema.fields() {
        let plain = plain_type(field.data_type()).ok_or_else(|| Error::UnsupportedType {
            column: field.name().clone(),
            data_type: field.data_type().clone(),
        })?;
        changed |= plain != *field.data_type();
        fields.push(with_type(field, plain));
    }
    if !changed {
        return Ok(schema.clone());
    }
    Ok(Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone())))
}

fn with_type(field: &FieldRef, data_type: DataType) -> FieldRef {
    if data_type == *field.data_type() {
        return field.clone();
    }
    // a field made anew: a dictionary field would keep its dictionary id
    let plain = Field::new(field.name(), data_type, field.is_nullable());
    Arc::new(plain.with_metadata(field.metadata().clone()))
}

fn plain_field(field: &FieldRef) -> Option<FieldRef> {
    Some(with_type(field, plain_type(field.data_type())?))
}

fn plain_type(data_type: &DataType) -> Option<DataType> {
    use DataType::*;
    Some(match data_type {
        Dictionary(_, value) => plain_type(value)?,
        Utf8View => Utf8,
        BinaryView => Binary,
        List(field) => List(plain_field(field)?),
        LargeList(field) => LargeList(plain_field(field)?),
        FixedSizeList(field, n) => FixedSizeList(plain_field(field)?, *n),
        Struct(fields) => Struct(fields.iter().map(plain_field).collect::<Option<Vec<_>>>()?.into()),
        Map(field, sorted) => Map(plain_field(field)?, *sorted),
        Union(_, _) | RunEndEncoded(_, _) | ListView(_) | LargeListView(_) => return None,
        other => other.clone(),
    })
}

/// `batch` with the column types of `schema`; columns that have them already are shared, not copied.
///
/// # Errors
/// A column count or type that cannot be brought to `schema`.
pub fn cast_batch(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    if batch.schema_ref() == schema {
        return Ok(batch.clone());
    }
    if batch.num_columns() != schema.fields().len() {
        let (have, want) = (batch.num_columns(), schema.fields().len());
        return Err(ArrowError::SchemaError(format!("a batch has {have} columns where {want} are expected")));
    }
    let columns = batch
        .columns()
        .iter()
        .zip(schema.fields())
        .map(|(column, field)| match column.data_type() == field.data_type() {
            true => Ok(column.clone()),
            false => cast(column, field.data_type()),
        })
        .collect::<Result<Vec<ArrayRef>, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(schema.clone(), columns, &options)
}

/// True if batches of schema `a` can be handed on as batches of schema `b`: the same types in the same order.
/// Names, nullability and metadata may differ, since planners rename columns freely.
pub fn same_types(a: &Schema, b: &Schema) -> bool {
    a.fields().len() == b.fields().len()
        && a.fields().iter().zip(b.fields()).all(|(x, y)| x.data_type().equals_datatype(y.data_type()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Array, DictionaryArray, StringArray};
    use arrow::datatypes::Int32Type;

    #[test]
    fn dictionaries_and_views_become_plain_inside_nested_types_too() {
        let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8View));
        let list = DataType::List(Arc::new(Field::new("item", dictionary.clone(), true)));
        let schema = Arc::new(Schema::new(vec![
            Field::new("a", dictionary, true),
            Field::new("b", list, true),
            Field::new("c", DataType::Int8, false),
        ]));
        let plain = exchange_schema(&schema).unwrap();
        assert_eq!(plain.field(0).data_type(), &DataType::Utf8);
        assert_eq!(plain.field(1).data_type(), &DataType::List(Arc::new(Field::new("item", DataType::Utf8, true))));
        let again = exchange_schema(&plain).unwrap();
        assert!(Arc::ptr_eq(&plain, &again), "a plain schema is left alone");
    }

    #[test]
    fn casting_there_and_back_keeps_the_values() {
        let values: DictionaryArray<Int32Type> = vec![Some("x"), None, Some("y"), Some("x")].into_iter().collect();
        let schema = Arc::new(Schema::new(vec![Field::new("d", values.data_type().clone(), true)]));
        let batch = RecordBatch::try_new(schema.clone(), vec![Arc::new(values)]).unwrap();
        let plain = cast_batch(&batch, &exchange_schema(&schema).unwrap()).unwrap();
        assert_eq!(plain.column(0).as_ref(), &StringArray::from(vec![Some("x"), None, Some("y"), Some("x")]));
        assert_eq!(cast_batch(&plain, &schema).unwrap(), batch);
    }

    #[test]
    fn a_type_without_a_plain_form_is_named() {
        let ends = Arc::new(Field::new("run_ends", DataType::Int32, false));
        let values = Arc::new(Field::new("values", DataType::Utf8, true));
        let schema = Arc::new(Schema::new(vec![Field::new("r", DataType::RunEndEncoded(ends, values), true)]));
        let err = exchange_schema(&schema).unwrap_err();
        assert!(matches!(&err, Error::UnsupportedType { column, .. } if column == "r"), "{err}");
    }
}
