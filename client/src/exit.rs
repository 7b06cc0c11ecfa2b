//! What went wrong with a command, how it is said, and with which exit code the process ends.

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use thalweg_client::format::WriteError;
use thalweg_client::{Error, ErrorKind, chain};
use thalweg_config::ConfigErrors;

use crate::terminal::tell;

/// SQL or a job failed, or was interrupted.
const FAILED: u8 = 1;
/// The command line or the configuration is wrong.
const USAGE: u8 = 2;
/// No cluster was reachable, or it denied.
const NO_CLUSTER: u8 = 3;

#[derive(Debug, thiserror::Error)]
#[cfg_attr(not(feature = "server"), allow(dead_code, reason = "some can only happen to daemons"))]
pub enum CliError {
    #[error(transparent)]
    Client(#[from] Error),
    /// `line` of a script, counted from 1.
    #[error("statement at line {line}")]
    Statement {
        line: usize,
        #[source]
        source: Box<CliError>,
    },
    #[error("interrupted")]
    Interrupted,
    /// A job that somebody else started ended badly.
    #[error("job {job} {state}{}", failure.as_ref().map(|text| format!(": {text}")).unwrap_or_default())]
    JobEnded { job: thalweg_types::JobId, state: thalweg_client::view::JobState, failure: Option<String> },
    #[error(transparent)]
    Config(#[from] ConfigErrors),
    #[error("{0}")]
    Usage(String),
    #[error("cannot read {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot use the folder {}", path.display())]
    Folder {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the script is longer than {limit} bytes: run it in parts")]
    ScriptTooLong { limit: usize },
    #[error("cannot write to standard output")]
    Output(#[source] io::Error),
    #[error("a value cannot be printed")]
    Value(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("the {task_managers} taskmanagers did not register within {waited:?}: the log says why")]
    NotRegistered { task_managers: u32, waited: Duration },
    /// A daemon could not start or stop.
    #[error(transparent)]
    Daemon(Box<dyn std::error::Error + Send + Sync>),
}

impl CliError {
    pub fn start(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        CliError::Daemon(Box::new(error))
    }

    fn code(&self) -> u8 {
        match self {
            CliError::Client(error) => match error.kind() {
                ErrorKind::NotReachable | ErrorKind::Denied => NO_CLUSTER,
                ErrorKind::Usage => USAGE,
                ErrorKind::Sql | ErrorKind::Job | ErrorKind::Answer => FAILED,
            },
            CliError::Statement { source, .. } => source.code(),
            CliError::Config(_)
            | CliError::Usage(_)
            | CliError::Read { .. }
            | CliError::Folder { .. }
            | CliError::ScriptTooLong { .. } => USAGE,
            // a reader that has seen enough, `head` for example
            CliError::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => 0,
            CliError::Interrupted
            | CliError::JobEnded { .. }
            | CliError::Output(_)
            | CliError::Value(_)
            | CliError::NotRegistered { .. }
            | CliError::Daemon(_) => FAILED,
        }
    }

    /// True for what ended because standard output was closed.
    pub fn is_closed_output(&self) -> bool {
        self.code() == 0
    }
}

impl From<WriteError> for CliError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Io(error) => CliError::Output(error),
            WriteError::Value(error) => CliError::Value(Box::new(error)),
        }
    }
}

/// Says what went wrong, if anything did, and returns the exit code.
pub fn report(result: Result<(), CliError>) -> ExitCode {
    let Err(error) = result else { return ExitCode::SUCCESS };
    if !error.is_closed_output() {
        tell_error(&error);
    }
    ExitCode::from(error.code())
}

/// Says what went wrong in one line.
pub fn tell_error(error: &CliError) {
    let (red, plain) = if io::stderr().is_terminal() { ("\x1b[31m", "\x1b[0m") } else { ("", "") };
    tell(&format!("{red}error{plain}: {}", chain(error)));
}

/// Help, version, or what is wrong with the command line.
pub fn usage(error: &clap::Error) -> ExitCode {
    // nobody is left to be told when this cannot be written
    let _ = error.print();
    if error.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_say_whose_fault_it_was() {
        assert_eq!(CliError::Usage("x".into()).code(), 2);
        assert_eq!(CliError::Interrupted.code(), 1);
        let nested = CliError::Statement { line: 3, source: Box::new(CliError::Usage("x".into())) };
        assert_eq!(nested.code(), 2);
        assert_eq!(chain(&nested), "statement at line 3: x");
        assert!(CliError::Output(io::ErrorKind::BrokenPipe.into()).is_closed_output());
        assert_eq!(CliError::Output(io::ErrorKind::StorageFull.into()).code(), 1);
    }
}
