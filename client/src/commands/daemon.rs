//! Starting and stopping the daemons: as processes of their own, or all of them in this one.
//!
//! Everything about a daemon is decided in its crate; here are the order of things and what the two have to share when they live
//! in one process.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use thalweg_config::{Config, PortRange, Role, default_process_size};
use thalweg_jobmanager::JobManager;
use thalweg_runtime::{LogFormat, Shutdown, init_logging};
use thalweg_taskmanager::{Link, TaskManager};
use tracing::info;

use crate::args::{DaemonArgs, Settings};
use crate::commands::connect::address_of;
use crate::exit::CliError;

/// How long the TaskManagers of an embedded cluster may take to register; it is a matter of milliseconds.
const REGISTRATION: Duration = Duration::from_secs(30);
const LOOPBACK: &str = "127.0.0.1";

/// `thalweg jobmanager`
pub async fn jobmanager(args: DaemonArgs) -> Result<(), CliError> {
    let config = Arc::new(load(&args.settings, Role::JobManager)?);
    let shutdown = Shutdown::on_signals().map_err(CliError::start)?;
    let jobmanager = start_jobmanager(&config).await?;
    shutdown.requested().await;
    jobmanager.shutdown().await;
    info!("jobmanager ended");
    Ok(())
}

/// `thalweg taskmanager`
pub async fn taskmanager(args: DaemonArgs) -> Result<(), CliError> {
    let config = Arc::new(load(&args.settings, Role::TaskManager)?);
    let shutdown = Shutdown::on_signals().map_err(CliError::start)?;
    let link = Link::Dial(address_of(&config));
    let options = thalweg_taskmanager::StartOptions { link, name: None, memory: None };
    let mut taskmanager = TaskManager::start(config, options).await.map_err(CliError::start)?;
    tokio::select! {
        () = shutdown.requested() => {}
        () = taskmanager.wait_lost() => {}
    }
    taskmanager.shutdown().await;
    info!("taskmanager ended");
    Ok(())
}

/// The configuration, with logging set up as it says and its notes logged.
fn load(settings: &Settings, role: Role) -> Result<Config, CliError> {
    let loaded = Config::load(settings.config.as_deref(), &settings.define)?;
    start_logging(&loaded.config, &loaded.config.log.level)?;
    let config = loaded.into_config();
    config.check_exposure(role)?;
    Ok(config)
}

fn start_logging(config: &Config, level: &str) -> Result<(), CliError> {
    let format = match config.log.format {
        thalweg_config::LogFormat::Text => LogFormat::Text,
        thalweg_config::LogFormat::Json => LogFormat::Json,
    };
    init_logging(level, format).map_err(|error| CliError::Usage(error.to_string()))
}

async fn start_jobmanager(config: &Arc<Config>) -> Result<JobManager, CliError> {
    JobManager::start(Arc::clone(config), thalweg_jobmanager::StartOptions::default()).await.map_err(CliError::start)
}

/// A whole cluster in this process.
pub struct Embedded {
    jobmanager: JobManager,
    task_managers: Vec<TaskManager>,
}

/// How large it is, and whether others may use it.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    pub task_managers: u32,
    /// Of each TaskManager; cores / TaskManagers when nobody says.
    pub slots: Option<u32>,
    /// On the configured ports and hosts; otherwise on free ports of the loopback interface.
    pub serve: bool,
}

impl Embedded {
    /// Starts a JobManager and its TaskManagers, which are linked to it without a network.
    pub async fn start(settings: &Settings, size: Size) -> Result<(Self, Arc<Config>), CliError> {
        let loaded = Config::load(settings.config.as_deref(), &settings.define)?;
        start_logging(&loaded.config, log_level(&loaded.config, size.serve))?;
        let mut config = loaded.into_config();
        fit(&mut config, size)?;
        config.check_exposure(Role::Local)?;
        let config = Arc::new(config);
        let jobmanager = start_jobmanager(&config).await?;
        let process = config.taskmanager.memory.process_size.unwrap_or_else(default_process_size);
        let memory = process / u64::from(size.task_managers);
        let prefix = config.taskmanager.resource_id.clone().unwrap_or_else(|| "tm".to_owned());
        let starts = (1..=size.task_managers).map(|number| {
            let options = thalweg_taskmanager::StartOptions {
                link: Link::InProcess(jobmanager.attach()),
                name: Some(format!("{prefix}-{number}")),
                memory: Some(memory),
            };
            TaskManager::start(Arc::clone(&config), options)
        });
        let started: Result<Vec<_>, _> = join_all(starts).await.into_iter().collect();
        let task_managers = match started {
            Ok(task_managers) => task_managers,
            Err(error) => {
                jobmanager.shutdown().await;
                return Err(CliError::start(error));
            }
        };
        let cluster = Self { jobmanager, task_managers };
        match cluster.complete(size.task_managers, config.taskmanager.slots).await {
            Ok(()) => Ok((cluster, config)),
            Err(error) => {
                cluster.shutdown().await;
                Err(error)
            }
        }
    }

    /// Returns when all TaskManagers are registered, so that the first query sees all slots.
    async fn complete(&self, task_managers: u32, slots: u32) -> Result<(), CliError> {
        let complete = self.jobmanager.wait_for_cluster(|cluster| cluster.slots >= task_managers * slots);
        match tokio::time::timeout(REGISTRATION, complete).await {
            Ok(registered) => registered.map(|_| ()).map_err(CliError::start),
            Err(_) => Err(CliError::NotRegistered { task_managers, waited: REGISTRATION }),
        }
    }

    pub fn rpc_address(&self) -> SocketAddr {
        self.jobmanager.rpc_address()
    }

    pub fn rest_address(&self) -> SocketAddr {
        self.jobmanager.rest_address()
    }

    pub async fn shutdown(self) {
        join_all(self.task_managers.into_iter().map(TaskManager::shutdown)).await;
        self.jobmanager.shutdown().await;
    }
}

/// Who runs a query in a terminal wants to read of problems only, unless they said otherwise.
fn log_level(config: &Config, serve: bool) -> &str {
    let said = serve || config.log.level != Config::default().log.level;
    if said { &config.log.level } else { "warn" }
}

/// What is different when all daemons live in one process.
fn fit(config: &mut Config, size: Size) -> Result<(), CliError> {
    let cores = std::thread::available_parallelism().map_or(1, |cores| u32::try_from(cores.get()).unwrap_or(1));
    config.taskmanager.slots = size.slots.unwrap_or_else(|| (cores / size.task_managers).max(1));
    // every TaskManager has its own
    config.taskmanager.data_port = 0;
    config.taskmanager.rpc_port = 0;
    if !size.serve {
        config.jobmanager.rpc_port = 0;
        config.rest.port = PortRange { first: 0, last: 0 };
        config.jobmanager.bind_host = LOOPBACK.to_owned();
        config.rest.bind_address = LOOPBACK.to_owned();
        config.taskmanager.bind_host = LOOPBACK.to_owned();
        config.taskmanager.host = None;
    }
    let unusable = |path: PathBuf| move |source| CliError::Folder { path, source };
    for folder in &config.tmp_dirs {
        std::fs::create_dir_all(folder).map_err(unusable(folder.clone()))?;
    }
    if config.filesystem.allowed_roots.is_none() {
        let here = std::env::current_dir().map_err(unusable(".".into()))?;
        config.filesystem.allowed_roots = Some([vec![here], config.tmp_dirs.clone()].concat());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_embedded_cluster_hides_unless_it_serves() {
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config { tmp_dirs: vec![folder.path().join("new")], ..Config::default() };
        config.jobmanager.bind_host = "0.0.0.0".into();
        let mut hidden = config.clone();
        fit(&mut hidden, Size { task_managers: 2, slots: Some(3), serve: false }).unwrap();
        assert_eq!((hidden.jobmanager.rpc_port, hidden.taskmanager.slots), (0, 3));
        assert!(hidden.check_exposure(Role::Local).is_ok());
        let roots = hidden.filesystem.allowed_roots.unwrap();
        assert_eq!(roots, [std::env::current_dir().unwrap(), folder.path().join("new")]);
        assert!(roots.iter().all(|root| root.is_dir()));

        let mut served = config.clone();
        served.filesystem.allowed_roots = Some(vec!["/data".into()]);
        fit(&mut served, Size { task_managers: 1000, slots: None, serve: true }).unwrap();
        assert_eq!((served.jobmanager.rpc_port, served.taskmanager.slots), (config.jobmanager.rpc_port, 1));
        assert_eq!(served.filesystem.allowed_roots.as_deref(), Some(&["/data".into()][..]));
        assert!(served.check_exposure(Role::Local).is_err());
    }

    #[test]
    fn logs_are_quiet_unless_asked_for() {
        let mut config = Config::default();
        assert_eq!(log_level(&config, false), "warn");
        assert_eq!(log_level(&config, true), config.log.level);
        config.log.level = "debug".into();
        assert_eq!(log_level(&config, false), "debug");
    }
}
