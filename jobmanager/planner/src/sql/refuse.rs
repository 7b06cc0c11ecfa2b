//! Refuses by name what sqlparser parses and the planner would drop or get wrong.
//!
//! DataFusion's planner ignores clauses it does not know (`FOR SYSTEM_TIME AS OF`, locks, samples …) and deviates from the
//! standard in a few places (`INTERSECT ALL`, outer joins with USING). Each of those is an error here.

use std::ops::ControlFlow;

use sqlparser::ast::{
    Cte, Distinct, Expr, FunctionArguments, GroupByExpr, Join, JoinConstraint, JoinOperator, LimitClause,
    ObjectNamePart, Query, Select, SelectFlavor, SetExpr, SetOperator, SetQuantifier, Spanned, TableAlias, TableFactor,
    TableWithJoins, Value, ValueWithSpan, Visit, Visitor,
};
use sqlparser::tokenizer::Span;

use super::error::{Position, SqlError};
use super::types::{SqlType, from_sqlparser};

/// Tables, sub-queries and functions in FROM clauses of one statement.
const MAX_TABLES: usize = 300;

/// sqlparser takes any word for a table; these are a missing one.
const RESERVED: &[&str] = &[
    "SELECT",
    "FROM",
    "WHERE",
    "GROUP",
    "HAVING",
    "ORDER",
    "UNION",
    "INTERSECT",
    "EXCEPT",
    "JOIN",
    "INNER",
    "LEFT",
    "RIGHT",
    "FULL",
    "CROSS",
    "NATURAL",
    "ON",
    "USING",
    "LIMIT",
    "OFFSET",
    "FETCH",
    "AS",
    "AND",
    "OR",
    "NOT",
    "CASE",
    "WHEN",
    "THEN",
    "ELSE",
    "END",
    "SET",
    "CREATE",
    "DROP",
    "INTO",
    "WITH",
];

pub(crate) fn check(query: &Query) -> Result<(), SqlError> {
    match query.visit(&mut Refusals { tables: 0 }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Refusals {
    tables: usize,
}

type Flow = ControlFlow<SqlError>;

fn refuse(span: Span, construct: impl Into<String>, instead: &str) -> Flow {
    ControlFlow::Break(SqlError::unsupported(Position::of(span), construct, instead))
}

/// Refuses `construct` if it is `present`.
fn refuse_if(present: bool, span: Span, construct: &str, instead: &str) -> Flow {
    if present { refuse(span, construct, instead) } else { ControlFlow::Continue(()) }
}

impl Visitor for Refusals {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &Query) -> Flow {
        let none = Span::empty();
        if let Some(with) = &query.with {
            let span = with.with_token.0.span;
            refuse_if(with.recursive, span, "WITH RECURSIVE", "")?;
            with.cte_tables.iter().try_for_each(check_cte)?;
        }
        refuse_if(!query.locks.is_empty(), none, "FOR UPDATE or FOR SHARE", "reads take no locks; leave it out")?;
        refuse_if(query.for_clause.is_some(), none, "FOR XML, FOR JSON or FOR BROWSE", "")?;
        refuse_if(query.settings.is_some(), none, "SETTINGS", "use SET 'key' = 'value'")?;
        refuse_if(query.format_clause.is_some(), none, "FORMAT", "the client chooses the format")?;
        refuse_if(!query.pipe_operators.is_empty(), none, "the pipe operator `|>`", "use sub-queries")?;
        if let Some(LimitClause::LimitOffset { limit_by, .. }) = &query.limit_clause {
            refuse_if(!limit_by.is_empty(), none, "LIMIT BY", "use ROW_NUMBER() OVER (PARTITION BY …)")?;
        }
        if let Some(fetch) = &query.fetch {
            refuse_if(fetch.with_ties, none, "FETCH … WITH TIES", "use RANK() OVER (ORDER BY …)")?;
            refuse_if(fetch.percent, none, "FETCH … PERCENT", "")?;
            refuse_if(
                query.limit_clause.as_ref().is_some_and(has_limit),
                none,
                "FETCH together with LIMIT",
                "keep one",
            )?;
        }
        check_set_expr(&query.body)
    }

    fn pre_visit_select(&mut self, select: &Select) -> Flow {
        let span = select.select_token.0.span;
        let distinct_on = matches!(select.distinct, Some(Distinct::On(_)));
        refuse_if(distinct_on, span, "SELECT DISTINCT ON", "use ROW_NUMBER() OVER (PARTITION BY …) = 1")?;
        refuse_if(!select.optimizer_hints.is_empty(), span, "a hint after SELECT", "no hint is known; use SET")?;
        refuse_if(select.select_modifiers.is_some(), span, "a modifier after SELECT", "")?;
        refuse_if(select.top.is_some(), span, "TOP", "use LIMIT")?;
        refuse_if(select.exclude.is_some(), span, "EXCLUDE", "write the columns out")?;
        refuse_if(select.into.is_some(), span, "SELECT INTO", "use CREATE VIEW")?;
        refuse_if(!select.lateral_views.is_empty(), span, "LATERAL VIEW", "")?;
        refuse_if(select.prewhere.is_some(), span, "PREWHERE", "use WHERE")?;
        refuse_if(!select.connect_by.is_empty(), span, "CONNECT BY", "")?;
        refuse_if(!select.cluster_by.is_empty(), span, "CLUSTER BY", "")?;
        refuse_if(!select.distribute_by.is_empty(), span, "DISTRIBUTE BY", "")?;
        refuse_if(!select.sort_by.is_empty(), span, "SORT BY", "use ORDER BY on the whole query")?;
        refuse_if(select.value_table_mode.is_some(), span, "SELECT AS VALUE or AS STRUCT", "")?;
        refuse_if(select.flavor != SelectFlavor::Standard, span, "FROM before SELECT", "begin with SELECT")?;
        refuse_if(select.projection.is_empty(), span, "SELECT without columns", "")?;
        match &select.group_by {
            GroupByExpr::All(_) => refuse(span, "GROUP BY ALL", "write the columns out")?,
            GroupByExpr::Expressions(_, modifiers) => {
                let instead = "use GROUP BY ROLLUP (…), CUBE (…) or GROUPING SETS (…)";
                refuse_if(!modifiers.is_empty(), span, "GROUP BY … WITH", instead)?;
            }
        }
        select.from.iter().try_for_each(check_joins)
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> Flow {
        self.tables += 1;
        if self.tables > MAX_TABLES {
            let message = format!("more than {MAX_TABLES} tables and sub-queries; split it with views");
            return ControlFlow::Break(SqlError::TooComplex { position: None, message });
        }
        check_factor(factor)
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> Flow {
        check_expr(expr)
    }

    fn pre_visit_value(&mut self, value: &ValueWithSpan) -> Flow {
        match &value.value {
            Value::Placeholder(name) => refuse(value.span, format!("parameter `{name}`"), "write the value"),
            _ => ControlFlow::Continue(()),
        }
    }
}

fn has_limit(clause: &LimitClause) -> bool {
    matches!(clause, LimitClause::LimitOffset { limit: Some(_), .. } | LimitClause::OffsetCommaLimit { .. })
}

fn check_cte(cte: &Cte) -> Flow {
    let span = cte.alias.name.span;
    refuse_if(cte.materialized.is_some(), span, "MATERIALIZED in WITH", "leave it out")?;
    refuse_if(cte.from.is_some(), span, "FROM after a WITH query", "")?;
    check_alias(&cte.alias)
}

fn check_set_expr(body: &SetExpr) -> Flow {
    // Left-deep chains are walked in a loop: they may be long.
    let mut body = body;
    loop {
        match body {
            SetExpr::SetOperation { left, op, set_quantifier, right } => {
                let by_name = matches!(
                    set_quantifier,
                    SetQuantifier::ByName | SetQuantifier::AllByName | SetQuantifier::DistinctByName
                );
                refuse_if(by_name, Span::empty(), "BY NAME in a set operation", "write the columns in order")?;
                if *set_quantifier == SetQuantifier::All && *op != SetOperator::Union {
                    let instead = "number the rows with ROW_NUMBER() on both sides and leave ALL out";
                    return refuse(Span::empty(), format!("{op} ALL"), instead);
                }
                check_set_expr(right)?;
                body = left;
            }
            SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_) => {
                return refuse(Span::empty(), "a statement that changes data", "query the result with SELECT");
            }
            SetExpr::Table(_) => return refuse(Span::empty(), "TABLE as a query", "use SELECT * FROM"),
            SetExpr::Select(_) | SetExpr::Query(_) | SetExpr::Values(_) => return ControlFlow::Continue(()),
        }
    }
}

fn check_joins(tables: &TableWithJoins) -> Flow {
    tables.joins.iter().try_for_each(check_join)
}

fn check_join(join: &Join) -> Flow {
    let span = name_span(&join.relation);
    refuse_if(join.global, span, "GLOBAL JOIN", "")?;
    match &join.join_operator {
        JoinOperator::Right(constraint)
        | JoinOperator::RightOuter(constraint)
        | JoinOperator::FullOuter(constraint) => {
            let merges = matches!(constraint, JoinConstraint::Using(_) | JoinConstraint::Natural);
            let instead = "write ON and COALESCE(left.column, right.column)";
            refuse_if(merges, span, "USING or NATURAL with a RIGHT or FULL join", instead)?;
            refuse_if(matches!(constraint, JoinConstraint::None), span, "an outer join without a condition", "add ON")
        }
        JoinOperator::Left(constraint) | JoinOperator::LeftOuter(constraint) => {
            refuse_if(matches!(constraint, JoinConstraint::None), span, "an outer join without a condition", "add ON")
        }
        JoinOperator::Join(_)
        | JoinOperator::Inner(_)
        | JoinOperator::CrossJoin(JoinConstraint::None)
        | JoinOperator::LeftSemi(_)
        | JoinOperator::LeftAnti(_) => ControlFlow::Continue(()),
        JoinOperator::CrossJoin(_) => refuse(span, "CROSS JOIN with a condition", "use JOIN … ON"),
        JoinOperator::CrossApply | JoinOperator::OuterApply => refuse(span, "APPLY", ""),
        JoinOperator::AsOf { .. } => refuse(span, "ASOF JOIN", ""),
        JoinOperator::StraightJoin(_) => refuse(span, "STRAIGHT_JOIN", "use JOIN"),
        JoinOperator::ArrayJoin | JoinOperator::LeftArrayJoin | JoinOperator::InnerArrayJoin => {
            refuse(span, "ARRAY JOIN", "")
        }
        JoinOperator::Semi(_) | JoinOperator::RightSemi(_) => refuse(span, "SEMI JOIN", "use EXISTS"),
        JoinOperator::Anti(_) | JoinOperator::RightAnti(_) => refuse(span, "ANTI JOIN", "use NOT EXISTS"),
    }
}

fn name_span(factor: &TableFactor) -> Span {
    match factor {
        TableFactor::Table { name, .. } => name.span(),
        _ => Span::empty(),
    }
}

fn check_factor(factor: &TableFactor) -> Flow {
    match factor {
        TableFactor::Table { .. } => check_table(factor),
        TableFactor::Derived { lateral, subquery: _, alias, sample } => {
            refuse_if(*lateral, Span::empty(), "LATERAL", "use a join")?;
            refuse_if(sample.is_some(), Span::empty(), "TABLESAMPLE", "filter with RAND()")?;
            alias.as_ref().map_or(ControlFlow::Continue(()), check_alias)
        }
        TableFactor::NestedJoin { table_with_joins, alias } => {
            check_joins(table_with_joins)?;
            alias.as_ref().map_or(ControlFlow::Continue(()), check_alias)
        }
        TableFactor::UNNEST { with_offset, with_ordinality, .. } => {
            refuse_if(*with_offset, Span::empty(), "UNNEST … WITH OFFSET", "")?;
            refuse_if(*with_ordinality, Span::empty(), "UNNEST … WITH ORDINALITY", "")
        }
        TableFactor::TableFunction { expr, .. } => refuse(expr.span(), format!("TABLE({expr})"), ""),
        TableFactor::Function { lateral, name, .. } => {
            let lateral = if *lateral { "LATERAL " } else { "" };
            refuse(name.span(), format!("{lateral}table function `{name}`"), "")
        }
        TableFactor::JsonTable { .. } => refuse(Span::empty(), "JSON_TABLE", ""),
        TableFactor::OpenJsonTable { .. } => refuse(Span::empty(), "OPENJSON", ""),
        TableFactor::XmlTable { .. } => refuse(Span::empty(), "XMLTABLE", ""),
        TableFactor::Pivot { .. } => refuse(Span::empty(), "PIVOT", "use SUM(…) FILTER (WHERE …)"),
        TableFactor::Unpivot { .. } => refuse(Span::empty(), "UNPIVOT", "use UNION ALL"),
        TableFactor::MatchRecognize { .. } => refuse(Span::empty(), "MATCH_RECOGNIZE", ""),
        TableFactor::SemanticView { .. } => refuse(Span::empty(), "SEMANTIC_VIEW", ""),
    }
}

/// Names every field, so that a new one in sqlparser does not compile until it is thought about.
fn check_table(factor: &TableFactor) -> Flow {
    let TableFactor::Table {
        name,
        alias,
        args,
        with_hints,
        version,
        with_ordinality,
        partitions,
        json_path,
        sample,
        index_hints,
    } = factor
    else {
        return ControlFlow::Continue(());
    };
    let span = name.span();
    refuse_if(version.is_some(), span, "FOR SYSTEM_TIME AS OF", "join the table as it is now")?;
    refuse_if(sample.is_some(), span, "TABLESAMPLE", "filter with RAND()")?;
    if args.is_some() {
        return refuse(span, format!("table function `{name}`"), "");
    }
    refuse_if(!with_hints.is_empty(), span, "WITH (…) after a table", "no hint is known; use SET")?;
    refuse_if(*with_ordinality, span, "WITH ORDINALITY", "")?;
    refuse_if(!partitions.is_empty(), span, "PARTITION (…) after a table", "filter with WHERE")?;
    refuse_if(json_path.is_some(), span, "a path after a table", "")?;
    refuse_if(!index_hints.is_empty(), span, "an index hint", "no hint is known; use SET")?;
    if let [ObjectNamePart::Identifier(ident)] = name.0.as_slice()
        && ident.quote_style.is_none()
        && RESERVED.iter().any(|word| ident.value.eq_ignore_ascii_case(word))
    {
        let message = format!("expected a table, found `{ident}`");
        return ControlFlow::Break(SqlError::syntax(Position::of(span), message));
    }
    if name.0.len() > 3 {
        let message = format!("`{name}` has {} parts; expected [catalog.][database.]name", name.0.len());
        return ControlFlow::Break(SqlError::invalid(Position::of(span), message));
    }
    alias.as_ref().map_or(ControlFlow::Continue(()), check_alias)
}

fn check_alias(alias: &TableAlias) -> Flow {
    let span = alias.name.span;
    refuse_if(alias.at.is_some(), span, "AT after an alias", "")?;
    let typed = alias.columns.iter().any(|column| column.data_type.is_some());
    refuse_if(typed, span, "a type in a list of column aliases", "use CAST")
}

fn check_expr(expr: &Expr) -> Flow {
    match expr {
        Expr::Function(function) => {
            let span = function.name.span();
            refuse_if(function.uses_odbc_syntax, span, "the ODBC function syntax", "leave `{fn …}` out")?;
            let parameters = function.parameters != FunctionArguments::None;
            refuse_if(parameters, span, "two argument lists after a function", "")
        }
        Expr::Cast { expr: _, data_type, array, format, kind: _ } => {
            let span = expr.span();
            refuse_if(*array, span, "CAST … AS … ARRAY", "use ARRAY<…>")?;
            refuse_if(format.is_some(), span, "CAST … FORMAT", "use DATE_FORMAT or TO_TIMESTAMP")?;
            match from_sqlparser(data_type) {
                Ok(SqlType::Binary(_) | SqlType::Varbinary(_)) => {
                    refuse(span, format!("CAST to {data_type}"), "use BYTES")
                }
                Ok(_) => ControlFlow::Continue(()),
                Err(message) => ControlFlow::Break(SqlError::invalid(Position::of(span), message)),
            }
        }
        Expr::TypedString(typed) => match from_sqlparser(&typed.data_type) {
            Ok(SqlType::Date | SqlType::Time(_) | SqlType::Timestamp(_)) => ControlFlow::Continue(()),
            _ => refuse(typed.value.span, format!("literal {} '…'", typed.data_type), "use CAST"),
        },
        Expr::Convert { .. } => refuse(expr.span(), "CONVERT", "use CAST"),
        Expr::Collate { .. } => refuse(expr.span(), "COLLATE", "strings compare by their bytes; leave it out"),
        Expr::OuterJoin(_) => refuse(expr.span(), "the outer join operator `(+)`", "use LEFT JOIN"),
        Expr::Prior(_) => refuse(expr.span(), "PRIOR", ""),
        Expr::InUnnest { .. } => refuse(expr.span(), "IN UNNEST", "use ARRAY_CONTAINS"),
        Expr::MatchAgainst { .. } => refuse(expr.span(), "MATCH … AGAINST", "use LIKE"),
        Expr::Prefixed { .. } => refuse(expr.span(), "a prefixed literal", ""),
        _ => ControlFlow::Continue(()),
    }
}
