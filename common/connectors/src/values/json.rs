//! JSON arrays of arrays of scalars, numbers kept as their text.
//!
//! The JSON library would round numbers to 64-bit floats; here it only checks the syntax, and a scan over text that is known
//! to be valid takes the scalars apart.

use std::fmt;

use serde::de::IgnoredAny;

/// One value of a row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cell<'t> {
    Null,
    Bool(bool),
    Number(&'t str),
    Text(String),
    /// An array or object: never valid as a value.
    Nested,
}

impl fmt::Display for Cell<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cell::Null => f.write_str("null"),
            Cell::Bool(value) => write!(f, "{value}"),
            Cell::Number(text) => f.write_str(text),
            Cell::Text(text) => f.write_str(text),
            Cell::Nested => f.write_str("a nested array or object"),
        }
    }
}

/// The rows of `text`, or what is wrong with it.
pub(crate) fn parse_rows(text: &str) -> Result<Vec<Vec<Cell<'_>>>, String> {
    serde_json::from_str::<Vec<Vec<IgnoredAny>>>(text).map_err(|error| format!("a JSON array of arrays ({error})"))?;
    let mut scanner = Scanner { text, at: 0 };
    let mut rows = Vec::new();
    scanner.take();
    while scanner.peek() != b']' {
        scanner.take();
        let mut row = Vec::new();
        while scanner.peek() != b']' {
            row.push(scanner.cell());
            scanner.skip_comma();
        }
        scanner.take();
        scanner.skip_comma();
        rows.push(row);
    }
    Ok(rows)
}

/// Walks JSON that has been checked: the next byte always exists where the grammar says so.
struct Scanner<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Scanner<'t> {
    /// The next byte that is not white space.
    fn peek(&mut self) -> u8 {
        let bytes = self.text.as_bytes();
        while bytes[self.at].is_ascii_whitespace() {
            self.at += 1;
        }
        bytes[self.at]
    }

    fn take(&mut self) -> u8 {
        let byte = self.peek();
        self.at += 1;
        byte
    }

    fn skip_comma(&mut self) {
        if self.peek() == b',' {
            self.at += 1;
        }
    }

    fn cell(&mut self) -> Cell<'t> {
        match self.peek() {
            b'"' => Cell::Text(serde_json::from_str(self.string()).expect("the syntax was checked")),
            b'[' | b'{' => self.nested(),
            _ => match self.word() {
                "null" => Cell::Null,
                "true" => Cell::Bool(true),
                "false" => Cell::Bool(false),
                number => Cell::Number(number),
            },
        }
    }

    /// A string with its quotes and escapes.
    fn string(&mut self) -> &'t str {
        let start = self.at;
        let bytes = self.text.as_bytes();
        self.at += 1;
        while bytes[self.at] != b'"' {
            self.at += if bytes[self.at] == b'\\' { 2 } else { 1 };
        }
        self.at += 1;
        &self.text[start..self.at]
    }

    fn word(&mut self) -> &'t str {
        let start = self.at;
        let rest = &self.text[start..];
        let length = rest.find([',', ']', ' ', '\t', '\n', '\r']).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    fn nested(&mut self) -> Cell<'t> {
        let mut depth = 0_usize;
        loop {
            match self.peek() {
                b'"' => {
                    self.string();
                    continue;
                }
                b'[' | b'{' => depth += 1,
                b']' | b'}' => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return Cell::Nested;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_keep_their_text() {
        let text =
            " [ [1, -2.50e3 ,\"a\\\"],[\\u00e4\" , null,true], [] ,[false\n, {\"k\": [\"]}\", 1]}, [[ ]], 9] ]  ";
        let rows = parse_rows(text).unwrap();
        let first = [
            Cell::Number("1"),
            Cell::Number("-2.50e3"),
            Cell::Text("a\"],[ä".to_owned()),
            Cell::Null,
            Cell::Bool(true),
        ];
        let third = [Cell::Bool(false), Cell::Nested, Cell::Nested, Cell::Number("9")];
        assert_eq!(rows, [first.to_vec(), vec![], third.to_vec()]);
        assert_eq!(parse_rows("[]").unwrap(), Vec::<Vec<Cell<'_>>>::new());
        assert_eq!(parse_rows("[[1e999]]").unwrap(), [[Cell::Number("1e999")]]);
    }

    #[test]
    fn other_shapes_are_refused() {
        for text in ["", "1", "[1]", "[[1]", "[[1],]", "[[01]]", "[[1]] x", "{}", "[[\"a]]", "[[nul]]"] {
            let error = parse_rows(text).unwrap_err();
            assert!(error.contains("array of arrays"), "{text}: {error}");
        }
        assert!(parse_rows(&"[".repeat(100_000)).is_err());
    }
}
