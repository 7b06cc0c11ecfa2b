//! Which files a path means, and whether a file is still the one that was planned.
//!
//! A path is a file, a directory (the files directly in it) or a pattern with `*`, `?` and `[..]` in any component. Names that
//! start with `.` or `_` are skipped unless they are written out.

use std::fs::{self, File, Metadata};
use std::path::{Component, Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use crate::access::AccessRules;
use crate::error::{DataProblem, Error, PathProblem};

/// No query needs more, and listing them must end.
const MAX_FILES: usize = 100_000;

/// A file as it was when the scan was planned.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct FileStamp {
    /// Canonical.
    pub(crate) path: PathBuf,
    /// Length in bytes.
    pub(crate) size: u64,
    /// Nanoseconds since 1970, 0 where the file system does not know.
    pub(crate) modified_ns: i64,
}

impl FileStamp {
    fn new(path: PathBuf, metadata: &Metadata) -> Self {
        let modified = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let modified_ns = modified.and_then(|time| i64::try_from(time.as_nanos()).ok()).unwrap_or(0);
        FileStamp { path, size: metadata.len(), modified_ns }
    }

    /// Opens the file after checking again that it may be read and is the one that was planned.
    pub(crate) fn open(&self, rules: &AccessRules) -> Result<File, Error> {
        let path = rules.resolve(&self.path)?;
        let file = File::open(&path).map_err(|error| Error::io(&path, error))?;
        let metadata = file.metadata().map_err(|error| Error::io(&path, error))?;
        if !metadata.is_file() {
            return Err(Error::path(&path, PathProblem::NotAFile));
        }
        let now = FileStamp::new(path, &metadata);
        match now == *self {
            true => Ok(file),
            false => Err(Error::data(&self.path, DataProblem::Changed { planned: self.size, now: now.size })),
        }
    }
}

/// The files that `path` means, sorted; at least one.
pub(crate) fn find(path: &Path, rules: &AccessRules) -> Result<Vec<FileStamp>, Error> {
    let mut found = match split_pattern(path) {
        None => find_plain(path, rules)?,
        Some((base, pattern)) => find_matches(&base, &pattern, rules)?,
    };
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found.dedup();
    match found.is_empty() {
        true => Err(Error::path(path, PathProblem::NoFiles)),
        false => Ok(found),
    }
}

fn find_plain(path: &Path, rules: &AccessRules) -> Result<Vec<FileStamp>, Error> {
    let canonical = rules.resolve(path)?;
    let metadata = fs::metadata(&canonical).map_err(|error| Error::io(&canonical, error))?;
    if metadata.is_file() {
        return Ok(vec![FileStamp::new(canonical, &metadata)]);
    }
    if !metadata.is_dir() {
        return Err(Error::path(path, PathProblem::NotAFile));
    }
    let names = visible_names(&canonical)?;
    let mut found = Vec::with_capacity(names.len());
    for name in names {
        found.extend(regular_file(&canonical.join(name), rules)?);
    }
    Ok(found)
}

/// The file at `path`; `None` for a directory or another thing that is not a file.
fn regular_file(path: &Path, rules: &AccessRules) -> Result<Option<FileStamp>, Error> {
    let canonical = rules.resolve(path)?;
    let metadata = fs::metadata(&canonical).map_err(|error| Error::io(&canonical, error))?;
    Ok(metadata.is_file().then(|| FileStamp::new(canonical, &metadata)))
}

fn visible_names(directory: &Path) -> Result<Vec<String>, Error> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory).map_err(|error| Error::io(directory, error))? {
        let entry = entry.map_err(|error| Error::io(directory, error))?;
        // a name that is not text cannot be named in SQL either
        if let Ok(name) = entry.file_name().into_string()
            && !name.starts_with(['.', '_'])
        {
            names.push(name);
        }
        if names.len() > MAX_FILES {
            return Err(Error::path(directory, PathProblem::TooManyFiles { limit: MAX_FILES }));
        }
    }
    names.sort();
    Ok(names)
}

/// The part of `path` before its first component with a wildcard, and the components from there.
///
/// A path that exists as it is written is never a pattern.
fn split_pattern(path: &Path) -> Option<(PathBuf, Vec<String>)> {
    if path.symlink_metadata().is_ok() {
        return None;
    }
    let is_pattern = |component: &Component<'_>| match component {
        Component::Normal(name) => name.to_string_lossy().contains(['*', '?', '[']),
        _ => false,
    };
    let components: Vec<Component<'_>> = path.components().collect();
    let start = components.iter().position(is_pattern)?;
    let mut base: PathBuf = components[..start].iter().collect();
    if base.as_os_str().is_empty() {
        base.push(".");
    }
    let pattern = components[start..].iter().map(|component| component.as_os_str().to_string_lossy().into_owned());
    Some((base, pattern.collect()))
}

fn find_matches(base: &Path, pattern: &[String], rules: &AccessRules) -> Result<Vec<FileStamp>, Error> {
    let bad = |detail: String| Error::path(&base.join(pattern.join("/")), PathProblem::BadPattern { detail });
    if pattern.iter().any(|component| component == "..") {
        return Err(bad("'..' may not follow a wildcard".to_owned()));
    }
    let mut directories = vec![rules.resolve(base)?];
    let (last, parents) = pattern.split_last().expect("a pattern has a component");
    for component in parents {
        let component = Pattern::parse(component).map_err(bad)?;
        let mut next = Vec::new();
        for directory in &directories {
            for name in component.matches_in(directory)? {
                let path = rules.resolve(&directory.join(name))?;
                if path.is_dir() {
                    next.push(path);
                }
            }
        }
        directories = next;
    }
    let last = Pattern::parse(last).map_err(bad)?;
    let mut found = Vec::new();
    for directory in &directories {
        for name in last.matches_in(directory)? {
            found.extend(regular_file(&directory.join(name), rules)?);
        }
        if found.len() > MAX_FILES {
            return Err(Error::path(base, PathProblem::TooManyFiles { limit: MAX_FILES }));
        }
    }
    Ok(found)
}

/// One component of a path with wildcards.
#[derive(Debug)]
struct Pattern {
    text: String,
    parts: Vec<Part>,
}

#[derive(Debug)]
enum Part {
    Literal(char),
    AnyOne,
    AnyRun,
    Class { negated: bool, ranges: Vec<(char, char)> },
}

impl Pattern {
    fn parse(text: &str) -> Result<Self, String> {
        let chars: Vec<char> = text.chars().collect();
        let mut parts = Vec::new();
        let mut at = 0;
        while at < chars.len() {
            match chars[at] {
                '*' => parts.push(Part::AnyRun),
                '?' => parts.push(Part::AnyOne),
                '[' => {
                    let (class, length) =
                        parse_class(&chars[at + 1..]).ok_or_else(|| format!("'[' in '{text}' is not closed"))?;
                    parts.push(class);
                    at += length;
                }
                other => parts.push(Part::Literal(other)),
            }
            at += 1;
        }
        Ok(Pattern { text: text.to_owned(), parts })
    }

    fn is_literal(&self) -> bool {
        self.parts.iter().all(|part| matches!(part, Part::Literal(_)))
    }

    fn matches_in(&self, directory: &Path) -> Result<Vec<String>, Error> {
        if self.is_literal() {
            return Ok(if directory.join(&self.text).exists() { vec![self.text.clone()] } else { vec![] });
        }
        let names = visible_names(directory)?;
        Ok(names.into_iter().filter(|name| self.matches(name)).collect())
    }

    /// Greedy with one point to come back to: linear in the name for each `*`.
    fn matches(&self, name: &str) -> bool {
        let name: Vec<char> = name.chars().collect();
        let (mut part, mut at) = (0, 0);
        let mut retry: Option<(usize, usize)> = None;
        loop {
            match self.parts.get(part) {
                Some(Part::AnyRun) => {
                    retry = Some((part, at));
                    part += 1;
                    continue;
                }
                Some(single) if at < name.len() && single.matches_char(name[at]) => {
                    part += 1;
                    at += 1;
                    continue;
                }
                None if at == name.len() => return true,
                _ => {}
            }
            match retry {
                Some((run, from)) if from < name.len() => {
                    retry = Some((run, from + 1));
                    part = run + 1;
                    at = from + 1;
                }
                _ => return false,
            }
        }
    }
}

/// The class after a `[`, and how many characters it takes with its `]`.
fn parse_class(chars: &[char]) -> Option<(Part, usize)> {
    let negated = matches!(chars.first(), Some('!' | '^'));
    let start = usize::from(negated);
    // a ']' in the first place stands for itself
    let end = start + 1 + chars.get(start + 1..)?.iter().position(|c| *c == ']')?;
    let inner = &chars[start..end];
    let mut ranges = Vec::new();
    let mut at = 0;
    while at < inner.len() {
        match inner.get(at + 1..at + 3) {
            Some(['-', high]) => {
                ranges.push((inner[at], *high));
                at += 3;
            }
            _ => {
                ranges.push((inner[at], inner[at]));
                at += 1;
            }
        }
    }
    Some((Part::Class { negated, ranges }, end + 1))
}

impl Part {
    fn matches_char(&self, c: char) -> bool {
        match self {
            Part::Literal(literal) => *literal == c,
            Part::AnyOne => true,
            Part::AnyRun => false,
            Part::Class { negated, ranges } => ranges.iter().any(|(low, high)| (*low..=*high).contains(&c)) != *negated,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, yes, no) in [
            ("*.parquet", vec!["a.parquet", ".parquet"], vec!["a.parquet.crc", "parquet"]),
            ("part-?.csv", vec!["part-1.csv", "part-ä.csv"], vec!["part-.csv", "part-10.csv"]),
            ("part-[0-3x].csv", vec!["part-0.csv", "part-3.csv", "part-x.csv"], vec!["part-4.csv", "part--.csv"]),
            ("[!a]*", vec!["b", "ba"], vec!["a", "ab", ""]),
            ("[]]", vec!["]"], vec!["[", ""]),
            ("a*b*c", vec!["abc", "aXbbYc", "abcbc"], vec!["ab", "acb", "abcd"]),
        ] {
            let parsed = Pattern::parse(pattern).unwrap();
            for name in yes {
                assert!(parsed.matches(name), "{pattern} {name}");
            }
            for name in no {
                assert!(!parsed.matches(name), "{pattern} {name}");
            }
        }
        assert!(Pattern::parse("[ab").is_err() && Pattern::parse("x[").is_err() && Pattern::parse("[]").is_err());
        let hostile = Pattern::parse(&"*a".repeat(30)).unwrap();
        assert!(!hostile.matches(&"a".repeat(5000).replace("aaaaa", "aaaab")));
    }
}
