//! Runs the command line to its end and keeps what it printed.

use std::process::{Command, Stdio};
use std::time::Duration;

use crate::csv::{self, Table};
use crate::process::binary;
use crate::wait_until;

/// What a finished command left behind.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// `None` when a signal ended it.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Outcome {
    /// The table on standard output; an error shows everything that was printed.
    pub fn table(&self) -> Result<Table, String> {
        if self.code != Some(0) {
            return Err(format!("exit code {:?}\nstdout: {}\nstderr: {}", self.code, self.stdout, self.stderr));
        }
        csv::parse(&self.stdout).map_err(|e| format!("{e}\nstdout: {}\nstderr: {}", self.stdout, self.stderr))
    }
}

/// Runs `thalweg` with these arguments; panics when it is not done in time.
pub fn run(args: &[&str], limit: Duration) -> Outcome {
    run_in(args, &std::env::temp_dir(), limit)
}

/// The same from within a directory.
pub fn run_in(args: &[&str], dir: &std::path::Path, limit: Duration) -> Outcome {
    let mut command = Command::new(binary());
    command.args(args).current_dir(dir).env_remove("THALWEG_SECURITY_TOKEN");
    // Files, not pipes: nobody has to drain them while the deadline is watched.
    let out = tempfile::NamedTempFile::new().expect("a temporary file");
    let err = tempfile::NamedTempFile::new().expect("a temporary file");
    let file = |f: &tempfile::NamedTempFile| f.reopen().expect("a file just made opens again");
    command.stdin(Stdio::null()).stdout(file(&out)).stderr(file(&err));
    let mut child = command.spawn().expect("the thalweg binary starts");
    let status = wait_until(&format!("thalweg {}", args.join(" ")), limit, || child.try_wait().ok().flatten());
    let read = |f: &tempfile::NamedTempFile| {
        String::from_utf8_lossy(&std::fs::read(f.path()).unwrap_or_default()).into_owned()
    };
    match status {
        Ok(status) => Outcome { code: status.code(), stdout: read(&out), stderr: read(&err) },
        Err(why) => {
            let _ = child.kill();
            let _ = child.wait();
            panic!("{why}\nstdout: {}\nstderr: {}", read(&out), read(&err));
        }
    }
}
