//! SQL sessions: who has one open, and what a statement comes to.
//!
//! Guarantees: at most [`MAX_SESSIONS`] are open, one that was not used for [`IDLE`] is gone; the statements of one session
//! run one after the other; a failed statement changes nothing.

mod analyze;
mod options;
mod settings;
mod statement;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use thalweg_config::Config;
use thalweg_connectors::AccessRules;
use thalweg_rpc::Problem;
use thalweg_runtime::Clock;
use uuid::Uuid;

pub use options::Environment;
pub use statement::{Executed, SqlSession};

use crate::driver::Driver;

pub const MAX_SESSIONS: usize = 1000;
/// How long a session lives without being used.
pub const IDLE: Duration = Duration::from_secs(60 * 60);

/// All open sessions.
#[derive(Debug)]
pub struct Sessions {
    environment: Environment,
    clock: Arc<dyn Clock>,
    open: Mutex<HashMap<Uuid, Open>>,
}

#[derive(Debug)]
struct Open {
    session: Arc<tokio::sync::Mutex<SqlSession>>,
    last_used: Duration,
}

impl Sessions {
    pub fn new(config: Arc<Config>, access: AccessRules, driver: Driver, clock: Arc<dyn Clock>) -> Self {
        Self { environment: Environment { config, access, driver }, clock, open: Mutex::default() }
    }

    pub fn open(&self, settings: &BTreeMap<String, String>) -> Result<String, Problem> {
        let session = self.detached(settings)?;
        let mut open = self.open.lock();
        self.drop_idle(&mut open);
        if open.len() >= MAX_SESSIONS {
            return Err(Problem::Limit { what: "open sessions".into(), limit: MAX_SESSIONS as u64 });
        }
        let id = Uuid::new_v4();
        let session = Arc::new(tokio::sync::Mutex::new(session));
        open.insert(id, Open { session, last_used: self.clock.now() });
        Ok(id.to_string())
    }

    /// A session that nobody else can find.
    pub fn detached(&self, settings: &BTreeMap<String, String>) -> Result<SqlSession, Problem> {
        SqlSession::new(self.environment.clone(), settings)
    }

    /// The session, whose turn the caller has to take.
    pub fn get(&self, id: &str) -> Result<Arc<tokio::sync::Mutex<SqlSession>>, Problem> {
        let mut open = self.open.lock();
        self.drop_idle(&mut open);
        let found = id.parse::<Uuid>().ok().and_then(|key| open.get_mut(&key));
        let found = found.ok_or_else(|| not_found(id))?;
        found.last_used = self.clock.now();
        Ok(found.session.clone())
    }

    pub fn close(&self, id: &str) -> Result<(), Problem> {
        let closed = id.parse::<Uuid>().ok().and_then(|key| self.open.lock().remove(&key));
        closed.map(|_| ()).ok_or_else(|| not_found(id))
    }

    fn drop_idle(&self, open: &mut HashMap<Uuid, Open>) {
        let now = self.clock.now();
        // one that is in use is not idle, however long its statement runs
        open.retain(|_, session| {
            Arc::strong_count(&session.session) > 1 || now.saturating_sub(session.last_used) < IDLE
        });
    }
}

fn not_found(id: &str) -> Problem {
    Problem::NotFound { what: "open session".into(), id: thalweg_rpc::error::shortened(id, 64) }
}
