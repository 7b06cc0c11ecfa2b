//! `query_driver HOST:PORT`: runs statements read from standard input over one session, for the benchmark.
//!
//! A line is `DDL TEXT` or `QUERY FILE TEXT`, TEXT being one statement without line breaks. Each is answered by a line `OK MICROSECONDS ROWS`
//! or `ERR MESSAGE`; the time is from sending the statement to holding all rows. A query's rows then go to FILE as CSV.
#![expect(clippy::print_stdout, reason = "the answers are this program's output")]

use std::io::BufRead;
use std::time::{Duration, Instant};

use thalweg_integration_tests::wire::{Session, Wire, to_table};

fn run(session: &Session<'_>, line: &str) -> Result<(Duration, usize), String> {
    let (verb, rest) = line.split_once(' ').ok_or("a line is VERB TEXT")?;
    let (file, statement) = match verb {
        "DDL" => (None, rest),
        "QUERY" => rest.split_once(' ').map(|(file, text)| (Some(file), text)).ok_or("QUERY FILE TEXT")?,
        other => return Err(format!("{other} is neither DDL nor QUERY")),
    };
    let start = Instant::now();
    let batches = session.run(statement)?;
    let took = start.elapsed();
    let table = to_table(&batches)?;
    if let Some(file) = file {
        std::fs::write(file, table.to_csv()).map_err(|e| format!("{file}: {e}"))?;
    }
    Ok((took, table.rows.len()))
}

fn main() -> Result<(), String> {
    let address = std::env::args().nth(1).ok_or("usage: query_driver HOST:PORT")?;
    let wire = Wire::new(&address);
    let session = wire.open_session(&[])?;
    println!("OK 0 0");
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|e| e.to_string())?;
        match run(&session, &line) {
            Ok((took, rows)) => println!("OK {} {rows}", took.as_micros()),
            Err(why) => println!("ERR {}", why.replace('\n', " ")),
        }
    }
    Ok(())
}
