//! Which expressions may fail for some row.
//!
//! Such a condition must not see a row that it does not see as written: another condition or a join may be what keeps the row
//! that it would fail for away from it.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Column;
use datafusion::common::tree_node::TreeNode;
use datafusion::logical_expr::{BinaryExpr, Operator};
use datafusion::prelude::Expr;

use super::region::as_column;

/// Divisions, casts that lose something and functions may; an expression that cannot be looked through is taken for one.
pub(super) fn may_fail(expr: &Expr, data_type: &dyn Fn(&Column) -> Option<DataType>) -> bool {
    let fails = |expr: &Expr| match expr {
        Expr::BinaryExpr(BinaryExpr { op, .. }) => matches!(op, Operator::Divide | Operator::Modulo),
        Expr::Cast(cast) => {
            let from = as_column(&cast.expr).and_then(data_type);
            !from.is_some_and(|from| widens(&from, cast.field.data_type()))
        }
        Expr::ScalarFunction(_) => true,
        _ => false,
    };
    expr.exists(|expr| Ok(fails(expr))).unwrap_or(true)
}

/// Every value of the one type is one of the other.
fn widens(from: &DataType, to: &DataType) -> bool {
    use DataType::{Decimal128, Int8, Int16, Int32, Int64};
    let digits = |data_type: &DataType| match data_type {
        Int8 => Some((3, 0)),
        Int16 => Some((5, 0)),
        Int32 => Some((10, 0)),
        Int64 => Some((19, 0)),
        Decimal128(precision, scale) => Some((i32::from(*precision) - i32::from(*scale), i32::from(*scale))),
        _ => None,
    };
    let Some((whole, scale)) = digits(from) else { return from == to };
    match to {
        DataType::Float64 | DataType::Utf8 | DataType::Utf8View => true,
        Decimal128(..) => digits(to).is_some_and(|(to_whole, to_scale)| to_whole >= whole && to_scale >= scale),
        Int16 | Int32 | Int64 => from.is_integer() && to.primitive_width() >= from.primitive_width(),
        _ => from == to,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::prelude::{cast, col, lit};

    #[test]
    fn what_loses_something_or_divides_may_fail() {
        let data_type = |column: &Column| match column.name() {
            "i" => Some(DataType::Int32),
            "d" => Some(DataType::Decimal128(10, 2)),
            "s" => Some(DataType::Utf8),
            _ => None,
        };
        let fails = |expr: Expr| may_fail(&expr, &data_type);
        assert!(!fails(col("i").eq(lit(1)).and(col("s").like(lit("x%")))));
        assert!(fails((lit(1) / col("i")).eq(lit(1))));
        assert!(!fails(cast(col("i"), DataType::Int64).eq(lit(1i64))));
        assert!(fails(cast(col("i"), DataType::Int16).eq(lit(1))));
        assert!(fails(cast(col("s"), DataType::Int64).eq(lit(1i64))));
        assert!(!fails(cast(col("i"), DataType::Decimal128(12, 2)).gt(col("d"))));
        assert!(fails(cast(col("i"), DataType::Decimal128(11, 2)).gt(col("d"))));
        assert!(!fails(cast(col("d"), DataType::Decimal128(12, 3)).gt(lit(1))));
        assert!(fails(cast(col("unknown"), DataType::Int64).gt(lit(1))));
    }
}
