//! How many rows a plan is expected to give, and how many distinct values its columns have at most.
//!
//! What is known comes from files: rows, bytes and the least and greatest value of columns. Distinct values are bounded by the
//! rows and, for whole numbers and dates, by the width of the range.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, JoinType, ScalarValue};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::{Aggregate, Distinct, FetchType, Join, LogicalPlan, TableScan};
use datafusion::prelude::Expr;
use thalweg_exec::SourceTable;

use super::region::as_column;
use super::selectivity;

/// Bytes of a value whose width is not fixed and not known.
const VARIABLE_WIDTH: f64 = 24.0;

#[derive(Debug, Clone)]
pub(super) struct Estimate {
    /// At least 1.
    pub(super) rows: f64,
    /// Rows without the filters in it: keys cannot have more distinct values before these.
    pub(super) unfiltered: f64,
    /// By position in the plan's schema.
    pub(super) columns: Vec<ColumnEstimate>,
}

#[derive(Debug, Clone)]
pub(super) struct ColumnEstimate {
    /// Values at most, before any filter; at least 1.
    pub(super) distinct: f64,
    /// Least and greatest value, before any filter.
    pub(super) range: Option<(f64, f64)>,
    /// Share of the rows.
    pub(super) nulls: f64,
    /// Bytes of a value.
    pub(super) width: f64,
}

impl ColumnEstimate {
    fn unknown(rows: f64, data_type: &DataType) -> Self {
        let width = data_type.primitive_width().map_or(VARIABLE_WIDTH, |width| width as f64);
        let distinct = if *data_type == DataType::Boolean { rows.min(2.0) } else { rows };
        ColumnEstimate { distinct, range: None, nulls: 0.0, width }
    }
}

impl Estimate {
    fn unknown(rows: f64, plan: &LogicalPlan) -> Self {
        let fields = plan.schema().fields().iter();
        let columns = fields.map(|field| ColumnEstimate::unknown(rows, field.data_type())).collect();
        Estimate { rows, unfiltered: rows, columns }
    }

    /// Bytes of a row.
    pub(super) fn width(&self) -> f64 {
        self.columns.iter().map(|column| column.width).sum()
    }

    fn limited(mut self, rows: Option<usize>) -> Self {
        self.rows = rows.map_or(self.rows, |limit| self.rows.min(limit as f64)).max(1.0);
        self
    }
}

/// `None` if nothing is known of one of its tables.
pub(super) fn estimate(plan: &LogicalPlan) -> Option<Estimate> {
    match plan {
        LogicalPlan::TableScan(scan) => scanned(scan),
        LogicalPlan::EmptyRelation(_) => Some(Estimate::unknown(1.0, plan)),
        LogicalPlan::Values(values) => Some(Estimate::unknown(values.values.len().max(1) as f64, plan)),
        LogicalPlan::SubqueryAlias(alias) => estimate(&alias.input),
        LogicalPlan::Subquery(subquery) => estimate(&subquery.subquery),
        LogicalPlan::Repartition(repartition) => estimate(&repartition.input),
        LogicalPlan::Sort(sort) => Some(estimate(&sort.input)?.limited(sort.fetch)),
        LogicalPlan::Limit(limit) => {
            let fetch = match limit.get_fetch_type() {
                Ok(FetchType::Literal(fetch)) => fetch,
                _ => None,
            };
            Some(estimate(&limit.input)?.limited(fetch))
        }
        LogicalPlan::Filter(filter) => {
            let mut input = estimate(&filter.input)?;
            input.rows *= selectivity::of(&filter.predicate, &input, filter.input.schema());
            Some(input.limited(None))
        }
        LogicalPlan::Projection(projection) => {
            let input = estimate(&projection.input)?;
            let fields = projection.schema.fields().iter();
            let columns = projection.expr.iter().zip(fields).map(|(expr, field)| {
                column(expr, &input, &projection.input)
                    .unwrap_or(ColumnEstimate::unknown(input.rows, field.data_type()))
            });
            Some(Estimate { columns: columns.collect(), ..input })
        }
        LogicalPlan::Window(window) => {
            let mut input = estimate(&window.input)?;
            let new = window.schema.fields().iter().skip(input.columns.len());
            let rows = input.rows;
            input.columns.extend(new.map(|field| ColumnEstimate::unknown(rows, field.data_type())));
            Some(input)
        }
        LogicalPlan::Distinct(Distinct::All(input)) => {
            let mut input = estimate(input)?;
            let groups = product(input.columns.iter().map(|c| c.distinct));
            (input.rows, input.unfiltered) = (input.rows.min(groups), input.unfiltered.min(groups));
            Some(input)
        }
        LogicalPlan::Aggregate(aggregate) => grouped(aggregate, plan),
        LogicalPlan::Union(union) => {
            let inputs: Option<Vec<_>> = union.inputs.iter().map(|input| estimate(input)).collect();
            Some(Estimate::unknown(inputs?.iter().map(|input| input.rows).sum(), plan))
        }
        LogicalPlan::Join(join) => joined(join, plan),
        _ => None,
    }
}

fn scanned(scan: &TableScan) -> Option<Estimate> {
    let provider = source_as_provider(&scan.source).ok()?;
    let table = provider.downcast_ref::<SourceTable>()?;
    let schema = scan.source.schema();
    let all: Vec<usize> = (0..schema.fields().len()).collect();
    let type_width = |i: usize| ColumnEstimate::unknown(1.0, schema.field(i).data_type()).width;
    let rows = match table.rows() {
        Some(rows) => rows as f64,
        None => table.scanned_bytes(None) as f64 / all.iter().map(|&i| type_width(i)).sum::<f64>().max(1.0),
    };
    let rows = rows.max(1.0);
    let columns = scan.projection.as_ref().unwrap_or(&all).iter().map(|&i| {
        let mut column = ColumnEstimate::unknown(rows, schema.field(i).data_type());
        if schema.field(i).data_type().primitive_width().is_none() {
            column.width = (table.scanned_bytes(Some(&[i])) as f64 / rows).clamp(1.0, 4.0 * VARIABLE_WIDTH);
        }
        if let Some(statistics) = table.column_statistics(i) {
            measured(&mut column, statistics, rows);
        }
        column
    });
    Some(Estimate { rows, unfiltered: rows, columns: columns.collect() }.limited(scan.fetch))
}

fn measured(column: &mut ColumnEstimate, statistics: &ColumnStatistics, rows: f64) {
    let value = |value: &Precision<ScalarValue>| value.get_value().and_then(number);
    column.range = value(&statistics.min_value).zip(value(&statistics.max_value));
    if let Some((least, greatest)) = column.range
        && let Some(true) = statistics.min_value.get_value().map(|v| is_whole(&v.data_type()))
    {
        column.distinct = column.distinct.min(greatest - least + 1.0);
    }
    if let Some(&distinct) = statistics.distinct_count.get_value() {
        column.distinct = column.distinct.min(distinct as f64);
    }
    column.distinct = column.distinct.max(1.0);
    column.nulls = statistics.null_count.get_value().map_or(0.0, |&nulls| (nulls as f64 / rows).min(1.0));
}

fn is_whole(data_type: &DataType) -> bool {
    data_type.is_integer() || *data_type == DataType::Date32
}

/// A position on the axis of its type, for values that have one.
pub(super) fn number(value: &ScalarValue) -> Option<f64> {
    Some(match value {
        ScalarValue::Int8(v) => f64::from((*v)?),
        ScalarValue::Int16(v) => f64::from((*v)?),
        ScalarValue::Int32(v) | ScalarValue::Date32(v) => f64::from((*v)?),
        ScalarValue::UInt8(v) => f64::from((*v)?),
        ScalarValue::UInt16(v) => f64::from((*v)?),
        ScalarValue::UInt32(v) => f64::from((*v)?),
        ScalarValue::UInt64(v) => (*v)? as f64,
        ScalarValue::Float32(v) => f64::from((*v)?),
        ScalarValue::Float64(v) => (*v)?,
        ScalarValue::Decimal128(v, _, scale) => (*v)? as f64 / 10f64.powi(i32::from(*scale)),
        ScalarValue::Int64(v)
        | ScalarValue::Date64(v)
        | ScalarValue::TimestampSecond(v, _)
        | ScalarValue::TimestampMillisecond(v, _)
        | ScalarValue::TimestampMicrosecond(v, _)
        | ScalarValue::TimestampNanosecond(v, _) => (*v)? as f64,
        _ => return None,
    })
    .filter(|value| value.is_finite())
}

/// What is known of an expression that is a column, whatever it is called.
fn column(expr: &Expr, input: &Estimate, plan: &LogicalPlan) -> Option<ColumnEstimate> {
    let expr = match expr {
        Expr::Alias(alias) => alias.expr.as_ref(),
        other => other,
    };
    let at = plan.schema().maybe_index_of_column(as_column(expr)?)?;
    input.columns.get(at).cloned()
}

fn grouped(aggregate: &Aggregate, plan: &LogicalPlan) -> Option<Estimate> {
    let input = estimate(&aggregate.input)?;
    if aggregate.group_expr.iter().any(|e| matches!(e, Expr::GroupingSet(_))) {
        return Some(Estimate::unknown(input.rows, plan));
    }
    let keys: Vec<Option<ColumnEstimate>> =
        aggregate.group_expr.iter().map(|e| column(e, &input, &aggregate.input)).collect();
    let groups = product(keys.iter().map(|key| key.as_ref().map_or(input.rows, |key| key.distinct)));
    let (rows, unfiltered) = (input.rows.min(groups), input.unfiltered.min(groups));
    let mut keys = keys.into_iter();
    let columns = aggregate.schema.fields().iter();
    let columns =
        columns.map(|field| keys.next().flatten().unwrap_or_else(|| ColumnEstimate::unknown(rows, field.data_type())));
    Some(Estimate { rows, unfiltered, columns: columns.collect() })
}

fn joined(join: &Join, plan: &LogicalPlan) -> Option<Estimate> {
    let (left, right) = (estimate(&join.left)?, estimate(&join.right)?);
    let domains = join.on.iter().map(|(l, r)| {
        let l = column(l, &left, &join.left).map_or(left.unfiltered, |c| c.distinct);
        let r = column(r, &right, &join.right).map_or(right.unfiltered, |c| c.distinct);
        l.min(r)
    });
    let domain = product(domains).min(left.unfiltered.max(right.unfiltered));
    let filtered = join.filter.as_ref().map_or(1.0, selectivity::selectivity_of_join_condition);
    let matches = (left.rows * right.rows / domain * filtered).max(1.0);
    // a share of the rows of one side, as many as have a partner
    let partners = |of: &Estimate, other: &Estimate| of.rows * (other.rows / domain * filtered).clamp(0.1, 0.9);
    let rows = match join.join_type {
        JoinType::Inner => matches,
        JoinType::Left => matches.max(left.rows),
        JoinType::Right => matches.max(right.rows),
        JoinType::Full => matches.max(left.rows).max(right.rows),
        JoinType::LeftMark => left.rows,
        JoinType::RightMark => right.rows,
        JoinType::LeftSemi => partners(&left, &right),
        JoinType::LeftAnti => left.rows - partners(&left, &right),
        JoinType::RightSemi => partners(&right, &left),
        JoinType::RightAnti => right.rows - partners(&right, &left),
    };
    let rows = rows.max(1.0);
    let mut known = match join.join_type {
        JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => left.columns,
        JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => right.columns,
        _ => [left.columns, right.columns].concat(),
    }
    .into_iter();
    let columns = plan.schema().fields().iter();
    let columns =
        columns.map(|field| known.next().unwrap_or_else(|| ColumnEstimate::unknown(rows, field.data_type()))).collect();
    Some(Estimate { rows, unfiltered: rows.max(left.unfiltered).max(right.unfiltered), columns })
}

/// Finite whatever the number of factors.
fn product(factors: impl Iterator<Item = f64>) -> f64 {
    factors.product::<f64>().clamp(1.0, f64::MAX)
}
