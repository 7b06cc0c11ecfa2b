//! Text to typed columns, one reading for every connector that has text.
//!
//! Decimals with more fraction digits than their scale are rounded here; who must be exact checks
//! [`is_exact_decimal`] first.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, StringArray};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;

/// A column read from text. Text that is not a value of the type has become NULL.
pub(crate) struct Parsed {
    pub(crate) column: ArrayRef,
    /// The first row whose text is not a value of the type.
    pub(crate) first_bad: Option<usize>,
}

/// Whether text can be read as `data_type`.
pub(crate) fn is_readable_from_text(data_type: &DataType) -> bool {
    use DataType::*;
    data_type.is_integer()
        || matches!(
            data_type,
            Utf8 | Boolean
                | Float32
                | Float64
                | Decimal128(..)
                | Decimal256(..)
                | Date32
                | Time32(_)
                | Time64(_)
                | Timestamp(..)
        )
}

/// Reads every text as `data_type`, for which [`is_readable_from_text`] holds.
pub(crate) fn parse_column(texts: StringArray, data_type: &DataType) -> Result<Parsed, ArrowError> {
    if *data_type == DataType::Utf8 {
        return Ok(Parsed { column: Arc::new(texts), first_bad: None });
    }
    let options = CastOptions { safe: true, ..Default::default() };
    let column = cast_with_options(&texts, data_type, &options)?;
    let first_bad = match column.null_count() == texts.null_count() {
        true => None,
        false => (0..texts.len()).find(|row| column.is_null(*row) && texts.is_valid(*row)),
    };
    Ok(Parsed { column, first_bad })
}

/// Whether plain decimal text (sign, digits, point) has no more than `scale` significant fraction digits.
pub(crate) fn is_exact_decimal(text: &str, scale: i8) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let significant = fraction.trim_end_matches('0').len();
    digits(whole)
        && digits(fraction)
        && !(whole.is_empty() && fraction.is_empty())
        && significant <= usize::try_from(scale).unwrap_or(0)
}

/// The SQL name of a type, for messages.
pub(crate) fn sql_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Utf8 => "STRING".into(),
        DataType::Boolean => "BOOLEAN".into(),
        DataType::Int8 => "TINYINT".into(),
        DataType::Int16 => "SMALLINT".into(),
        DataType::Int32 => "INT".into(),
        DataType::Int64 => "BIGINT".into(),
        DataType::Float32 => "FLOAT".into(),
        DataType::Float64 => "DOUBLE".into(),
        DataType::Decimal128(precision, scale) => format!("DECIMAL({precision}, {scale})"),
        DataType::Date32 => "DATE".into(),
        DataType::Time32(_) | DataType::Time64(_) => "TIME".into(),
        DataType::Timestamp(_, None) => "TIMESTAMP".into(),
        DataType::Timestamp(_, Some(_)) => "TIMESTAMP_LTZ".into(),
        DataType::Binary => "BYTES".into(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{AsArray, BooleanArray};
    use arrow::datatypes::{Date32Type, Decimal128Type, Int32Type, TimeUnit, TimestampMillisecondType};

    use super::*;

    fn parse(texts: &[Option<&str>], data_type: DataType) -> Parsed {
        parse_column(StringArray::from(texts.to_vec()), &data_type).unwrap()
    }

    #[test]
    fn good_text_becomes_values() {
        let parsed = parse(&[Some("-7"), None, Some("2147483647")], DataType::Int32);
        let expected = [Some(-7), None, Some(i32::MAX)];
        assert_eq!(parsed.column.as_primitive::<Int32Type>().iter().collect::<Vec<_>>(), expected);
        assert_eq!(parsed.first_bad, None);
        let parsed = parse(&[Some("1969-12-31"), Some("0001-01-01")], DataType::Date32);
        assert_eq!(parsed.column.as_primitive::<Date32Type>().values()[..], [-1, -719_162]);
        let parsed = parse(&[Some("-12.30"), Some("0.05")], DataType::Decimal128(15, 2));
        assert_eq!(parsed.column.as_primitive::<Decimal128Type>().values()[..], [-1230, 5]);
        let parsed = parse(&[Some("1969-12-31 23:59:59.999")], DataType::Timestamp(TimeUnit::Millisecond, None));
        assert_eq!(parsed.column.as_primitive::<TimestampMillisecondType>().values()[..], [-1]);
        let parsed = parse(&[Some("true"), Some("FALSE")], DataType::Boolean);
        assert_eq!(parsed.column.as_boolean(), &BooleanArray::from(vec![true, false]));
    }

    #[test]
    fn bad_text_is_found() {
        for (text, data_type) in [
            ("2147483648", DataType::Int32),
            ("1.5", DataType::Int64),
            ("", DataType::Int64),
            ("1000", DataType::Decimal128(3, 0)),
            ("abc", DataType::Decimal128(15, 2)),
            ("2020-02-30", DataType::Date32),
            ("maybe", DataType::Boolean),
            ("noon", DataType::Timestamp(TimeUnit::Millisecond, None)),
        ] {
            assert_eq!(parse(&[None, Some(text)], data_type.clone()).first_bad, Some(1), "{text} as {data_type}");
        }
    }

    #[test]
    fn exactness_of_decimals() {
        for (text, scale) in [("1", 0), ("-1.50", 1), (".5", 1), ("12345678901234567890.12", 2), ("1.000", 0)] {
            assert!(is_exact_decimal(text, scale), "{text}");
        }
        for (text, scale) in [("1.05", 1), ("1e3", 2), ("", 2), (".", 2), ("1.2.3", 4), ("--1", 0)] {
            assert!(!is_exact_decimal(text, scale), "{text}");
        }
    }
}
