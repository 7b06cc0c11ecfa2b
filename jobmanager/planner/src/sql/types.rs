//! Flink's data types: as written, as shown, and as Arrow carries them.
//!
//! Strings are `Utf8` and binaries `Binary`, never views: whole view buffers would travel with every slice. Lengths of CHAR
//! and VARCHAR are kept for display and casts; stored data is not cut to them. Timestamps up to precision 6 are
//! microseconds, beyond that nanoseconds; TIMESTAMP_LTZ is an instant, so its Arrow zone is always `UTC`.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, Field as ArrowField, Fields, TimeUnit};
use sqlparser::ast::{self, ArrayElemTypeDef, BinaryLength, CharacterLength, ExactNumberInfo, TimezoneInfo};
use sqlparser::tokenizer::Token;

use super::cursor::Cursor;
use super::error::SqlError;

/// The Arrow zone of every TIMESTAMP_LTZ.
pub(crate) const LTZ_ZONE: &str = "UTC";
const MAX_TIME_PRECISION: u64 = 9;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SqlType {
    Boolean,
    TinyInt,
    SmallInt,
    Int,
    BigInt,
    Float,
    Double,
    /// Precision 1–38, scale 0–precision.
    Decimal(u8, u8),
    Char(u32),
    Varchar(u32),
    String,
    Binary(u32),
    Varbinary(u32),
    Bytes,
    Date,
    /// Fractional digits of a second, 0–9; the same for the two below.
    Time(u8),
    Timestamp(u8),
    TimestampLtz(u8),
    Array(Box<Field>),
    Map(Box<Field>, Box<Field>),
    Row(Vec<Field>),
}

/// A field of a ROW, or an element, key or value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    pub name: String,
    pub sql_type: SqlType,
    pub not_null: bool,
}

impl Field {
    fn to_arrow(&self) -> ArrowField {
        ArrowField::new(&self.name, self.sql_type.to_arrow(), !self.not_null)
    }

    fn from_arrow(field: &ArrowField) -> Option<Field> {
        let sql_type = SqlType::from_arrow(field.data_type())?;
        Some(Field { name: field.name().clone(), sql_type, not_null: !field.is_nullable() })
    }
}

impl SqlType {
    pub fn to_arrow(&self) -> DataType {
        match self {
            SqlType::Boolean => DataType::Boolean,
            SqlType::TinyInt => DataType::Int8,
            SqlType::SmallInt => DataType::Int16,
            SqlType::Int => DataType::Int32,
            SqlType::BigInt => DataType::Int64,
            SqlType::Float => DataType::Float32,
            SqlType::Double => DataType::Float64,
            SqlType::Decimal(precision, scale) => DataType::Decimal128(*precision, *scale as i8),
            SqlType::Char(_) | SqlType::Varchar(_) | SqlType::String => DataType::Utf8,
            SqlType::Binary(_) | SqlType::Varbinary(_) | SqlType::Bytes => DataType::Binary,
            SqlType::Date => DataType::Date32,
            SqlType::Time(precision) => DataType::Time64(unit_of(*precision)),
            SqlType::Timestamp(precision) => DataType::Timestamp(unit_of(*precision), None),
            SqlType::TimestampLtz(precision) => DataType::Timestamp(unit_of(*precision), Some(LTZ_ZONE.into())),
            SqlType::Array(element) => DataType::List(Arc::new(element.to_arrow().with_name("item"))),
            SqlType::Map(key, value) => {
                let key = key.to_arrow().with_name("key").with_nullable(false);
                let entries = Fields::from(vec![key, value.to_arrow().with_name("value")]);
                DataType::Map(Arc::new(ArrowField::new("entries", DataType::Struct(entries), false)), false)
            }
            SqlType::Row(fields) => DataType::Struct(fields.iter().map(Field::to_arrow).collect()),
        }
    }

    /// The type that shows an Arrow type to a Flink user; `None` for one that SQL has no name for.
    pub fn from_arrow(data_type: &DataType) -> Option<SqlType> {
        Some(match data_type {
            DataType::Boolean => SqlType::Boolean,
            DataType::Int8 => SqlType::TinyInt,
            DataType::Int16 | DataType::UInt8 => SqlType::SmallInt,
            DataType::Int32 | DataType::UInt16 => SqlType::Int,
            DataType::Int64 | DataType::UInt32 => SqlType::BigInt,
            DataType::UInt64 => SqlType::Decimal(20, 0),
            DataType::Float32 => SqlType::Float,
            DataType::Float64 => SqlType::Double,
            DataType::Decimal32(p, s) | DataType::Decimal64(p, s) | DataType::Decimal128(p, s) => {
                SqlType::Decimal(*p, u8::try_from(*s).ok()?)
            }
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => SqlType::String,
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => SqlType::Bytes,
            DataType::FixedSizeBinary(length) => SqlType::Binary(u32::try_from(*length).ok()?),
            DataType::Date32 | DataType::Date64 => SqlType::Date,
            DataType::Time32(unit) | DataType::Time64(unit) => SqlType::Time(digits_of(*unit)),
            DataType::Timestamp(unit, None) => SqlType::Timestamp(digits_of(*unit)),
            DataType::Timestamp(unit, Some(_)) => SqlType::TimestampLtz(digits_of(*unit)),
            DataType::List(item) | DataType::LargeList(item) => SqlType::Array(Box::new(Field::from_arrow(item)?)),
            DataType::Map(entries, _) => match entries.data_type() {
                DataType::Struct(fields) if fields.len() == 2 => {
                    let [key, value] = [Field::from_arrow(&fields[0])?, Field::from_arrow(&fields[1])?];
                    SqlType::Map(Box::new(key), Box::new(value))
                }
                _ => return None,
            },
            DataType::Struct(fields) => {
                SqlType::Row(fields.iter().map(|field| Field::from_arrow(field)).collect::<Option<_>>()?)
            }
            DataType::Dictionary(_, value) => SqlType::from_arrow(value)?,
            _ => return None,
        })
    }
}

fn unit_of(precision: u8) -> TimeUnit {
    if precision <= 6 { TimeUnit::Microsecond } else { TimeUnit::Nanosecond }
}

fn digits_of(unit: TimeUnit) -> u8 {
    match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 3,
        TimeUnit::Microsecond => 6,
        TimeUnit::Nanosecond => 9,
    }
}

/// Flink's spelling, for DESCRIBE and SHOW CREATE TABLE.
impl fmt::Display for SqlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SqlType::Boolean => f.write_str("BOOLEAN"),
            SqlType::TinyInt => f.write_str("TINYINT"),
            SqlType::SmallInt => f.write_str("SMALLINT"),
            SqlType::Int => f.write_str("INT"),
            SqlType::BigInt => f.write_str("BIGINT"),
            SqlType::Float => f.write_str("FLOAT"),
            SqlType::Double => f.write_str("DOUBLE"),
            SqlType::Decimal(precision, scale) => write!(f, "DECIMAL({precision}, {scale})"),
            SqlType::Char(length) => write!(f, "CHAR({length})"),
            SqlType::Varchar(length) => write!(f, "VARCHAR({length})"),
            SqlType::String => f.write_str("STRING"),
            SqlType::Binary(length) => write!(f, "BINARY({length})"),
            SqlType::Varbinary(length) => write!(f, "VARBINARY({length})"),
            SqlType::Bytes => f.write_str("BYTES"),
            SqlType::Date => f.write_str("DATE"),
            SqlType::Time(precision) => write!(f, "TIME({precision})"),
            SqlType::Timestamp(precision) => write!(f, "TIMESTAMP({precision})"),
            SqlType::TimestampLtz(precision) => write!(f, "TIMESTAMP_LTZ({precision})"),
            SqlType::Array(element) => write!(f, "ARRAY<{}>", element.with_nullability()),
            SqlType::Map(key, value) => write!(f, "MAP<{}, {}>", key.with_nullability(), value.with_nullability()),
            SqlType::Row(fields) => {
                let fields: Vec<String> =
                    fields.iter().map(|field| format!("`{}` {}", field.name, field.with_nullability())).collect();
                write!(f, "ROW<{}>", fields.join(", "))
            }
        }
    }
}

impl Field {
    fn with_nullability(&self) -> String {
        format!("{}{}", self.sql_type, if self.not_null { " NOT NULL" } else { "" })
    }
}

/// Parses a type at the cursor. Nesting is bounded by the token guard.
pub(crate) fn parse_type(cursor: &mut Cursor<'_>) -> Result<SqlType, SqlError> {
    let position = cursor.position();
    let Some(word) = cursor.peek_word(0) else { return Err(cursor.expected("a data type")) };
    cursor.parser.advance_token();
    Ok(match word.as_str() {
        "BOOLEAN" => SqlType::Boolean,
        "TINYINT" => SqlType::TinyInt,
        "SMALLINT" => SqlType::SmallInt,
        "INT" | "INTEGER" => SqlType::Int,
        "BIGINT" => SqlType::BigInt,
        "FLOAT" => SqlType::Float,
        "DOUBLE" => {
            cursor.eat(&["PRECISION"]);
            SqlType::Double
        }
        "DECIMAL" | "NUMERIC" | "DEC" => parse_decimal(cursor)?,
        "CHAR" | "CHARACTER" => SqlType::Char(parse_length(cursor)?.unwrap_or(1)),
        "VARCHAR" => parse_length(cursor)?.map_or(SqlType::String, SqlType::Varchar),
        "STRING" => SqlType::String,
        "BINARY" => SqlType::Binary(parse_length(cursor)?.unwrap_or(1)),
        "VARBINARY" => parse_length(cursor)?.map_or(SqlType::Bytes, SqlType::Varbinary),
        "BYTES" => SqlType::Bytes,
        "DATE" => SqlType::Date,
        "TIME" => {
            let precision = parse_time_precision(cursor)?.unwrap_or(0);
            cursor.eat(&["WITHOUT", "TIME", "ZONE"]);
            SqlType::Time(precision)
        }
        "TIMESTAMP_LTZ" => SqlType::TimestampLtz(parse_time_precision(cursor)?.unwrap_or(6)),
        "TIMESTAMP" => {
            let precision = parse_time_precision(cursor)?.unwrap_or(6);
            if cursor.peeks(&["WITH", "TIME", "ZONE"]) {
                let instead = "use TIMESTAMP_LTZ, an instant shown in the session's zone";
                return Err(SqlError::unsupported(cursor.position(), "TIMESTAMP WITH TIME ZONE", instead));
            }
            cursor.eat(&["WITHOUT", "TIME", "ZONE"]);
            SqlType::Timestamp(precision)
        }
        "ARRAY" => SqlType::Array(Box::new(parse_bracketed(cursor)?)),
        "MAP" => parse_map(cursor)?,
        "ROW" => parse_row(cursor)?,
        _ => {
            let instead = "expected one of BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL, CHAR, VARCHAR, \
                           STRING, BINARY, VARBINARY, BYTES, DATE, TIME, TIMESTAMP, TIMESTAMP_LTZ, ARRAY, MAP, ROW";
            return Err(SqlError::unsupported(position, format!("data type `{word}`"), instead));
        }
    })
}

/// `NOT NULL`, `NULL` or nothing.
pub(crate) fn parse_not_null(cursor: &mut Cursor<'_>) -> bool {
    if cursor.eat(&["NOT", "NULL"]) {
        return true;
    }
    cursor.eat(&["NULL"]);
    false
}

fn parse_element(cursor: &mut Cursor<'_>, name: &str) -> Result<Field, SqlError> {
    let sql_type = parse_type(cursor)?;
    Ok(Field { name: name.to_string(), sql_type, not_null: parse_not_null(cursor) })
}

fn parse_bracketed(cursor: &mut Cursor<'_>) -> Result<Field, SqlError> {
    cursor.expect_token(&Token::Lt)?;
    let element = parse_element(cursor, "item")?;
    cursor.expect_token(&Token::Gt)?;
    Ok(element)
}

fn parse_map(cursor: &mut Cursor<'_>) -> Result<SqlType, SqlError> {
    cursor.expect_token(&Token::Lt)?;
    let key = parse_element(cursor, "key")?;
    cursor.expect_token(&Token::Comma)?;
    let value = parse_element(cursor, "value")?;
    cursor.expect_token(&Token::Gt)?;
    Ok(SqlType::Map(Box::new(key), Box::new(value)))
}

/// `ROW<name type, …>` or `ROW(name type, …)`.
fn parse_row(cursor: &mut Cursor<'_>) -> Result<SqlType, SqlError> {
    let close = if cursor.eat_token(&Token::Lt) {
        Token::Gt
    } else if cursor.eat_token(&Token::LParen) {
        Token::RParen
    } else {
        return Err(cursor.expected("`<`"));
    };
    let mut fields = Vec::new();
    loop {
        let name = cursor.identifier("a field name")?;
        fields.push(parse_element(cursor, &name)?);
        if !cursor.eat_token(&Token::Comma) {
            break;
        }
    }
    cursor.expect_token(&close)?;
    Ok(SqlType::Row(fields))
}

fn parse_decimal(cursor: &mut Cursor<'_>) -> Result<SqlType, SqlError> {
    let position = cursor.position();
    if !cursor.eat_token(&Token::LParen) {
        return Ok(SqlType::Decimal(10, 0));
    }
    let precision = cursor.parser.parse_literal_uint()?;
    let scale = if cursor.eat_token(&Token::Comma) { cursor.parser.parse_literal_uint()? } else { 0 };
    cursor.expect_token(&Token::RParen)?;
    decimal(precision, scale).map_err(|message| SqlError::invalid(position, message))
}

fn decimal(precision: u64, scale: u64) -> Result<SqlType, String> {
    let max = u64::from(DECIMAL128_MAX_PRECISION);
    if precision == 0 || precision > max || scale > precision {
        return Err(format!(
            "DECIMAL({precision}, {scale}) is out of range: precision is 1 to {max}, scale 0 to the precision"
        ));
    }
    Ok(SqlType::Decimal(precision as u8, scale as u8))
}

fn parse_length(cursor: &mut Cursor<'_>) -> Result<Option<u32>, SqlError> {
    let position = cursor.position();
    if !cursor.eat_token(&Token::LParen) {
        return Ok(None);
    }
    let length = cursor.parser.parse_literal_uint()?;
    cursor.expect_token(&Token::RParen)?;
    self::length(length).map(Some).map_err(|message| SqlError::invalid(position, message))
}

fn length(length: u64) -> Result<u32, String> {
    match u32::try_from(length) {
        Ok(length) if length >= 1 && length <= i32::MAX as u32 => Ok(length),
        _ => Err(format!("length {length} is out of range: expected 1 to {}", i32::MAX)),
    }
}

fn parse_time_precision(cursor: &mut Cursor<'_>) -> Result<Option<u8>, SqlError> {
    let position = cursor.position();
    if !cursor.eat_token(&Token::LParen) {
        return Ok(None);
    }
    let precision = cursor.parser.parse_literal_uint()?;
    cursor.expect_token(&Token::RParen)?;
    time_precision(Some(precision), 0).map(Some).map_err(|message| SqlError::invalid(position, message))
}

fn time_precision(precision: Option<u64>, default: u8) -> Result<u8, String> {
    match precision {
        None => Ok(default),
        Some(precision) if precision <= MAX_TIME_PRECISION => Ok(precision as u8),
        Some(precision) => {
            Err(format!("{precision} fractional digits are out of range: expected 0 to {MAX_TIME_PRECISION}"))
        }
    }
}

/// The type of a CAST or a typed literal, as sqlparser read it. The error says why it is none of ours.
pub(crate) fn from_sqlparser(data_type: &ast::DataType) -> Result<SqlType, String> {
    use ast::DataType as Sql;
    Ok(match data_type {
        Sql::Boolean => SqlType::Boolean,
        Sql::TinyInt(None) => SqlType::TinyInt,
        Sql::SmallInt(None) => SqlType::SmallInt,
        Sql::Int(None) | Sql::Integer(None) => SqlType::Int,
        Sql::BigInt(None) => SqlType::BigInt,
        Sql::Float(ExactNumberInfo::None) => SqlType::Float,
        Sql::Double(ExactNumberInfo::None) | Sql::DoublePrecision => SqlType::Double,
        Sql::Decimal(info) | Sql::Numeric(info) | Sql::Dec(info) => match *info {
            ExactNumberInfo::None => SqlType::Decimal(10, 0),
            ExactNumberInfo::Precision(precision) => decimal(precision, 0)?,
            ExactNumberInfo::PrecisionAndScale(precision, scale) => {
                decimal(precision, u64::try_from(scale).map_err(|_| format!("negative scale in `{data_type}`"))?)?
            }
        },
        Sql::Char(length) | Sql::Character(length) => SqlType::Char(character_length(*length)?.unwrap_or(1)),
        Sql::Varchar(length) => character_length(*length)?.map_or(SqlType::String, SqlType::Varchar),
        Sql::String(None) => SqlType::String,
        Sql::Varbinary(None) | Sql::Bytes(None) => SqlType::Bytes,
        Sql::Varbinary(Some(BinaryLength::IntegerLength { length })) => SqlType::Varbinary(self::length(*length)?),
        Sql::Binary(length) => SqlType::Binary(self::length(length.unwrap_or(1))?),
        Sql::Date => SqlType::Date,
        Sql::Time(precision, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
            SqlType::Time(time_precision(*precision, 0)?)
        }
        Sql::Timestamp(precision, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
            SqlType::Timestamp(time_precision(*precision, 6)?)
        }
        Sql::Custom(name, modifiers) if name.to_string().eq_ignore_ascii_case("TIMESTAMP_LTZ") => {
            let precision = match modifiers.as_slice() {
                [] => None,
                [digits] => Some(digits.parse().map_err(|_| format!("`{data_type}` is not a type"))?),
                _ => return Err(format!("`{data_type}` is not a type")),
            };
            SqlType::TimestampLtz(time_precision(precision, 6)?)
        }
        Sql::Array(ArrayElemTypeDef::AngleBracket(element)) => {
            let sql_type = from_sqlparser(element)?;
            SqlType::Array(Box::new(Field { name: "item".to_string(), sql_type, not_null: false }))
        }
        other => return Err(format!("data type `{other}` is not supported")),
    })
}

fn character_length(info: Option<CharacterLength>) -> Result<Option<u32>, String> {
    match info {
        None => Ok(None),
        Some(CharacterLength::IntegerLength { length, unit: None }) => self::length(length).map(Some),
        Some(other) => Err(format!("length `{other}` is not supported")),
    }
}
