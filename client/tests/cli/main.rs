//! The real binary, against a cluster that is made up: what it prints where, and how it ends.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fake;
mod remote;
mod usage;

use std::process::{Command, Output};

/// The binary with arguments, and nothing of this process's surroundings that would change what it does.
fn thalweg(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    command.args(args).env_remove("THALWEG_JOBMANAGER").env_remove("THALWEG_SECURITY_TOKEN");
    command
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}
