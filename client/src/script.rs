//! Where the statements of a script end.
//!
//! A semicolon ends a statement unless it stands in a `'string'`, a `"text"` or `` `identifier` `` in quotes (a doubled quote stays
//! inside), a `-- line comment` or a `/* block comment */` (not nested). Statements of nothing but white space and comments are
//! left out. `EXECUTE STATEMENT SET BEGIN …; …; END` is one statement.
//!
//! Does not parse: whatever is wrong with a statement is said by the cluster.

/// A statement without its semicolon, and where it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Statement<'a> {
    pub text: &'a str,
    /// Counted from 1.
    pub line: usize,
}

impl Statement<'_> {
    fn trimmed(self) -> Self {
        Statement { text: self.text.trim_end(), ..self }
    }
}

/// A text cut into statements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split<'a> {
    pub statements: Vec<Statement<'a>>,
    /// What follows the last semicolon, up to the end, if that is more than white space and comments.
    pub rest: Option<Statement<'a>>,
}

/// Cuts a text that may end in the middle of a statement.
pub fn split(text: &str) -> Split<'_> {
    let mut statements = Vec::new();
    let mut open = Open::default();
    let mut scanner = Scanner { text, at: 0 };
    while let Some(piece) = scanner.next_piece() {
        match piece {
            Piece::Blank => {}
            Piece::Semicolon(at) => {
                if open.in_statement_set {
                    open.at_inner_start = true;
                    continue;
                }
                statements.extend(open.statement(text, at).map(Statement::trimmed));
                open = Open::default();
            }
            Piece::Word(start) => open.word(start, &text[start..scanner.at]),
            Piece::Other(start) => open.other(start),
        }
    }
    Split { statements, rest: open.statement(text, text.len()) }
}

/// The statements of a whole script; the last one needs no semicolon.
pub fn statements(text: &str) -> Vec<Statement<'_>> {
    let Split { mut statements, rest } = split(text);
    statements.extend(rest.map(Statement::trimmed));
    statements
}

/// The statement that is being read.
#[derive(Default)]
struct Open {
    /// Its first character that is neither white space nor comment.
    start: Option<usize>,
    /// How many words of [`STATEMENT_SET`] it began with; more than there are when it is something else.
    words: usize,
    in_statement_set: bool,
    /// Nothing of the set's next statement was read yet; an `END` there ends the set, one of a `CASE` does not.
    at_inner_start: bool,
}

const STATEMENT_SET: [&str; 4] = ["EXECUTE", "STATEMENT", "SET", "BEGIN"];

impl Open {
    /// Notes a word; the first four tell a statement set, `END` ends it.
    fn word(&mut self, start: usize, word: &str) {
        self.start.get_or_insert(start);
        if self.in_statement_set {
            self.in_statement_set = !(self.at_inner_start && word.eq_ignore_ascii_case("END"));
            self.at_inner_start = false;
            return;
        }
        let expected = STATEMENT_SET.get(self.words).is_some_and(|expected| word.eq_ignore_ascii_case(expected));
        self.words = if expected { self.words + 1 } else { usize::MAX }; // MAX stays: no list is that long
        self.in_statement_set = self.words == STATEMENT_SET.len();
        self.at_inner_start = self.in_statement_set;
    }

    fn other(&mut self, start: usize) {
        self.start.get_or_insert(start);
        self.words = usize::MAX;
        self.at_inner_start = false;
    }

    fn statement<'a>(&self, text: &'a str, end: usize) -> Option<Statement<'a>> {
        let start = self.start?;
        let line = 1 + text[..start].bytes().filter(|b| *b == b'\n').count();
        Some(Statement { text: &text[start..end], line })
    }
}

enum Piece {
    /// White space or a comment.
    Blank,
    Semicolon(usize),
    Word(usize),
    /// A quoted text or any other character.
    Other(usize),
}

/// Reads piece by piece. All that matters is ASCII, so bytes are enough, and every cut is at a character.
struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl Scanner<'_> {
    fn next_piece(&mut self) -> Option<Piece> {
        let bytes = self.text.as_bytes();
        let start = self.at;
        let first = *bytes.get(start)?;
        let second = bytes.get(start + 1).copied();
        let piece = match (first, second) {
            (b';', _) => {
                self.at += 1;
                Piece::Semicolon(start)
            }
            (b'-', Some(b'-')) => {
                self.skip_past("\n", start + 2);
                Piece::Blank
            }
            (b'/', Some(b'*')) => {
                self.skip_past("*/", start + 2);
                Piece::Blank
            }
            (quote @ (b'\'' | b'"' | b'`'), _) => {
                self.at = after_quoted(bytes, start, quote);
                Piece::Other(start)
            }
            (b, _) if b.is_ascii_whitespace() => {
                self.at += 1;
                Piece::Blank
            }
            (b, _) if is_word(b) => {
                self.at += bytes[start..].iter().take_while(|b| is_word(**b)).count();
                Piece::Word(start)
            }
            _ => {
                self.at += 1;
                Piece::Other(start)
            }
        };
        Some(piece)
    }

    /// Behind the next `end`, or at the end of the text.
    fn skip_past(&mut self, end: &str, from: usize) {
        self.at = self.text[from..].find(end).map_or(self.text.len(), |found| from + found + end.len());
    }
}

/// Behind the closing quote, or at the end. A doubled quote closes and opens again, which comes to the same.
fn after_quoted(bytes: &[u8], open: usize, quote: u8) -> usize {
    let inside = &bytes[open + 1..];
    inside.iter().position(|b| *b == quote).map_or(bytes.len(), |found| open + 1 + found + 1)
}

/// Bytes above ASCII are parts of letters.
fn is_word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_' || b == b'$' || b >= 0x80
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn texts(script: &str) -> Vec<&str> {
        statements(script).iter().map(|statement| statement.text).collect()
    }

    #[test]
    fn semicolons_end_statements() {
        assert_eq!(texts("SELECT 1; SELECT 2"), ["SELECT 1", "SELECT 2"]);
        assert_eq!(texts(" ;; SELECT 1 ;\n"), ["SELECT 1"]);
        assert_eq!(texts(""), Vec::<&str>::new());
    }

    #[test]
    fn not_in_quotes_or_comments() {
        assert_eq!(texts("SELECT ';' ; SELECT 'it''s;'"), ["SELECT ';'", "SELECT 'it''s;'"]);
        assert_eq!(texts("SELECT \"a;b\", `c;d`; x"), ["SELECT \"a;b\", `c;d`", "x"]);
        assert_eq!(texts("SELECT 1 -- one; two\n+ 1; SELECT 2"), ["SELECT 1 -- one; two\n+ 1", "SELECT 2"]);
        assert_eq!(texts("SELECT /* a;b */ 1; SELECT 2"), ["SELECT /* a;b */ 1", "SELECT 2"]);
        assert_eq!(texts("SELECT '--'; SELECT 2"), ["SELECT '--'", "SELECT 2"]);
        assert_eq!(texts("SELECT 1 - -1; SELECT 4 / 2"), ["SELECT 1 - -1", "SELECT 4 / 2"]);
    }

    #[test]
    fn comments_alone_are_no_statement() {
        assert_eq!(texts("-- only this;\n/* and; this */ ;"), Vec::<&str>::new());
        assert_eq!(texts("-- head\nSELECT 1; -- tail"), ["SELECT 1"]);
        // a hint is part of its statement
        assert_eq!(texts("SELECT /*+ BROADCAST(t) */ 1"), ["SELECT /*+ BROADCAST(t) */ 1"]);
    }

    #[test]
    fn lines_are_counted_from_the_statement_itself() {
        let lines: Vec<usize> = statements("\n-- c\nSELECT 1;\n\n SELECT\n2;").iter().map(|s| s.line).collect();
        assert_eq!(lines, [3, 5]);
    }

    #[test]
    fn what_is_open_is_the_rest() {
        let open = split("SELECT 1; SELECT 'a;");
        assert_eq!(open.statements.len(), 1);
        assert_eq!(open.rest.map(|rest| rest.text), Some("SELECT 'a;"));
        assert_eq!(split("SELECT 1; -- done").rest, None);
        assert_eq!(split("SELECT 1 /* open;").rest.map(|rest| rest.text), Some("SELECT 1 /* open;"));
    }

    #[test]
    fn a_statement_set_is_one_statement() {
        let set =
            "EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1; insert into b select CASE WHEN x THEN 1 END; END";
        assert_eq!(texts(&format!("{set}; SELECT 3;")), [set, "SELECT 3"]);
        assert_eq!(texts("SET 'execute' = 'x'; BEGIN; END;"), ["SET 'execute' = 'x'", "BEGIN", "END"]);
    }

    #[test]
    fn every_byte_may_be_beyond_ascii() {
        assert_eq!(texts("SELECT 'ä;' AS größe; SELECT '日本;"), ["SELECT 'ä;' AS größe", "SELECT '日本;"]);
    }

    proptest! {
        /// Statements put together and taken apart again are the same, whatever is quoted in them.
        #[test]
        fn joined_statements_come_back(words in prop::collection::vec("[a-z;'\"` \n/*-]{0,12}", 1..6)) {
            let quoted: Vec<String> = words.iter().map(|word| format!("SELECT '{}'", word.replace('\'', "''"))).collect();
            let script = quoted.join("; ");
            prop_assert_eq!(texts(&script), quoted.iter().map(String::as_str).collect::<Vec<_>>());
        }

        /// Any text can be split, and nothing is lost but blanks, comments and semicolons.
        #[test]
        fn any_text_can_be_split(text in "\\PC{0,60}") {
            let found: usize = statements(&text).iter().map(|s| s.text.len()).sum();
            prop_assert!(found <= text.len());
        }
    }
}
