//! The scheduler core against a simulated cluster: no sockets, no data, only events and a cost model.
//!
//! `simulate policies` runs skewed and lopsided joins under several policies and prints what each would have cost. `simulate scale`
//! runs one all-to-all exchange of 1,000 × 1,000 and of 10,000 × 10,000 subtasks on 500 TaskManagers and fails if the core needs more than
//! 30 s of CPU or 2 GB, or grows faster than the number of subtasks.
//!
//! `cargo run --release --workspace --example simulate -- policies`

#![expect(clippy::print_stdout, reason = "it prints what it found")]

mod model;
mod world;

use std::process::ExitCode;
use std::time::Duration;

use thalweg_core::{BroadcastOptions, JobOptions, SkewOptions};

use model::{Scenario, scenarios, shuffle};
use world::{Outcome, World};

const SLOTS: u32 = 2;
/// Of the core, for the large job.
const MOST_CPU: Duration = Duration::from_secs(30);
const MOST_MEMORY: u64 = 2 << 30;
/// Ten times the subtasks may take this many times as long.
const MOST_GROWTH: f64 = 15.0;

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("policies") => policies(),
        Some("scale") => scale(),
        _ => {
            println!("simulate policies | scale");
            ExitCode::FAILURE
        }
    }
}

fn run(scenario: &Scenario, options: JobOptions, task_managers: u32) -> Outcome {
    World::new(scenario, task_managers, SLOTS).run(options)
}

fn policies() -> ExitCode {
    let off = JobOptions {
        auto_parallelism: false,
        default_parallelism: Some(128),
        skew: SkewOptions { enabled: false, ..SkewOptions::default() },
        broadcast: BroadcastOptions { limit: 0 },
        ..JobOptions::default()
    };
    let parallelism = JobOptions { auto_parallelism: true, default_parallelism: None, ..off.clone() };
    let skew = SkewOptions { enabled: true, threshold: 32 << 20, ..SkewOptions::default() };
    let divided = JobOptions { skew, ..parallelism.clone() };
    let all = JobOptions { broadcast: BroadcastOptions { limit: 64 << 20 }, ..divided.clone() };
    let policies = [
        ("128 tasks a stage", off),
        ("parallelism", parallelism),
        ("and skewed joins", divided),
        ("and broadcast joins", all),
    ];
    println!(
        "{:<28} {:<20} {:>9} {:>9} {:>7} {:>9} {:>11}",
        "scenario", "policy", "makespan", "task time", "tasks", "max/median", "shuffled"
    );
    for scenario in scenarios() {
        for (name, options) in &policies {
            let outcome = run(&scenario, options.clone(), 8);
            println!(
                "{:<28} {:<20} {:>7.1} s {:>7.0} s {:>7} {:>9.2} {:>8.2} GB",
                scenario.name,
                name,
                outcome.makespan.as_secs_f64(),
                outcome.task_time.as_secs_f64(),
                outcome.tasks,
                outcome.balance,
                outcome.shuffled as f64 / 1e9
            );
        }
    }
    ExitCode::SUCCESS
}

fn scale() -> ExitCode {
    let options = JobOptions { max_parallelism: 32_768, ..JobOptions::default() };
    let mut cpu = Vec::new();
    for subtasks in [1_000, 10_000] {
        let outcome = run(&shuffle(subtasks), options.clone(), 500);
        let memory = peak_memory();
        println!(
            "{subtasks} x {subtasks} on 500 taskmanagers: core {:.2} s, {:.1} us a subtask; {:.0} MB at most; {} placements for {} taskmanagers, {} at most for one; job took {:.0} s of simulated time",
            outcome.core_time.as_secs_f64(),
            outcome.core_time.as_secs_f64() * 1e6 / f64::from(outcome.tasks),
            memory as f64 / 1e6,
            outcome.placements,
            outcome.placed_on,
            outcome.most_placements,
            outcome.makespan.as_secs_f64()
        );
        if outcome.tasks < 2 * subtasks || outcome.most_placements > 1 || memory > MOST_MEMORY {
            return ExitCode::FAILURE;
        }
        cpu.push(outcome.core_time);
    }
    let growth = cpu[1].as_secs_f64() / cpu[0].as_secs_f64();
    println!("ten times the subtasks take {growth:.1} times as long");
    if cpu[1] > MOST_CPU || growth > MOST_GROWTH { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Bytes; 0 where the system does not tell.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) << 10
}
