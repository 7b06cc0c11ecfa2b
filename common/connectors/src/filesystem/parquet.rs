//! Parquet tables: one schema over all files, splits of whole row groups, statistics from the footers.

use std::path::Path;
use std::sync::Arc;

use ::parquet::arrow::parquet_to_arrow_schema;
use ::parquet::file::metadata::ParquetMetaData;
use arrow::datatypes::{Field, Schema, SchemaRef};
use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};

use super::files::FileStamp;
use super::types::{can_be_read_as, plain_field, plain_type};
use super::{Location, footer, run_blocking, statistics};
use crate::error::Error;
use crate::parse::sql_name;
use crate::table::{ScanSpec, TableDefinition};
use crate::wire::WireSchema;
use crate::{ScanPlan, SplitInfo, TableSource};

mod read;
pub(crate) use read::open;

/// Neighbouring row groups share a split up to this many uncompressed bytes.
const SPLIT_BYTES: u64 = 32 << 20;
/// Footers read at the same time.
const CONCURRENT_FOOTERS: usize = 8;

/// A table over Parquet files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ParquetSpec {
    pub(crate) schema: WireSchema,
}

/// Row groups `start..end` of a file.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Split {
    file: FileStamp,
    start: usize,
    end: usize,
}

#[derive(Debug)]
pub(super) struct ParquetTable {
    location: Location,
    schema: SchemaRef,
    declared: bool,
}

/// A file and what its footer says.
struct ParquetFile {
    stamp: FileStamp,
    footer: Arc<ParquetMetaData>,
    schema: Schema,
}

impl ParquetTable {
    /// Takes the declared columns, or those of the first file; every file must have them.
    pub(super) async fn create(def: &TableDefinition, location: Location) -> Result<Self, Error> {
        let files = load_files(&location).await?;
        let fields: Vec<Field> = match &def.columns {
            Some(declared) => declared.fields().iter().map(|field| field.as_ref().clone()).collect(),
            None => files[0].schema.fields().iter().map(|field| plain_field(field)).collect(),
        };
        // a column may only be NOT NULL if no file can hold a NULL in it
        let may_be_null = |field: &Field| {
            files.iter().any(|file| file.schema.field_with_name(field.name()).is_ok_and(Field::is_nullable))
        };
        let fields = fields.into_iter().map(|field| {
            let nullable = field.is_nullable() || may_be_null(&field);
            Field::new(field.name(), field.data_type().clone(), nullable)
        });
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let table = ParquetTable { location, schema, declared: def.columns.is_some() };
        files.iter().try_for_each(|file| table.check(file))?;
        Ok(table)
    }

    fn check(&self, file: &ParquetFile) -> Result<(), Error> {
        for field in self.schema.fields() {
            self.check_column(field, file)?;
        }
        let extra = file.schema.fields().iter().find(|field| self.schema.field_with_name(field.name()).is_err());
        match extra {
            Some(extra) if !self.declared => {
                Err(schema_error(&file.stamp.path, extra.name(), "is not in the first file of the table".to_owned()))
            }
            _ => Ok(()),
        }
    }

    fn check_column(&self, field: &Field, file: &ParquetFile) -> Result<(), Error> {
        let problem = match file.schema.field_with_name(field.name()) {
            Err(_) => {
                let names: Vec<_> = file.schema.fields().iter().map(|field| field.name().as_str()).collect();
                format!("is not in the file, which has {}", names.join(", "))
            }
            Ok(found) if found.is_nullable() && !field.is_nullable() => {
                "may be NULL in this file, but in no file when the table was created; create the table again".to_owned()
            }
            Ok(found) => {
                let readable = match self.declared {
                    true => can_be_read_as(found.data_type(), field.data_type()),
                    false => plain_type(found.data_type()) == *field.data_type(),
                };
                if readable {
                    return Ok(());
                }
                let said = if self.declared { "declared as" } else { "in the first file a" };
                let (file_type, table_type) = (sql_name(&plain_type(found.data_type())), sql_name(field.data_type()));
                format!("is {said} {table_type}, but is {file_type} in this file")
            }
        };
        Err(schema_error(&file.stamp.path, field.name(), problem))
    }
}

fn schema_error(path: &Path, column: &str, problem: String) -> Error {
    Error::schema(format!("file '{}'", path.display()), column, problem)
}

async fn load_files(location: &Location) -> Result<Vec<ParquetFile>, Error> {
    let stamps = location.files().await?;
    let files = futures::stream::iter(stamps).map(|stamp| {
        let rules = location.rules.clone();
        run_blocking(move || load_file(stamp, &rules))
    });
    files.buffered(CONCURRENT_FOOTERS).try_collect().await
}

fn load_file(stamp: FileStamp, rules: &crate::AccessRules) -> Result<ParquetFile, Error> {
    let (_, footer) = footer::open_with_footer(&stamp, rules)?;
    let file_metadata = footer.file_metadata();
    let schema = parquet_to_arrow_schema(file_metadata.schema_descr(), file_metadata.key_value_metadata())
        .map_err(|error| Error::data(&stamp.path, error))?;
    Ok(ParquetFile { stamp, footer, schema })
}

#[async_trait]
impl TableSource for ParquetTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn scan_spec(&self) -> ScanSpec {
        ScanSpec::Parquet(ParquetSpec { schema: WireSchema(Arc::clone(&self.schema)) })
    }

    async fn plan_scan(&self) -> Result<ScanPlan, Error> {
        let files = load_files(&self.location).await?;
        files.iter().try_for_each(|file| self.check(file))?;
        plan(&self.schema, &files)
    }
}

fn plan(schema: &Schema, files: &[ParquetFile]) -> Result<ScanPlan, Error> {
    let mut plan = ScanPlan { column_bytes: vec![0; schema.fields().len()], rows: Some(0), ..Default::default() };
    let mut collectors: Vec<_> = schema.fields().iter().map(|field| statistics::Collector::new(field)).collect();
    for file in files {
        plan.bytes += file.stamp.size;
        for group in file.footer.row_groups() {
            plan.rows = plan.rows.map(|rows| rows + count(group.num_rows()));
            let column_bytes = statistics::column_bytes(schema, group);
            plan.column_bytes.iter_mut().zip(column_bytes).for_each(|(sum, bytes)| *sum += bytes);
        }
        for (collector, field) in collectors.iter_mut().zip(schema.fields()) {
            collector.add(field.name(), &file.schema, &file.footer);
        }
        cut_into_splits(file, &mut plan.splits)?;
    }
    if plan.splits.is_empty() {
        // no file has a row group: one split without rows, so that somebody reads nothing
        plan.splits.push(split_of(&files[0], 0, 0)?);
    }
    plan.column_statistics = collectors.into_iter().map(statistics::Collector::finish).collect();
    Ok(plan)
}

fn cut_into_splits(file: &ParquetFile, splits: &mut Vec<SplitInfo>) -> Result<(), Error> {
    let groups = file.footer.row_groups();
    let (mut start, mut bytes) = (0, 0);
    for (end, group) in groups.iter().enumerate() {
        let group_bytes = count(group.total_byte_size());
        if end > start && bytes + group_bytes > SPLIT_BYTES {
            splits.push(split_of(file, start, end)?);
            (start, bytes) = (end, 0);
        }
        bytes += group_bytes;
    }
    if start < groups.len() {
        splits.push(split_of(file, start, groups.len())?);
    }
    Ok(())
}

fn split_of(file: &ParquetFile, start: usize, end: usize) -> Result<SplitInfo, Error> {
    let groups = &file.footer.row_groups()[start..end];
    let split = Split { file: file.stamp.clone(), start, end };
    Ok(SplitInfo {
        bytes: groups.iter().map(|group| count(group.total_byte_size())).sum(),
        rows: Some(groups.iter().map(|group| count(group.num_rows())).sum()),
        payload: serde_json::to_vec(&split).map_err(|source| Error::Split { connector: "filesystem", source })?,
    })
}

/// A count from a footer, which could be written as a negative number.
fn count(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}
