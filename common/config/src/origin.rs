//! Where a value came from, and what its writer should know about it.

use std::fmt;
use std::path::PathBuf;

/// The layer that gave a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    Default,
    /// `line` counts from 1; `None` where the key's line could not be told (a key brought in by a YAML alias, or the
    /// file as a whole).
    File {
        path: PathBuf,
        line: Option<u32>,
    },
    /// `-D key=value`.
    CommandLine,
    /// The environment variable of the token.
    Environment,
    /// SQL `SET`.
    Session,
}

impl Origin {
    /// Later layers win; equal ranks are one layer.
    pub(crate) fn rank(&self) -> u8 {
        match self {
            Origin::Default => 0,
            Origin::File { .. } => 1,
            Origin::CommandLine => 2,
            Origin::Environment => 3,
            Origin::Session => 4,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File { path, line: Some(line) } => write!(f, "{}:{line}", path.display()),
            Origin::File { path, line: None } => write!(f, "{}", path.display()),
            Origin::CommandLine => f.write_str("command line"),
            Origin::Environment => f.write_str("environment"),
            Origin::Session => f.write_str("SET"),
        }
    }
}

/// A setting that was accepted although it does not do what its writer may expect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    pub key: String,
    pub text: String,
    pub origin: Origin,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.origin, self.key, self.text)
    }
}
