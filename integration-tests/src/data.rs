//! Makes small test tables: parquet files of integer columns, and `values` tables.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use parquet::arrow::ArrowWriter;

/// Rows per batch handed to the writer.
const BATCH: i64 = 65_536;

/// A column's name, and its value as a function of the row number.
pub type Column<'a> = (&'a str, fn(i64) -> i64);

/// Writes rows `0..rows` as `files` parquet files of about equal length; each column is a function of the row number.
pub fn write_parquet(dir: &Path, rows: i64, files: i64, columns: &[Column<'_>]) {
    std::fs::create_dir_all(dir).expect("the data directory can be made");
    for part in 0..files {
        let (from, to) = (rows * part / files, rows * (part + 1) / files);
        let file = File::create(dir.join(format!("part-{part}.parquet"))).expect("a new file");
        let mut writer =
            ArrowWriter::try_new(file, batch(from, from, columns).schema(), None).expect("a parquet schema");
        let mut start = from;
        while start < to {
            let end = to.min(start + BATCH);
            writer.write(&batch(start, end, columns)).expect("rows can be written");
            start = end;
        }
        writer.close().expect("the file can be closed");
    }
}

/// Writes the rows as `files` parquet files of about equal length.
pub fn write_batch(dir: &Path, rows: &RecordBatch, files: usize) {
    std::fs::create_dir_all(dir).expect("the data directory can be made");
    for part in 0..files {
        let (from, to) = (rows.num_rows() * part / files, rows.num_rows() * (part + 1) / files);
        let file = File::create(dir.join(format!("part-{part}.parquet"))).expect("a new file");
        let mut writer = ArrowWriter::try_new(file, rows.schema(), None).expect("a parquet schema");
        writer.write(&rows.slice(from, to - from)).expect("rows can be written");
        writer.close().expect("the file can be closed");
    }
}

fn batch(from: i64, to: i64, columns: &[Column<'_>]) -> RecordBatch {
    let arrays = columns.iter().map(|(name, value)| {
        let array: ArrayRef = Arc::new(Int64Array::from_iter_values((from..to).map(value)));
        (*name, array)
    });
    RecordBatch::try_from_iter(arrays).expect("columns of one length")
}

/// A statement declaring a table over parquet files; `columns` are declarations such as `k BIGINT`.
pub fn parquet_table(name: &str, columns: &str, dir: &Path) -> String {
    format!(
        "CREATE TABLE {name} ({columns}) WITH ('connector'='filesystem','path'='{}','format'='parquet');\n",
        dir.display()
    )
}

/// A statement declaring a table of literal rows, given as JSON.
pub fn values_table(name: &str, columns: &str, rows: &str) -> String {
    format!("CREATE TABLE {name} ({columns}) WITH ('connector'='values','rows'='{rows}');\n")
}
