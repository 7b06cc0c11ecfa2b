use crate::sql::{Position, split_script};

fn texts(script: &str) -> Vec<String> {
    split_script(script).unwrap().into_iter().map(|statement| statement.text).collect()
}

#[test]
fn cuts_at_semicolons_and_drops_empty_statements() {
    assert_eq!(texts(" ;; SELECT 1 ;\n\n; SELECT 2"), ["SELECT 1", "SELECT 2"]);
    assert!(texts("").is_empty());
    assert!(texts("-- nothing\n/* at all */ ;").is_empty());
}

#[test]
fn a_semicolon_in_a_string_an_identifier_or_a_comment_does_not_cut() {
    let script = "SELECT ';', 'it''s; fine', `a;b`, \"c;d\" -- x; y\n, 1 /* ; */, 2; SELECT 3";
    let cut = texts(script);
    assert_eq!(cut.len(), 2);
    assert!(cut[0].ends_with("/* ; */, 2"));
    assert_eq!(cut[1], "SELECT 3");
}

#[test]
fn quotes_do_not_hide_in_each_other_and_comments_do_not_nest() {
    assert_eq!(texts("SELECT '\"'; SELECT \"'\"; SELECT `'`").len(), 3);
    assert_eq!(texts("SELECT '--'; SELECT '/*'; SELECT 1 - -1"), ["SELECT '--'", "SELECT '/*'", "SELECT 1 - -1"]);
    assert_eq!(texts("/* /* */ SELECT 1; SELECT 2"), ["SELECT 1", "SELECT 2"]);
    assert_eq!(texts("-- it's open\nSELECT 1"), ["SELECT 1"]);
}

#[test]
fn a_statement_knows_the_line_it_begins_on() {
    let statements = split_script("-- head\n\nSELECT\n 1;\n/* two\nlines */ SELECT 'a\nb';SELECT 3").unwrap();
    let lines: Vec<u64> = statements.iter().map(|statement| statement.line).collect();
    assert_eq!(lines, [3, 6, 7]);
}

#[test]
fn a_hint_is_part_of_its_statement() {
    assert_eq!(texts("SELECT 1 FROM t /*+ X */;"), ["SELECT 1 FROM t /*+ X */"]);
}

#[test]
fn what_is_not_closed_is_an_error_where_it_opens() {
    for (script, line, column, what) in [
        ("SELECT 1;\nSELECT 'abc", 2, 8, "string"),
        ("SELECT `abc", 1, 8, "quoted identifier"),
        ("SELECT é, \"abc", 1, 11, "quoted identifier"),
        ("SELECT 1 /* abc", 1, 10, "comment"),
    ] {
        let error = split_script(script).unwrap_err();
        assert_eq!(error.position(), Some(Position { line, column }), "{script}");
        assert!(error.to_string().contains(what), "{error}");
    }
}
