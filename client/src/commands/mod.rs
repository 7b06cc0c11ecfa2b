//! What each command does.

mod cluster;
mod config;
mod connect;
#[cfg(feature = "server")]
mod daemon;
mod explain;
mod jobs;
#[cfg(feature = "server")]
mod local;
mod shell;
mod sql;

use crate::args::Command;
use crate::exit::CliError;

pub async fn run(command: Command) -> Result<(), CliError> {
    match command {
        #[cfg(feature = "server")]
        Command::Jobmanager(args) => daemon::jobmanager(args).await,
        #[cfg(feature = "server")]
        Command::Taskmanager(args) => daemon::taskmanager(args).await,
        #[cfg(feature = "server")]
        Command::Local(args) => local::run(args).await,
        Command::Sql(args) => sql::run(args).await,
        Command::Jobs(args) => jobs::run(args.command).await,
        Command::Cluster(args) => cluster::run(args.remote).await,
        Command::Config(args) => config::run(args.command),
    }
}
