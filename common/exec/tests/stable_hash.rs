//! The hash is a contract: these values must never change within version 1.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use arrow::array::*;
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::*;
use proptest::prelude::*;
use thalweg_exec::stable_hash::{HashError, hash_columns, subpartition};
use xxhash_rust::xxh3::xxh3_64_with_seed;

fn hashes(columns: &[ArrayRef]) -> Vec<u64> {
    let mut out = vec![7; 3]; // what was there before does not matter
    hash_columns(columns, &mut out).unwrap();
    out
}

fn one(column: impl Array + 'static) -> Vec<u64> {
    hashes(&[Arc::new(column)])
}

fn int_bytes(v: i64) -> u64 {
    xxh3_64_with_seed(&v.to_le_bytes(), 0)
}

fn decimal_bytes(unscaled: i128, scale: i8) -> u64 {
    let mut bytes = unscaled.to_le_bytes().to_vec();
    bytes.push(scale as u8);
    xxh3_64_with_seed(&bytes, 0)
}

/// One array of every supported type, with a null in row 1.
fn every_type() -> Vec<(&'static str, ArrayRef)> {
    let strings = StringArray::from(vec![Some("Elbe"), None, Some("a string of more than twelve bytes")]);
    let dictionary = cast(&strings, &DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8))).unwrap();
    let ints = Int64Array::from(vec![Some(1), None, Some(-2)]);
    let small = Int32Array::from(vec![Some(1), None, Some(2)]);
    let as_type = |array: &dyn Array, t: &DataType| cast(array, t).unwrap();
    let nulls = || Some(NullBuffer::from(vec![true, false, true]));
    vec![
        ("null", Arc::new(NullArray::new(3)) as ArrayRef),
        ("boolean", Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)]))),
        ("int8", as_type(&ints, &DataType::Int8)),
        ("int16", as_type(&ints, &DataType::Int16)),
        ("int32", as_type(&ints, &DataType::Int32)),
        ("int64", Arc::new(ints.clone())),
        ("uint64", Arc::new(UInt64Array::from(vec![Some(1), None, Some(u64::MAX)]))),
        ("float32", Arc::new(Float32Array::from(vec![Some(1.5), None, Some(-0.0)]))),
        ("float64", Arc::new(Float64Array::from(vec![Some(1.5), None, Some(f64::NAN)]))),
        ("date32", as_type(&small, &DataType::Date32)),
        ("date64", Arc::new(Date64Array::from(vec![Some(86_400_000), None, Some(172_800_000)]))),
        ("time32(s)", as_type(&small, &DataType::Time32(TimeUnit::Second))),
        ("time64(ns)", as_type(&ints, &DataType::Time64(TimeUnit::Nanosecond))),
        ("timestamp(ms)", as_type(&ints, &DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())))),
        ("timestamp(us)", as_type(&ints, &DataType::Timestamp(TimeUnit::Microsecond, None))),
        ("timestamp(ns)", as_type(&ints, &DataType::Timestamp(TimeUnit::Nanosecond, None))),
        (
            "decimal128(10,2)",
            Arc::new(Decimal128Array::from(vec![Some(1250), None, Some(-7)]).with_precision_and_scale(10, 2).unwrap()),
        ),
        (
            "decimal256(50,4)",
            Arc::new(
                Decimal256Array::from(vec![Some(i256::from_i128(125_000)), None, Some(i256::from_parts(1, 1 << 70))])
                    .with_precision_and_scale(60, 4)
                    .unwrap(),
            ),
        ),
        ("utf8", Arc::new(strings.clone())),
        ("largeutf8", as_type(&strings, &DataType::LargeUtf8)),
        ("utf8view", as_type(&strings, &DataType::Utf8View)),
        ("binary", as_type(&strings, &DataType::Binary)),
        ("binaryview", as_type(&strings, &DataType::BinaryView)),
        ("dictionary", dictionary),
        (
            "fixedsizebinary(3)",
            Arc::new(
                FixedSizeBinaryArray::try_from_sparse_iter_with_size(
                    [Some([1u8, 2, 3]), None, Some([4, 5, 6])].into_iter(),
                    3,
                )
                .unwrap(),
            ),
        ),
        (
            "interval(month-day-nano)",
            Arc::new(IntervalMonthDayNanoArray::new(
                vec![
                    IntervalMonthDayNano::new(1, 2, 3),
                    IntervalMonthDayNano::new(0, 0, 0),
                    IntervalMonthDayNano::new(-1, 0, 9),
                ]
                .into(),
                nulls(),
            )),
        ),
        (
            "interval(day-time)",
            Arc::new(IntervalDayTimeArray::new(
                vec![IntervalDayTime::new(1, 2), IntervalDayTime::new(0, 0), IntervalDayTime::new(-1, -2)].into(),
                nulls(),
            )),
        ),
    ]
}

#[test]
fn golden_values() {
    let mut text = String::new();
    for (name, array) in every_type() {
        let hex: Vec<String> = hashes(&[array]).iter().map(|h| format!("{h:016x}")).collect();
        text.push_str(&format!("{name} {}\n", hex.join(" ")));
    }
    let all: Vec<ArrayRef> = every_type().into_iter().map(|(_, a)| a).collect();
    let hex: Vec<String> = hashes(&all).iter().map(|h| format!("{h:016x}")).collect();
    text.push_str(&format!("all-columns {}\n", hex.join(" ")));
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/stable_hash_v1.txt");
    if std::env::var_os("THALWEG_UPDATE_GOLDENS").is_some() {
        std::fs::create_dir_all(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden")).unwrap();
        std::fs::write(path, &text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(path).unwrap(), "a changed value needs a new version of the hash");
}

#[test]
fn values_are_hashed_as_documented() {
    let null = xxh3_64_with_seed(&[0xFF], 0);
    assert_eq!(one(Int32Array::from(vec![Some(5), None])), [int_bytes(5), null]);
    assert_eq!(one(Int8Array::from(vec![-5])), [int_bytes(-5)]);
    assert_eq!(one(Float32Array::from(vec![-0.0])), [int_bytes(0)]);
    assert_eq!(one(Float64Array::from(vec![-f64::NAN])), [int_bytes(0x7FF8_0000_0000_0000)]);
    assert_eq!(one(Date64Array::from(vec![-1])), [int_bytes(-1)], "the day before 1970");
    assert_eq!(one(TimestampSecondArray::from(vec![3])), [int_bytes(3_000_000)]);
    assert_eq!(one(TimestampNanosecondArray::from(vec![3])), [int_bytes(3)]);
    assert_eq!(one(BooleanArray::from(vec![true])), [xxh3_64_with_seed(&[1], 0)]);
    assert_eq!(one(NullArray::new(1)), [null]);
    let dec = |v: i128, s| one(Decimal128Array::from(vec![v]).with_precision_and_scale(38, s).unwrap());
    assert_eq!(dec(1250, 2), [decimal_bytes(125, 1)]);
    assert_eq!(dec(0, 9), [decimal_bytes(0, 0)]);
    assert_eq!(dec(1200, 0), [decimal_bytes(12, -2)]);
    let large = 10i128.pow(37);
    assert_eq!(dec(large, 10), [decimal_bytes(1, -27)]);
    let second = xxh3_64_with_seed(b"x", int_bytes(5));
    let key: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(vec![5])), Arc::new(StringArray::from(vec!["x"]))];
    assert_eq!(hashes(&key), [second], "the first column's hash seeds the second");
}

#[test]
fn equal_values_of_different_types_hash_alike() {
    let by_name = every_type().into_iter().map(|(n, a)| (n, hashes(&[a]))).collect::<std::collections::HashMap<_, _>>();
    for group in [
        vec!["int8", "int16", "int32", "int64"],
        vec!["utf8", "largeutf8", "utf8view", "dictionary", "binary", "binaryview"],
        vec!["date32", "date64"],
    ] {
        for name in &group {
            assert_eq!(by_name[name], by_name[group[0]], "{name}");
        }
    }
    assert_eq!(by_name["decimal256(50,4)"][0], by_name["decimal128(10,2)"][0]);
}

#[test]
fn slices_hash_like_the_rows_they_show() {
    for (name, array) in every_type() {
        let whole = hashes(std::slice::from_ref(&array));
        assert_eq!(hashes(&[array.slice(1, 2)]), whole[1..], "{name}");
    }
}

#[test]
fn unsupported_types_are_named() {
    let list = ListArray::from_iter_primitive::<Int32Type, _, _>([Some([Some(1)])]);
    let columns: Vec<ArrayRef> = vec![Arc::new(Int32Array::from(vec![1])), Arc::new(list)];
    let err = hash_columns(&columns, &mut Vec::new()).unwrap_err();
    assert!(matches!(err, HashError::UnsupportedType { column: 1, .. }), "{err}");
    let uneven: Vec<ArrayRef> = vec![Arc::new(Int32Array::from(vec![1])), Arc::new(Int32Array::from(vec![1, 2]))];
    assert!(matches!(hash_columns(&uneven, &mut Vec::new()), Err(HashError::LengthMismatch { column: 1, .. })));
}

proptest! {
    #[test]
    fn finer_intervals_nest_in_coarser_ones(hash: u64, n in 1u32..1 << 20) {
        let coarse = subpartition(hash, n);
        prop_assert!(coarse < n);
        prop_assert_eq!(subpartition(hash, 2 * n) / 2, coarse);
    }

    #[test]
    fn decimals_hash_by_value_whatever_their_scale(v in -1_000_000_000_000i64..1_000_000_000_000, more in 0i8..10) {
        let wide = i128::from(v) * 10i128.pow(more as u32);
        let a = Decimal128Array::from(vec![i128::from(v)]).with_precision_and_scale(38, 3).unwrap();
        let b = Decimal128Array::from(vec![wide]).with_precision_and_scale(38, 3 + more).unwrap();
        prop_assert_eq!(one(a), one(b));
    }
}
