//! `stable_hash` version 1: the one hash that places rows.
//!
//! Decides which subpartition, key group or table bucket a row belongs to: always [`subpartition`] of [`hash_columns`] over the
//! key columns. It is a contract between processes, releases and files on disk: a change of any value it returns is a new
//! version. DataFusion's repartition hash changes between releases and is no part of it.
//!
//! With h₀ = 0, column i folds in as hᵢ = xxh3-64(bytesᵢ, seed hᵢ₋₁). The bytes of one value:
//!
//! | value | bytes |
//! |---|---|
//! | NULL of any type | `FF` |
//! | integers | 8, little-endian, sign-extended (unsigned: zero-extended) |
//! | DATE | 8, days since 1970 |
//! | TIME, TIMESTAMP, durations | 8, microseconds; nanoseconds where the type's unit is nanoseconds |
//! | floats | 8, the bits of the double; −0.0 as 0.0, every NaN as `7FF8000000000000` |
//! | decimals | unscaled value without trailing decimal zeros as 16 bytes (32 if it does not fit), then its scale as 1 byte; zero has scale 0 |
//! | strings | UTF-8 |
//! | binary | as is |
//! | boolean | 1, `00` or `01` |
//! | INTERVAL | year-month: 8 (months); day-time: 4 days + 4 milliseconds; month-day-nano: 4 months + 4 days + 8 nanoseconds |
//!
//! Values that SQL calls equal across widths of one kind hash alike: 32- and 64-bit integers, single and double floats, decimals of
//! any precision and scale, plain, large, view and dictionary strings. A timestamp in nanoseconds does not hash like one in
//! microseconds: the planner casts both sides of a key to one type. Lists, structs, maps and unions are no keys.

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, ByteView, GenericByteArray, GenericByteViewArray, PrimitiveArray,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::*;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Number of the hash that this module computes; stored beside anything placed by it.
pub const VERSION: u32 = 1;

const NULL_BYTES: [u8; 1] = [0xFF];
const NAN_BITS: u64 = 0x7FF8_0000_0000_0000;
const MILLIS_PER_DAY: i64 = 86_400_000;

/// Why columns could not be hashed.
#[derive(Debug, thiserror::Error)]
pub enum HashError {
    #[error(
        "key column {column} has type {data_type}, which cannot be hashed: cast it to a scalar type or leave it out of the key"
    )]
    UnsupportedType { column: usize, data_type: DataType },
    #[error("key column {column} has {rows} rows where the first one has {expected}")]
    LengthMismatch { column: usize, rows: usize, expected: usize },
    #[error("key column {column} could not be decoded")]
    Decode { column: usize, source: arrow::error::ArrowError },
}

/// Where hash `hash` lies among `n` equal intervals of the hash space: `(hash · n) >> 64`, so below `n` (0 if `n` is 0).
///
/// Monotone in `hash`: interval `i` of `n` is the union of intervals `2i` and `2i + 1` of `2n`.
#[inline]
pub fn subpartition(hash: u64, n: u32) -> u32 {
    ((u128::from(hash) * u128::from(n)) >> 64) as u32
}

/// Replaces the content of `out` by one hash per row of `columns`. No columns: no rows.
///
/// # Errors
/// A column of a type without a defined hash, or columns of different lengths; `out` is then unspecified.
pub fn hash_columns(columns: &[ArrayRef], out: &mut Vec<u64>) -> Result<(), HashError> {
    let rows = columns.first().map_or(0, |c| c.len());
    out.clear();
    out.resize(rows, 0);
    for (column, array) in columns.iter().enumerate() {
        if array.len() != rows {
            return Err(HashError::LengthMismatch { column, rows: array.len(), expected: rows });
        }
        fold_column(column, array, out)?;
    }
    Ok(())
}

fn fold_column(column: usize, array: &ArrayRef, out: &mut [u64]) -> Result<(), HashError> {
    use DataType::*;
    match array.data_type() {
        Null => out.iter_mut().for_each(|h| *h = xxh3_64_with_seed(&NULL_BYTES, *h)),
        Boolean => {
            let values = array.as_boolean().values();
            fold(array.nulls(), out, |row, seed| xxh3_64_with_seed(&[values.value(row) as u8], seed));
        }
        Int8 => fold_i64::<Int8Type>(array, out, i64::from),
        Int16 => fold_i64::<Int16Type>(array, out, i64::from),
        Int32 => fold_i64::<Int32Type>(array, out, i64::from),
        Int64 => fold_i64::<Int64Type>(array, out, |v| v),
        UInt8 => fold_i64::<UInt8Type>(array, out, i64::from),
        UInt16 => fold_i64::<UInt16Type>(array, out, i64::from),
        UInt32 => fold_i64::<UInt32Type>(array, out, i64::from),
        UInt64 => fold_i64::<UInt64Type>(array, out, |v| v as i64),
        Float16 => fold_i64::<Float16Type>(array, out, |v| float_bits(v.to_f64())),
        Float32 => fold_i64::<Float32Type>(array, out, |v| float_bits(f64::from(v))),
        Float64 => fold_i64::<Float64Type>(array, out, float_bits),
        Date32 => fold_i64::<Date32Type>(array, out, i64::from),
        Date64 => fold_i64::<Date64Type>(array, out, |v| v.div_euclid(MILLIS_PER_DAY)),
        Time32(_) | Time64(_) | Timestamp(_, _) | Duration(_) => fold_time(array, out),
        Interval(_) => fold_interval(array, out),
        Decimal32(_, _) | Decimal64(_, _) | Decimal128(_, _) | Decimal256(_, _) => fold_decimal(array, out),
        Utf8 => fold_bytes(array.as_bytes::<Utf8Type>(), out),
        LargeUtf8 => fold_bytes(array.as_bytes::<LargeUtf8Type>(), out),
        Binary => fold_bytes(array.as_bytes::<BinaryType>(), out),
        LargeBinary => fold_bytes(array.as_bytes::<LargeBinaryType>(), out),
        Utf8View => fold_views(array.as_byte_view::<StringViewType>(), out),
        BinaryView => fold_views(array.as_byte_view::<BinaryViewType>(), out),
        FixedSizeBinary(_) => {
            let values = array.as_fixed_size_binary();
            fold(array.nulls(), out, |row, seed| xxh3_64_with_seed(values.value(row), seed));
        }
        Dictionary(_, value_type) => {
            let plain =
                arrow::compute::cast(array, value_type).map_err(|source| HashError::Decode { column, source })?;
            fold_column(column, &plain, out)?;
        }
        other => return Err(HashError::UnsupportedType { column, data_type: other.clone() }),
    }
    Ok(())
}

/// Applies `hash(row, seed)` to every row that is not null; one loop without a null test where there are none.
#[inline]
fn fold(nulls: Option<&NullBuffer>, out: &mut [u64], hash: impl Fn(usize, u64) -> u64) {
    match nulls.filter(|n| n.null_count() > 0) {
        None => out.iter_mut().enumerate().for_each(|(row, h)| *h = hash(row, *h)),
        Some(nulls) => {
            for ((row, h), valid) in out.iter_mut().enumerate().zip(nulls.iter()) {
                *h = if valid { hash(row, *h) } else { xxh3_64_with_seed(&NULL_BYTES, *h) };
            }
        }
    }
}

#[inline]
fn fold_i64<T: ArrowPrimitiveType>(array: &ArrayRef, out: &mut [u64], to_i64: impl Fn(T::Native) -> i64) {
    let array: &PrimitiveArray<T> = array.as_primitive();
    let values = &array.values()[..out.len()];
    fold(array.nulls(), out, |row, seed| xxh3_64_with_seed(&to_i64(values[row]).to_le_bytes(), seed));
}

fn float_bits(v: f64) -> i64 {
    // adding 0.0 turns −0.0 into 0.0 and changes nothing else
    let bits = if v.is_nan() { NAN_BITS } else { (v + 0.0).to_bits() };
    bits as i64
}

/// Microseconds, or nanoseconds where that is the unit. Instants too far away for 64 bits wrap around.
fn fold_time(array: &ArrayRef, out: &mut [u64]) {
    use TimeUnit::*;
    match array.data_type() {
        DataType::Time32(Second) => fold_i64::<Time32SecondType>(array, out, |v| i64::from(v) * 1_000_000),
        DataType::Time32(_) => fold_i64::<Time32MillisecondType>(array, out, |v| i64::from(v) * 1_000),
        DataType::Time64(Nanosecond) => fold_i64::<Time64NanosecondType>(array, out, |v| v),
        DataType::Time64(_) => fold_i64::<Time64MicrosecondType>(array, out, |v| v),
        DataType::Timestamp(Second, _) => fold_i64::<TimestampSecondType>(array, out, |v| v.wrapping_mul(1_000_000)),
        DataType::Timestamp(Millisecond, _) => {
            fold_i64::<TimestampMillisecondType>(array, out, |v| v.wrapping_mul(1_000))
        }
        DataType::Timestamp(Microsecond, _) => fold_i64::<TimestampMicrosecondType>(array, out, |v| v),
        DataType::Timestamp(Nanosecond, _) => fold_i64::<TimestampNanosecondType>(array, out, |v| v),
        DataType::Duration(Second) => fold_i64::<DurationSecondType>(array, out, |v| v.wrapping_mul(1_000_000)),
        DataType::Duration(Millisecond) => fold_i64::<DurationMillisecondType>(array, out, |v| v.wrapping_mul(1_000)),
        DataType::Duration(Microsecond) => fold_i64::<DurationMicrosecondType>(array, out, |v| v),
        DataType::Duration(Nanosecond) => fold_i64::<DurationNanosecondType>(array, out, |v| v),
        other => unreachable!("{other} is no time type"),
    }
}

fn fold_interval(array: &ArrayRef, out: &mut [u64]) {
    match array.data_type() {
        DataType::Interval(IntervalUnit::YearMonth) => fold_i64::<IntervalYearMonthType>(array, out, i64::from),
        DataType::Interval(IntervalUnit::DayTime) => fold_i64::<IntervalDayTimeType>(array, out, |v| {
            i64::from(v.days as u32) | (i64::from(v.milliseconds) << 32)
        }),
        _ => {
            let values = array.as_primitive::<IntervalMonthDayNanoType>().values();
            fold(array.nulls(), out, |row, seed| {
                let v = values[row];
                let mut bytes = [0u8; 16];
                bytes[..4].copy_from_slice(&v.months.to_le_bytes());
                bytes[4..8].copy_from_slice(&v.days.to_le_bytes());
                bytes[8..].copy_from_slice(&v.nanoseconds.to_le_bytes());
                xxh3_64_with_seed(&bytes, seed)
            });
        }
    }
}

fn fold_decimal(array: &ArrayRef, out: &mut [u64]) {
    match array.data_type() {
        DataType::Decimal32(_, scale) => {
            let values = array.as_primitive::<Decimal32Type>().values();
            fold(array.nulls(), out, |row, seed| decimal128_hash(i128::from(values[row]), *scale, seed));
        }
        DataType::Decimal64(_, scale) => {
            let values = array.as_primitive::<Decimal64Type>().values();
            fold(array.nulls(), out, |row, seed| decimal128_hash(i128::from(values[row]), *scale, seed));
        }
        DataType::Decimal128(_, scale) => {
            let values = array.as_primitive::<Decimal128Type>().values();
            fold(array.nulls(), out, |row, seed| decimal128_hash(values[row], *scale, seed));
        }
        DataType::Decimal256(_, scale) => {
            let values = array.as_primitive::<Decimal256Type>().values();
            fold(array.nulls(), out, |row, seed| decimal256_hash(values[row], *scale, seed));
        }
        other => unreachable!("{other} is no decimal type"),
    }
}

#[inline]
fn decimal128_hash(value: i128, scale: i8, seed: u64) -> u64 {
    let (value, scale) = match i64::try_from(value) {
        Ok(small) => {
            let (small, scale) = strip_zeros_i64(small, scale);
            (i128::from(small), scale)
        }
        Err(_) => strip_zeros_i128(value, scale),
    };
    let mut bytes = [0u8; 17];
    bytes[..16].copy_from_slice(&value.to_le_bytes());
    bytes[16] = scale as u8;
    xxh3_64_with_seed(&bytes, seed)
}

fn decimal256_hash(mut value: i256, mut scale: i8, seed: u64) -> u64 {
    let ten = i256::from_i128(10);
    while value.to_i128().is_none() && value.wrapping_rem(ten) == i256::ZERO {
        value = value.wrapping_div(ten);
        scale = scale.wrapping_sub(1);
    }
    if let Some(small) = value.to_i128() {
        return decimal128_hash(small, scale, seed);
    }
    let mut bytes = [0u8; 33];
    bytes[..32].copy_from_slice(&value.to_le_bytes());
    bytes[32] = scale as u8;
    xxh3_64_with_seed(&bytes, seed)
}

/// Most decimals fit 64 bits, where a division is several times cheaper; odd values need none.
#[inline]
fn strip_zeros_i64(mut value: i64, mut scale: i8) -> (i64, i8) {
    if value == 0 {
        return (0, 0);
    }
    while value & 1 == 0 && value % 10 == 0 {
        value /= 10;
        scale = scale.wrapping_sub(1);
    }
    (value, scale)
}

fn strip_zeros_i128(mut value: i128, mut scale: i8) -> (i128, i8) {
    while value & 1 == 0 && value % 10 == 0 {
        value /= 10;
        scale = scale.wrapping_sub(1);
    }
    (value, scale)
}

fn fold_bytes<T: ByteArrayType>(array: &GenericByteArray<T>, out: &mut [u64]) {
    use arrow::datatypes::ArrowNativeType;
    let offsets = array.value_offsets();
    let data = array.value_data();
    fold(array.nulls(), out, |row, seed| {
        let bytes = &data[offsets[row].as_usize()..offsets[row + 1].as_usize()];
        xxh3_64_with_seed(bytes, seed)
    });
}

fn fold_views<T: ByteViewType>(array: &GenericByteViewArray<T>, out: &mut [u64]) {
    let views = array.views();
    let buffers = array.data_buffers();
    fold(array.nulls(), out, |row, seed| {
        let raw = views[row];
        let view = ByteView::from(raw);
        let len = view.length as usize;
        if len <= 12 {
            xxh3_64_with_seed(&raw.to_le_bytes()[4..4 + len], seed)
        } else {
            let start = view.offset as usize;
            xxh3_64_with_seed(&buffers[view.buffer_index as usize][start..start + len], seed)
        }
    });
}
