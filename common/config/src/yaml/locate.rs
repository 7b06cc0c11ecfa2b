//! Which line a key is on: a small scan of the text beside the parser, which gives no positions.
//!
//! Knows block mappings by indentation, flow mappings and lists (`{a: 1, b: [x]}`), quoted keys and values over several
//! lines, block scalars, comments, anchors and tags. It never judges: the parser has accepted the text already, and a
//! key that the scan misses is reported without a line. Keys inside of lists are not located; no option has any.

use super::dotted;

/// `(dotted key, line from 1)` in the order of the text, sections included.
pub(super) fn key_lines(text: &str) -> Vec<(String, u32)> {
    let mut scan = Scan { text, at: 0, line: 1, found: Vec::new() };
    scan.document();
    scan.found
}

struct Scan<'a> {
    text: &'a str,
    /// Byte offset, always at a character's start.
    at: usize,
    line: u32,
    found: Vec<(String, u32)>,
}

/// An open bracket of a flow collection.
struct Open {
    is_mapping: bool,
    /// Dotted key of the collection.
    path: String,
    /// Dotted key whose value is being read; `None` while a key is expected.
    value_of: Option<String>,
}

impl Scan<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn advance(&mut self) {
        if let Some(next) = self.peek() {
            self.at += next.len_utf8();
            self.line += u32::from(next == '\n');
        }
    }

    fn skip(&mut self, bytes: usize) {
        let end = self.at + bytes;
        while self.at < end && self.peek().is_some() {
            self.advance();
        }
    }

    fn next_line(&mut self) {
        while let Some(next) = self.peek() {
            self.advance();
            if next == '\n' {
                break;
            }
        }
    }

    fn skip_spaces(&mut self) {
        while matches!(self.peek(), Some(' ' | '\t')) {
            self.advance();
        }
    }

    /// Block style: each line's indentation says which open section it belongs to.
    fn document(&mut self) {
        let mut open: Vec<(usize, String)> = Vec::new();
        while self.peek().is_some() {
            let line = self.rest().lines().next().unwrap_or_default();
            let content = line.trim_start_matches(' ');
            let indent = line.len() - content.len();
            let is_marker = indent == 0 && (content.starts_with("...") || content.starts_with('%'));
            if content.trim().is_empty() || content.starts_with('#') || is_marker || is_dash(content) {
                self.next_line();
                continue;
            }
            if indent == 0 && content.starts_with("---") {
                self.skip(3);
                self.skip_spaces();
                continue;
            }
            while open.last().is_some_and(|(other, _)| *other >= indent) {
                open.pop();
            }
            let path = open.last().map(|(_, path)| path.clone()).unwrap_or_default();
            self.skip(indent);
            if let Some(key) = self.block_entry(&path, indent) {
                open.push((indent, key));
            }
        }
    }

    /// One entry of a block mapping with its value, up to the next line; its dotted key.
    fn block_entry(&mut self, path: &str, indent: usize) -> Option<String> {
        if matches!(self.peek(), Some('{' | '[')) {
            self.flow(path);
            self.next_line();
            return None;
        }
        let line = self.line;
        let Some(name) = self.block_key() else {
            self.next_line();
            return None;
        };
        let key = dotted(path, &name);
        self.found.push((key.clone(), line));
        self.skip_anchors_and_tags();
        match self.peek() {
            Some('{' | '[') => self.flow(&key),
            Some('"' | '\'') => {
                self.quoted();
            }
            Some('|' | '>') => {
                self.next_line();
                self.skip_deeper_lines(indent);
                return Some(key);
            }
            _ => {}
        }
        self.next_line();
        Some(key)
    }

    /// Reads `key:` and the colon, within the line.
    fn block_key(&mut self) -> Option<String> {
        if matches!(self.peek(), Some('"' | '\'')) {
            let name = self.quoted();
            self.skip_spaces();
            return (self.peek() == Some(':')).then(|| {
                self.advance();
                name
            });
        }
        let line = self.rest().lines().next().unwrap_or_default();
        let end = line
            .char_indices()
            .find(|(at, c)| *c == ':' && line[at + 1..].chars().next().is_none_or(|after| after.is_ascii_whitespace()));
        let (end, _) = end?;
        let name = line[..end].trim().to_string();
        self.skip(end + 1);
        Some(name)
    }

    fn skip_anchors_and_tags(&mut self) {
        self.skip_spaces();
        while matches!(self.peek(), Some('&' | '!')) {
            while self.peek().is_some_and(|c| !c.is_whitespace()) {
                self.advance();
            }
            self.skip_spaces();
        }
    }

    /// The lines of a block scalar: empty ones and those further in than its key.
    fn skip_deeper_lines(&mut self, indent: usize) {
        while self.peek().is_some() {
            let line = self.rest().lines().next().unwrap_or_default();
            let content = line.trim_start_matches(' ');
            if !content.trim().is_empty() && line.len() - content.len() <= indent {
                break;
            }
            self.next_line();
        }
    }

    /// A quoted text, which may go over several lines; escapes are kept as they are, no option's name needs one.
    fn quoted(&mut self) -> String {
        let Some(quote) = self.peek() else { return String::new() };
        self.advance();
        let start = self.at;
        while let Some(next) = self.peek() {
            if next == '\\' && quote == '"' {
                self.advance();
            } else if next == quote {
                let doubled = quote == '\'' && self.rest().starts_with("''");
                if !doubled {
                    break;
                }
                self.advance();
            }
            self.advance();
        }
        let text = self.text.get(start..self.at).unwrap_or_default().to_string();
        self.advance();
        text
    }

    /// A flow collection from its opening to its closing bracket.
    fn flow(&mut self, path: &str) {
        let mut open: Vec<Open> = Vec::new();
        let mut before = ' ';
        while let Some(next) = self.peek() {
            match next {
                '{' | '[' => {
                    let inner = match open.last() {
                        None => path.to_string(),
                        Some(outer) => outer.value_of.clone().unwrap_or_else(|| outer.path.clone()),
                    };
                    open.push(Open { is_mapping: next == '{', path: inner, value_of: None });
                    self.advance();
                }
                '}' | ']' => {
                    open.pop();
                    self.advance();
                    if open.is_empty() {
                        return;
                    }
                }
                ',' => {
                    if let Some(top) = open.last_mut() {
                        top.value_of = None;
                    }
                    self.advance();
                }
                '#' if before.is_whitespace() => {
                    self.next_line();
                    before = '\n';
                    continue;
                }
                c if c.is_whitespace() || c == ':' => self.advance(),
                _ => self.flow_scalar(&mut open),
            }
            before = next;
        }
    }

    /// A key or a value within a flow collection.
    fn flow_scalar(&mut self, open: &mut [Open]) {
        let line = self.line;
        let text = if matches!(self.peek(), Some('"' | '\'')) { self.quoted() } else { self.flow_plain() };
        let in_list = open.iter().any(|bracket| !bracket.is_mapping);
        if let Some(top) = open.last_mut()
            && top.is_mapping
            && top.value_of.is_none()
        {
            let key = dotted(&top.path, &text);
            if !in_list {
                self.found.push((key.clone(), line));
            }
            top.value_of = Some(key);
        }
    }

    /// A plain scalar: up to a bracket, a comma, the line's end, or a colon that ends a key.
    fn flow_plain(&mut self) -> String {
        let start = self.at;
        while let Some(next) = self.peek() {
            let after = self.rest().chars().nth(1);
            let ends_key = next == ':' && after.is_none_or(|c| c.is_whitespace() || ",[]{}".contains(c));
            if ends_key || next == '\n' || ",[]{}".contains(next) {
                break;
            }
            self.advance();
        }
        if self.at == start {
            self.advance(); // never stand still
        }
        self.text.get(start..self.at).unwrap_or_default().trim().to_string()
    }
}

/// An item of a block list.
fn is_dash(content: &str) -> bool {
    content.strip_prefix('-').is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\r', '\t']))
}
