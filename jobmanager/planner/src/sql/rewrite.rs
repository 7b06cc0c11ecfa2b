//! Rewrites of the syntax tree where DataFusion would read the same words differently.
//!
//! | written | becomes | because |
//! |---|---|---|
//! | `1e-1` | `CAST('1e-1' AS DOUBLE)` | with exact decimals on, DataFusion reads it as DECIMAL |
//! | `9223372036854775808` | `CAST('…' AS DECIMAL(19, 0))` | DataFusion would make it unsigned |
//! | `CAST(x AS VARCHAR(n))` | `LEFT(CAST(x AS STRING), n)` | DataFusion drops the length |
//! | `CAST(x AS CHAR(n))` | `RPAD(CAST(x AS STRING), n)` | the same, and CHAR pads |
//! | `FETCH FIRST n ROWS ONLY` | `LIMIT n` | DataFusion refuses FETCH |
//! | `SELECT a, a, f(x), f(x)` | `SELECT a, a AS a0, f(x), f(x) AS EXPR$3` | DataFusion wants names that differ; these are Flink's |

use std::collections::HashSet;
use std::ops::ControlFlow;

use sqlparser::ast::{
    CastKind, DataType, ExactNumberInfo, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList,
    FunctionArguments, Ident, LimitClause, ObjectName, Query, Select, SelectItem, UnaryOperator, Value, ValueWithSpan,
    VisitMut, VisitorMut,
};
use sqlparser::tokenizer::Span;

use super::error::{Position, SqlError};
use super::types::{SqlType, from_sqlparser};

const MAX_DIGITS: usize = 38;

pub(crate) fn apply(query: &mut Query) -> Result<(), SqlError> {
    match query.visit(&mut Rewrites) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Rewrites;

impl VisitorMut for Rewrites {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        if let Some(fetch) = query.fetch.take() {
            let limit = fetch.quantity.unwrap_or_else(|| number("1"));
            query.limit_clause = Some(match query.limit_clause.take() {
                Some(LimitClause::LimitOffset { offset, limit_by, .. }) => {
                    LimitClause::LimitOffset { limit: Some(limit), offset, limit_by }
                }
                _ => LimitClause::LimitOffset { limit: Some(limit), offset: None, limit_by: Vec::new() },
            });
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<SqlError> {
        name_repeated_items(&mut select.projection);
        ControlFlow::Continue(())
    }

    /// Before its operand is seen: `-9223372036854775808` is a BIGINT although its digits alone are not.
    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        if let Expr::UnaryOp { op: UnaryOperator::Minus, expr: operand } = &*expr
            && let Expr::Value(ValueWithSpan { value: Value::Number(digits, _), span }) = operand.as_ref()
            && digits.parse::<i64>().is_err()
            && format!("-{digits}").parse::<i64>().is_ok()
        {
            let value = Value::Number(format!("-{digits}"), false);
            *expr = Expr::Value(ValueWithSpan { value, span: *span });
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        match expr {
            Expr::Value(ValueWithSpan { value: Value::Number(digits, _), span }) => {
                match rewrite_number(digits, *span) {
                    Ok(Some(replacement)) => *expr = replacement,
                    Ok(None) => {}
                    Err(error) => return ControlFlow::Break(error),
                }
            }
            Expr::Cast { data_type, .. } => {
                let (function, length) = match from_sqlparser(data_type) {
                    Ok(SqlType::Varchar(length)) => ("left", length),
                    Ok(SqlType::Char(length)) => ("rpad", length),
                    _ => return ControlFlow::Continue(()),
                };
                *data_type = DataType::String(None);
                let cast = std::mem::replace(expr, Expr::Value(Value::Null.into()));
                *expr = call(function, vec![cast, number(&length.to_string())]);
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Gives an item that was selected before a name of its own.
fn name_repeated_items(projection: &mut [SelectItem]) {
    let mut seen: HashSet<String> = HashSet::with_capacity(projection.len());
    let mut aliases: HashSet<String> = projection.iter().filter_map(alias_of).collect();
    for (n, item) in projection.iter_mut().enumerate() {
        let SelectItem::UnnamedExpr(expr) = item else { continue };
        let (key, base) = match &*expr {
            Expr::Identifier(ident) => (expr.to_string(), Some(ident.value.clone())),
            Expr::CompoundIdentifier(parts) => (expr.to_string(), parts.last().map(|part| part.value.clone())),
            // Functions and keywords have no case; two items that differ in a string's case only get a name in vain.
            _ => (expr.to_string().to_lowercase(), None),
        };
        if seen.insert(key) {
            continue;
        }
        let alias = match base {
            Some(base) => (0..=n).map(|k| format!("{base}{k}")).find(|alias| !aliases.contains(alias)),
            None => Some(format!("EXPR${n}")),
        };
        let Some(alias) = alias else { continue };
        aliases.insert(alias.clone());
        let expr = std::mem::replace(expr, Expr::Value(Value::Null.into()));
        *item = SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('`', alias) };
    }
}

fn alias_of(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(alias.value.clone()),
        SelectItem::UnnamedExpr(Expr::Identifier(ident)) => Some(ident.value.clone()),
        _ => None,
    }
}

fn rewrite_number(text: &str, span: Span) -> Result<Option<Expr>, SqlError> {
    if text.contains(['e', 'E']) {
        return match text.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(Some(cast(text, DataType::Double(ExactNumberInfo::None)))),
            _ => Err(SqlError::invalid(Position::of(span), format!("`{text}` is out of the range of DOUBLE"))),
        };
    }
    let significant = text.trim_start_matches('0');
    let digits = significant.bytes().filter(u8::is_ascii_digit).count();
    if digits > MAX_DIGITS {
        let message =
            format!("`{text}` has {digits} digits; a DECIMAL has at most {MAX_DIGITS}, write it as a DOUBLE (1e0)");
        return Err(SqlError::invalid(Position::of(span), message));
    }
    let is_integer = !text.starts_with('-') && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_integer && text.parse::<i64>().is_err() {
        let info = ExactNumberInfo::PrecisionAndScale(digits as u64, 0);
        return Ok(Some(cast(text, DataType::Decimal(info))));
    }
    Ok(None)
}

fn cast(text: &str, data_type: DataType) -> Expr {
    let value = Value::SingleQuotedString(text.to_string());
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(Expr::Value(value.into())),
        data_type,
        array: false,
        format: None,
    }
}

fn number(digits: &str) -> Expr {
    Expr::Value(Value::Number(digits.to_string(), false).into())
}

fn call(function: &str, args: Vec<Expr>) -> Expr {
    let args = args.into_iter().map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg))).collect();
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(function)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList { duplicate_treatment: None, args, clauses: Vec::new() }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}
