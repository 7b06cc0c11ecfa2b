//! Turning an iterator of batches into a stream that keeps a scan's promises: projected columns, bounded rows, one error.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Schema, SchemaRef};
use arrow::error::ArrowError;
use datafusion::common::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::coop::make_cooperative;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;

use crate::error::Error;

/// The schema of `projection`, which must have been checked against `schema`.
pub(crate) fn projected_schema(schema: &Schema, projection: &[usize]) -> SchemaRef {
    let fields: Vec<_> = projection.iter().map(|column| Arc::clone(&schema.fields()[*column])).collect();
    Arc::new(Schema::new(fields))
}

/// A batch that keeps its number of rows when it has no columns.
pub(crate) fn batch_of_rows(
    schema: &SchemaRef,
    columns: Vec<arrow::array::ArrayRef>,
    rows: usize,
) -> Result<RecordBatch, ArrowError> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
}

/// Streams `batches`, at most `limit` rows of them, and ends after the first error. Each poll takes one batch from the
/// iterator on the caller's thread.
pub(crate) fn into_stream<I>(schema: SchemaRef, batches: I, limit: Option<usize>) -> SendableRecordBatchStream
where
    I: Iterator<Item = Result<RecordBatch, Error>> + Send + 'static,
{
    let limited = Limited { batches, remaining: limit.unwrap_or(usize::MAX) };
    make_cooperative(Box::pin(RecordBatchStreamAdapter::new(schema, futures::stream::iter(limited))))
}

struct Limited<I> {
    batches: I,
    remaining: usize,
}

impl<I: Iterator<Item = Result<RecordBatch, Error>>> Iterator for Limited<I> {
    type Item = Result<RecordBatch, DataFusionError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.remaining == 0 {
            return None;
        }
        match self.batches.next()? {
            Ok(batch) if batch.num_rows() > self.remaining => {
                let wanted = std::mem::take(&mut self.remaining);
                Some(Ok(batch.slice(0, wanted)))
            }
            Ok(batch) => {
                self.remaining -= batch.num_rows();
                Some(Ok(batch))
            }
            Err(error) => {
                self.remaining = 0;
                Some(Err(error.into()))
            }
        }
    }
}
