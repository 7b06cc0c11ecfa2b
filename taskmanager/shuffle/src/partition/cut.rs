//! Block bounds and row places: pure arithmetic on row counts.

use thalweg_types::Interval;

use super::Sizes;

/// Rows of a block at most, so that a row's place in it fits 16 bits.
pub const MAX_BLOCK_ROWS: usize = 65_535;

/// Blocks of one region at most; the target grows until they are fewer.
const MAX_BLOCKS: u64 = 1 << 16;

/// Which rows of a block belong to which subpartition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockIndex {
    /// The first subpartition with rows here.
    pub first: u32,
    /// Ascending from 0: rows of subpartition `first + i` are `offsets[i]..offsets[i + 1]`.
    pub offsets: Vec<u32>,
    /// Raw bytes of all rows.
    pub bytes: u64,
}

impl BlockIndex {
    /// A block whose rows all belong to one subpartition.
    pub fn single(subpartition: u32, rows: usize, bytes: u64) -> Self {
        Self { first: subpartition, offsets: vec![0, rows as u32], bytes }
    }

    pub fn rows(&self) -> usize {
        self.offsets.last().map_or(0, |&n| n as usize)
    }

    /// Subpartitions the block may hold rows of.
    pub fn subpartitions(&self) -> Interval<u32> {
        Interval::new(self.first, self.first + (self.offsets.len() - 1) as u32)
    }

    /// Rows that belong to `subpartitions`; empty if there are none.
    pub fn owned_rows(&self, subpartitions: Interval<u32>) -> Interval<usize> {
        let common = self.subpartitions().intersect(&subpartitions);
        if common.is_empty() {
            return Interval::new(0, 0);
        }
        let at = |s: u32| self.offsets[(s - self.first) as usize] as usize;
        Interval::new(at(common.start), at(common.end))
    }

    /// Cuts into pieces of about `target` bytes at subpartition bounds; `None` if it is not worth it.
    pub fn split(&self, target: u64) -> Option<Vec<(BlockIndex, Interval<usize>)>> {
        if self.bytes < 2 * target || self.offsets.len() < 3 {
            return None;
        }
        let rows_per_piece = (self.rows() as u64 * target / self.bytes).max(1) as u32;
        let mut pieces = Vec::new();
        let mut from = 0;
        for to in 1..self.offsets.len() {
            let rows = self.offsets[to] - self.offsets[from];
            let last = to + 1 == self.offsets.len();
            if rows > 0 && (last || self.offsets[to + 1] - self.offsets[from] > rows_per_piece) {
                pieces.push(self.piece(from, to));
                from = to;
            }
        }
        Some(pieces)
    }

    fn piece(&self, from: usize, to: usize) -> (BlockIndex, Interval<usize>) {
        let base = self.offsets[from];
        let offsets: Vec<u32> = self.offsets[from..=to].iter().map(|o| o - base).collect();
        let rows = Interval::new(base as usize, self.offsets[to] as usize);
        let bytes = self.bytes * (rows.end - rows.start) as u64 / self.rows().max(1) as u64;
        (BlockIndex { first: self.first + from as u32, offsets, bytes }, rows)
    }
}

/// Bounds of blocks of about `target` bytes over subpartitions of the given sizes.
pub fn cut_blocks(sizes: &Sizes, target: u64) -> Vec<BlockIndex> {
    let total: u64 = sizes.bytes.iter().sum();
    // two neighbours together exceed the target, so this keeps their number well under the limit
    let target = target.max(total / (MAX_BLOCKS / 4)).max(1);
    let mut blocks = Vec::new();
    let mut open: Option<BlockIndex> = None;
    for (subpartition, (&rows, &bytes)) in sizes.rows.iter().zip(&sizes.bytes).enumerate() {
        let subpartition = subpartition as u32;
        if rows == 0 {
            continue;
        }
        if bytes > target || rows > MAX_BLOCK_ROWS as u64 {
            blocks.extend(open.take());
            cut_one(subpartition, rows, bytes, target, &mut blocks);
            continue;
        }
        let full = |b: &BlockIndex| b.bytes + bytes > target || b.rows() as u64 + rows > MAX_BLOCK_ROWS as u64;
        if open.as_ref().is_some_and(full) {
            blocks.extend(open.take());
        }
        let block = open.get_or_insert_with(|| BlockIndex { first: subpartition, offsets: vec![0], bytes: 0 });
        let before = block.rows() as u32;
        block.offsets.resize((subpartition - block.first) as usize + 1, before);
        block.offsets.push(before + rows as u32);
        block.bytes += bytes;
    }
    blocks.extend(open);
    debug_assert!((blocks.len() as u64) <= MAX_BLOCKS);
    blocks
}

/// A subpartition too large for one block becomes several of equal row counts.
fn cut_one(subpartition: u32, rows: u64, bytes: u64, target: u64, blocks: &mut Vec<BlockIndex>) {
    let parts = bytes.div_ceil(target).max(rows.div_ceil(MAX_BLOCK_ROWS as u64)).min(rows);
    for part in 0..parts {
        let part_rows = rows * (part + 1) / parts - rows * part / parts;
        blocks.push(BlockIndex::single(subpartition, part_rows as usize, bytes * part_rows / rows));
    }
}

/// Each row's place: block number in the upper, row in the block in the lower 16 bits.
pub(super) fn place_rows(ids: &[u32], blocks: &[BlockIndex], subpartitions: u32) -> Vec<u32> {
    // where the next row of a subpartition goes, and where its rows in that block end
    let mut cursors = vec![(0u32, 0u32); subpartitions as usize];
    for (number, block) in blocks.iter().enumerate().rev() {
        let base = (number as u32) << 16;
        for (i, pair) in block.offsets.windows(2).enumerate().filter(|(_, pair)| pair[0] < pair[1]) {
            cursors[block.first as usize + i] = (base | pair[0], base | pair[1]);
        }
    }
    let mut targets = Vec::with_capacity(ids.len());
    for &id in ids {
        let (cursor, end) = &mut cursors[id as usize];
        if *cursor == *end {
            // a subpartition that spans blocks has the next one for itself
            let number = (*cursor >> 16) as usize + 1;
            *cursor = (number as u32) << 16;
            *end = *cursor | blocks[number].rows() as u32;
        }
        targets.push(*cursor);
        *cursor += 1;
    }
    targets
}

/// What fetching an interval of subpartitions from one map output costs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FetchCost {
    /// Raw bytes of the rows in the interval.
    pub owned: u64,
    /// Bytes on the wire: the owned rows and a header per message.
    pub sent: u64,
    /// Bytes that have to be decoded if every block is on disk.
    pub decoded: u64,
}

/// The cost of reading `subpartitions` from `blocks`; `header` bytes per message, small slices share one of up to `merge` bytes.
pub fn fetch_cost(blocks: &[BlockIndex], subpartitions: Interval<u32>, header: u64, merge: u64) -> FetchCost {
    let mut cost = FetchCost::default();
    let mut pending = 0;
    for block in blocks {
        let rows = block.owned_rows(subpartitions);
        if rows.is_empty() {
            continue;
        }
        let owned = block.bytes * (rows.end - rows.start) as u64 / block.rows() as u64;
        cost.owned += owned;
        cost.decoded += block.bytes;
        pending += owned;
        if pending >= merge {
            cost.sent += header;
            pending = 0;
        }
    }
    cost.sent += cost.owned + if pending > 0 { header } else { 0 };
    cost
}
