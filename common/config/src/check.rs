//! What two or more settings must not say together, and which addresses may be bound without a token.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::{Component, Path};

use crate::config::{Config, HighAvailabilityType};
use crate::error::{ConfigErrors, Problem, ProblemKind};
use crate::memory::memory_layout;
use crate::origin::Origin;
use crate::syntax::{format_duration, format_memory};

/// The process that asks [`Config::check_exposure`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Binds `jobmanager.bind-host` and `rest.bind-address`.
    JobManager,
    /// Binds `taskmanager.bind-host`.
    TaskManager,
    /// All in one process: binds all three.
    Local,
}

impl Config {
    /// An error for each address this role binds that other hosts can reach, unless there is a token or
    /// `security.insecure` is set. Daemons call it before they bind.
    pub fn check_exposure(&self, role: Role) -> Result<(), ConfigErrors> {
        if self.security.token.is_some() || self.security.insecure {
            return Ok(());
        }
        let job_manager = ("jobmanager.bind-host", &self.jobmanager.bind_host);
        let rest = ("rest.bind-address", &self.rest.bind_address);
        let task_manager = ("taskmanager.bind-host", &self.taskmanager.bind_host);
        let bound = match role {
            Role::JobManager => vec![job_manager, rest],
            Role::TaskManager => vec![task_manager],
            Role::Local => vec![job_manager, rest, task_manager],
        };
        let problems: Vec<Problem> = bound
            .into_iter()
            .filter(|(_, address)| !is_loopback(address))
            .map(|(key, address)| Problem {
                origin: Origin::Default,
                key: Some(key.to_string()),
                kind: ProblemKind::Exposed { address: address.clone() },
            })
            .collect();
        if problems.is_empty() { Ok(()) } else { Err(ConfigErrors { problems }) }
    }
}

/// `127.0.0.0/8`, `::1`, `localhost`. Any other name might resolve to anything.
fn is_loopback(host: &str) -> bool {
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    bare.eq_ignore_ascii_case("localhost") || bare.parse().is_ok_and(|ip: IpAddr| ip.to_canonical().is_loopback())
}

/// Problems between options, each at the place where one of them was set last. Options whose own value is bad are left
/// out: their field still holds a lower layer's value, and complaining about that would mislead.
pub(crate) fn contradictions(
    config: &Config,
    origins: &BTreeMap<&'static str, Origin>,
    bad: &BTreeSet<&'static str>,
) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut report = |keys: &[&'static str], kind: ProblemKind| {
        if keys.iter().any(|key| bad.contains(key)) {
            return;
        }
        // Of equal ranks the first key is named.
        let set = keys.iter().rev().filter_map(|key| Some((*key, origins.get(key)?)));
        let (key, origin) = match set.max_by_key(|(_, origin)| origin.rank()) {
            Some((key, origin)) => (key, origin.clone()),
            None => (keys[0], Origin::Default),
        };
        problems.push(Problem { origin, key: Some(key.to_string()), kind });
    };
    let heartbeat = &config.heartbeat;
    if heartbeat.timeout <= heartbeat.interval {
        let (timeout, interval) = (format_duration(heartbeat.timeout), format_duration(heartbeat.interval));
        report(
            &["heartbeat.timeout", "heartbeat.interval"],
            contradiction(
                format!("heartbeat.timeout ({timeout}) must be longer than heartbeat.interval ({interval})"),
                "set a timeout of several intervals",
            ),
        );
    }
    let ha = &config.high_availability;
    if ha.kind == HighAvailabilityType::Filesystem && ha.storage_dir.is_none() {
        report(
            &["high-availability.type", "high-availability.storageDir"],
            contradiction(
                "high-availability.type is filesystem and high-availability.storageDir is not set".to_string(),
                "set high-availability.storageDir to a folder that survives the JobManager",
            ),
        );
    }
    let parts = Path::new(ha.cluster_id.trim_matches('/')).components();
    if ha.cluster_id.trim_matches('/').is_empty() || !parts.clone().all(|part| matches!(part, Component::Normal(_))) {
        report(
            &["high-availability.cluster-id"],
            contradiction(
                format!("high-availability.cluster-id is {:?}, which names no folder", ha.cluster_id),
                "use letters, digits and dashes, for example /prod",
            ),
        );
    }
    let auto = &config.execution.auto_parallelism;
    if auto.min > auto.max {
        report(
            &[
                "execution.batch.adaptive.auto-parallelism.min-parallelism",
                "execution.batch.adaptive.auto-parallelism.max-parallelism",
            ],
            contradiction(
                format!("min-parallelism ({}) must not be greater than max-parallelism ({})", auto.min, auto.max),
                "lower the one or raise the other",
            ),
        );
    }
    let memory = &config.taskmanager.memory;
    const NETWORK_MIN: &str = "taskmanager.memory.network.min";
    const NETWORK_MAX: &str = "taskmanager.memory.network.max";
    if memory.network_min > memory.network_max {
        let (min, max) = (format_memory(memory.network_min), format_memory(memory.network_max));
        report(
            &[NETWORK_MIN, NETWORK_MAX],
            contradiction(
                format!("network.min ({min}) must not be greater than network.max ({max})"),
                "lower the one or raise the other",
            ),
        );
    } else if let Some(Err(error)) = memory.process_size.map(|size| memory_layout(size, memory)) {
        report(
            &[
                "taskmanager.memory.process.size",
                "taskmanager.memory.managed.fraction",
                "taskmanager.memory.network.fraction",
                NETWORK_MIN,
                NETWORK_MAX,
            ],
            ProblemKind::Memory(error),
        );
    }
    problems
}

fn contradiction(reason: String, fix: &str) -> ProblemKind {
    ProblemKind::Contradiction { reason, fix: fix.to_string() }
}
