//! What both ends of a stream compare instead of schemas.

use arrow::datatypes::{DataType, Schema};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Of the column types alone: names, nullability and metadata may differ between producer and consumer.
pub(super) fn fingerprint(schema: &Schema) -> u64 {
    let mut text = String::new();
    schema.fields().iter().for_each(|f| describe(f.data_type(), &mut text));
    xxh3_64_with_seed(text.as_bytes(), 0)
}

fn describe(data_type: &DataType, out: &mut String) {
    match data_type {
        DataType::List(f) => nested("list", [f.data_type()], out),
        DataType::LargeList(f) => nested("large-list", [f.data_type()], out),
        DataType::FixedSizeList(f, n) => nested(&format!("list-{n}"), [f.data_type()], out),
        DataType::Map(f, _) => nested("map", [f.data_type()], out),
        DataType::Struct(fields) => nested("struct", fields.iter().map(|f| f.data_type()), out),
        plain => {
            out.push_str(&plain.to_string());
            out.push(';');
        }
    }
}

fn nested<'a>(name: &str, children: impl IntoIterator<Item = &'a DataType>, out: &mut String) {
    out.push_str(name);
    out.push('(');
    children.into_iter().for_each(|c| describe(c, out));
    out.push_str(");");
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::Field;

    #[test]
    fn a_fingerprint_depends_on_types_and_their_order_alone() {
        let schema = |fields: &[(&str, DataType)]| {
            Schema::new(fields.iter().map(|(n, t)| Field::new(*n, t.clone(), true)).collect::<Vec<_>>())
        };
        let a = fingerprint(&schema(&[("a", DataType::Int32), ("b", DataType::Utf8)]));
        assert_eq!(a, fingerprint(&schema(&[("x", DataType::Int32), ("y", DataType::Utf8)])));
        assert_ne!(a, fingerprint(&schema(&[("a", DataType::Utf8), ("b", DataType::Int32)])));
        assert_ne!(
            fingerprint(&schema(&[("a", DataType::Decimal128(10, 2))])),
            fingerprint(&schema(&[("a", DataType::Decimal128(10, 3))]))
        );
    }
}
