//! The one binary `thalweg`: daemons, the embedded cluster and the commands that talk to a cluster.
//!
//! On standard output are results only; everything said about them is on standard error. Exit codes: 0 done, 1 the SQL or the
//! job failed or was interrupted, 2 the command line or the configuration is wrong, 3 no cluster was reachable or it denied.

mod allocator;
mod args;
mod commands;
mod exit;
mod interrupt;
mod progress;
mod terminal;

use std::process::ExitCode;

use clap::Parser;

use crate::exit::CliError;

fn main() -> ExitCode {
    let cli = match args::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return exit::usage(&error),
    };
    if cli.command.runs_tasks() {
        allocator::keep_freed_memory();
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return exit::report(Err(CliError::start(error))),
    };
    let result = runtime.block_on(commands::run(cli.command));
    let code = exit::report(result);
    // whatever still runs, such as a reader of standard input, must not hold the process
    runtime.shutdown_background();
    code
}
