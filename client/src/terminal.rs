//! Writing to people (standard error) and to whoever reads results (standard output).

use std::io::{self, Write};

use crate::exit::CliError;

/// A line on standard error. If that is closed, nobody wants to know.
pub fn tell(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// A text without a line end on standard error.
pub fn prompt(text: &str) {
    let mut stderr = io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

/// Text on standard output.
pub fn print(text: &str) -> Result<(), CliError> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(CliError::Output)
}
