use std::sync::Arc;

use arrow::array::*;
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::datatypes::*;
use proptest::prelude::*;

use super::cell::Cells;
use super::*;

fn texts(array: &dyn Array) -> Vec<String> {
    let cells = Cells::new(array).unwrap();
    (0..array.len())
        .map(|row| {
            let mut out = String::new();
            cells.text(row, &mut out);
            out
        })
        .collect()
}

fn jsons(array: &dyn Array) -> Vec<String> {
    let cells = Cells::new(array).unwrap();
    (0..array.len())
        .map(|row| {
            let mut out = String::new();
            cells.json(row, &mut out);
            out
        })
        .collect()
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true))).unwrap()
}

fn print(format: Format, batches: &[RecordBatch]) -> String {
    let mut writer = ResultWriter::new(format, Vec::new());
    writer.begin(&batches[0].schema()).unwrap();
    for batch in batches {
        writer.batch(batch).unwrap();
    }
    let rows = writer.end().unwrap();
    assert_eq!(rows, batches.iter().map(|batch| batch.num_rows() as u64).sum::<u64>());
    String::from_utf8(writer.into_inner()).unwrap()
}

#[test]
fn integers_keep_every_digit() {
    assert_eq!(
        texts(&Int64Array::from(vec![i64::MIN, 0, i64::MAX])),
        ["-9223372036854775808", "0", "9223372036854775807"]
    );
    assert_eq!(jsons(&UInt64Array::from(vec![u64::MAX])), ["18446744073709551615"]);
    assert_eq!(texts(&Int8Array::from(vec![-128])), ["-128"]);
}

#[test]
fn doubles_are_the_shortest_text_that_reads_back() {
    let values = vec![0.1, 1.0, -0.0, 1e16, 1e300, 1.5e-7, 123456.789, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
    let array = Float64Array::from(values);
    assert_eq!(
        texts(&array),
        ["0.1", "1.0", "-0.0", "1e16", "1e300", "1.5e-7", "123456.789", "NaN", "Infinity", "-Infinity"]
    );
    assert_eq!(jsons(&array)[7..], ["\"NaN\"", "\"Infinity\"", "\"-Infinity\""]);
    assert_eq!(texts(&Float32Array::from(vec![0.1, 16777216.0])), ["0.1", "16777216.0"]);
}

#[test]
fn decimals_keep_their_scale() {
    let array =
        Decimal128Array::from(vec![Some(150), Some(-5), Some(0), None]).with_precision_and_scale(10, 2).unwrap();
    assert_eq!(texts(&array), ["1.50", "-0.05", "0.00", ""]);
    assert_eq!(jsons(&array), ["1.50", "-0.05", "0.00", "null"]);
    let digits = "99999999999999999999999999999999999999";
    let wide = Decimal128Array::from(vec![digits.parse::<i128>().unwrap()]).with_precision_and_scale(38, 0).unwrap();
    assert_eq!(texts(&wide), [digits]);
}

#[test]
fn dates_and_times_are_iso() {
    assert_eq!(texts(&Date32Array::from(vec![0, -1, 19_782])), ["1970-01-01", "1969-12-31", "2024-02-29"]);
    assert_eq!(texts(&Date32Array::from(vec![i32::MAX])), ["2147483647"], "beyond the calendar");
    assert_eq!(texts(&Time64MicrosecondArray::from(vec![0, 3_723_500_000])), ["00:00:00", "01:02:03.500"]);
    assert_eq!(
        texts(&TimestampMicrosecondArray::from(vec![0, 1, 1_500_000, -1])),
        ["1970-01-01 00:00:00", "1970-01-01 00:00:00.000001", "1970-01-01 00:00:01.500", "1969-12-31 23:59:59.999999",]
    );
    assert_eq!(jsons(&TimestampSecondArray::from(vec![0])), ["\"1970-01-01 00:00:00\""]);
}

#[test]
fn instants_are_shown_in_their_zone_with_the_offset() {
    let at =
        |zone: &str| texts(&TimestampMillisecondArray::from(vec![1_720_000_000_000]).with_timezone(zone)).remove(0);
    assert_eq!(at("UTC"), "2024-07-03 09:46:40Z");
    assert_eq!(at("Europe/Berlin"), "2024-07-03 11:46:40+02:00");
    assert_eq!(at("-03:30"), "2024-07-03 06:16:40-03:30");
    let nowhere = TimestampSecondArray::from(vec![0]).with_timezone("Nowhere/At_All");
    assert!(Cells::new(&nowhere).is_err());
}

#[test]
fn text_binary_and_boolean() {
    assert_eq!(texts(&StringViewArray::from(vec!["ä", "a much longer text than fits inline"]))[0], "ä");
    assert_eq!(texts(&BinaryArray::from(vec![&[0u8, 255, 16][..], &[]])), ["00ff10", ""]);
    assert_eq!(texts(&BooleanArray::from(vec![true, false])), ["true", "false"]);
    assert_eq!(jsons(&NullArray::new(1)), ["null"]);
    let dictionary: DictionaryArray<Int8Type> = vec![Some("x"), None, Some("x")].into_iter().collect();
    assert_eq!(jsons(&dictionary), ["\"x\"", "null", "\"x\""]);
}

#[test]
fn rare_types_are_left_to_arrow() {
    let interval = IntervalYearMonthArray::from(vec![14]);
    assert_eq!(texts(&interval), ["1 years 2 mons"]);
}

fn nested() -> RecordBatch {
    let list = ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1), None]), None, Some(vec![])]);
    let row = StructArray::from(vec![
        (
            Arc::new(Field::new("s", DataType::Utf8, true)),
            Arc::new(StringArray::from(vec![Some("q\""), None, Some("")])) as ArrayRef,
        ),
        (Arc::new(Field::new("d", DataType::Date32, true)), Arc::new(Date32Array::from(vec![0, 1, 2])) as ArrayRef),
    ]);
    let mut map = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
    for size in 0..3 {
        for key in 0..size {
            map.keys().append_value(format!("k{key}"));
            map.values().append_value(key);
        }
        map.append(true).unwrap();
    }
    batch(vec![("l", Arc::new(list)), ("r", Arc::new(row)), ("m", Arc::new(map.finish()))])
}

#[test]
fn nested_values_are_json() {
    assert_eq!(
        print(Format::Json, &[nested()]),
        r#"{"l":[1,null],"r":{"s":"q\"","d":"1970-01-01"},"m":{}}
{"l":null,"r":{"s":null,"d":"1970-01-02"},"m":{"k0":0}}
{"l":[],"r":{"s":"","d":"1970-01-03"},"m":{"k0":0,"k1":1}}
"#
    );
    assert_eq!(texts(nested().column(0)), ["[1,null]", "", "[]"]);
}

#[test]
fn a_slice_of_a_nested_column_prints_its_own_rows() {
    let slice = nested().slice(2, 1);
    assert!(print(Format::Json, &[slice]).starts_with(r#"{"l":[],"r":{"s":"","#));
    let inner = Arc::new(Int32Array::from(vec![1, 2, 3]));
    let offsets = OffsetBuffer::new(ScalarBuffer::from(vec![1, 3]));
    let list = ListArray::new(Arc::new(Field::new("item", DataType::Int32, true)), offsets, inner, None);
    assert_eq!(texts(&list), ["[2,3]"]);
    let fixed =
        FixedSizeListArray::from_iter_primitive::<Int32Type, _, _>([1, 2, 3].map(|i| Some(vec![Some(i), Some(-i)])), 2);
    assert_eq!(texts(&fixed.slice(1, 2)), ["[2,-2]", "[3,-3]"]);
}

#[test]
fn csv_quotes_only_what_needs_it() {
    let batch = batch(vec![
        ("plain", Arc::new(StringArray::from(vec![Some("a"), Some(""), None, Some(" b ")]))),
        (
            "with,comma",
            Arc::new(StringArray::from(vec![Some("x,y"), Some("say \"hi\""), Some("two\nlines"), Some("cr\r")])),
        ),
        ("n", Arc::new(Int32Array::from(vec![Some(1), None, Some(3), None]))),
    ]);
    assert_eq!(
        print(Format::Csv, &[batch]),
        "plain,\"with,comma\",n\na,\"x,y\",1\n\"\",\"say \"\"hi\"\"\",\n,\"two\nlines\",3\n b ,\"cr\r\",\n"
    );
}

#[test]
fn csv_sets_have_a_blank_line_between_them() {
    let one = batch(vec![("a", Arc::new(Int32Array::from(vec![1])))]);
    let mut writer = ResultWriter::new(Format::Csv, Vec::new());
    for _ in 0..2 {
        writer.begin(&one.schema()).unwrap();
        writer.batch(&one).unwrap();
        writer.batch(&one).unwrap();
    }
    writer.end().unwrap();
    assert_eq!(String::from_utf8(writer.into_inner()).unwrap(), "a\n1\n1\n\na\n1\n1\n");
}

#[test]
fn an_empty_result_still_has_its_header() {
    let empty = batch(vec![("a", Arc::new(Int32Array::from(Vec::<i32>::new())))]);
    assert_eq!(print(Format::Csv, std::slice::from_ref(&empty)), "a\n");
    assert_eq!(print(Format::Json, std::slice::from_ref(&empty)), "");
    assert_eq!(print(Format::Table, &[empty]), "+---+\n| a |\n+---+\n+---+\n");
}

#[test]
fn json_properties_are_unique() {
    let schema = Schema::new(["a", "a", "a_2", "a"].map(|name| Field::new(name, DataType::Int32, true)).to_vec());
    assert_eq!(json::names(&schema), ["a", "a_3", "a_2", "a_4"]);
}

#[test]
fn a_table_aligns_numbers_right_and_counts_wide_characters() {
    let batch = batch(vec![
        ("n", Arc::new(Int32Array::from(vec![Some(1), Some(1000), None]))),
        ("text", Arc::new(StringArray::from(vec!["日本", "a\tb\u{1b}[2J", "x"]))),
    ]);
    let expected = "\
+------+---------------+
|    n | text          |
+------+---------------+
|    1 | 日本          |
| 1000 | a\\tb\\u{1b}[2J |
| NULL | x             |
+------+---------------+
";
    assert_eq!(print(Format::Table, &[batch]), expected);
}

#[test]
fn a_table_prints_before_it_has_everything() {
    let rows = batch(vec![("n", Arc::new(Int32Array::from_iter_values(0..table::SAMPLE_ROWS as i32)))]);
    let mut writer = ResultWriter::new(Format::Table, Vec::new());
    writer.begin(&rows.schema()).unwrap();
    writer.batch(&rows.slice(0, 10)).unwrap();
    writer.batch(&rows).unwrap();
    let wide = batch(vec![("n", Arc::new(Int32Array::from(vec![123_456])))]);
    writer.batch(&wide).unwrap();
    let so_far = String::from_utf8(writer.into_inner()).unwrap();
    assert_eq!(so_far.lines().count(), 3 + 10 + table::SAMPLE_ROWS + 1);
    assert!(so_far.ends_with("| 123456 |\n"), "a wide cell is not cut");
}

#[test]
fn a_closed_pipe_is_an_io_error() {
    struct Closed;
    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let error = ResultWriter::new(Format::Csv, Closed).line("x").unwrap_err();
    assert!(matches!(error, WriteError::Io(error) if error.kind() == io::ErrorKind::BrokenPipe));
}

#[test]
fn formats_have_names() {
    assert_eq!("CSV".parse(), Ok(Format::Csv));
    assert!("xml".parse::<Format>().unwrap_err().to_string().contains("table, csv or json"));
}

/// Reads what [`csv`] wrote: fields of `None` for NULL.
fn read_csv(text: &str) -> Vec<Vec<Option<String>>> {
    let (mut records, mut record, mut field) = (Vec::new(), Vec::new(), String::new());
    let (mut quoted, mut was_quoted) = (false, false);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => field.push(chars.next().unwrap()),
            '"' => (quoted, was_quoted) = (!quoted, true),
            ',' | '\n' if !quoted => {
                let value = std::mem::take(&mut field);
                record.push((was_quoted || !value.is_empty()).then_some(value));
                was_quoted = false;
                if c == '\n' {
                    records.push(std::mem::take(&mut record));
                }
            }
            c => field.push(c),
        }
    }
    records
}

proptest! {
    #[test]
    fn csv_reads_back(values in prop::collection::vec((prop::option::of("[a,\"\n\r é]{0,6}"), prop::option::of(any::<i32>())), 0..8)) {
        let (left, right): (Vec<_>, Vec<_>) = values.iter().cloned().unzip();
        let batch = batch(vec![("l", Arc::new(StringArray::from(left))), ("r", Arc::new(Int32Array::from(right)))]);
        let mut text = String::new();
        csv::rows(&batch, &mut text).unwrap();
        let expected: Vec<_> = values.into_iter().map(|(l, r)| vec![l, r.map(|r| r.to_string())]).collect();
        prop_assert_eq!(read_csv(&text), expected);
    }

    #[test]
    fn json_reads_back(text in "\\PC{0,12}[\u{0}-\u{1f}\"\\\\]{0,4}", double in prop::num::f64::NORMAL | prop::num::f64::ZERO) {
        let batch = batch(vec![
            ("t\"", Arc::new(StringArray::from(vec![text.clone()]))),
            ("d", Arc::new(Float64Array::from(vec![double]))),
        ]);
        let line = print(Format::Json, &[batch]);
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        prop_assert_eq!(value["t\""].as_str(), Some(text.as_str()));
        let printed = line.split("\"d\":").nth(1).unwrap().trim_end().trim_end_matches('}');
        prop_assert_eq!(printed.parse::<f64>().unwrap().to_bits(), double.to_bits());
    }

    #[test]
    fn a_table_of_any_text_has_lines_of_one_width(words in prop::collection::vec("\\PC{0,10}", 1..5)) {
        let batch = batch(vec![("w", Arc::new(StringArray::from(words)))]);
        let table = print(Format::Table, &[batch]);
        let widths: Vec<usize> = table.lines().map(unicode_width::UnicodeWidthStr::width).collect();
        prop_assert!(widths.iter().all(|width| *width == widths[0]), "{:?}\n{}", widths, table);
    }
}
