//! One child process with its log file: signals, exit with a deadline, memory and CPU readings, and the binary's path.
//!
//! A [`Daemon`] never outlives its value: dropping it kills and reaps the process. Signals go through the shell's `kill`,
//! since sending them from here would need unsafe code.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use crate::wait_until;

/// The binary under test: `THALWEG_BIN`, else the one beside the running test, brought up to date by cargo first.
pub fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| match std::env::var_os("THALWEG_BIN") {
        Some(path) => PathBuf::from(path),
        None => build_binary(),
    })
}

/// `cargo test` builds a package's binary only for that package's own tests, so a test here could meet an old one.
/// `--workspace` keeps the features, and with them the compiled dependencies, those of the test run.
fn build_binary() -> PathBuf {
    let executable = std::env::current_exe().expect("a running test knows its path");
    let profile_dir =
        executable.ancestors().find(|dir| dir.file_name().is_some_and(|n| n == "debug" || n == "release"));
    let profile_dir = profile_dir.expect("a test executable lies below target/debug or target/release").to_path_buf();
    let target_dir = profile_dir.parent().expect("target/debug has a parent");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--workspace", "--bin", "thalweg", "--quiet", "--target-dir"]).arg(target_dir);
    cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
    // two profiles live in the release's directory: the checked one of `make test`, and the release itself
    if profile_dir.ends_with("release") {
        cargo.args(["--profile", if cfg!(debug_assertions) { "bench" } else { "release" }]);
    }
    let status = cargo.status().expect("cargo runs");
    assert!(status.success(), "cargo build of the thalweg binary failed: {status}");
    profile_dir.join("thalweg")
}

#[derive(Debug, Clone, Copy)]
pub enum Signal {
    /// Asks to end.
    Term,
    /// Ends at once (`kill -9`).
    Kill,
    /// Pauses.
    Stop,
    /// Goes on after a pause.
    Cont,
}

/// A child process writing its output to a file.
#[derive(Debug)]
pub struct Daemon {
    pub name: String,
    child: Child,
    log: PathBuf,
}

impl Daemon {
    /// Starts `command` with both outputs in `log`, which is appended to.
    pub fn spawn(name: &str, command: &mut Command, log: &Path) -> std::io::Result<Daemon> {
        let out = File::options().create(true).append(true).open(log)?;
        command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out);
        Ok(Daemon { name: name.to_string(), child: command.spawn()?, log: log.to_path_buf() })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends the signal; for `Kill` also waits until the process is gone.
    pub fn signal(&mut self, signal: Signal) {
        match signal {
            Signal::Term => self.shell_kill("TERM"),
            Signal::Stop => self.shell_kill("STOP"),
            Signal::Cont => self.shell_kill("CONT"),
            Signal::Kill => {
                let _ = self.child.kill();
                let _ = self.child.wait();
            }
        }
    }

    fn shell_kill(&mut self, name: &str) {
        if self.is_running() {
            let status = Command::new("sh").args(["-c", "kill -\"$0\" \"$1\"", name, &self.pid().to_string()]).status();
            assert!(status.is_ok_and(|s| s.success()), "kill -{name} {} ({})", self.pid(), self.name);
        }
    }

    pub fn wait_exit(&mut self, limit: Duration) -> Result<ExitStatus, String> {
        let what = format!("{} to exit", self.name);
        wait_until(&what, limit, || self.child.try_wait().ok().flatten())
            .map_err(|e| format!("{e}\n{}", self.log_tail()))
    }

    /// The last lines of the log.
    pub fn log_tail(&self) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        let from = lines.len().saturating_sub(40);
        format!("--- {} (pid {}) {}\n{}\n", self.name, self.pid(), self.log.display(), lines[from..].join("\n"))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Processes whose command line holds `text`, as `pid: command line`.
pub fn processes_naming(text: &str) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let mut found = Vec::new();
    for entry in entries.flatten() {
        let Ok(line) = std::fs::read(entry.path().join("cmdline")) else { continue };
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if line.contains(text) {
            found.push(format!("{}: {line}", entry.file_name().to_string_lossy()));
        }
    }
    found
}
