//! Reading `WITH (…)` options: unknown ones are refused by name, bad values name what is allowed.

use crate::error::{Error, OptionProblem};
use crate::table::TableDefinition;

/// The option every table has.
pub(crate) const CONNECTOR: &str = "connector";

/// The options of one table, checked against what its connector knows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Options<'a> {
    def: &'a TableDefinition,
}

impl<'a> Options<'a> {
    /// The options as they are, for a connector whose known options depend on one of them.
    pub(crate) fn unchecked(def: &'a TableDefinition) -> Self {
        Options { def }
    }

    /// Refuses options outside `known` (which need not list `connector`).
    pub(crate) fn new(def: &'a TableDefinition, known: &[&str]) -> Result<Self, Error> {
        Options::unchecked(def).only(known)
    }

    /// Refuses options outside `known` (which need not list `connector`).
    pub(crate) fn only(self, known: &[&str]) -> Result<Self, Error> {
        let def = self.def;
        let unknown = def.options.keys().find(|key| *key != CONNECTOR && !known.contains(&key.as_str()));
        if let Some(option) = unknown {
            let problem = OptionProblem::Unknown {
                nearest: nearest(option, known).map(str::to_owned),
                known: known.iter().map(|name| format!("'{name}'")).collect(),
            };
            return Err(Error::Option { table: def.name.clone(), option: option.clone(), problem });
        }
        Ok(self)
    }

    pub(crate) fn table(&self) -> &'a str {
        &self.def.name
    }

    pub(crate) fn get(&self, option: &str) -> Option<&'a str> {
        self.def.options.get(option).map(String::as_str)
    }

    pub(crate) fn required(&self, option: &str, expected: &str) -> Result<&'a str, Error> {
        self.get(option).ok_or_else(|| Error::Option {
            table: self.def.name.clone(),
            option: option.to_owned(),
            problem: OptionProblem::Missing { expected: expected.to_owned() },
        })
    }

    pub(crate) fn boolean(&self, option: &str, default: bool) -> Result<bool, Error> {
        match self.get(option) {
            None => Ok(default),
            Some(value) if value.eq_ignore_ascii_case("true") => Ok(true),
            Some(value) if value.eq_ignore_ascii_case("false") => Ok(false),
            Some(value) => Err(self.invalid(option, value, "true, false")),
        }
    }

    /// A single ASCII character; `\t` may be written as the two characters it has in SQL text.
    pub(crate) fn byte(&self, option: &str) -> Result<Option<u8>, Error> {
        match self.get(option) {
            None => Ok(None),
            Some("\\t") => Ok(Some(b'\t')),
            Some(value) => match value.as_bytes() {
                [byte] if byte.is_ascii() && !matches!(byte, b'\n' | b'\r') => Ok(Some(*byte)),
                _ => Err(self.invalid(option, value, "one ASCII character, no line break")),
            },
        }
    }

    pub(crate) fn invalid(&self, option: &str, value: &str, allowed: impl Into<String>) -> Error {
        Error::Option {
            table: self.def.name.clone(),
            option: option.to_owned(),
            problem: OptionProblem::Invalid { value: shorten(value), allowed: allowed.into() },
        }
    }
}

/// Values end up in messages and logs: at most 100 characters of them.
pub(crate) fn shorten(value: &str) -> String {
    match value.char_indices().nth(100) {
        None => value.to_owned(),
        Some((end, _)) => format!("{}…", &value[..end]),
    }
}

/// The known name a typing error away, if any.
pub(crate) fn nearest<'k>(name: &str, known: &[&'k str]) -> Option<&'k str> {
    let tolerated = 1 + name.chars().count() / 4;
    let name = name.to_ascii_lowercase();
    let distances = known.iter().map(|candidate| (edit_distance(&name, candidate), *candidate));
    distances.filter(|(distance, _)| *distance <= tolerated).min().map(|(_, candidate)| candidate)
}

fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, right) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(left != *right);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_error_is_recognised() {
        assert_eq!(nearest("pth", &["path", "format"]), Some("path"));
        assert_eq!(nearest("Format", &["path", "format"]), Some("format"));
        assert_eq!(nearest("scale_factor", &["scale-factor", "table"]), Some("scale-factor"));
        assert_eq!(nearest("bootstrap.servers", &["path", "format"]), None);
        assert_eq!(edit_distance("kitten", "sitting"), 3);
        assert_eq!(edit_distance("", "abc"), 3);
    }

    #[test]
    fn long_values_are_cut_at_a_character() {
        assert_eq!(shorten("abc"), "abc");
        assert_eq!(shorten(&"ä".repeat(200)), format!("{}…", "ä".repeat(100)));
    }
}
