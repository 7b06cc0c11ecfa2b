//! CSV tables: declared columns, one split per file.
//!
//! Options keep the names they have in Flink's `csv` format; `csv.header` is an addition. An empty field is NULL, except in a
//! STRING column, where it is the empty string; with `csv.null-literal` set, that text is NULL in every column. Spaces around
//! values that are not strings are ignored. Empty lines are skipped. A bad row is an error with file and line; with
//! `csv.ignore-parse-errors` a bad value becomes NULL and a row of the wrong width is skipped. Only projected columns are
//! parsed, so a bad value in another column is not seen.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use serde::{Deserialize, Serialize};

use super::files::FileStamp;
use super::{Location, run_blocking};
use crate::access::AccessRules;
use crate::batches::into_stream;
use crate::error::Error;
use crate::options::Options;
use crate::parse::{is_readable_from_text, sql_name};
use crate::table::{ScanSpec, TableDefinition};
use crate::wire::WireSchema;
use crate::{ScanPlan, ScanRequest, SplitInfo, TableSource};

mod read;

const DELIMITER: &str = "csv.field-delimiter";
const QUOTE: &str = "csv.quote-character";
const DISABLE_QUOTE: &str = "csv.disable-quote-character";
const ESCAPE: &str = "csv.escape-character";
const NULL_LITERAL: &str = "csv.null-literal";
const IGNORE_PARSE_ERRORS: &str = "csv.ignore-parse-errors";
const ALLOW_COMMENTS: &str = "csv.allow-comments";
const HEADER: &str = "csv.header";
pub(super) const OPTIONS: [&str; 8] =
    [DELIMITER, QUOTE, DISABLE_QUOTE, ESCAPE, NULL_LITERAL, IGNORE_PARSE_ERRORS, ALLOW_COMMENTS, HEADER];

/// A table over CSV files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CsvSpec {
    pub(crate) schema: WireSchema,
    dialect: Dialect,
}

/// How the text is cut into fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Dialect {
    delimiter: u8,
    quote: Option<u8>,
    escape: Option<u8>,
    null_literal: Option<String>,
    ignore_parse_errors: bool,
    /// Lines that start with `#` are skipped.
    comments: bool,
    /// The first row of each file is skipped.
    header: bool,
}

impl Dialect {
    fn read(options: &Options<'_>) -> Result<Self, Error> {
        let quote = match options.boolean(DISABLE_QUOTE, false)? {
            true => None,
            false => Some(options.byte(QUOTE)?.unwrap_or(b'"')),
        };
        let delimiter = options.byte(DELIMITER)?.unwrap_or(b',');
        if quote == Some(delimiter) {
            let value = char::from(delimiter).to_string();
            return Err(options.invalid(DELIMITER, &value, "another character than the quote character"));
        }
        Ok(Dialect {
            delimiter,
            quote,
            escape: options.byte(ESCAPE)?,
            null_literal: options.get(NULL_LITERAL).map(str::to_owned),
            ignore_parse_errors: options.boolean(IGNORE_PARSE_ERRORS, false)?,
            comments: options.boolean(ALLOW_COMMENTS, false)?,
            header: options.boolean(HEADER, false)?,
        })
    }
}

#[derive(Debug)]
pub(super) struct CsvTable {
    location: Location,
    schema: SchemaRef,
    dialect: Dialect,
}

impl CsvTable {
    pub(super) async fn create(
        def: &TableDefinition,
        options: &Options<'_>,
        location: Location,
    ) -> Result<Self, Error> {
        let dialect = Dialect::read(options)?;
        let schema = def.columns.clone().ok_or_else(|| Error::Columns {
            table: def.name.clone(),
            problem: "a CSV table needs declared columns".to_owned(),
        })?;
        check_types(&def.name, &schema)?;
        location.files().await?;
        Ok(CsvTable { location, schema, dialect })
    }
}

fn check_types(table: &str, schema: &Schema) -> Result<(), Error> {
    match schema.fields().iter().find(|field| !is_readable_from_text(field.data_type())) {
        None => Ok(()),
        Some(field) => {
            let problem = format!("type {} cannot be read from CSV", sql_name(field.data_type()));
            Err(Error::schema(format!("table '{table}'"), field.name(), problem))
        }
    }
}

#[async_trait]
impl TableSource for CsvTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn scan_spec(&self) -> ScanSpec {
        ScanSpec::Csv(CsvSpec { schema: WireSchema(Arc::clone(&self.schema)), dialect: self.dialect.clone() })
    }

    async fn plan_scan(&self) -> Result<ScanPlan, Error> {
        let files = self.location.files().await?;
        let splits = files.iter().map(|file| {
            let payload =
                serde_json::to_vec(file).map_err(|source| Error::Split { connector: "filesystem", source })?;
            Ok(SplitInfo { bytes: file.size, rows: None, payload })
        });
        let bytes = files.iter().map(|file| file.size).sum();
        Ok(ScanPlan { splits: splits.collect::<Result<_, Error>>()?, bytes, ..Default::default() })
    }
}

pub(crate) async fn open(
    spec: &CsvSpec,
    split: &[u8],
    request: &ScanRequest,
    rules: &AccessRules,
    ctx: Arc<TaskContext>,
) -> Result<SendableRecordBatchStream, Error> {
    let stamp: FileStamp =
        serde_json::from_slice(split).map_err(|source| Error::Split { connector: "filesystem", source })?;
    check_types("scan request", &spec.schema.0)?;
    let path = stamp.path.clone();
    let rules = rules.clone();
    let file = run_blocking(move || stamp.open(&rules)).await?;
    let batch_size = ctx.session_config().batch_size().max(1).min(request.limit.unwrap_or(usize::MAX).max(1));
    let rows = read::CsvBatches::new(file, path, spec, &request.projection, batch_size);
    Ok(into_stream(rows.schema(), rows, request.limit))
}
