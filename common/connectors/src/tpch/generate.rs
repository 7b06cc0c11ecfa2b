//! From a table, a scale factor and a part to batches.
//!
//! A part is a range of the generator's own rows (orders, for `lineitem`; parts, for `partsupp`). Its content depends on
//! nothing but table, scale factor, part and number of parts, and all parts in order are the whole table.

use arrow::array::RecordBatch;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, PartSuppGenerator,
    RegionGenerator, SupplierGenerator,
};
use tpchgen_arrow::{
    CustomerArrow, LineItemArrow, NationArrow, OrderArrow, PartArrow, PartSuppArrow, RegionArrow, SupplierArrow,
};

use super::schema::Table;

/// Rows of a part, roughly; a part is then 20 to 40 MB.
const ROWS_PER_PART: u64 = 250_000;

impl Table {
    /// Rows of part `part` (from 1) of `parts`; `None` for `lineitem`, whose orders have 1 to 7 lines.
    pub(crate) fn rows(self, scale_factor: f64, part: i32, parts: i32) -> Option<u64> {
        let per_source_row = match self {
            Table::LineItem => return None,
            Table::PartSupp => 4,
            _ => 1,
        };
        Some(self.source_rows(scale_factor, part, parts) * per_source_row)
    }

    /// Rows of a part, exact or by the average number of lines.
    pub(crate) fn estimated_rows(self, scale_factor: f64, part: i32, parts: i32) -> u64 {
        self.rows(scale_factor, part, parts).unwrap_or_else(|| self.source_rows(scale_factor, part, parts) * 4)
    }

    /// How many parts the table is cut into.
    pub(crate) fn parts(self, scale_factor: f64) -> i32 {
        let rows_per_source_row = if matches!(self, Table::LineItem | Table::PartSupp) { 4 } else { 1 };
        let rows = self.source_rows(scale_factor, 1, 1) * rows_per_source_row;
        i32::try_from(rows.div_ceil(ROWS_PER_PART).max(1)).unwrap_or(i32::MAX)
    }

    fn source_rows(self, scale_factor: f64, part: i32, parts: i32) -> u64 {
        let rows = match self {
            Table::Region => 5,
            Table::Nation => 25,
            Table::Part => PartGenerator::calculate_row_count(scale_factor, part, parts),
            Table::Supplier => SupplierGenerator::calculate_row_count(scale_factor, part, parts),
            Table::PartSupp => PartSuppGenerator::calculate_row_count(scale_factor, part, parts),
            Table::Customer => CustomerGenerator::calculate_row_count(scale_factor, part, parts),
            Table::Orders | Table::LineItem => OrderGenerator::calculate_row_count(scale_factor, part, parts),
        };
        u64::try_from(rows).unwrap_or(0)
    }

    /// The rows of one part, a batch at a time; text comes as views.
    pub(crate) fn generate(
        self,
        scale_factor: f64,
        part: i32,
        parts: i32,
        batch_size: usize,
    ) -> Box<dyn Iterator<Item = RecordBatch> + Send> {
        macro_rules! batches {
            ($arrow:ident, $generator:ident) => {
                Box::new($arrow::new($generator::new(scale_factor, part, parts)).with_batch_size(batch_size))
            };
        }
        match self {
            Table::Region => batches!(RegionArrow, RegionGenerator),
            Table::Nation => batches!(NationArrow, NationGenerator),
            Table::Part => batches!(PartArrow, PartGenerator),
            Table::Supplier => batches!(SupplierArrow, SupplierGenerator),
            Table::PartSupp => batches!(PartSuppArrow, PartSuppGenerator),
            Table::Customer => batches!(CustomerArrow, CustomerGenerator),
            Table::Orders => batches!(OrderArrow, OrderGenerator),
            Table::LineItem => batches!(LineItemArrow, LineItemGenerator),
        }
    }
}
