//! `thalweg config`: check a file, print the reference.

use thalweg_config::{Config, reference_markdown};

use crate::args::ConfigCommand;
use crate::exit::CliError;
use crate::terminal::print;

pub fn run(command: ConfigCommand) -> Result<(), CliError> {
    match command {
        ConfigCommand::Check { file, define } => {
            let loaded = Config::load(Some(&file), &define)?;
            let notes: String = loaded.notes.iter().map(|note| format!("note: {note}\n")).collect();
            print(&format!("{notes}{}: ok\n", file.display()))
        }
        ConfigCommand::Reference => print(&reference_markdown()),
    }
}
