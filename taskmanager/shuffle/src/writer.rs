//! What a map task writes through.
//!
//! Decides when buffered rows become blocks: with several subpartitions when the buffer is full (the rows are then sorted into
//! packed blocks), with one as soon as a block's worth is there (order kept, large batches not copied). Guarantees that no
//! 32-bit string offset overflows by flushing earlier.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use thalweg_types::MapOutputKey;

use crate::coalesce::{compact, copy, merge};
use crate::error::{Error, arrow};
use crate::partition::{BlockIndex, MAX_BLOCK_ROWS, Sizes, pack, subpartition};
use crate::schema::{cast_batch, exchange_schema, same_types};
use crate::sizes::batch_bytes;
use crate::store::{Block, Charge, ExchangeStore, MapOutput};

/// Buffered rows at most, whatever their bytes.
const FLUSH_ROWS: usize = 4 << 20;
/// Buffered bytes at most, whatever the options: two batches below never exceed 2³¹ bytes of one string column.
const FLUSH_BYTES: usize = 1 << 30;

/// Row-exact statistics of a finished output.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MapStats {
    /// Rows per subpartition.
    pub rows: Vec<u64>,
    /// Raw bytes per subpartition.
    pub bytes: Vec<u64>,
    /// Bytes of the output that are on disk now.
    pub spilled_bytes: u64,
}

/// The open output of one attempt; dropped without [`finish`](Self::finish) it leaves nothing behind.
pub struct MapWriter {
    store: Arc<ExchangeStore>,
    id: u64,
    output: Arc<MapOutput>,
    schema: SchemaRef,
    block_bytes: usize,
    totals: Sizes,
    pending: Pending,
}

#[derive(Default)]
struct Pending {
    batches: Vec<RecordBatch>,
    ids: Vec<u32>,
    rows: usize,
    bytes: usize,
    charge: Option<Charge>,
}

impl MapWriter {
    pub(crate) fn new(
        store: Arc<ExchangeStore>,
        key: MapOutputKey,
        schema: SchemaRef,
        subpartitions: u32,
    ) -> Result<Self, Error> {
        let schema = exchange_schema(&schema)?;
        if subpartitions == 0 {
            return Err(Error::InvalidInput { output: key, detail: "it has no subpartitions".to_owned() });
        }
        let output = Arc::new(MapOutput::new(key, schema.clone(), subpartitions));
        let id = store.begin(output.clone());
        let block_bytes = store.options.block_bytes.max(1);
        Ok(Self {
            store,
            id,
            output,
            schema,
            block_bytes,
            totals: Sizes::new(subpartitions),
            pending: Pending::default(),
        })
    }

    /// Takes a batch; `hashes` has one hash per row and may be absent with a single subpartition only.
    ///
    /// # Errors
    /// A batch or hashes that do not fit, or a failure to spill. The output is of no use then: drop the writer.
    pub fn write(&mut self, batch: RecordBatch, hashes: Option<&[u64]>) -> Result<(), Error> {
        if !same_types(&batch.schema(), &self.schema)
            && exchange_schema(&batch.schema()).is_ok_and(|s| !same_types(&s, &self.schema))
        {
            return Err(self.invalid(format!("its schema is {:?}, not {:?}", batch.schema(), self.schema)));
        }
        let batch = cast_batch(&batch, &self.schema).map_err(arrow("bring a batch to the exchange's schema"))?;
        if batch.num_rows() == 0 {
            return Ok(());
        }
        if self.output.subpartitions == 1 {
            return self.write_single(batch);
        }
        let hashes = hashes.ok_or_else(|| self.invalid("several subpartitions need hashes".to_owned()))?;
        if hashes.len() != batch.num_rows() {
            return Err(self.invalid(format!("{} hashes for {} rows", hashes.len(), batch.num_rows())));
        }
        let bytes = batch_bytes(&batch);
        if self.pending.bytes + bytes > FLUSH_BYTES || self.pending.rows + batch.num_rows() > FLUSH_ROWS {
            self.flush_packed()?;
        }
        let subpartitions = self.output.subpartitions;
        self.pending.ids.extend(hashes.iter().map(|&h| subpartition(h, subpartitions)));
        self.buffer(batch, bytes);
        if self.pending.bytes >= self.store.options.flush_bytes { self.flush_packed() } else { Ok(()) }
    }

    fn invalid(&self, detail: String) -> Error {
        Error::InvalidInput { output: self.output.key, detail }
    }

    fn buffer(&mut self, batch: RecordBatch, bytes: usize) {
        self.pending.rows += batch.num_rows();
        self.pending.bytes += bytes;
        let budget = self.store.budget();
        self.pending.charge.get_or_insert_with(|| Charge::new(budget, 0)).grow(bytes);
        self.pending.batches.push(batch);
    }

    /// Sorts what is buffered into blocks.
    fn flush_packed(&mut self) -> Result<(), Error> {
        let pending = std::mem::take(&mut self.pending);
        if pending.rows == 0 {
            return Ok(());
        }
        let subpartitions = self.output.subpartitions;
        let (blocks, sizes) = pack(&pending.batches, &pending.ids, &self.schema, subpartitions, self.block_bytes)?;
        self.totals.add(&sizes);
        drop(pending);
        for block in blocks {
            self.output.push(Block::new(block.index, block.batch, self.store.budget()));
        }
        self.store.relieve()
    }

    fn write_single(&mut self, batch: RecordBatch) -> Result<(), Error> {
        for piece in self.pieces(batch)? {
            let bytes = batch_bytes(&piece);
            let full =
                self.pending.rows + piece.num_rows() > MAX_BLOCK_ROWS || self.pending.bytes + bytes > self.block_bytes;
            if full {
                self.flush_single()?;
            }
            self.buffer(piece, bytes);
        }
        if self.pending.bytes >= self.block_bytes / 2 { self.flush_single() } else { Ok(()) }
    }

    /// A batch too large for a block as several, each in memory of its own so that each can be spilled by itself.
    fn pieces(&self, batch: RecordBatch) -> Result<VecDeque<RecordBatch>, Error> {
        let rows = batch.num_rows();
        let bytes = batch_bytes(&batch).max(1);
        let count = bytes.div_ceil(4 * self.block_bytes).max(rows.div_ceil(MAX_BLOCK_ROWS)).min(rows);
        if count <= 1 {
            return Ok(VecDeque::from([batch]));
        }
        (0..count)
            .map(|i| {
                let (start, end) = (rows * i / count, rows * (i + 1) / count);
                copy(&batch.slice(start, end - start))
            })
            .collect()
    }

    fn flush_single(&mut self) -> Result<(), Error> {
        let mut pending = std::mem::take(&mut self.pending);
        let batches = std::mem::take(&mut pending.batches);
        let batch = match batches.len() {
            1 => compact(&batches[0])?,
            _ => match merge(batches)? {
                Some(batch) => batch,
                None => return Ok(()),
            },
        };
        self.totals.rows[0] += pending.rows as u64;
        self.totals.bytes[0] += pending.bytes as u64;
        let index = BlockIndex::single(0, batch.num_rows(), pending.bytes as u64);
        drop(pending);
        self.output.push(Block::new(index, batch, self.store.budget()));
        self.store.relieve()
    }

    /// Makes the output readable.
    pub fn finish(mut self) -> Result<MapStats, Error> {
        if self.output.subpartitions == 1 {
            self.flush_single()?
        } else {
            self.flush_packed()?
        }
        let totals = std::mem::take(&mut self.totals);
        let stats = MapStats { rows: totals.rows, bytes: totals.bytes, spilled_bytes: self.output.spilled_bytes() };
        self.store.complete(self.id);
        Ok(stats)
    }
}

impl Drop for MapWriter {
    fn drop(&mut self) {
        self.store.abandon(self.id); // nothing to do after `finish`
    }
}
