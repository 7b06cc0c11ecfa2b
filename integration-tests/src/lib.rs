//! Runs the real binary as a cluster of processes on loopback and judges what it answers.
//!
//! [`cluster`] starts, pauses and kills daemons; [`wire`] speaks the public gRPC and Flight API as any other client would;
//! [`cli`] runs the command line; [`faults`] waits for the exact moment a fault is to hit; [`compare`] decides whether a result
//! is the expected one; [`tpch`], [`data`], [`joins`] and [`random_sql`] supply inputs, [`oracle`] a second opinion. Nothing here knows the engine's internals: only the binary, its
//! files and its wire formats. Every wait has a deadline, and none sleeps in place of a condition.

pub mod cli;
pub mod cluster;
pub mod compare;
pub mod csv;
pub mod data;
pub mod faults;
pub mod joins;
pub mod oracle;
pub mod process;
pub mod random_sql;
pub mod tpch;
pub mod wire;

use std::time::{Duration, Instant};

/// Asks every 20 ms until there is an answer; the error says what was awaited, and for how long.
pub fn wait_until<T>(what: &str, limit: Duration, mut ask: impl FnMut() -> Option<T>) -> Result<T, String> {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return Ok(answer);
        }
        if start.elapsed() >= limit {
            return Err(format!("{what}: not within {limit:?}"));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
