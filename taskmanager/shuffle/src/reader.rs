//! Reads one finished map output of this store.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::RecordBatch;
use thalweg_types::{Interval, MapOutputKey};

use crate::error::Error;
use crate::store::{Block, Held, MapOutput};

/// Owned rows of a block.
#[derive(Debug, Clone)]
pub struct Slice {
    pub batch: RecordBatch,
    /// Rows of the memory block that the slice keeps alive.
    pub block_rows: usize,
}

impl Slice {
    pub fn rows(&self) -> usize {
        self.batch.num_rows()
    }
}

/// Yields the rows of an interval of subpartitions, block after block in the order they were written; spilled blocks are
/// decoded one message at a time.
#[derive(Debug)]
pub struct MapReader {
    output: Arc<MapOutput>,
    blocks: std::vec::IntoIter<Arc<Block>>,
    subpartitions: Interval<u32>,
    /// Positions to yield, among the rows of the interval.
    rows: Interval<u64>,
    /// Position of the next block's first owned row.
    position: u64,
    /// The block being read from disk: what is held, the rows wanted of it, the next message.
    disk: Option<(Held, Interval<usize>, usize)>,
    failed: bool,
}

impl MapReader {
    pub(crate) fn new(output: Arc<MapOutput>, subpartitions: Interval<u32>, rows: Option<Interval<u64>>) -> Self {
        Self {
            blocks: output.blocks().into_iter(),
            output,
            subpartitions,
            rows: rows.unwrap_or(Interval::new(0, u64::MAX)),
            position: 0,
            disk: None,
            failed: false,
        }
    }

    pub fn key(&self) -> MapOutputKey {
        self.output.key
    }

    /// The schema of the slices.
    pub fn schema(&self) -> &arrow::datatypes::SchemaRef {
        &self.output.schema
    }

    /// The next slice with at least one row; `None` at the end.
    ///
    /// # Errors
    /// [`Error::LostBlock`]; nothing follows it.
    pub fn next_slice(&mut self) -> Result<Option<Slice>, Error> {
        if self.failed {
            return Ok(None);
        }
        let next = self.advance();
        self.failed = next.is_err();
        next
    }

    fn advance(&mut self) -> Result<Option<Slice>, Error> {
        loop {
            if let Some(slice) = self.next_message()? {
                return Ok(Some(slice));
            }
            let Some(block) = self.blocks.next() else { return Ok(None) };
            let wanted = self.wanted(&block);
            if wanted.is_empty() {
                continue;
            }
            match block.hold() {
                Held::Memory(batch) => {
                    let slice = batch.slice(wanted.start, wanted.end - wanted.start);
                    return Ok(Some(Slice { batch: slice, block_rows: batch.num_rows() }));
                }
                held => self.disk = Some((held, wanted, 0)),
            }
        }
    }

    /// Which of the block's rows to yield.
    fn wanted(&mut self, block: &Block) -> Interval<usize> {
        let owned = block.index.owned_rows(self.subpartitions);
        let first = self.position;
        self.position += (owned.end - owned.start) as u64;
        let common = Interval::new(first, self.position).intersect(&self.rows);
        if common.is_empty() {
            return Interval::new(0, 0);
        }
        let start = owned.start + (common.start - first) as usize;
        Interval::new(start, start + (common.end - common.start) as usize)
    }

    /// The next slice of the spilled block being read.
    fn next_message(&mut self) -> Result<Option<Slice>, Error> {
        while let Some((Held::Disk(file, chunks), wanted, next)) = &mut self.disk {
            let Some(chunk) = chunks.get(*next) else { break };
            *next += 1;
            let common = chunk.rows.intersect(wanted);
            if common.is_empty() {
                continue;
            }
            let batch = self.output.read_chunk(file, chunk)?;
            let slice = batch.slice(common.start - chunk.rows.start, common.end - common.start);
            return Ok(Some(Slice { batch: slice, block_rows: batch.num_rows() }));
        }
        self.disk = None;
        Ok(None)
    }

    /// The slices as batches that own their memory where they are small.
    pub fn coalesced(self) -> Coalesced {
        Coalesced { reader: self, coalescer: Default::default(), ready: VecDeque::new(), done: false }
    }
}

impl Iterator for MapReader {
    type Item = Result<RecordBatch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_slice().map(|slice| slice.map(|s| s.batch)).transpose()
    }
}

/// See [`MapReader::coalesced`].
#[derive(Debug)]
pub struct Coalesced {
    reader: MapReader,
    coalescer: crate::coalesce::Coalescer,
    ready: VecDeque<RecordBatch>,
    done: bool,
}

impl Coalesced {
    fn advance(&mut self) -> Result<Option<RecordBatch>, Error> {
        while self.ready.is_empty() && !self.done {
            match self.reader.next_slice()? {
                Some(slice) => self.coalescer.push(slice.batch, slice.block_rows, &mut self.ready)?,
                None => {
                    self.done = true;
                    self.coalescer.flush(&mut self.ready)?;
                }
            }
        }
        Ok(self.ready.pop_front())
    }
}

impl Iterator for Coalesced {
    type Item = Result<RecordBatch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.advance().transpose()
    }
}
