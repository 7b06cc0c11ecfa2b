//! What a file's types are read as, and which declared types they may become.

use arrow::datatypes::{DataType, Field};

/// The plain form of a type: no views, no dictionaries, no 64-bit offsets. Nested types keep their inside.
pub(crate) fn plain_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Utf8View | DataType::LargeUtf8 => DataType::Utf8,
        DataType::BinaryView | DataType::LargeBinary => DataType::Binary,
        DataType::Dictionary(_, value) => plain_type(value),
        other => other.clone(),
    }
}

/// The field a table gets from a file's field when no columns are declared.
pub(crate) fn plain_field(field: &Field) -> Field {
    Field::new(field.name(), plain_type(field.data_type()), field.is_nullable())
}

/// Whether every value of the file either becomes the same value of the declared type or is an error.
///
/// Timestamps may lose digits below the declared precision.
pub(crate) fn can_be_read_as(file: &DataType, declared: &DataType) -> bool {
    use DataType::*;
    let file = plain_type(file);
    if file == *declared {
        return true;
    }
    match (&file, declared) {
        (from, to) if from.is_integer() && to.is_integer() => true,
        (from, Decimal128(..)) if from.is_integer() => true,
        (Decimal128(_, from), Decimal128(_, to)) => from <= to,
        (Decimal32(_, from) | Decimal64(_, from), Decimal128(_, to)) => from <= to,
        (Float32, Float64) => true,
        (Timestamp(_, None), Timestamp(_, None)) => true,
        (Timestamp(_, Some(_)), Timestamp(_, Some(_))) => true,
        (Time32(_) | Time64(_), Time32(_) | Time64(_)) => true,
        (FixedSizeBinary(_), Binary) => true,
        _ => false,
    }
}

/// Whether the minimum and maximum of a file's column are bounds of every value a query can meet, NaN included.
pub(crate) fn has_total_bounds(data_type: &DataType) -> bool {
    !data_type.is_floating()
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::TimeUnit;

    use super::*;

    #[test]
    fn no_silent_loss() {
        use DataType::*;
        let dictionary = Dictionary(Box::new(Int32), Box::new(LargeUtf8));
        for (file, declared) in [
            (dictionary, Utf8),
            (Utf8View, Utf8),
            (Int32, Int64),
            (Int64, Int32),
            (UInt8, Int16),
            (Int32, Decimal128(15, 2)),
            (Decimal128(10, 2), Decimal128(15, 2)),
            (Decimal128(38, 2), Decimal128(15, 4)),
            (Float32, Float64),
            (Timestamp(TimeUnit::Microsecond, None), Timestamp(TimeUnit::Millisecond, None)),
        ] {
            assert!(can_be_read_as(&file, &declared), "{file} as {declared}");
        }
        for (file, declared) in [
            (Utf8, Int32),
            (Int32, Utf8),
            (Float64, Float32),
            (Float64, Int64),
            (Int64, Float64),
            (Decimal128(15, 4), Decimal128(15, 2)),
            (Decimal128(15, 2), Int64),
            (Timestamp(TimeUnit::Millisecond, None), Timestamp(TimeUnit::Millisecond, Some("UTC".into()))),
            (Date32, Timestamp(TimeUnit::Millisecond, None)),
            (Boolean, Int32),
        ] {
            assert!(!can_be_read_as(&file, &declared), "{file} as {declared}");
        }
    }
}
