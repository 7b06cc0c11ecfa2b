//! Turns small slices of blocks into batches of a useful size that own their memory.
//!
//! A slice keeps its whole block alive, and operators are billed for whole buffers; so slices under half a block are copied
//! together, and larger ones pass through as they are. Order is kept.

use std::collections::VecDeque;

use arrow::array::{ArrayRef, MutableArrayData, RecordBatch, RecordBatchOptions, make_array};
use arrow::compute::concat_batches;
use arrow::error::ArrowError;

use crate::error::{Error, arrow};
use crate::sizes::{batch_bytes, pinned_bytes};

/// Rows of a coalesced batch: what the operators use.
pub const BATCH_ROWS: usize = 8192;
/// Bytes after which a coalesced batch is handed on, whatever its rows.
const BATCH_BYTES: usize = 4 << 20;

/// Collects slices; ready batches go to the queue that the caller gives.
#[derive(Debug, Default)]
pub struct Coalescer {
    pending: Vec<RecordBatch>,
    rows: usize,
    bytes: usize,
}

impl Coalescer {
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a slice; `block_rows` is how many rows the block it was cut from has.
    pub fn push(
        &mut self,
        slice: RecordBatch,
        block_rows: usize,
        ready: &mut VecDeque<RecordBatch>,
    ) -> Result<(), Error> {
        let rows = slice.num_rows();
        if rows == 0 {
            return Ok(());
        }
        if rows * 2 >= block_rows && rows >= BATCH_ROWS / 2 {
            self.flush(ready)?;
            ready.push_back(slice);
            return Ok(());
        }
        let bytes = batch_bytes(&slice);
        if self.rows + rows > BATCH_ROWS || self.bytes + bytes > BATCH_BYTES {
            self.flush(ready)?;
        }
        self.rows += rows;
        self.bytes += bytes;
        self.pending.push(slice);
        if self.rows >= BATCH_ROWS || self.bytes >= BATCH_BYTES {
            self.flush(ready)?;
        }
        Ok(())
    }

    /// Hands on what is pending.
    pub fn flush(&mut self, ready: &mut VecDeque<RecordBatch>) -> Result<(), Error> {
        let pending = std::mem::take(&mut self.pending);
        (self.rows, self.bytes) = (0, 0);
        if let Some(batch) = merge(pending)? {
            ready.push_back(batch);
        }
        Ok(())
    }
}

/// One batch out of several of one schema; `None` out of none. The result owns its memory.
pub(crate) fn merge(batches: Vec<RecordBatch>) -> Result<Option<RecordBatch>, Error> {
    match batches.as_slice() {
        [] => Ok(None),
        [one] => compact(one).map(Some),
        [first, ..] => concat_batches(first.schema_ref(), &batches).map(Some).map_err(arrow("concatenate slices")),
    }
}

/// Copies the rows out if the batch keeps more than twice their bytes alive.
pub(crate) fn compact(batch: &RecordBatch) -> Result<RecordBatch, Error> {
    if pinned_bytes(batch) <= 2 * batch_bytes(batch) + 1024 {
        return Ok(batch.clone());
    }
    copy(batch)
}

/// The same rows in memory of their own.
pub(crate) fn copy(batch: &RecordBatch) -> Result<RecordBatch, Error> {
    let copied = batch.columns().iter().map(|column| {
        let data = column.to_data();
        let mut out = MutableArrayData::new(vec![&data], false, data.len());
        out.try_extend(0, 0, data.len())?;
        Ok(make_array(out.freeze()))
    });
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    copied
        .collect::<Result<Vec<ArrayRef>, ArrowError>>()
        .and_then(|columns| RecordBatch::try_new_with_options(batch.schema(), columns, &options))
        .map_err(arrow("copy a slice"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{AsArray, Int32Array};
    use arrow::datatypes::Int32Type;
    use std::sync::Arc;

    fn batch(rows: std::ops::Range<i32>) -> RecordBatch {
        RecordBatch::try_from_iter([("i", Arc::new(Int32Array::from_iter_values(rows)) as ArrayRef)]).unwrap()
    }

    #[test]
    fn small_slices_are_copied_together_and_large_ones_pass_through_in_order() {
        let block = batch(0..60_000);
        let mut coalescer = Coalescer::new();
        let mut ready = VecDeque::new();
        for start in [0, 100, 200] {
            coalescer.push(block.slice(start, 100), 60_000, &mut ready).unwrap();
        }
        assert!(ready.is_empty());
        coalescer.push(block.slice(300, 40_000), 60_000, &mut ready).unwrap();
        coalescer.push(block.slice(40_300, 10_000), 60_000, &mut ready).unwrap();
        coalescer.push(block.slice(50_300, 50), 60_000, &mut ready).unwrap();
        coalescer.flush(&mut ready).unwrap();
        let sizes: Vec<usize> = ready.iter().map(|b| b.num_rows()).collect();
        assert_eq!(sizes, [300, 40_000, 10_000, 50]);
        let all: Vec<i32> =
            ready.iter().flat_map(|b| b.column(0).as_primitive::<Int32Type>().values().to_vec()).collect();
        assert_eq!(all, (0..50_350).collect::<Vec<_>>());
        for small in [&ready[0], &ready[2], &ready[3]] {
            assert!(pinned_bytes(small) < 60_000, "{} bytes for {} rows", pinned_bytes(small), small.num_rows());
        }
    }
}
