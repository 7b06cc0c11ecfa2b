//! The layers: defaults < file < `-D` < environment token < SQL `SET`. Everything wrong with any of them is collected.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::check::contradictions;
use crate::config::Config;
use crate::error::{ConfigErrors, Problem, ProblemKind};
use crate::origin::{Note, Origin};
use crate::registry::{self, OptionSpec, Scope, Status};
use crate::secret::STARS;
use crate::syntax::{Kind, Raw, Value};
use crate::yaml::{self, Content, Entry};

/// The environment variable of the token; set but empty counts as unset.
pub const TOKEN_VARIABLE: &str = "THALWEG_SECURITY_TOKEN";

const TOKEN: &str = "security.token";
const TOKEN_FILE: &str = "security.token-file";
const LONGEST_FILE: u64 = 1 << 20;
const LONGEST_TOKEN_FILE: u64 = 1 << 16;
const MOST_PROBLEMS: usize = 100;
/// Longer values are cut in error messages.
const LONGEST_SHOWN: usize = 120;

/// A configuration and what its writer should know.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    pub config: Config,
    pub notes: Vec<Note>,
}

impl Loaded {
    /// Logs the notes as warnings and gives the configuration.
    pub fn into_config(self) -> Config {
        for note in &self.notes {
            tracing::warn!(key = %note.key, origin = %note.origin, "{}", note.text);
        }
        self.config
    }
}

impl Config {
    /// Reads the layers up to the environment. `overrides` are `-D key=value` in order: of one key the last counts.
    pub fn load(file: Option<&Path>, overrides: &[(String, String)]) -> Result<Loaded, ConfigErrors> {
        load_layers(file, overrides, std::env::var_os(TOKEN_VARIABLE))
    }

    /// For `SET 'key' = 'value'`: `self` with session settings on top. Keys that belong to the cluster are refused.
    pub fn with_session(&self, settings: &BTreeMap<String, String>) -> Result<Loaded, ConfigErrors> {
        let mut layers = Layers::over(self.clone());
        for (key, value) in settings {
            layers.set(key.trim(), &Raw::Scalar(value.clone()), Origin::Session);
        }
        layers.finish()
    }
}

/// As [`Config::load`], with the environment as an argument.
pub(crate) fn load_layers(
    file: Option<&Path>,
    overrides: &[(String, String)],
    token: Option<OsString>,
) -> Result<Loaded, ConfigErrors> {
    let mut layers = Layers::over(Config::default());
    if let Some(path) = file {
        layers.file(path);
    }
    for (key, value) in overrides {
        layers.set(key.trim(), &Raw::Scalar(value.clone()), Origin::CommandLine);
    }
    layers.token(token.filter(|token| !token.is_empty()));
    layers.finish()
}

struct Layers {
    config: Config,
    notes: Vec<Note>,
    problems: Vec<Problem>,
    /// Which layer set an option last.
    origins: BTreeMap<&'static str, Origin>,
    /// Options with a bad value in any layer.
    bad: BTreeSet<&'static str>,
}

impl Layers {
    fn over(config: Config) -> Self {
        Layers { config, notes: Vec::new(), problems: Vec::new(), origins: BTreeMap::new(), bad: BTreeSet::new() }
    }

    fn finish(mut self) -> Result<Loaded, ConfigErrors> {
        for problem in contradictions(&self.config, &self.origins, &self.bad) {
            self.problem(problem.origin, problem.key, problem.kind);
        }
        if self.problems.is_empty() {
            return Ok(Loaded { config: self.config, notes: self.notes });
        }
        Err(ConfigErrors { problems: self.problems })
    }

    fn is_full(&self) -> bool {
        self.problems.len() > MOST_PROBLEMS
    }

    fn problem(&mut self, origin: Origin, key: Option<String>, kind: ProblemKind) {
        match self.problems.len().cmp(&MOST_PROBLEMS) {
            std::cmp::Ordering::Less => self.problems.push(Problem { origin, key, kind }),
            std::cmp::Ordering::Equal => {
                let kind = ProblemKind::TooMany { limit: MOST_PROBLEMS };
                self.problems.push(Problem { origin: Origin::Default, key: None, kind });
            }
            std::cmp::Ordering::Greater => {}
        }
    }

    fn note(&mut self, key: &str, text: impl Into<String>, origin: Origin) {
        self.notes.push(Note { key: key.to_string(), text: text.into(), origin });
    }

    /// The layer of the file.
    fn file(&mut self, path: &Path) {
        let origin = |line| Origin::File { path: path.to_path_buf(), line };
        let text = match read_text(path, LONGEST_FILE) {
            Ok(text) => text,
            Err(kind) => return self.problem(origin(None), None, kind),
        };
        let file = match yaml::parse(&text) {
            Ok(file) => file,
            Err(yaml::Error::NotAMapping) => return self.problem(origin(Some(1)), None, ProblemKind::NotAMapping),
            Err(yaml::Error::Syntax(error)) => {
                let line = error.location().and_then(|place| u32::try_from(place.line()).ok());
                return self.problem(origin(line), None, ProblemKind::Syntax(error));
            }
        };
        for (key, line, first) in file.repeated_sections {
            self.problem(origin(line), Some(key), ProblemKind::Duplicate { first });
        }
        // By the option's own name, so that an older name of it is a duplicate too.
        let mut first_lines: BTreeMap<String, Option<u32>> = BTreeMap::new();
        for Entry { key, content, line } in file.entries {
            if self.is_full() {
                break;
            }
            let exact = registry::lookup(&key).filter(|option| !option.key.ends_with('*'));
            let name = exact.map_or_else(|| key.clone(), |option| option.key.to_string());
            if let Some(first) = first_lines.insert(name, line) {
                self.problem(origin(line), Some(key), ProblemKind::Duplicate { first });
                continue;
            }
            match content {
                Content::Value(raw) => self.set(&key, &raw, origin(line)),
                Content::Nothing => self.known(&key, &origin(line)),
                Content::ListOfSections => self.list_of_sections(&key, origin(line)),
            }
        }
    }

    /// `key:` without a value leaves the default, but the key must exist; a section may be empty.
    fn known(&mut self, key: &str, origin: &Origin) {
        if registry::lookup(key).is_none() && registry::example_of_section(key).is_none() {
            self.unknown(key, origin.clone());
        }
    }

    fn list_of_sections(&mut self, key: &str, origin: Origin) {
        match registry::lookup(key) {
            Some(option) if option.kind == Kind::Any => self.set(key, &Raw::List(Vec::new()), origin),
            Some(option) => self.bad_value(option, key, "[...]".to_string(), origin),
            None => self.unknown(key, origin),
        }
    }

    fn unknown(&mut self, key: &str, origin: Origin) {
        let kind = match registry::example_of_section(key) {
            Some(example) => ProblemKind::Section { example },
            None if self.is_full() => return,
            None => ProblemKind::UnknownKey { nearest: registry::nearest(shortened(key, yaml::LONGEST_KEY)) },
        };
        self.problem(origin, Some(shortened(key, yaml::LONGEST_KEY).to_string()), kind);
    }

    fn bad_value(&mut self, option: &'static OptionSpec, key: &str, value: String, origin: Origin) {
        let value =
            if option.is_secret(key) { STARS.to_string() } else { shortened(&value, LONGEST_SHOWN).to_string() };
        self.bad.insert(option.key);
        let kind = ProblemKind::BadValue { value, allowed: option.kind.allowed(), example: option.example() };
        self.problem(origin, Some(key.to_string()), kind);
    }

    /// One setting of any layer.
    fn set(&mut self, key: &str, raw: &Raw, origin: Origin) {
        let Some(option) = registry::lookup(key) else { return self.unknown(key, origin) };
        if origin == Origin::Session && option.scope == Scope::Cluster {
            return self.problem(origin, Some(key.to_string()), ProblemKind::NotSessionScoped);
        }
        let Some(value) = option.kind.parse(raw) else {
            return self.bad_value(option, key, raw.to_string(), origin);
        };
        match option.status {
            Status::NotYet => self.note(key, "not in effect yet", origin),
            Status::NoCounterpart { replaced_by } => {
                self.note(key, format!("has no effect; in its place there is {replaced_by}"), origin);
            }
            Status::InEffect => self.put(option, value, origin),
        }
    }

    fn put(&mut self, option: &'static OptionSpec, value: Value, origin: Origin) {
        if let Value::Text(text) = &value
            && let Some((_, note)) = option.value_notes.iter().find(|(spelling, _)| spelling == text)
        {
            self.note(option.key, *note, origin.clone());
        }
        if let Some(field) = option.field.as_ref() {
            (field.set)(&mut self.config, value);
            self.origins.insert(option.key, origin);
        }
    }

    /// The token: from the environment, else from whichever of `security.token` and `security.token-file` a later layer
    /// set.
    fn token(&mut self, environment: Option<OsString>) {
        if self.origins.get(TOKEN) == Some(&Origin::CommandLine) {
            let text = format!("shows in the list of processes; {TOKEN_VARIABLE} or {TOKEN_FILE} does not");
            self.note(TOKEN, text, Origin::CommandLine);
        }
        if let Some(token) = environment {
            // Text that is not UTF-8 becomes U+FFFD, which the check of the value refuses.
            let raw = Raw::Scalar(token.to_string_lossy().into_owned());
            match registry::lookup(TOKEN).and_then(|option| Some((option, option.kind.parse(&raw)?))) {
                Some((option, value)) => self.put(option, value, Origin::Environment),
                None => self.bad_token(TOKEN_VARIABLE, Origin::Environment),
            }
            return;
        }
        let Some(path) = self.config.security.token_file.clone() else { return };
        let rank = |key| self.origins.get(key).map_or(0, Origin::rank);
        let origin = self.origins.get(TOKEN_FILE).cloned().unwrap_or(Origin::Default);
        match rank(TOKEN).cmp(&rank(TOKEN_FILE)) {
            std::cmp::Ordering::Greater => {}
            std::cmp::Ordering::Equal => {
                let reason = format!("{TOKEN} and {TOKEN_FILE} are both set");
                let kind = ProblemKind::Contradiction { reason, fix: "remove one of the two".to_string() };
                self.problem(origin, Some(TOKEN_FILE.to_string()), kind);
            }
            std::cmp::Ordering::Less => self.token_file(path, origin),
        }
    }

    fn token_file(&mut self, path: PathBuf, origin: Origin) {
        let text = match read_text(&path, LONGEST_TOKEN_FILE) {
            Ok(text) => text,
            Err(ProblemKind::Read(source)) => {
                let kind = ProblemKind::TokenFile { path, source };
                return self.problem(origin, Some(TOKEN_FILE.to_string()), kind);
            }
            Err(_) => return self.bad_token(TOKEN_FILE, origin),
        };
        match Kind::Secret.parse(&Raw::Scalar(text)) {
            Some(Value::Secret(secret)) => self.config.security.token = Some(secret),
            _ => self.bad_token(TOKEN_FILE, origin),
        }
    }

    /// A token that is not one, named by where it came from.
    fn bad_token(&mut self, key: &str, origin: Origin) {
        let kind = ProblemKind::BadValue {
            value: STARS.to_string(),
            allowed: Kind::Secret.allowed(),
            example: Kind::Secret.example(),
        };
        self.problem(origin, Some(key.to_string()), kind);
    }
}

/// The text of a file of at most `limit` bytes.
fn read_text(path: &Path, limit: u64) -> Result<String, ProblemKind> {
    let file = std::fs::File::open(path).map_err(ProblemKind::Read)?;
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes).map_err(ProblemKind::Read)?;
    if bytes.len() as u64 > limit {
        return Err(ProblemKind::FileTooLong { limit });
    }
    String::from_utf8(bytes)
        .map_err(|error| ProblemKind::Read(std::io::Error::new(std::io::ErrorKind::InvalidData, error)))
}

/// At most `limit` bytes of a text, whole characters.
fn shortened(text: &str, limit: usize) -> &str {
    if text.len() <= limit {
        return text;
    }
    let end = (0..=limit).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    &text[..end]
}
