//! From rows in arrival order to packed blocks sorted by subpartition.
//!
//! Decides where every row goes: a histogram of the rows' subpartitions gives the blocks' bounds ([`cut`]), a cursor per
//! subpartition gives each row its place, and [`scatter`] writes the columns there, one after the other, reading the input
//! once and in order. Rows of one subpartition keep their order. Guarantees that a block has at most
//! [`MAX_BLOCK_ROWS`] rows, and that it is cut at subpartition bounds unless one subpartition alone is larger than the target.

pub mod cut;
mod scatter;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{
    ArrowNativeType, BinaryType, ByteArrayType, DataType, LargeBinaryType, LargeUtf8Type, Schema, Utf8Type,
};

pub use cut::{BlockIndex, MAX_BLOCK_ROWS};

use crate::error::Error;
use crate::sizes::batch_bytes;

/// Where `hash` lies among `n` equal intervals of the hash space. Part of `stable_hash` version 1.
#[inline]
pub fn subpartition(hash: u64, n: u32) -> u32 {
    ((u128::from(hash) * u128::from(n)) >> 64) as u32
}

/// Rows and raw bytes per subpartition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sizes {
    pub rows: Vec<u64>,
    pub bytes: Vec<u64>,
}

impl Sizes {
    pub fn new(subpartitions: u32) -> Self {
        Self { rows: vec![0; subpartitions as usize], bytes: vec![0; subpartitions as usize] }
    }

    pub fn add(&mut self, other: &Sizes) {
        self.rows.iter_mut().zip(&other.rows).for_each(|(a, b)| *a += b);
        self.bytes.iter_mut().zip(&other.bytes).for_each(|(a, b)| *a += b);
    }
}

/// A block of rows sorted by subpartition.
#[derive(Debug, Clone)]
pub struct PackedBlock {
    pub index: BlockIndex,
    pub batch: RecordBatch,
}

/// Rearranges `batches` (all of `schema`) by `ids`, the subpartition of every row in order, each below `subpartitions`.
///
/// Blocks have about `target` raw bytes. Together they hold every row once, in ascending subpartition order.
pub fn pack(
    batches: &[RecordBatch],
    ids: &[u32],
    schema: &Schema,
    subpartitions: u32,
    target: usize,
) -> Result<(Vec<PackedBlock>, Sizes), Error> {
    let sizes = measure(batches, ids, schema, subpartitions);
    let blocks = cut::cut_blocks(&sizes, target as u64);
    let targets = cut::place_rows(ids, &blocks, subpartitions);
    let columns = scatter::scatter(batches, &targets, &blocks)?;
    let packed = blocks.into_iter().zip(columns).map(|(index, batch)| PackedBlock { index, batch }).collect::<Vec<_>>();
    Ok((packed, sizes))
}

/// Rows per subpartition, and bytes: fixed widths times rows plus the lengths of strings; nested columns by their average row.
fn measure(batches: &[RecordBatch], ids: &[u32], schema: &Schema, subpartitions: u32) -> Sizes {
    let mut sizes = Sizes::new(subpartitions);
    for &id in ids {
        sizes.rows[id as usize] += 1;
    }
    let mut bits_per_row = 0u64;
    for (column, field) in schema.fields().iter().enumerate() {
        bits_per_row += match field.data_type() {
            DataType::Null => 0,
            DataType::Boolean => 1,
            DataType::FixedSizeBinary(width) => 8 * *width as u64,
            DataType::Utf8 => add_lengths::<Utf8Type>(batches, column, ids, &mut sizes.bytes),
            DataType::Binary => add_lengths::<BinaryType>(batches, column, ids, &mut sizes.bytes),
            DataType::LargeUtf8 => add_lengths::<LargeUtf8Type>(batches, column, ids, &mut sizes.bytes),
            DataType::LargeBinary => add_lengths::<LargeBinaryType>(batches, column, ids, &mut sizes.bytes),
            other => other.primitive_width().map_or_else(|| average_bits(batches, column), |w| 8 * w as u64),
        };
    }
    for (bytes, rows) in sizes.bytes.iter_mut().zip(&sizes.rows) {
        *bytes += (bits_per_row * rows).div_ceil(8);
    }
    sizes
}

/// Adds the bytes of every string to its row's subpartition; returns the bits of an offset.
fn add_lengths<T: ByteArrayType>(batches: &[RecordBatch], column: usize, ids: &[u32], bytes: &mut [u64]) -> u64 {
    let mut at = 0;
    for batch in batches {
        let offsets = batch.column(column).as_bytes::<T>().value_offsets();
        for (pair, &id) in offsets.windows(2).zip(&ids[at..at + batch.num_rows()]) {
            bytes[id as usize] += (pair[1].as_usize() - pair[0].as_usize()) as u64;
        }
        at += batch.num_rows();
    }
    8 * T::Offset::get_byte_width() as u64
}

fn average_bits(batches: &[RecordBatch], column: usize) -> u64 {
    let rows: usize = batches.iter().map(|b| b.num_rows()).sum();
    let project = |b: &RecordBatch| b.project(&[column]).map_or(0, |one| batch_bytes(&one));
    let bytes: usize = batches.iter().map(project).sum();
    (8 * bytes as u64).checked_div(rows as u64).unwrap_or(0)
}

/// True if some array of the column has a null.
pub(crate) fn any_nulls<'a>(mut arrays: impl Iterator<Item = &'a dyn Array>) -> bool {
    arrays.any(|a| a.null_count() > 0)
}
