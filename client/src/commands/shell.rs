//! Statements typed or piped into standard input.
//!
//! A statement runs when its semicolon and the end of its line were read. At a terminal an error is said and the next statement
//! awaited; Ctrl-C drops what was typed, or ends the shell when that is nothing; `quit`, `exit` and Ctrl-D end it too. Piped
//! input is a script: it ends at the first error, and its last statement needs no semicolon.

use std::io::{self, BufRead, IsTerminal};

use thalweg_client::script::{self, Statement};
use tokio::sync::mpsc;

use crate::commands::sql::{MAX_SCRIPT, Runner};
use crate::exit::{CliError, tell_error};
use crate::terminal::{prompt, tell};

pub async fn run(runner: &mut Runner<'_>) -> Result<(), CliError> {
    let typed = io::stdin().is_terminal();
    if typed {
        tell("statements end with a semicolon; quit ends the shell");
    }
    let mut lines = read_lines()?;
    let mut input = Input::default();
    loop {
        if typed {
            prompt(if input.text.is_empty() { "thalweg> " } else { "      -> " });
        }
        let line = tokio::select! {
            line = lines.recv() => line,
            () = runner.interrupts.next() => {
                if !typed {
                    return Err(CliError::Interrupted);
                }
                tell("");
                if input.text.is_empty() {
                    return Ok(());
                }
                input.text.clear();
                continue;
            }
        };
        let Some(line) = line else { break };
        let line = line.map_err(|source| CliError::Read { path: "standard input".into(), source })?;
        if typed && input.text.is_empty() && is_quit(&line) {
            return Ok(());
        }
        input.push(&line)?;
        run_complete(runner, &mut input, typed).await?;
    }
    let rest = script::statements(&input.text).first().map(|rest| (rest.text.to_owned(), rest.line));
    match rest {
        Some((text, line)) => run_one(runner, &text, input.line_number(line), typed).await,
        None => Ok(()),
    }
}

async fn run_complete(runner: &mut Runner<'_>, input: &mut Input, typed: bool) -> Result<(), CliError> {
    let (statements, rest) = input.take_complete();
    for (text, line) in statements {
        run_one(runner, &text, line, typed).await?;
    }
    input.text = rest;
    Ok(())
}

/// At a terminal an error of a statement is only said, unless nothing more can be printed.
async fn run_one(runner: &mut Runner<'_>, text: &str, line: usize, typed: bool) -> Result<(), CliError> {
    match runner.statement(text).await {
        Ok(()) => Ok(()),
        Err(error) if error.is_closed_output() => Err(error),
        Err(error) if typed => {
            tell_error(&error);
            Ok(())
        }
        Err(source) => Err(CliError::Statement { line, source: Box::new(source) }),
    }
}

fn is_quit(line: &str) -> bool {
    let word = line.trim().trim_end_matches(';').trim_end();
    word.eq_ignore_ascii_case("quit") || word.eq_ignore_ascii_case("exit")
}

/// What was read and did not run yet.
#[derive(Default)]
struct Input {
    text: String,
    /// Lines before `text`.
    lines_before: usize,
}

impl Input {
    fn push(&mut self, line: &str) -> Result<(), CliError> {
        if self.text.len() + line.len() > MAX_SCRIPT {
            return Err(CliError::ScriptTooLong { limit: MAX_SCRIPT });
        }
        self.text.push_str(line);
        Ok(())
    }

    fn line_number(&self, line: usize) -> usize {
        self.lines_before + line
    }

    /// The complete statements with their line numbers, and what follows them.
    fn take_complete(&mut self) -> (Vec<(String, usize)>, String) {
        let split = script::split(&self.text);
        let owned = |statement: &Statement<'_>| (statement.text.to_owned(), self.line_number(statement.line));
        let statements: Vec<_> = split.statements.iter().map(owned).collect();
        let (rest, skipped) = match split.rest {
            Some(rest) => (rest.text.to_owned(), rest.line - 1),
            None => (String::new(), self.text.matches('\n').count()),
        };
        self.lines_before += skipped;
        (statements, rest)
    }
}

/// Reads lines in a thread of its own, at most one ahead: a read from a terminal cannot be stopped.
fn read_lines() -> Result<mpsc::Receiver<io::Result<String>>, CliError> {
    let (sender, lines) = mpsc::channel(1);
    let read = move || {
        let mut stdin = io::stdin().lock();
        loop {
            let mut line = String::new();
            let read = stdin.read_line(&mut line);
            let last = !matches!(read, Ok(size) if size > 0);
            if matches!(read, Ok(0)) || sender.blocking_send(read.map(|_| line)).is_err() || last {
                return;
            }
        }
    };
    std::thread::Builder::new().name("stdin".to_owned()).spawn(read).map_err(CliError::start)?;
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_come_out_when_their_semicolon_came_in() {
        let mut input = Input::default();
        let mut take = |line: &str| {
            input.push(line).unwrap();
            let (statements, rest) = input.take_complete();
            input.text = rest;
            statements
        };
        assert_eq!(take("SELECT 1;\n"), [("SELECT 1".to_owned(), 1)]);
        assert_eq!(take("\n"), []);
        assert_eq!(take("-- comment;\n"), []);
        assert_eq!(take("SELECT 'a -- b\n"), []);
        assert_eq!(take("'; SELECT 3; SELECT\n"), [("SELECT 'a -- b\n'".to_owned(), 4), ("SELECT 3".to_owned(), 5)]);
        assert_eq!(take("4 -- c\n"), []);
        assert_eq!(take("+ 1;\n"), [("SELECT\n4 -- c\n+ 1".to_owned(), 5)]);
    }

    #[test]
    fn quitting_has_two_words() {
        assert!(is_quit("quit\n") && is_quit(" EXIT ;\n"));
        assert!(!is_quit("quit now\n"));
    }
}
