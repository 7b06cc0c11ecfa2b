//! What one value looks like. The rules are in the table of [`crate::format`].
//!
//! A column is looked at once and then asked row by row. Values outside of what a calendar can show are printed as the number
//! they are stored as.

use std::fmt::Write;
use std::ops::Range;

use arrow::array::timezone::Tz;
use arrow::array::{
    Array, ArrowPrimitiveType, AsArray, BinaryArrayType, DictionaryArray, GenericListArray, MapArray, OffsetSizeTrait,
    StructArray,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::ArrowNativeType;
use arrow::datatypes::{
    ArrowDictionaryKeyType, ArrowTemporalType, DataType, Date32Type, Date64Type, Decimal32Type, Decimal64Type,
    Decimal128Type, Decimal256Type, DecimalType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, Time32MillisecondType, Time32SecondType, Time64MicrosecondType, Time64NanosecondType, TimeUnit,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow::downcast_dictionary_array;
use arrow::error::ArrowError;
use arrow::temporal_conversions::{as_date, as_datetime, as_time};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use chrono::{NaiveDateTime, Offset, TimeZone};

type Print<'a> = Box<dyn Fn(usize, &mut String) + 'a>;
type Rows<'a> = Box<dyn Fn(usize) -> Range<usize> + 'a>;

/// The values of a column, ready to be printed.
pub struct Cells<'a> {
    nulls: Option<NullBuffer>,
    shape: Shape<'a>,
}

enum Shape<'a> {
    /// Numbers and booleans: JSON takes them as they are.
    Bare(Print<'a>),
    /// A number in JSON only if it is finite.
    Float(Print<'a>),
    Text(Print<'a>),
    List(Rows<'a>, Box<Cells<'a>>),
    Row(Vec<(&'a str, Cells<'a>)>),
    Map(Rows<'a>, Box<Cells<'a>>, Box<Cells<'a>>),
    Dictionary(Box<dyn Fn(usize) -> usize + 'a>, Box<Cells<'a>>),
}

impl<'a> Cells<'a> {
    /// Errors: a type that arrow itself cannot print, or a time zone that is none.
    pub fn new(array: &'a dyn Array) -> Result<Self, ArrowError> {
        Ok(Self { nulls: array.logical_nulls(), shape: shape(array)? })
    }

    pub fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    /// Appends the value as text; nothing for NULL.
    pub fn text(&self, row: usize, out: &mut String) {
        if self.is_null(row) {
            return;
        }
        match &self.shape {
            Shape::Bare(print) | Shape::Float(print) | Shape::Text(print) => print(row, out),
            Shape::Dictionary(index, values) => values.text(index(row), out),
            Shape::List(..) | Shape::Row(_) | Shape::Map(..) => self.json(row, out),
        }
    }

    /// Appends the value as JSON.
    pub fn json(&self, row: usize, out: &mut String) {
        if self.is_null(row) {
            return out.push_str("null");
        }
        match &self.shape {
            Shape::Bare(print) => print(row, out),
            Shape::Float(print) => json_float(print, row, out),
            Shape::Text(print) => {
                let mut text = String::new();
                print(row, &mut text);
                json_string(&text, out);
            }
            Shape::List(rows, values) => {
                enclosed(out, '[', ']', rows(row), |element, out| values.json(element, out));
            }
            Shape::Row(fields) => enclosed(out, '{', '}', fields.iter(), |(name, cells), out| {
                json_string(name, out);
                out.push(':');
                cells.json(row, out);
            }),
            Shape::Map(rows, keys, values) => enclosed(out, '{', '}', rows(row), |entry, out| {
                let mut key = String::new();
                keys.text(entry, &mut key);
                json_string(&key, out);
                out.push(':');
                values.json(entry, out);
            }),
            Shape::Dictionary(index, values) => values.json(index(row), out),
        }
    }
}

/// `[a,b]` or `{a,b}`.
fn enclosed<T>(
    out: &mut String,
    open: char,
    close: char,
    items: impl Iterator<Item = T>,
    print: impl Fn(T, &mut String),
) {
    out.push(open);
    for (position, item) in items.enumerate() {
        if position > 0 {
            out.push(',');
        }
        print(item, out);
    }
    out.push(close);
}

fn json_float(print: &Print<'_>, row: usize, out: &mut String) {
    let start = out.len();
    print(row, out);
    let finite = !out[start..].contains(['N', 'I']);
    if !finite {
        out.insert(start, '"');
        out.push('"');
    }
}

/// A JSON string with its quotes.
pub fn json_string(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => push(out, format_args!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Writing into a `String` cannot fail.
fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a String takes all text");
}

fn shape(array: &dyn Array) -> Result<Shape<'_>, ArrowError> {
    Ok(match array.data_type() {
        DataType::Null => Shape::Text(Box::new(move |_, _| {})),
        DataType::Boolean => {
            let array = array.as_boolean();
            Shape::Bare(Box::new(move |row, out| out.push_str(if array.value(row) { "true" } else { "false" })))
        }
        DataType::Int8 => integers::<Int8Type>(array),
        DataType::Int16 => integers::<Int16Type>(array),
        DataType::Int32 => integers::<Int32Type>(array),
        DataType::Int64 => integers::<Int64Type>(array),
        DataType::UInt8 => integers::<UInt8Type>(array),
        DataType::UInt16 => integers::<UInt16Type>(array),
        DataType::UInt32 => integers::<UInt32Type>(array),
        DataType::UInt64 => integers::<UInt64Type>(array),
        DataType::Float16 | DataType::Float32 | DataType::Float64 => floats(array),
        DataType::Decimal32(..) => decimals::<Decimal32Type>(array),
        DataType::Decimal64(..) => decimals::<Decimal64Type>(array),
        DataType::Decimal128(..) => decimals::<Decimal128Type>(array),
        DataType::Decimal256(..) => decimals::<Decimal256Type>(array),
        DataType::Utf8 => texts(array.as_string::<i32>()),
        DataType::LargeUtf8 => texts(array.as_string::<i64>()),
        DataType::Utf8View => texts(array.as_string_view()),
        DataType::Binary => hex(array.as_binary::<i32>()),
        DataType::LargeBinary => hex(array.as_binary::<i64>()),
        DataType::BinaryView => hex(array.as_binary_view()),
        DataType::FixedSizeBinary(_) => hex(array.as_fixed_size_binary()),
        DataType::Date32 => dates::<Date32Type>(array),
        DataType::Date64 => dates::<Date64Type>(array),
        DataType::Time32(TimeUnit::Second) => times::<Time32SecondType>(array),
        DataType::Time32(_) => times::<Time32MillisecondType>(array),
        DataType::Time64(TimeUnit::Microsecond) => times::<Time64MicrosecondType>(array),
        DataType::Time64(_) => times::<Time64NanosecondType>(array),
        DataType::Timestamp(unit, zone) => {
            let zone = zone.as_deref().map(str::parse).transpose()?;
            match unit {
                TimeUnit::Second => timestamps::<TimestampSecondType>(array, zone),
                TimeUnit::Millisecond => timestamps::<TimestampMillisecondType>(array, zone),
                TimeUnit::Microsecond => timestamps::<TimestampMicrosecondType>(array, zone),
                TimeUnit::Nanosecond => timestamps::<TimestampNanosecondType>(array, zone),
            }
        }
        DataType::List(_) => list(array.as_list::<i32>())?,
        DataType::LargeList(_) => list(array.as_list::<i64>())?,
        DataType::FixedSizeList(_, size) => {
            let size = usize::try_from(*size).unwrap_or(0);
            let values = Box::new(Cells::new(array.as_fixed_size_list().values())?);
            Shape::List(Box::new(move |row| row * size..(row + 1) * size), values)
        }
        DataType::Struct(_) => rows(array.as_struct())?,
        DataType::Map(..) => map(array.as_map())?,
        DataType::Dictionary(..) => downcast_dictionary_array!(
            array => dictionary(array)?,
            other => return Err(unknown(other))
        ),
        _ => by_arrow(array)?,
    })
}

fn unknown(data_type: &DataType) -> ArrowError {
    ArrowError::NotYetImplemented(format!("values of type {data_type} cannot be printed"))
}

fn integers<T: ArrowPrimitiveType>(array: &dyn Array) -> Shape<'_>
where
    T::Native: std::fmt::Display,
{
    let array = array.as_primitive::<T>();
    Shape::Bare(Box::new(move |row, out| push(out, format_args!("{}", array.value(row)))))
}

fn floats(array: &dyn Array) -> Shape<'_> {
    if let Some(array) = array.as_primitive_opt::<Float64Type>() {
        return Shape::Float(Box::new(move |row, out| float(array.value(row), array.value(row), out)));
    }
    if let Some(array) = array.as_primitive_opt::<Float32Type>() {
        return Shape::Float(Box::new(move |row, out| float(array.value(row), f64::from(array.value(row)), out)));
    }
    let array = array.as_primitive::<Float16Type>();
    Shape::Float(Box::new(move |row, out| float(array.value(row).to_f32(), f64::from(array.value(row).to_f32()), out)))
}

/// `Debug` of a float is its shortest text that reads back the same, always with a point or an exponent.
fn float(value: impl std::fmt::Debug, wide: f64, out: &mut String) {
    if wide.is_infinite() {
        out.push_str(if wide > 0.0 { "Infinity" } else { "-Infinity" });
    } else {
        push(out, format_args!("{value:?}"));
    }
}

fn decimals<T: DecimalType>(array: &dyn Array) -> Shape<'_> {
    let array = array.as_primitive::<T>();
    Shape::Bare(Box::new(move |row, out| out.push_str(&array.value_as_string(row))))
}

fn texts<'a>(array: impl arrow::array::StringArrayType<'a> + 'a) -> Shape<'a> {
    Shape::Text(Box::new(move |row, out| out.push_str(array.value(row))))
}

fn hex<'a>(array: impl BinaryArrayType<'a> + 'a) -> Shape<'a> {
    Shape::Text(Box::new(move |row, out| {
        for byte in array.value(row) {
            push(out, format_args!("{byte:02x}"));
        }
    }))
}

/// A value as `convert` shows it, or as the number that it is.
fn temporal<'a, T: ArrowTemporalType, D: std::fmt::Display>(
    array: &'a dyn Array,
    convert: impl Fn(i64) -> Option<D> + 'a,
) -> Shape<'a>
where
    i64: From<T::Native>,
{
    let array = array.as_primitive::<T>();
    Shape::Text(Box::new(move |row, out| {
        let value = i64::from(array.value(row));
        match convert(value) {
            Some(shown) => push(out, format_args!("{shown}")),
            None => push(out, format_args!("{value}")),
        }
    }))
}

fn dates<T: ArrowTemporalType>(array: &dyn Array) -> Shape<'_>
where
    i64: From<T::Native>,
{
    temporal::<T, _>(array, as_date::<T>)
}

fn times<T: ArrowTemporalType>(array: &dyn Array) -> Shape<'_>
where
    i64: From<T::Native>,
{
    temporal::<T, _>(array, as_time::<T>)
}

fn timestamps<T: ArrowTemporalType>(array: &dyn Array, zone: Option<Tz>) -> Shape<'_>
where
    i64: From<T::Native>,
{
    match zone {
        None => temporal::<T, _>(array, as_datetime::<T>),
        Some(zone) => temporal::<T, _>(array, move |value| as_datetime::<T>(value).map(|utc| in_zone(utc, zone))),
    }
}

/// Local time and offset: `1970-01-01 02:00:00+02:00`.
fn in_zone(utc: NaiveDateTime, zone: Tz) -> String {
    let offset = zone.offset_from_utc_datetime(&utc).fix();
    // at the ends of the calendar there may be no local time
    match utc.checked_add_offset(offset) {
        Some(local) if offset.local_minus_utc() != 0 => format!("{local}{offset}"),
        _ => format!("{utc}Z"),
    }
}

fn list<O: OffsetSizeTrait>(array: &GenericListArray<O>) -> Result<Shape<'_>, ArrowError> {
    let values = Box::new(Cells::new(array.values())?);
    let offsets = array.value_offsets();
    Ok(Shape::List(Box::new(move |row| offsets[row].as_usize()..offsets[row + 1].as_usize()), values))
}

fn rows(array: &StructArray) -> Result<Shape<'_>, ArrowError> {
    let fields = array.fields().iter().zip(array.columns());
    let cells = fields.map(|(field, column)| Ok((field.name().as_str(), Cells::new(column)?)));
    Ok(Shape::Row(cells.collect::<Result<_, ArrowError>>()?))
}

fn map(array: &MapArray) -> Result<Shape<'_>, ArrowError> {
    let offsets = array.value_offsets();
    let rows: Rows<'_> = Box::new(move |row| offsets[row].as_usize()..offsets[row + 1].as_usize());
    Ok(Shape::Map(rows, Box::new(Cells::new(array.keys())?), Box::new(Cells::new(array.values())?)))
}

fn dictionary<K: ArrowDictionaryKeyType>(array: &DictionaryArray<K>) -> Result<Shape<'_>, ArrowError> {
    let values = Box::new(Cells::new(array.values().as_ref())?);
    Ok(Shape::Dictionary(Box::new(move |row| array.key(row).unwrap_or(0)), values))
}

/// Intervals, durations, unions and other rare types.
fn by_arrow(array: &dyn Array) -> Result<Shape<'_>, ArrowError> {
    // a formatter that outlives its options keeps only parts with a static life
    let formatter = ArrayFormatter::try_new(array, &FormatOptions::new())?;
    Ok(Shape::Text(Box::new(move |row, out| push(out, format_args!("{}", formatter.value(row))))))
}
