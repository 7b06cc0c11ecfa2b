//! One query from the dice.

use super::Dice;

const TABLES: [&str; 3] = ["big", "small", "few"];
const KEYS: [&str; 3] = ["k", "s", "t"];

/// A query over the tables of [`super::inputs`]; its rows are a bag unless it says ORDER BY.
pub fn query(dice: &mut Dice) -> String {
    match dice.below(10) {
        0..3 => aggregate(dice),
        3 => distinct(dice),
        4 => set_operation(dice),
        5 => window(dice),
        6 => top(dice),
        7 => rows(dice),
        _ => several(dice),
    }
}

/// A FROM clause with columns named `a.…` and, when it joins, `b.…`; and whether `b` is there.
fn from(dice: &mut Dice) -> (String, bool) {
    let left = dice.pick(&TABLES);
    if dice.chance(25) {
        return (format!("{left} a"), false);
    }
    // Big with big on a hot key would make millions of rows.
    let right = if left == "big" { dice.pick(&["small", "few"]) } else { dice.pick(&TABLES) };
    let kind = dice.pick(&["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]);
    let key = if left == "small" && right == "small" { "k" } else { dice.pick(&["k", "id"]) };
    let more = match dice.below(4) {
        0 => " AND a.s = b.s",
        1 if kind == "JOIN" => " AND a.d < b.d",
        _ => "",
    };
    (format!("{left} a {kind} {right} b ON a.{key} = b.{key}{more}"), true)
}

fn filter(dice: &mut Dice) -> String {
    let column = dice.pick(&KEYS);
    let inner = dice.pick(&["small", "few"]);
    let test = match dice.below(8) {
        0 => format!("a.k < {}", dice.below(90)),
        1 => "a.s IS NULL".to_string(),
        2 => format!("a.d BETWEEN -{0}.5 AND {0}.25", dice.below(9000)),
        3 => format!("EXISTS (SELECT 1 FROM {inner} i WHERE i.{column} = a.{column})"),
        4 => format!("NOT EXISTS (SELECT 1 FROM {inner} i WHERE i.{column} = a.{column})"),
        5 => format!("a.{column} IN (SELECT {column} FROM {inner} WHERE k > {})", dice.below(60)),
        6 => format!("a.{column} NOT IN (SELECT {column} FROM {inner} WHERE k > {})", 60 + dice.below(30)),
        _ => return String::new(),
    };
    format!(" WHERE {test}")
}

fn aggregates(dice: &mut Dice, joined: bool) -> String {
    let side = if joined && dice.chance(50) { "b" } else { "a" };
    let mut calls = vec!["COUNT(*)".to_string()];
    for _ in 0..1 + dice.below(3) {
        calls.push(match dice.below(6) {
            0 => format!("SUM({side}.d)"),
            1 => format!("SUM({side}.k)"),
            2 => format!("MIN({side}.t)"),
            3 => format!("MAX({side}.s)"),
            4 => format!("COUNT(DISTINCT {side}.{})", dice.pick(&KEYS)),
            _ => format!("COUNT({side}.s)"),
        });
    }
    calls.iter().enumerate().map(|(i, call)| format!("{call} AS c{i}")).collect::<Vec<_>>().join(", ")
}

fn aggregate(dice: &mut Dice) -> String {
    let (from, joined) = from(dice);
    let (filter, calls) = (filter(dice), aggregates(dice, joined));
    if dice.chance(25) {
        return format!("SELECT {calls} FROM {from}{filter}");
    }
    let key = dice.pick(&KEYS);
    let having = if dice.chance(30) { format!(" HAVING COUNT(*) > {}", dice.below(20)) } else { String::new() };
    format!("SELECT a.{key} AS g, {calls} FROM {from}{filter} GROUP BY a.{key}{having}")
}

fn distinct(dice: &mut Dice) -> String {
    let (from, _) = from(dice);
    format!("SELECT DISTINCT a.{} AS x, a.{} AS y FROM {from}{}", dice.pick(&KEYS), dice.pick(&KEYS), filter(dice))
}

fn set_operation(dice: &mut Dice) -> String {
    let operation = dice.pick(&["UNION ALL", "UNION", "EXCEPT", "INTERSECT"]);
    let (left, right, key) = (dice.pick(&TABLES), dice.pick(&TABLES), dice.pick(&KEYS));
    let both = format!("SELECT a.{key} AS x FROM {left} a{} {operation} SELECT a.{key} FROM {right} a", filter(dice));
    if dice.chance(50) { both } else { format!("SELECT x, COUNT(*) AS n FROM ({both}) u GROUP BY x") }
}

fn window(dice: &mut Dice) -> String {
    let (table, key) = (dice.pick(&TABLES), dice.pick(&KEYS));
    let call = dice.pick(&["ROW_NUMBER()", "SUM(a.d)", "LAG(a.id)", "COUNT(*)"]);
    let all =
        format!("SELECT a.id, {call} OVER (PARTITION BY a.{key} ORDER BY a.id) AS w FROM {table} a{}", filter(dice));
    if dice.chance(50) { all } else { format!("SELECT COUNT(*) AS n, SUM(id) AS i, MAX(w) AS m FROM ({all}) q") }
}

/// Ordered with a limit; `id` is unique, so there are no ties.
fn top(dice: &mut Dice) -> String {
    let table = dice.pick(&TABLES);
    let (direction, limit) = (dice.pick(&["ASC", "DESC"]), 1 + dice.below(50));
    format!("SELECT a.id, a.k FROM {table} a{} ORDER BY a.k {direction} NULLS LAST, a.id LIMIT {limit}", filter(dice))
}

fn rows(dice: &mut Dice) -> String {
    let (from, joined) = from(dice);
    let other = if joined { ", b.id AS other, b.s AS text" } else { "" };
    format!("SELECT a.id, a.k, a.d{other} FROM {from}{}", filter(dice))
}

/// Three or four tables joined in whatever order, so that there is a better one.
fn several(dice: &mut Dice) -> String {
    let mut tables = vec!["big a", "small b", "few c"];
    let mut conditions = vec![
        dice.pick(&["a.id = b.id", "a.k + 0 = b.k AND a.id = b.id", "a.k = b.k AND a.t = b.t"]),
        dice.pick(&["c.k = b.k", "c.t = a.t", "c.s = a.s AND c.k = b.k", "c.id = a.id - b.id"]),
    ];
    if dice.chance(60) {
        tables.push("small e");
        conditions.push(dice.pick(&[
            "e.id = a.id",
            "e.id = b.id",
            "e.t = a.t AND e.k = b.k",
            "e.id = b.id AND e.d > c.d",
        ]));
    }
    tables.rotate_left(dice.below(3) as usize);
    let filter = filter(dice).replacen(" WHERE ", " AND ", 1);
    let from = format!("{} WHERE {}{filter}", tables.join(", "), conditions.join(" AND "));
    match dice.below(3) {
        0 => format!("SELECT COUNT(*) AS n, SUM(b.d) AS d, MAX(c.t) AS t FROM {from}"),
        1 => format!("SELECT a.s AS g, COUNT(*) AS n, SUM(a.d) AS d FROM {from} GROUP BY a.s"),
        _ => format!("SELECT a.id AS x, b.s AS y, c.d AS z FROM {from}"),
    }
}
