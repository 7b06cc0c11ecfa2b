//! What can be wrong with a configuration. All problems of all layers are collected and reported together.

use std::fmt;
use std::path::PathBuf;

use crate::memory::MemoryError;
use crate::origin::Origin;

/// One or more problems; never empty.
#[derive(Debug)]
pub struct ConfigErrors {
    pub problems: Vec<Problem>,
}

/// One problem: where, which key, what.
#[derive(Debug)]
pub struct Problem {
    pub origin: Origin,
    /// The key as the user wrote it; `None` when the file as a whole is the problem.
    pub key: Option<String>,
    pub kind: ProblemKind,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProblemKind {
    #[error("cannot read the configuration file: {0}")]
    Read(#[source] std::io::Error),
    #[error("the configuration file is longer than {limit} bytes")]
    FileTooLong { limit: u64 },
    #[error("not valid YAML: {0}")]
    Syntax(#[source] serde_yaml::Error),
    #[error("a configuration is a mapping of keys to values, such as `rest.port: 8081`")]
    NotAMapping,
    #[error("unknown key{}", nearest.map(|n| format!("; did you mean `{n}`?")).unwrap_or_default())]
    UnknownKey { nearest: Option<&'static str> },
    #[error("this is a section, it takes keys and no value of its own, for example `{example}`")]
    Section { example: &'static str },
    #[error("set twice{}; remove one of the two", first.map(|line| format!(", first on line {line}")).unwrap_or_default())]
    Duplicate { first: Option<u32> },
    /// `value` is already starred out for secrets.
    #[error("bad value '{value}': {allowed}, for example `{example}`")]
    BadValue { value: String, allowed: String, example: String },
    #[error("{reason}; {fix}")]
    Contradiction { reason: String, fix: String },
    #[error("{0}")]
    Memory(#[source] MemoryError),
    #[error("cannot be set in a session: set it in the config file or with -D at the start of the daemon")]
    NotSessionScoped,
    #[error("cannot read the token file {path}: {source}", path = path.display())]
    TokenFile { path: PathBuf, source: std::io::Error },
    #[error(
        "binding '{address}' opens this daemon to other hosts without a token; set security.token-file, security.token \
         or the environment variable {variable}, or bind 127.0.0.1, or accept it with `security.insecure: true`",
        variable = crate::load::TOKEN_VARIABLE
    )]
    Exposed { address: String },
    #[error("more than {limit} problems, the rest is not listed")]
    TooMany { limit: usize },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.origin != Origin::Default {
            write!(f, "{}: ", self.origin)?;
        }
        if let Some(key) = &self.key {
            write!(f, "{key}: ")?;
        }
        write!(f, "{}", self.kind)
    }
}

impl std::error::Error for Problem {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&self.kind)
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.problems.as_slice() {
            [one] => write!(f, "{one}"),
            all => {
                write!(f, "{} problems in the configuration:", all.len())?;
                all.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
            }
        }
    }
}

impl std::error::Error for ConfigErrors {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.problems.first().and_then(|problem| std::error::Error::source(problem))
    }
}
