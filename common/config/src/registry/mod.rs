//! The one table of options. Parsing, defaults, errors, `SET`, the examples' tests and the reference page all read it.
//!
//! An option is *in effect* (it has a field of [`Config`](crate::Config)), *not yet* (a known key of the dialect whose
//! feature is missing: accepted with a note, its value checked) or *without a counterpart* (a key of the dialect that
//! this engine has no use for: accepted with a note that names what replaces it). A key ending in `.*` stands for all
//! keys below it; the most exact entry wins.

mod in_effect;
mod no_counterpart;
mod not_yet;

use crate::setting::Field;
use crate::syntax::Kind;

/// One option.
#[derive(Debug, Clone, Copy)]
pub struct OptionSpec {
    pub key: &'static str,
    /// Older names of the same option.
    pub aliases: &'static [&'static str],
    pub kind: Kind,
    pub default: DefaultValue,
    pub description: &'static str,
    pub status: Status,
    pub scope: Scope,
    /// Values that are accepted but mean something else here: (canonical spelling, note).
    pub value_notes: &'static [(&'static str, &'static str)],
    /// Present exactly for options in effect.
    pub(crate) field: Option<Field>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefaultValue {
    /// In the syntax of the file.
    Text(&'static str),
    /// Unset, and what holds then (may be empty).
    Unset(&'static str),
}

impl DefaultValue {
    pub fn text(self) -> Option<&'static str> {
        match self {
            DefaultValue::Text(text) => Some(text),
            DefaultValue::Unset(_) => None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    InEffect,
    NotYet,
    NoCounterpart { replaced_by: &'static str },
}

/// Where an option may be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// In the file or with `-D`.
    Cluster,
    /// Also with SQL `SET`.
    Session,
}

impl OptionSpec {
    const fn new(key: &'static str, kind: Kind, default: DefaultValue, description: &'static str) -> Self {
        OptionSpec {
            key,
            aliases: &[],
            kind,
            default,
            description,
            status: Status::NotYet,
            scope: Scope::Cluster,
            value_notes: &[],
            field: None,
        }
    }

    const fn field(mut self, field: Field) -> Self {
        self.status = Status::InEffect;
        self.field = Some(field);
        self
    }

    const fn session(mut self) -> Self {
        self.scope = Scope::Session;
        self
    }

    const fn alias(mut self, aliases: &'static [&'static str]) -> Self {
        self.aliases = aliases;
        self
    }

    const fn value_notes(mut self, notes: &'static [(&'static str, &'static str)]) -> Self {
        self.value_notes = notes;
        self
    }

    /// The prefix that a `.*` entry stands for, with its dot.
    fn prefix(&self) -> Option<&'static str> {
        self.key.strip_suffix('*')
    }

    /// True if the value must not be printed.
    pub(crate) fn is_secret(&self, key: &str) -> bool {
        self.kind == Kind::Secret || (is_sensitive(key) && self.kind != Kind::Path)
    }

    /// An example value: the default where there is one.
    pub fn example(&self) -> String {
        match self.default.text() {
            Some(text) if !text.is_empty() => text.to_string(),
            _ => self.kind.example(),
        }
    }
}

/// Names whose values are starred out even where the option is not ours.
fn is_sensitive(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    ["password", "secret", "token", "credential", "apikey", "api-key", "access-key"]
        .iter()
        .any(|word| key.contains(word))
}

/// Every entry, `.*` entries included.
pub fn options() -> impl Iterator<Item = &'static OptionSpec> {
    in_effect::OPTIONS.iter().chain(not_yet::OPTIONS).chain(no_counterpart::OPTIONS)
}

pub fn in_effect() -> impl Iterator<Item = &'static OptionSpec> {
    in_effect::OPTIONS.iter()
}

/// The keys in effect that SQL `SET` may change, in the order of the registry.
pub fn session_keys() -> Vec<&'static str> {
    in_effect().filter(|option| option.scope == Scope::Session).map(|option| option.key).collect()
}

/// The option of a key or of an older name of it; else the longest `.*` entry above it.
pub fn lookup(key: &str) -> Option<&'static OptionSpec> {
    options().find(|option| option.prefix().is_none() && (option.key == key || option.aliases.contains(&key))).or_else(
        || {
            let covers = |option: &&OptionSpec| {
                option.prefix().is_some_and(|prefix| key.len() > prefix.len() && key.starts_with(prefix))
            };
            options().filter(covers).max_by_key(|option| option.key.len())
        },
    )
}

/// A key below `section`, if it is a section of known keys.
pub(crate) fn example_of_section(section: &str) -> Option<&'static str> {
    let is_below = |key: &str| key.strip_prefix(section).is_some_and(|rest| rest.starts_with('.'));
    options().map(|option| option.key).find(|key| is_below(key))
}

/// The known key most like `key`: by edit distance, or else one that ends in the same words.
pub(crate) fn nearest(key: &str) -> Option<&'static str> {
    let wanted = key.to_ascii_lowercase();
    let names = || {
        options()
            .filter(|option| option.prefix().is_none())
            .flat_map(|o| std::iter::once(o.key).chain(o.aliases.iter().copied()))
    };
    let ending = format!(".{wanted}");
    if let Some(name) = names().find(|name| name.to_ascii_lowercase().ends_with(&ending)) {
        return Some(name);
    }
    let (distance, name) =
        names().map(|name| (edit_distance(&wanted, &name.to_ascii_lowercase()), name)).min_by_key(|(d, _)| *d)?;
    (distance <= wanted.chars().count().div_ceil(2)).then_some(name)
}

/// Insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`.
fn edit_distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replaced = above[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replaced.min(above[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut above, row);
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::syntax::Raw;

    #[test]
    fn no_key_is_listed_twice() {
        let mut seen = BTreeSet::new();
        for name in options().flat_map(|o| std::iter::once(o.key).chain(o.aliases.iter().copied())) {
            assert!(seen.insert(name), "{name} is listed twice");
        }
    }

    #[test]
    fn every_default_and_example_reads() {
        for option in options() {
            if let Some(text) = option.default.text() {
                assert!(option.kind.parse(&Raw::Scalar(text.into())).is_some(), "default of {}", option.key);
            }
            if option.kind != Kind::Secret {
                assert!(option.kind.parse(&Raw::Scalar(option.example())).is_some(), "example of {}", option.key);
            }
            assert!(!option.description.is_empty(), "{} has no description", option.key);
            assert_eq!(option.field.is_some(), option.status == Status::InEffect, "{}", option.key);
            for (value, _) in option.value_notes {
                assert!(option.kind.parse(&Raw::Scalar((*value).into())).is_some(), "{value} of {}", option.key);
            }
        }
    }

    #[test]
    fn the_most_exact_entry_wins() {
        assert_eq!(lookup("metrics.reporter.prom.port").map(|o| o.key), Some("metrics.reporter.prom.port"));
        assert_eq!(lookup("metrics.reporter.other.port").map(|o| o.key), Some("metrics.reporter.*"));
        assert_eq!(lookup("env.java.opts.all").map(|o| o.key), Some("env.*"));
        assert_eq!(lookup("state.checkpoints.dir").map(|o| o.key), Some("execution.checkpointing.dir"));
        assert!(lookup("env.").is_none() && lookup("env").is_none() && lookup("env.*").is_some());
    }

    #[test]
    fn the_nearest_key_is_found() {
        for (typed, meant) in [
            ("rest.prot", "rest.port"),
            ("taskmanager.numberoftaskslots", "taskmanager.numberOfTaskSlots"),
            ("numberOfTaskSlots", "taskmanager.numberOfTaskSlots"),
            ("heartbeat.intervall", "heartbeat.interval"),
            (
                "execution.batch.adaptive.auto-parallelism.max-paralelism",
                "execution.batch.adaptive.auto-parallelism.max-parallelism",
            ),
        ] {
            assert_eq!(nearest(typed), Some(meant), "{typed}");
        }
        assert_eq!(nearest("zzzzzzzzzzzz"), None);
        assert_eq!(edit_distance("rest.prot", "rest.port"), 1);
        assert_eq!(edit_distance("", "abc"), 3);
        assert_eq!(edit_distance("kitten", "sitting"), 3);
    }
}
