//! What the footers of all files say about the columns of a table.
//!
//! A number is exact or absent, never a guess: one row group without it makes it absent for the whole table. Shortened bounds
//! of text are inexact, and so are bounds of floating-point columns, which leave out NaN.

use ::parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use ::parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use arrow::array::{Array, ArrayRef, BooleanArray};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::error::ArrowError;
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue};

use super::types::has_total_bounds;

/// Uncompressed bytes of each column of `schema` in one row group; nested columns count with all their leaves.
pub(crate) fn column_bytes(schema: &Schema, row_group: &RowGroupMetaData) -> Vec<u64> {
    let mut bytes = vec![0_u64; schema.fields().len()];
    for chunk in row_group.columns() {
        let root = chunk.column_path().parts().first();
        let column = root.and_then(|root| schema.fields().iter().position(|field| field.name() == root));
        if let Some(column) = column {
            bytes[column] += u64::try_from(chunk.uncompressed_size()).unwrap_or(0);
        }
    }
    bytes
}

/// Collects the statistics of one column over all files.
#[derive(Debug)]
pub(crate) struct Collector {
    data_type: DataType,
    min: Bound,
    max: Bound,
    /// `None` once a row group did not know it.
    nulls: Option<usize>,
}

/// The least (or greatest) value so far.
#[derive(Debug)]
struct Bound {
    value: Option<ScalarValue>,
    exact: bool,
    known: bool,
    wanted: std::cmp::Ordering,
}

impl Collector {
    pub(crate) fn new(field: &Field) -> Self {
        let bound = |wanted| Bound { value: None, exact: has_total_bounds(field.data_type()), known: true, wanted };
        Collector {
            data_type: field.data_type().clone(),
            min: bound(std::cmp::Ordering::Less),
            max: bound(std::cmp::Ordering::Greater),
            nulls: Some(0),
        }
    }

    /// Adds one file. `file_schema` is its Arrow schema.
    pub(crate) fn add(&mut self, name: &str, file_schema: &Schema, footer: &ParquetMetaData) {
        if self.try_add(name, file_schema, footer).is_err() {
            self.forget();
        }
    }

    fn forget(&mut self) {
        self.min.known = false;
        self.max.known = false;
        self.nulls = None;
    }

    fn try_add(&mut self, name: &str, file_schema: &Schema, footer: &ParquetMetaData) -> Result<(), ArrowError> {
        let groups = footer.row_groups();
        let converter = StatisticsConverter::try_new(name, file_schema, footer.file_metadata().schema_descr())
            .map_err(|error| ArrowError::ExternalError(Box::new(error)))?
            .with_missing_null_counts_as_zero(false);
        let external = |error| ArrowError::ExternalError(Box::new(error));
        let nulls = converter.row_group_null_counts(groups).map_err(external)?;
        let mins = self.as_table_type(&converter.row_group_mins(groups).map_err(external)?)?;
        let maxes = self.as_table_type(&converter.row_group_maxes(groups).map_err(external)?)?;
        let mins_exact = converter.row_group_is_min_value_exact(groups).map_err(external)?;
        let maxes_exact = converter.row_group_is_max_value_exact(groups).map_err(external)?;
        let leaf = converter.parquet_column_index();
        for (row, group) in groups.iter().enumerate() {
            let known_nulls = nulls.is_valid(row).then(|| nulls.value(row) as usize);
            self.nulls = self.nulls.zip(known_nulls).map(|(sum, nulls)| sum + nulls);
            let all_null = known_nulls.is_some_and(|nulls| nulls as i64 == group.num_rows());
            if all_null || group.num_rows() == 0 {
                continue;
            }
            // written by old writers with an undefined order
            let statistics = leaf.and_then(|leaf| group.column(leaf).statistics());
            let trusted = statistics.is_some_and(|statistics| !statistics.is_min_max_deprecated());
            self.min.add(&mins, &mins_exact, row, trusted)?;
            self.max.add(&maxes, &maxes_exact, row, trusted)?;
        }
        Ok(())
    }

    fn as_table_type(&self, values: &ArrayRef) -> Result<ArrayRef, ArrowError> {
        cast_with_options(values, &self.data_type, &CastOptions { safe: false, ..Default::default() })
    }

    pub(crate) fn finish(self) -> ColumnStatistics {
        let mut statistics = ColumnStatistics::new_unknown();
        statistics.min_value = self.min.finish();
        statistics.max_value = self.max.finish();
        statistics.null_count = self.nulls.map_or(Precision::Absent, Precision::Exact);
        statistics
    }
}

impl Bound {
    fn add(&mut self, values: &ArrayRef, exact: &BooleanArray, row: usize, trusted: bool) -> Result<(), ArrowError> {
        if !trusted || values.is_null(row) {
            self.known = false;
        }
        if !self.known {
            return Ok(());
        }
        let value =
            ScalarValue::try_from_array(values, row).map_err(|error| ArrowError::ExternalError(Box::new(error)))?;
        self.exact &= exact.is_valid(row) && exact.value(row);
        let better = match &self.value {
            None => true,
            Some(current) => value.partial_cmp(current) == Some(self.wanted),
        };
        if better {
            self.value = Some(value);
        }
        Ok(())
    }

    fn finish(self) -> Precision<ScalarValue> {
        match self.value {
            Some(value) if self.known && self.exact => Precision::Exact(value),
            Some(value) if self.known => Precision::Inexact(value),
            _ => Precision::Absent,
        }
    }
}
