//! SET and RESET: what a session changed, and what holds because of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use thalweg_config::{Config, ConfigErrors};
use thalweg_rpc::Problem;

const MAX_SETTINGS: usize = 500;
/// What tasks are told also when the session did not set it.
const TASK_SETTINGS: [&str; 3] = [
    "table.exec.local-hash-agg.adaptive.enabled",
    "table.exec.local-hash-agg.adaptive.sampling-threshold",
    "table.exec.local-hash-agg.adaptive.distinct-value-rate-threshold",
];

/// The cluster's configuration with a session's changes on top; always valid as a whole.
#[derive(Debug, Clone)]
pub struct Settings {
    base: Arc<Config>,
    set: BTreeMap<String, String>,
    effective: Config,
}

impl Settings {
    pub fn new(base: Arc<Config>) -> Self {
        let effective = (*base).clone();
        Self { base, set: BTreeMap::new(), effective }
    }

    /// What the session changed.
    pub fn changed(&self) -> &BTreeMap<String, String> {
        &self.set
    }

    pub fn effective(&self) -> &Config {
        &self.effective
    }

    /// Resets, then sets; all of it or, with an error, nothing. Gives remarks on the keys that were set.
    pub fn change(&mut self, set: &BTreeMap<String, String>, reset: &[String]) -> Result<Vec<String>, Problem> {
        let mut changed = self.set.clone();
        for key in reset {
            let key = key.trim();
            if changed.remove(key).is_none() && thalweg_config::registry::lookup(key).is_none() {
                return Err(Problem::Setting { message: format!("RESET: {key}: unknown key") });
            }
        }
        changed.extend(set.iter().map(|(key, value)| (key.trim().to_owned(), value.clone())));
        if changed.len() > MAX_SETTINGS {
            return Err(Problem::Limit { what: "settings of a session".into(), limit: MAX_SETTINGS as u64 });
        }
        let loaded = self.base.with_session(&changed).map_err(refused)?;
        let is_new = |key: &str| set.keys().any(|new| new.trim() == key);
        let notes =
            loaded.notes.iter().filter(|note| is_new(&note.key)).map(|note| format!("{}: {}", note.key, note.text));
        let notes = notes.collect();
        self.set = changed;
        self.effective = loaded.config;
        Ok(notes)
    }

    pub fn reset_all(&mut self) {
        *self = Self::new(self.base.clone());
    }

    /// Every key a session may set, with the value in effect.
    pub fn list(&self) -> Vec<(String, String)> {
        let mut all: BTreeMap<String, String> = thalweg_config::session_keys()
            .into_iter()
            .filter_map(|key| Some((key.to_owned(), self.effective.get(key)?)))
            .collect();
        all.extend(self.set.clone());
        all.into_iter().collect()
    }

    /// What tasks are told.
    pub fn for_tasks(&self) -> Vec<(String, String)> {
        let mut settings = self.set.clone();
        for key in TASK_SETTINGS {
            settings.extend(self.effective.get(key).map(|value| (key.to_owned(), value)));
        }
        settings.insert("table.local-time-zone".to_owned(), self.effective.table.local_time_zone.clone());
        settings.into_iter().collect()
    }
}

fn refused(errors: ConfigErrors) -> Problem {
    Problem::Setting { message: errors.to_string() }
}
