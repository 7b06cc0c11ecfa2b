//! Reads the CSV the command line prints, keeping NULL (an empty field) apart from the empty string (`""`).
//!
//! Decides nothing about types: every value stays text. A line break ends a record, so a one-column NULL is an empty
//! line and is kept. Refuses what no careful writer produces: text behind a closing quote, an open quote at the end, a
//! record with another number of fields than the header.

/// One row; `None` is NULL.
pub type Row = Vec<Option<String>>;

/// A result: column names and rows, all as text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Table {
    pub columns: Vec<String>,
    pub rows: Vec<Row>,
}

impl Table {
    /// The rows as `1,x` lines with `N` for NULL, sorted: a bag that is easy to write down in a test.
    pub fn bag(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.rows.iter().map(line).collect();
        lines.sort();
        lines
    }

    /// The table as CSV: what [`parse`] reads back.
    pub fn to_csv(&self) -> String {
        let header = self.columns.iter().map(|c| field(c)).collect::<Vec<_>>().join(",");
        let rows = self
            .rows
            .iter()
            .map(|row| row.iter().map(|v| v.as_deref().map_or(String::new(), field)).collect::<Vec<_>>().join(","));
        std::iter::once(header).chain(rows).map(|line| line + "\n").collect()
    }

    /// The one value of a one-row, one-column result.
    pub fn scalar(&self) -> Option<&str> {
        match self.rows.as_slice() {
            [row] if row.len() == 1 => row[0].as_deref(),
            _ => None,
        }
    }
}

fn field(text: &str) -> String {
    if text.is_empty() || text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_string()
    }
}

fn line(row: &Row) -> String {
    row.iter().map(|v| v.as_deref().unwrap_or("N")).collect::<Vec<_>>().join(",")
}

/// Where a text is not CSV as described above.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    #[error("csv record {record}: {what}")]
    Malformed { record: usize, what: String },
    #[error("csv without a header line")]
    Empty,
}

/// Parses a header line and the records behind it.
pub fn parse(text: &str) -> Result<Table, Error> {
    let mut records = records(text)?.into_iter();
    let header = records.next().ok_or(Error::Empty)?;
    let columns: Vec<String> = header.into_iter().map(Option::unwrap_or_default).collect();
    let rows: Vec<Row> = records.collect();
    for (i, row) in rows.iter().enumerate() {
        if row.len() != columns.len() {
            let what = format!("{} fields where the header has {}", row.len(), columns.len());
            return Err(Error::Malformed { record: i + 1, what });
        }
    }
    Ok(Table { columns, rows })
}

fn records(text: &str) -> Result<Vec<Row>, Error> {
    let mut out = Vec::new();
    let mut chars = text.chars().peekable();
    while chars.peek().is_some() {
        out.push(record(&mut chars, out.len())?);
    }
    Ok(out)
}

fn record(chars: &mut std::iter::Peekable<std::str::Chars<'_>>, number: usize) -> Result<Row, Error> {
    let mut row = Row::new();
    loop {
        row.push(if chars.next_if_eq(&'"').is_some() { Some(quoted(chars, number)?) } else { unquoted(chars) });
        if chars.next_if_eq(&',').is_some() {
            continue;
        }
        chars.next_if_eq(&'\r');
        return match chars.next() {
            None | Some('\n') => Ok(row),
            Some(c) => Err(Error::Malformed { record: number, what: format!("{c:?} behind a closing quote") }),
        };
    }
}

fn quoted(chars: &mut std::iter::Peekable<std::str::Chars<'_>>, number: usize) -> Result<String, Error> {
    let mut value = String::new();
    while let Some(c) = chars.next() {
        if c != '"' {
            value.push(c);
        } else if chars.next_if_eq(&'"').is_some() {
            value.push('"');
        } else {
            return Ok(value);
        }
    }
    Err(Error::Malformed { record: number, what: "a quote that is never closed".to_string() })
}

fn unquoted(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<String> {
    let mut value = String::new();
    while let Some(c) = chars.next_if(|c| !matches!(c, ',' | '\n' | '\r')) {
        value.push(c);
    }
    (!value.is_empty()).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(values: &[Option<&str>]) -> Row {
        values.iter().map(|v| v.map(str::to_string)).collect()
    }

    #[test]
    fn null_and_empty_differ() {
        let table = parse("a,b\n,\"\"\n1,x\n").unwrap();
        assert_eq!(table.rows, vec![row(&[None, Some("")]), row(&[Some("1"), Some("x")])]);
    }

    #[test]
    fn a_single_null_is_an_empty_line() {
        assert_eq!(parse("a\n\n").unwrap().rows, vec![row(&[None])]);
        assert_eq!(parse("a\n").unwrap().rows, Vec::<Row>::new());
    }

    #[test]
    fn quotes_hold_separators_and_line_breaks() {
        let table = parse("\"a,b\",c\r\n\"x\"\"y\nz\",\"1,5\"\r\n").unwrap();
        assert_eq!(table.columns, vec!["a,b", "c"]);
        assert_eq!(table.rows, vec![row(&[Some("x\"y\nz"), Some("1,5")])]);
    }

    #[test]
    fn what_is_written_is_read_back() {
        let rows = vec![row(&[None, Some("")]), row(&[Some("a,\"b\""), Some("x\ny")])];
        let table = Table { columns: vec!["p".to_string(), "q".to_string()], rows };
        assert_eq!(parse(&table.to_csv()), Ok(table));
    }

    #[test]
    fn broken_text_is_refused() {
        assert_eq!(parse(""), Err(Error::Empty));
        assert!(parse("a,b\n1\n").unwrap_err().to_string().contains("1 fields where the header has 2"));
        assert!(parse("a\n\"x\n").unwrap_err().to_string().contains("never closed"));
        assert!(parse("a\n\"x\"y\n").unwrap_err().to_string().contains("behind a closing quote"));
    }
}
