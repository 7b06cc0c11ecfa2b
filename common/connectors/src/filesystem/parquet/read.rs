//! Reading the row groups of a split.
//!
//! The file is opened once and stays open, so what was checked is what is read; its footer comes from the cache. Row groups and
//! pages that the predicate excludes are skipped; rows are filtered only by row filters.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use ::parquet::arrow::arrow_reader::ArrowReaderOptions;
use ::parquet::arrow::async_reader::AsyncFileReader;
use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::ParquetMetaData;
use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use datafusion::common::DataFusionError;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::ParquetAccessPlan;
use datafusion::datasource::physical_plan::{FileScanConfigBuilder, ParquetFileReaderFactory, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{conjunction, split_conjunction};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use rustix::buffer::spare_capacity;
use rustix::io::Errno;

use super::{ParquetSpec, Split};
use crate::ScanRequest;
use crate::access::AccessRules;
use crate::batches::projected_schema;
use crate::error::{DataProblem, Error};
use crate::filesystem::types::has_total_bounds;
use crate::filesystem::{footer, run_blocking};

pub(crate) async fn open(
    spec: &ParquetSpec,
    split: &[u8],
    request: &ScanRequest,
    rules: &AccessRules,
    ctx: Arc<TaskContext>,
) -> Result<SendableRecordBatchStream, Error> {
    let split: Split =
        serde_json::from_slice(split).map_err(|source| Error::Split { connector: "filesystem", source })?;
    let (stamp, rules) = (split.file.clone(), rules.clone());
    let (file, footer) = run_blocking(move || footer::open_with_footer(&stamp, &rules)).await?;
    let path = split.file.path.clone();
    let scan = scan(&spec.schema.0, &split, request, OpenFile { file: Arc::new(file), footer })?;
    let stream = scan.execute(0, ctx).map_err(|source| engine("open a Parquet file", source))?;
    let schema = projected_schema(&spec.schema.0, &request.projection);
    let stream = stream.map(move |batch| batch.map_err(|error| read_error(&path, error)));
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream)))
}

/// The plan that reads the split, one partition.
pub(super) fn scan(
    schema: &SchemaRef,
    split: &Split,
    request: &ScanRequest,
    file: OpenFile,
) -> Result<Arc<DataSourceExec>, Error> {
    let groups = file.footer.num_row_groups();
    if split.start > split.end || split.end > groups {
        let problem = DataProblem::RowGroups { actual: groups, start: split.start, end: split.end };
        return Err(Error::data(&split.file.path, problem));
    }
    let mut access = ParquetAccessPlan::new_none(groups);
    (split.start..split.end).for_each(|group| access.scan(group));
    let mut source = ParquetSource::new(Arc::clone(schema)).with_parquet_file_reader_factory(Arc::new(file));
    let pruning = request.predicate.as_ref().and_then(|predicate| prunable(predicate, schema));
    let predicates: Vec<_> = pruning.into_iter().chain(request.row_filters.iter().cloned()).collect();
    if !predicates.is_empty() {
        // with row filters all of them select rows, those over small columns first, before the other columns are decoded
        let per_row = !request.row_filters.is_empty();
        source =
            source.with_predicate(conjunction(predicates)).with_pushdown_filters(per_row).with_reorder_filters(per_row);
    }
    let name = split.file.path.to_string_lossy();
    let part = PartitionedFile::new(name, split.file.size).with_extension(access);
    let config = FileScanConfigBuilder::new(ObjectStoreUrl::local_filesystem(), Arc::new(source))
        .with_file(part)
        .with_limit(request.limit)
        .with_projection_indices(Some(request.projection.clone()))
        .map_err(|source| engine("project a Parquet file", source))?
        .build();
    Ok(DataSourceExec::from_data_source(config))
}

/// The conjuncts of a predicate that may skip row groups: footers leave NaN out of the bounds of floating-point columns, but
/// comparisons do not.
fn prunable(predicate: &Arc<dyn PhysicalExpr>, schema: &SchemaRef) -> Option<Arc<dyn PhysicalExpr>> {
    let is_safe = |conjunct: &Arc<dyn PhysicalExpr>| {
        collect_columns(conjunct)
            .iter()
            .all(|column| schema.fields().get(column.index()).is_some_and(|field| has_total_bounds(field.data_type())))
    };
    let safe: Vec<_> = split_conjunction(predicate).into_iter().filter(|c| is_safe(c)).map(Arc::clone).collect();
    (!safe.is_empty()).then(|| conjunction(safe))
}

fn engine(doing: &'static str, source: DataFusionError) -> Error {
    Error::Engine { doing, source: Box::new(source) }
}

/// Names the file. What is not about the file (memory, cancellation) passes as it is.
fn read_error(path: &Path, error: DataFusionError) -> DataFusionError {
    if let Some(kind) = find_io_error(&error) {
        return Error::io(path, io::Error::new(kind, error)).into();
    }
    match error {
        DataFusionError::ParquetError(_) | DataFusionError::ArrowError(..) => {
            Error::data(path, DataProblem::Read(Box::new(error))).into()
        }
        other => other,
    }
}

fn find_io_error(error: &DataFusionError) -> Option<io::ErrorKind> {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(io) = error.downcast_ref::<io::Error>() {
            return Some(io.kind());
        }
        // errors in a box of the Parquet library are not part of its `source` chain
        cause = match error.downcast_ref::<ParquetError>() {
            Some(ParquetError::External(inner)) => Some(inner.as_ref()),
            _ => error.source(),
        };
    }
    None
}

/// A checked, open file; makes the readers of the scan.
#[derive(Debug, Clone)]
pub(super) struct OpenFile {
    pub(super) file: Arc<File>,
    pub(super) footer: Arc<ParquetMetaData>,
}

impl ParquetFileReaderFactory for OpenFile {
    fn create_reader(
        &self,
        _partition_index: usize,
        _file: PartitionedFile,
        _metadata_size_hint: Option<usize>,
        _metrics: &ExecutionPlanMetricsSet,
    ) -> datafusion::common::Result<Box<dyn AsyncFileReader + Send>> {
        Ok(Box::new(self.clone()))
    }
}

impl AsyncFileReader for OpenFile {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, ::parquet::errors::Result<Bytes>> {
        let file = Arc::clone(&self.file);
        run_blocking(move || read_range(&file, &range)).boxed()
    }

    fn get_byte_ranges(&mut self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, ::parquet::errors::Result<Vec<Bytes>>> {
        let file = Arc::clone(&self.file);
        run_blocking(move || ranges.iter().map(|range| read_range(&file, range)).collect()).boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        _options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, ::parquet::errors::Result<Arc<ParquetMetaData>>> {
        futures::future::ready(Ok(Arc::clone(&self.footer))).boxed()
    }
}

/// Ranges come from the footer, which may lie: none beyond the end of the file is allocated.
fn read_range(file: &File, range: &Range<u64>) -> ::parquet::errors::Result<Bytes> {
    let external = |error: io::Error| ParquetError::External(Box::new(error));
    let length = file.metadata().map_err(external)?.len();
    if range.start > range.end || range.end > length {
        let (start, end) = (range.start, range.end);
        return Err(ParquetError::EOF(format!("bytes {start}..{end} wanted of a file of {length} bytes")));
    }
    let wanted = (range.end - range.start) as usize;
    let mut buffer = Vec::with_capacity(wanted);
    while buffer.len() < wanted {
        // into memory that was not cleared before: these are megabytes
        let at = range.start + buffer.len() as u64;
        match rustix::io::pread(file, spare_capacity(&mut buffer), at) {
            Ok(0) => return Err(external(io::ErrorKind::UnexpectedEof.into())),
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(external(error.into())),
        }
    }
    buffer.truncate(wanted); // the allocation may be larger
    Ok(buffer.into())
}
