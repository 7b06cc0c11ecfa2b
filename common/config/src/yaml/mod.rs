//! YAML text to a flat list of dotted keys with their values as written and their lines.
//!
//! The parser gives a tree without positions and without the spelling of numbers (`1e3` becomes `1000.0`), so the text
//! is read twice: once for its shape, once along that shape for the text of every scalar. Lines come from [`locate`].
//! Duplicate keys are kept: the caller reports them with both lines.

mod locate;

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, de};

use crate::syntax::Raw;

/// Longer dotted keys are cut: no option is that long, and a deep file must not grow into long paths.
pub(crate) const LONGEST_KEY: usize = 256;

/// One key of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Dotted.
    pub key: String,
    pub content: Content,
    /// From 1; `None` if it could not be told.
    pub line: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content {
    /// `key:`, `key: ~`, `key: {}`: set to nothing.
    Nothing,
    Value(Raw),
    /// A list whose items are not plain values.
    ListOfSections,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct File {
    pub entries: Vec<Entry>,
    /// Sections written twice in one mapping: key, line, line of the first.
    pub repeated_sections: Vec<(String, Option<u32>, Option<u32>)>,
}

#[derive(Debug)]
pub(crate) enum Error {
    Syntax(serde_yaml::Error),
    NotAMapping,
}

/// Reads a file's text. An empty text is an empty file.
pub(crate) fn parse(text: &str) -> Result<File, Error> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let shape = Shape::deserialize(serde_yaml::Deserializer::from_str(text)).map_err(Error::Syntax)?;
    match &shape {
        Shape::Nothing => return Ok(File::default()),
        Shape::Mapping(_) => {}
        Shape::Scalar | Shape::List(_) => return Err(Error::NotAMapping),
    }
    let node = shape.deserialize(serde_yaml::Deserializer::from_str(text)).map_err(Error::Syntax)?;
    let mut flat = Flat { file: File::default(), lines: Lines::of(text), seen: BTreeMap::new() };
    if let Node::Mapping(entries) = node {
        flat.mapping("", None, entries);
    }
    Ok(flat.file)
}

/// The tree of the first reading: types only.
enum Shape {
    Nothing,
    Scalar,
    List(Vec<Shape>),
    Mapping(Vec<(String, Shape)>),
}

/// The tree of the second reading.
enum Node {
    Nothing,
    Scalar(String),
    List(Vec<Node>),
    Mapping(Vec<(String, Node)>),
}

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ShapeVisitor)
    }
}

struct ShapeVisitor;

impl<'de> Visitor<'de> for ShapeVisitor {
    type Value = Shape;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a plain value, a list or a mapping")
    }
    fn visit_unit<E: de::Error>(self) -> Result<Shape, E> {
        Ok(Shape::Nothing)
    }
    /// The empty document.
    fn visit_none<E: de::Error>(self) -> Result<Shape, E> {
        Ok(Shape::Nothing)
    }
    fn visit_bool<E: de::Error>(self, _: bool) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }
    fn visit_i64<E: de::Error>(self, _: i64) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }
    fn visit_i128<E: de::Error>(self, _: i128) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }
    fn visit_u64<E: de::Error>(self, _: u64) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }
    fn visit_u128<E: de::Error>(self, _: u128) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }
    fn visit_f64<E: de::Error>(self, _: f64) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }
    fn visit_str<E: de::Error>(self, _: &str) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Shape, A::Error> {
        let mut shapes = Vec::new();
        while let Some(shape) = items.next_element()? {
            shapes.push(shape);
        }
        Ok(Shape::List(shapes))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Shape, A::Error> {
        let mut shapes = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            shapes.push(entry);
        }
        Ok(Shape::Mapping(shapes))
    }
}

impl<'de> DeserializeSeed<'de> for &Shape {
    type Value = Node;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        match self {
            Shape::Nothing => de::IgnoredAny::deserialize(deserializer).map(|_| Node::Nothing),
            Shape::Scalar => String::deserialize(deserializer).map(Node::Scalar),
            Shape::List(shapes) => deserializer.deserialize_seq(ListVisitor(shapes)),
            Shape::Mapping(shapes) => deserializer.deserialize_map(MappingVisitor(shapes)),
        }
    }
}

struct ListVisitor<'a>(&'a [Shape]);

impl<'de> Visitor<'de> for ListVisitor<'_> {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut nodes = Vec::with_capacity(self.0.len());
        for shape in self.0 {
            let Some(node) = items.next_element_seed(shape)? else { break };
            nodes.push(node);
        }
        Ok(Node::List(nodes))
    }
}

struct MappingVisitor<'a>(&'a [(String, Shape)]);

impl<'de> Visitor<'de> for MappingVisitor<'_> {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a mapping")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Node, A::Error> {
        let mut nodes = Vec::with_capacity(self.0.len());
        for (_, shape) in self.0 {
            let Some(key) = entries.next_key::<String>()? else { break };
            nodes.push((key, entries.next_value_seed(shape)?));
        }
        Ok(Node::Mapping(nodes))
    }
}

/// Lines by dotted key, in the order of the text.
struct Lines(BTreeMap<String, Vec<u32>>);

impl Lines {
    fn of(text: &str) -> Self {
        let mut lines: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        for (key, line) in locate::key_lines(text) {
            lines.entry(key).or_default().push(line);
        }
        Lines(lines)
    }

    /// The line of the `nth` time that `key` is written.
    fn get(&self, key: &str, nth: usize) -> Option<u32> {
        self.0.get(key)?.get(nth).copied()
    }
}

/// Walks the tree in the order of the text, so that the n-th `a.b` of the tree is the n-th of the text.
struct Flat {
    file: File,
    lines: Lines,
    seen: BTreeMap<String, usize>,
}

impl Flat {
    fn mapping(&mut self, prefix: &str, line_above: Option<u32>, entries: Vec<(String, Node)>) {
        let mut sections: BTreeMap<String, Option<u32>> = BTreeMap::new();
        for (name, node) in entries {
            let key = dotted(prefix, &name);
            let nth = self.seen.entry(key.clone()).or_insert(0);
            let line = self.lines.get(&key, *nth).or(line_above);
            *nth += 1;
            let content = match node {
                Node::Mapping(children) if !children.is_empty() && key.len() < LONGEST_KEY => {
                    if let Some(first) = sections.insert(key.clone(), line) {
                        self.file.repeated_sections.push((key.clone(), line, first));
                    }
                    self.mapping(&key, line, children);
                    continue;
                }
                Node::Nothing | Node::Mapping(_) => Content::Nothing,
                Node::Scalar(text) => Content::Value(Raw::Scalar(text)),
                Node::List(items) => list(items),
            };
            self.file.entries.push(Entry { key, content, line });
        }
    }
}

fn list(items: Vec<Node>) -> Content {
    let texts: Option<Vec<String>> =
        items.into_iter().map(|item| if let Node::Scalar(text) = item { Some(text) } else { None }).collect();
    texts.map_or(Content::ListOfSections, |texts| Content::Value(Raw::List(texts)))
}

/// `prefix.name`, cut at [`LONGEST_KEY`].
fn dotted(prefix: &str, name: &str) -> String {
    let joined = if prefix.is_empty() { name.to_string() } else { format!("{prefix}.{name}") };
    if joined.len() <= LONGEST_KEY {
        return joined;
    }
    let end = (0..=LONGEST_KEY).rev().find(|end| joined.is_char_boundary(*end)).unwrap_or(0);
    joined[..end].to_string()
}

#[cfg(test)]
mod tests;
