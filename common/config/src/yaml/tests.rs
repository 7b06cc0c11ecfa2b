use proptest::prelude::*;

use super::*;

fn entries(text: &str) -> Vec<(String, String, u32)> {
    let file = parse(text).unwrap();
    file.entries
        .into_iter()
        .map(|entry| {
            let value = match entry.content {
                Content::Value(raw) => raw.to_string(),
                other => format!("{other:?}"),
            };
            (entry.key, value, entry.line.unwrap_or(0))
        })
        .collect()
}

fn row(key: &str, value: &str, line: u32) -> (String, String, u32) {
    (key.into(), value.into(), line)
}

#[test]
fn nested_dotted_and_mixed_keys_are_one_thing() {
    let expected = vec![row("taskmanager.memory.process.size", "4g", 0)];
    for text in [
        "taskmanager.memory.process.size: 4g",
        "taskmanager:\n  memory:\n    process:\n      size: 4g\n",
        "taskmanager: {memory.process.size: 4g}",
        "taskmanager.memory:\n  process.size: 4g",
        "{taskmanager: {memory: {process: {size: 4g}}}}",
        "\u{feff}taskmanager: {\"memory.process.size\": 4g}",
    ] {
        let found: Vec<_> = entries(text).into_iter().map(|(key, value, _)| row(&key, &value, 0)).collect();
        assert_eq!(found, expected, "{text}");
    }
}

#[test]
fn values_keep_their_spelling() {
    let text = "a: 1e3\nb: 007\nc: 0x10\nd: \"10 s\"\ne: True\nf: [1e3, yes]\ng: 12345678901234567890123\nh: 1_000\n";
    let values: Vec<_> = entries(text).into_iter().map(|(_, value, _)| value).collect();
    assert_eq!(values, ["1e3", "007", "0x10", "10 s", "True", "[1e3, yes]", "12345678901234567890123", "1_000"]);
}

#[test]
fn nothing_is_not_a_text() {
    let rows = entries("a:\nb: ~\nc: null\nd: {}\ne: ''\nf: [{x: 1}]\n");
    let values: Vec<_> = rows.iter().map(|(_, value, _)| value.as_str()).collect();
    assert_eq!(values, ["Nothing", "Nothing", "Nothing", "Nothing", "", "ListOfSections"]);
    for empty in ["", "\n\n", "# only a comment\n", "---\n"] {
        assert_eq!(parse(empty).unwrap(), File::default(), "{empty:?}");
    }
}

#[test]
fn lines_are_found_in_every_style() {
    let text = "\
# comment: not a key
---
first: 1   # trailing: comment

block:
  text: |
    fake: 1
    more: 2

  folded: >-
    fake: 3
  'quoted.key': \"a
    fake: 4\"
  anchored: &name {one: 1, # fake: 5
    two: [a, {fake: 6}], 'three':
      {deep: 'it''s: }',
       last: x:y}}
  list:
  - fake: 7
  - b
  after.list: 8
url: http://host:80/x
end: ~
";
    let rows: Vec<_> = entries(text).into_iter().map(|(key, _, line)| (key, line)).collect();
    let expected = [
        ("first", 3),
        ("block.text", 6),
        ("block.folded", 10),
        ("block.quoted.key", 12),
        ("block.anchored.one", 14),
        ("block.anchored.two", 15),
        ("block.anchored.three.deep", 16),
        ("block.anchored.three.last", 17),
        ("block.list", 18),
        ("block.after.list", 21),
        ("url", 22),
        ("end", 23),
    ];
    let expected: Vec<_> = expected.map(|(key, line)| (key.to_string(), line)).into();
    assert_eq!(rows, expected);
}

#[test]
fn duplicates_are_kept_with_their_lines() {
    let rows = entries("a: 1\nb: 2\na: 3\n");
    assert_eq!(rows, [row("a", "1", 1), row("b", "2", 2), row("a", "3", 3)]);
    let file = parse("x:\n  a: 1\nx:\n  b: 2\n").unwrap();
    assert_eq!(file.repeated_sections, [("x".to_string(), Some(3), Some(1))]);
}

#[test]
fn what_is_no_mapping_is_refused() {
    assert!(matches!(parse("just text"), Err(Error::NotAMapping)));
    assert!(matches!(parse("[a, b]"), Err(Error::NotAMapping)));
    for broken in ["a: [", "a: b: c", "\ta: 1", "a: 1\n---\nb: 2\n", "a: !custom x", "? [a]\n: b\n", "a: *nobody"] {
        assert!(matches!(parse(broken), Err(Error::Syntax(_))), "{broken:?}: {:?}", parse(broken));
    }
}

#[test]
fn depth_and_aliases_are_bounded() {
    let deep = format!("{}1{}", "{a: ".repeat(5_000), "}".repeat(5_000));
    assert!(parse(&deep).is_err());
    let mut bomb = "a0: &a0 {x: 1, y: 2}\n".to_string();
    for i in 1..40 {
        bomb += &format!("a{i}: &a{i} {{x: *a{}, y: *a{}}}\n", i - 1, i - 1);
    }
    assert!(parse(&bomb).is_err());
    let long = format!("{}: {{b: {{c: 1}}}}", "k".repeat(900));
    assert!(parse(&long).unwrap().entries.iter().all(|entry| entry.key.len() <= LONGEST_KEY));
}

/// A small tree of keys, written in random styles; every key must be found on the line it was written to.
#[derive(Debug, Clone)]
enum Tree {
    Leaf(u8),
    Block(Vec<Tree>),
    Flow(Vec<Tree>),
    Text,
    Comment(Box<Tree>),
}

fn trees() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![any::<u8>().prop_map(Tree::Leaf), Just(Tree::Text)];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 1..4).prop_map(Tree::Block),
            prop::collection::vec(inner.clone(), 1..4).prop_map(Tree::Flow),
            inner.prop_map(|tree| Tree::Comment(Box::new(tree))),
        ]
    })
}

struct Writer {
    text: String,
    expected: Vec<(String, u32)>,
}

impl Writer {
    fn line(&self) -> u32 {
        u32::try_from(self.text.matches('\n').count()).unwrap() + 1
    }

    fn block(&mut self, path: &str, indent: usize, trees: &[Tree]) {
        for (i, tree) in trees.iter().enumerate() {
            let key = dotted(path, &format!("k{i}.x"));
            let pad = " ".repeat(indent);
            match tree {
                Tree::Leaf(n) => {
                    self.expected.push((key, self.line()));
                    let quoted = if n % 2 == 0 { format!("'k{i}.x'") } else { format!("k{i}.x") };
                    self.text += &format!("{pad}{quoted}: v{n} # c: d\n");
                }
                Tree::Text => {
                    self.expected.push((key, self.line()));
                    self.text += &format!("{pad}k{i}.x: |\n{pad}  a: b\n\n{pad}  c\n");
                }
                Tree::Comment(inner) => {
                    self.text += "# x: y\n\n";
                    self.text += &format!("{pad}k{i}.x:\n");
                    self.block(&key, indent + 2, std::slice::from_ref(inner));
                }
                Tree::Block(children) => {
                    self.text += &format!("{pad}k{i}.x: # note\n");
                    self.block(&key, indent + 1, children);
                }
                Tree::Flow(children) => {
                    self.text += &format!("{pad}k{i}.x: ");
                    self.flow(&key, indent + 1, children);
                    self.text += "\n";
                }
            }
        }
    }

    fn flow(&mut self, path: &str, indent: usize, trees: &[Tree]) {
        self.text += "{";
        for (i, tree) in trees.iter().enumerate() {
            let key = dotted(path, &format!("f{i}"));
            if i % 2 == 1 {
                self.text += &format!("\n{}", " ".repeat(indent));
            }
            self.text += &format!("f{i}: ");
            match tree {
                Tree::Leaf(_) | Tree::Text => {
                    self.expected.push((key, self.line()));
                    self.text += "\"a, {b: c}\", ";
                }
                Tree::Block(children) | Tree::Flow(children) => {
                    self.flow(&key, indent, children);
                    self.text += ", ";
                }
                Tree::Comment(inner) => {
                    self.flow(&key, indent, std::slice::from_ref(inner));
                    self.text += ", ";
                }
            }
        }
        self.text += "}";
    }
}

proptest! {
    #[test]
    fn every_key_is_on_its_line(forest in prop::collection::vec(trees(), 1..5)) {
        let mut writer = Writer { text: String::new(), expected: Vec::new() };
        writer.block("", 0, &forest);
        let file = parse(&writer.text).map_err(|e| TestCaseError::fail(format!("{e:?}\n{}", writer.text)))?;
        let found: Vec<_> = file.entries.into_iter().map(|e| (e.key, e.line.unwrap_or(0))).collect();
        prop_assert_eq!(found, writer.expected, "{}", writer.text);
    }

    #[test]
    fn no_text_panics(text in "[a-c:{}\\[\\]'\"#|>&*!? \n.,~-]{0,80}") {
        let _ = parse(&text);
        let _ = locate::key_lines(&text);
    }

    #[test]
    fn no_unicode_panics(text in any::<String>()) {
        let _ = parse(&text);
        let _ = locate::key_lines(&text);
    }
}
