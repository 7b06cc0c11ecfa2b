//! The command line: what may be said, and nothing about what is done.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use thalweg_client::format::Format;
use thalweg_types::JobId;

#[derive(Debug, Parser)]
#[command(name = "thalweg", version, about = "An adaptive dataflow cluster for SQL", arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a JobManager until SIGTERM or Ctrl-C
    #[cfg(feature = "server")]
    Jobmanager(DaemonArgs),
    /// Run a TaskManager until SIGTERM or Ctrl-C
    #[cfg(feature = "server")]
    Taskmanager(DaemonArgs),
    /// Run a whole cluster in this process, and SQL on it
    #[cfg(feature = "server")]
    Local(LocalArgs),
    /// Run SQL on a cluster
    Sql(SqlArgs),
    /// List, show, watch and cancel jobs
    Jobs(JobsArgs),
    /// Show the cluster: TaskManagers, slots, jobs
    Cluster(ClusterArgs),
    /// Check a configuration file, or print what can be in one
    Config(ConfigArgs),
}

impl Command {
    /// Whether this process will run tasks of jobs.
    pub fn runs_tasks(&self) -> bool {
        match self {
            #[cfg(feature = "server")]
            Command::Taskmanager(_) | Command::Local(_) => true,
            _ => false,
        }
    }
}

/// Where settings come from.
#[derive(Debug, Clone, Default, Args)]
pub struct Settings {
    /// Configuration file (YAML)
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// A setting; may be given more than once, and goes before the file
    #[arg(short = 'D', value_name = "KEY=VALUE", value_parser = key_value)]
    pub define: Vec<(String, String)>,
}

#[cfg(feature = "server")]
#[derive(Debug, Args)]
pub struct DaemonArgs {
    #[command(flatten)]
    pub settings: Settings,
}

/// Which cluster to talk to. Settings of the connection may also come with --config and -D.
#[derive(Debug, Clone, Args)]
pub struct Connection {
    /// Address of the JobManager [default: from --config, THALWEG_JOBMANAGER, or localhost:6123]
    #[arg(long, value_name = "HOST:PORT")]
    pub jobmanager: Option<String>,
    /// File with the cluster's token [or: -D security.token=…, THALWEG_SECURITY_TOKEN]
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
}

/// What SQL to run, and how rows are printed. Without -e and -f: what is typed.
#[derive(Debug, Clone, Args)]
pub struct Script {
    /// Statements to run, separated by semicolons
    #[arg(short = 'e', long = "execute", value_name = "SQL", conflicts_with = "file")]
    pub execute: Option<String>,
    /// File with statements to run
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// File with statements to run before
    #[arg(short = 'i', long = "init", value_name = "FILE")]
    pub init: Option<PathBuf>,
    /// How rows are printed: table, csv or json
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub format: Format,
}

#[derive(Debug, Args)]
pub struct SqlArgs {
    #[command(flatten)]
    pub connection: Connection,
    #[command(flatten)]
    pub script: Script,
    /// With -D: settings of the session, as SET (security.* and jobmanager.rpc.*: of the connection)
    #[command(flatten)]
    pub settings: Settings,
}

#[cfg(feature = "server")]
#[derive(Debug, Args)]
pub struct LocalArgs {
    #[command(flatten)]
    pub script: Script,
    /// How many TaskManagers
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub task_managers: u32,
    /// Slots of each TaskManager [default: cores / N, at least 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub slots: Option<u32>,
    /// Keep running until Ctrl-C, on the configured port
    #[arg(long)]
    pub serve: bool,
    #[command(flatten)]
    pub settings: Settings,
}

#[derive(Debug, Args)]
pub struct JobsArgs {
    #[command(subcommand)]
    pub command: JobsCommand,
}

#[derive(Debug, Subcommand)]
pub enum JobsCommand {
    /// Running jobs and those that ended lately
    List(Remote),
    /// Stages, decisions and attempts of a job
    Show {
        #[arg(value_name = "ID")]
        job: JobId,
        #[command(flatten)]
        remote: Remote,
    },
    /// How a job ran, and why: its stages as a tree, the decisions, the bytes that moved
    Explain {
        #[arg(value_name = "ID")]
        job: JobId,
        #[command(flatten)]
        remote: Remote,
    },
    /// What happens to a job, until it has ended
    Watch {
        #[arg(value_name = "ID")]
        job: JobId,
        #[command(flatten)]
        remote: Remote,
    },
    /// Stop a job
    Cancel {
        #[arg(value_name = "ID")]
        job: JobId,
        #[command(flatten)]
        remote: Remote,
    },
}

/// A question to a cluster.
#[derive(Debug, Args)]
pub struct Remote {
    #[command(flatten)]
    pub connection: Connection,
    #[command(flatten)]
    pub settings: Settings,
    /// Print JSON with everything there is
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct ClusterArgs {
    #[command(flatten)]
    pub remote: Remote,
}

#[derive(Debug, Args)]
pub struct ConfigArgs {
    #[command(subcommand)]
    pub command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Say what is wrong with a configuration file
    Check {
        #[arg(value_name = "FILE")]
        file: PathBuf,
        #[arg(short = 'D', value_name = "KEY=VALUE", value_parser = key_value)]
        define: Vec<(String, String)>,
    },
    /// Print every key with its type, default and meaning, as Markdown
    Reference,
}

/// The text of a setting, `key=value`; the value may hold more equal signs or be empty.
fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), value.to_owned())),
        _ => Err("expected key=value, for example parallelism.default=4".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn parse(line: &str) -> Result<Command, clap::Error> {
        Cli::try_parse_from(line.split(' ')).map(|cli| cli.command)
    }

    #[test]
    fn the_definition_has_no_contradictions() {
        Cli::command().debug_assert();
    }

    #[test]
    fn sql_takes_script_settings_and_connection() {
        let line = "thalweg sql --jobmanager h:1 -e x -i init.sql --format JSON -D a.b=1 -Dc=d=e --token-file t";
        let Command::Sql(sql) = parse(line).unwrap() else { panic!("not sql") };
        assert_eq!(sql.connection.jobmanager.as_deref(), Some("h:1"));
        assert_eq!(sql.script.execute.as_deref(), Some("x"));
        assert_eq!(sql.script.format, Format::Json);
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(sql.settings.define, [pair("a.b", "1"), pair("c", "d=e")]);
        assert!(parse("thalweg sql -e x -f y").is_err());
        assert!(parse("thalweg sql -D nothing").is_err());
        assert!(parse("thalweg sql -D =x").is_err());
        assert!(parse("thalweg sql --format xml").is_err());
    }

    #[test]
    fn jobs_want_ids() {
        let id = "0123456789abcdef0123456789abcdef";
        assert!(matches!(parse(&format!("thalweg jobs show {id} --json")).unwrap(),
            Command::Jobs(JobsArgs { command: JobsCommand::Show { job, remote } }) if job.to_string() == id && remote.json));
        assert!(parse("thalweg jobs cancel 17").is_err());
        assert!(parse("thalweg jobs").is_err());
    }

    #[cfg(feature = "server")]
    #[test]
    fn local_has_two_task_managers() {
        let Command::Local(local) = parse("thalweg local --serve").unwrap() else { panic!("not local") };
        assert_eq!((local.task_managers, local.slots, local.serve), (2, None, true));
        assert!(parse("thalweg local --task-managers 0").is_err());
        assert!(parse("thalweg local --slots 0").is_err());
    }
}
