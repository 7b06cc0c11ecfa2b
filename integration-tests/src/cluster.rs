//! A cluster of real processes on loopback: one JobManager and any number of TaskManagers.
//!
//! Each cluster has a temporary directory of its own for configuration, logs, spill files and test data (`data()`, the only
//! root the filesystem connector may read). TaskManagers are started one after the other, so that the id each registers under
//! is known; index `i` in this API is the i-th one started, dead ones keep theirs. When a test panics, the logs' ends are
//! printed; all processes end with the value. One cluster runs at a time ([`exclusive`]): a query uses every core there is, and tests
//! with deadlines need them to themselves.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tempfile::TempDir;

use crate::csv::Table;
use crate::process::{Daemon, Signal, binary};
use crate::wait_until;
use crate::wire::Wire;

/// How long a daemon may take until it answers: a loaded two-core machine, an unoptimised binary.
const START_LIMIT: Duration = Duration::from_secs(30);

/// Held while something loads the whole machine. A cluster holds it for its lifetime.
pub fn exclusive() -> MutexGuard<'static, ()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    // A test that failed while holding it says nothing about the next one.
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What to start.
#[derive(Debug, Clone)]
pub struct Options {
    pub task_managers: usize,
    pub slots: u32,
    /// Cluster configuration beyond the harness's own: key and value.
    pub config: Vec<(String, String)>,
    /// Jobs survive the JobManager: [`Cluster::restart_jobmanager`].
    pub high_availability: bool,
}

impl Options {
    pub fn new(task_managers: usize, slots: u32) -> Options {
        Options { task_managers, slots, config: Vec::new(), high_availability: false }
    }

    pub fn highly_available(self) -> Options {
        Options { high_availability: true, ..self }
    }

    pub fn with(mut self, key: &str, value: &str) -> Options {
        self.config.push((key.to_string(), value.to_string()));
        self
    }
}

struct TaskManager {
    daemon: Daemon,
    /// As the JobManager names it.
    id: String,
}

pub struct Cluster {
    // Declared first: dropped first, so that no process writes into the directory while it is removed.
    task_managers: Vec<TaskManager>,
    jobmanager: Daemon,
    pub wire: Wire,
    options: Options,
    rest_port: u16,
    rpc_port: u16,
    dir: TempDir,
    _exclusive: MutexGuard<'static, ()>,
}

impl Cluster {
    /// Starts the processes and waits until all TaskManagers are registered; panics with the logs when that fails.
    pub fn start(options: Options) -> Cluster {
        let exclusive = exclusive();
        let dir = tempfile::Builder::new().prefix("thalweg-it-").tempdir().expect("a temporary directory");
        for sub in ["tmp", "data", "logs"] {
            std::fs::create_dir(dir.path().join(sub)).expect("a directory below a new one");
        }
        std::fs::write(dir.path().join("thalweg.yaml"), config_text(dir.path(), &options)).expect("a file there");
        let (jobmanager, wire, rpc_port, rest_port) = start_jobmanager(dir.path());
        let mut cluster = Cluster {
            task_managers: Vec::new(),
            jobmanager,
            wire,
            options,
            rest_port,
            rpc_port,
            dir,
            _exclusive: exclusive,
        };
        for _ in 0..cluster.options.task_managers {
            cluster.start_task_manager();
        }
        cluster
    }

    /// Starts one more TaskManager, waits until it is registered and returns its index.
    pub fn start_task_manager(&mut self) -> usize {
        let index = self.task_managers.len();
        let before = self.registered();
        let name = format!("taskmanager-{index}");
        let mut command = daemon_command("taskmanager", self.dir.path(), self.rpc_port, self.rest_port);
        let log = self.dir.path().join(format!("logs/{name}.log"));
        let mut daemon = Daemon::spawn(&name, &mut command, &log).expect("the thalweg binary starts");
        let registered = wait_until(&format!("{name} to register"), START_LIMIT, || {
            let new = self.registered().into_iter().find(|id| !before.contains(id));
            new.map(Ok).or_else(|| (!daemon.is_running()).then_some(Err("it exited")))
        });
        match registered {
            Ok(Ok(id)) => self.task_managers.push(TaskManager { daemon, id }),
            Ok(Err(why)) => panic!("{name} did not register: {why}\n{}", daemon.log_tail()),
            Err(why) => panic!("{why}\n{}{}", daemon.log_tail(), self.jobmanager.log_tail()),
        }
        index
    }

    /// Ids of the TaskManagers the JobManager knows; empty when it does not answer.
    pub fn registered(&self) -> Vec<String> {
        let overview = self.wire.overview();
        overview.map(|o| o.task_managers.into_iter().map(|t| t.id).collect()).unwrap_or_default()
    }

    pub fn wait_registered(&self, count: usize, limit: Duration) -> Result<(), String> {
        wait_until(&format!("{count} registered TaskManagers"), limit, || {
            (self.registered().len() == count).then_some(())
        })
    }

    /// Runs a script whose last statement is a query, and reads all its rows.
    pub fn sql(&self, script: &str, settings: &[(&str, &str)]) -> Result<Table, String> {
        let job = self.wire.submit(script, settings)?;
        self.wire.rows(&job.ticket)
    }

    pub fn kill9(&mut self, index: usize) {
        self.task_managers[index].daemon.signal(Signal::Kill);
    }

    pub fn kill9_jobmanager(&mut self) {
        self.jobmanager.signal(Signal::Kill);
    }

    /// Starts the JobManager again where it was; returns when it answers.
    pub fn restart_jobmanager(&mut self) {
        let mut command = daemon_command("jobmanager", self.dir.path(), self.rpc_port, self.rest_port);
        let log = self.dir.path().join("logs/jobmanager.log");
        self.jobmanager = Daemon::spawn("jobmanager", &mut command, &log).expect("the thalweg binary starts");
        let up =
            wait_until("the JobManager to answer again", START_LIMIT, || self.wire.overview().is_ok().then_some(()));
        up.unwrap_or_else(|why| panic!("{why}\n{}", self.jobmanager.log_tail()));
    }

    pub fn pause(&mut self, index: usize) {
        self.task_managers[index].daemon.signal(Signal::Stop);
    }

    pub fn resume(&mut self, index: usize) {
        self.task_managers[index].daemon.signal(Signal::Cont);
    }

    pub fn task_manager(&mut self, index: usize) -> &mut Daemon {
        &mut self.task_managers[index].daemon
    }

    pub fn jobmanager(&mut self) -> &mut Daemon {
        &mut self.jobmanager
    }

    /// The index of the TaskManager registered under this id. Attempts name it with its incarnation: `id@incarnation`.
    pub fn index_of(&self, id: &str) -> Option<usize> {
        let name = |id: &str| id.split('@').next().unwrap_or_default().to_string();
        self.task_managers.iter().rposition(|t| name(&t.id) == name(id))
    }

    pub fn rpc_address(&self) -> String {
        format!("127.0.0.1:{}", self.rpc_port)
    }

    pub fn rest_address(&self) -> String {
        format!("127.0.0.1:{}", self.rest_port)
    }

    /// Where tests put files for the filesystem connector.
    pub fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// The cluster's directory: every daemon's command line names it.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Files below the daemons' temporary directories, without the empty or lock files that mark a directory as owned.
    pub fn temporary_files(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        collect_files(&self.dir.path().join("tmp"), &mut files);
        files.retain(|f| f.metadata().is_ok_and(|m| m.len() > 0) && !f.to_string_lossy().ends_with("lock"));
        files
    }

    /// Ends all daemons with SIGTERM, TaskManagers first, and returns each one's name and exit code.
    pub fn terminate(&mut self, limit: Duration) -> Result<Vec<(String, Option<i32>)>, String> {
        let mut codes = Vec::new();
        for daemon in self.task_managers.iter_mut().map(|t| &mut t.daemon).chain([&mut self.jobmanager]) {
            if daemon.is_running() {
                daemon.signal(Signal::Term);
                codes.push((daemon.name.clone(), daemon.wait_exit(limit)?.code()));
            }
        }
        Ok(codes)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.jobmanager.log_tail());
            for task_manager in &self.task_managers {
                eprintln!("{}", task_manager.daemon.log_tail());
            }
        }
    }
}

fn collect_files(dir: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() { collect_files(&path, into) } else { into.push(path) }
    }
}

fn config_text(dir: &Path, options: &Options) -> String {
    let mut entries = vec![
        ("jobmanager.rpc.address".to_string(), "127.0.0.1".to_string()),
        ("taskmanager.host".to_string(), "127.0.0.1".to_string()),
        ("taskmanager.numberOfTaskSlots".to_string(), options.slots.to_string()),
        ("taskmanager.memory.process.size".to_string(), "2g".to_string()),
        ("io.tmp.dirs".to_string(), dir.join("tmp").display().to_string()),
        ("filesystem.allowed-roots".to_string(), dir.join("data").display().to_string()),
    ];
    if options.high_availability {
        entries.push(("high-availability.type".to_string(), "filesystem".to_string()));
        entries.push(("high-availability.storageDir".to_string(), dir.join("ha").display().to_string()));
    }
    for (key, value) in &options.config {
        entries.retain(|(k, _)| k != key);
        entries.push((key.clone(), value.clone()));
    }
    entries.iter().map(|(k, v)| format!("{k}: {v}\n")).collect()
}

fn daemon_command(role: &str, dir: &Path, rpc_port: u16, rest_port: u16) -> Command {
    let mut command = Command::new(binary());
    command.arg(role).arg("--config").arg(dir.join("thalweg.yaml"));
    command.args(["-D", &format!("jobmanager.rpc.port={rpc_port}"), "-D", &format!("rest.port={rest_port}")]);
    command.env_remove("THALWEG_SECURITY_TOKEN").current_dir(dir);
    command
}

/// Ports cannot be reserved, only found free: another process may take one in between, so starting is tried again with others.
fn start_jobmanager(dir: &Path) -> (Daemon, Wire, u16, u16) {
    let log = dir.join("logs/jobmanager.log");
    let mut last = String::new();
    for _ in 0..3 {
        let (rpc_port, rest_port) = (free_port(), free_port());
        let mut command = daemon_command("jobmanager", dir, rpc_port, rest_port);
        let mut daemon = Daemon::spawn("jobmanager", &mut command, &log).expect("the thalweg binary starts");
        let wire = Wire::new(&format!("127.0.0.1:{rpc_port}"));
        let up = wait_until("the JobManager to answer", START_LIMIT, || {
            wire.overview().is_ok().then_some(true).or_else(|| (!daemon.is_running()).then_some(false))
        });
        match up {
            Ok(true) if daemon.is_running() => return (daemon, wire, rpc_port, rest_port),
            _ => last = daemon.log_tail(),
        }
    }
    panic!("the JobManager did not start\n{last}");
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    listener.local_addr().expect("a bound socket has an address").port()
}
