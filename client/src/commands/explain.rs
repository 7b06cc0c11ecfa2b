//! `thalweg jobs explain`: a job as it ran, why it ran that way, and the plan it was compiled to.
//!
//! ```text
//! as it ran
//!   s3  read → aggregate
//!   │   4 tasks, 20 ms, 25 rows, 1.2 KB, cpu 31 ms
//!   └─ s2  scan lineitem → join
//!      │   4 tasks, 300 ms, 60175 rows, 1.4 MB, cpu 1.10 s
//!      │   to s3 by hash (n_name): 60175 rows read, 700.0 KB over the network
//!      └─ s0  scan supplier
//! ```

use std::collections::BTreeSet;

use thalweg_client::format::table::visible;
use thalweg_client::format::units;
use thalweg_client::view::{Input, JobDetails, Stage};

use crate::commands::jobs::decision_text;

/// All of it as text.
pub fn text(job: &JobDetails) -> String {
    let mut out = headline(job);
    out += "\nas it ran\n";
    out += &Tree::of(&job.stages).text();
    out += "\nbytes\n";
    out += &bytes_text(&job.stages);
    out += "\ndecisions\n";
    if job.decisions.is_empty() {
        out += "  none\n";
    }
    job.decisions.iter().for_each(|decision| out += &format!("  {}\n", decision_text(decision)));
    if !job.plan.is_empty() {
        out += "\nas it was compiled\n";
        job.plan.lines().for_each(|line| out += &format!("  {}\n", visible(line)));
    }
    out
}

fn headline(job: &JobDetails) -> String {
    let summary = &job.summary;
    let took = if summary.state.is_terminal() {
        format!(" after {}", units::duration_ms(summary.duration_ms))
    } else {
        String::new()
    };
    let mut out = format!(
        "job {} {}{took}, {} of {} tasks finished\n{}\n",
        summary.job_id,
        summary.state,
        summary.tasks_finished,
        summary.tasks_total,
        visible(&summary.statement)
    );
    if let Some(failure) = &summary.failure {
        out += &format!("failure: {}\n", visible(failure));
    }
    out
}

/// Stages under the stages that read or run them.
struct Tree<'a> {
    stages: &'a [Stage],
    /// A damaged answer may name a stage twice; it is drawn once.
    drawn: BTreeSet<u32>,
    out: String,
}

/// How a stage is joined to the one above it.
enum Edge<'a> {
    Result,
    Read { consumer: u32, input: &'a Input },
    RunsIn(u32),
}

impl<'a> Tree<'a> {
    fn of(stages: &'a [Stage]) -> Self {
        Self { stages, drawn: BTreeSet::new(), out: String::new() }
    }

    fn text(mut self) -> String {
        let below: BTreeSet<u32> = self
            .stages
            .iter()
            .flat_map(|s| s.inputs.iter().map(|i| i.producer).chain(s.runs_in.map(|_| s.stage)))
            .collect();
        for root in self.stages.iter().rev().filter(|stage| !below.contains(&stage.stage)) {
            self.draw(root, &Edge::Result, "  ", "  ");
        }
        self.out
    }

    /// `first` goes before the stage's name, `rest` before every other line that belongs to it or to what is below it.
    fn draw(&mut self, stage: &'a Stage, edge: &Edge<'_>, first: &str, rest: &str) {
        if !self.drawn.insert(stage.stage) {
            return;
        }
        self.out += &format!("{first}s{}  {}\n", stage.stage, visible(&stage.name));
        let children = self.children(stage);
        let bar = if children.is_empty() { "    " } else { "│   " };
        for line in [facts(stage, edge), edge_text(stage, edge)].into_iter().flatten() {
            self.out += &format!("{rest}{bar}{line}\n");
        }
        let last = children.len().saturating_sub(1);
        for (i, (child, edge)) in children.iter().enumerate() {
            let (branch, below) = if i == last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            self.draw(child, edge, &format!("{rest}{branch}"), &format!("{rest}{below}"));
        }
    }

    fn children(&self, stage: &'a Stage) -> Vec<(&'a Stage, Edge<'a>)> {
        let stages = self.stages;
        let run_here = stages.iter().filter(|other| other.runs_in == Some(stage.stage));
        let run_here = run_here.map(|other| (other, Edge::RunsIn(stage.stage)));
        let read = stage.inputs.iter().filter_map(|input| {
            let producer = stages.iter().find(|other| other.stage == input.producer)?;
            Some((producer, Edge::Read { consumer: stage.stage, input }))
        });
        run_here.chain(read).collect()
    }
}

/// What the stage's own tasks did.
fn facts(stage: &Stage, edge: &Edge<'_>) -> Option<String> {
    if matches!(edge, Edge::RunsIn(_)) {
        return None;
    }
    if stage.parallelism == 0 {
        return Some("did not start".to_owned());
    }
    let mut facts = vec![units::counted(stage.parallelism.into(), "task")];
    if stage.finished < stage.parallelism {
        facts[0] = format!("{} of {} finished", stage.finished, facts[0]);
    }
    facts.push(units::duration_ms(stage.duration_ms));
    facts.push(units::counted(stage.rows, "row"));
    facts.push(units::bytes(stage.bytes));
    facts.push(format!("cpu {}", units::duration_ms(stage.cpu_nanos / 1_000_000)));
    if stage.spilled_bytes > 0 {
        facts.push(format!("{} spilled", units::bytes(stage.spilled_bytes)));
    }
    let repeated = stage.attempts.len().saturating_sub(stage.parallelism as usize);
    if repeated > 0 {
        facts.push(units::counted(repeated as u64, "repeated attempt"));
    }
    Some(facts.join(", "))
}

/// Where the stage's rows went.
fn edge_text(stage: &Stage, edge: &Edge<'_>) -> Option<String> {
    match edge {
        Edge::Result => None,
        Edge::RunsIn(by) => Some(format!("its operators ran in the tasks of s{by}, its rows were never written")),
        Edge::Read { consumer, input } => {
            let whole = if input.replicated { ", all of it by every task" } else { "" };
            Some(format!(
                "to s{consumer} by {}: {} read{whole}, {} over the network",
                visible(&stage.output),
                units::counted(input.rows, "row"),
                units::bytes(input.network_bytes)
            ))
        }
    }
}

/// What was moved and what was not.
fn bytes_text(stages: &[Stage]) -> String {
    let read: BTreeSet<u32> = stages.iter().flat_map(|s| &s.inputs).map(|input| input.producer).collect();
    let sum = |of: &dyn Fn(&Stage) -> u64| stages.iter().fold(0u64, |sum, stage| sum.saturating_add(of(stage)));
    let written = sum(&|s| if read.contains(&s.stage) { s.bytes } else { 0 });
    let result = sum(&|s| if read.contains(&s.stage) { 0 } else { s.bytes });
    let network = sum(&|s| s.network_bytes);
    let spilled = sum(&|s| s.spilled_bytes);
    let mut out = format!(
        "  {} written to exchanges, {} spilled; {} read over the network; result {}\n",
        units::bytes(written),
        units::bytes(spilled),
        units::bytes(network),
        units::bytes(result)
    );
    let avoided: Vec<String> = stages
        .iter()
        .filter(|s| s.runs_in.is_some())
        .map(|s| format!("the output of s{} ({})", s.stage, s.output))
        .collect();
    if !avoided.is_empty() {
        out += &format!("  never written: {}\n", avoided.join(", "));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(stage: u32, name: &str, inputs: Vec<Input>) -> Stage {
        Stage {
            stage,
            name: name.into(),
            parallelism: 2,
            running: 0,
            finished: 2,
            rows: 10,
            bytes: 2048,
            duration_ms: 12,
            network_bytes: inputs.iter().map(|input| input.network_bytes).sum(),
            spilled_bytes: 0,
            cpu_nanos: 3_000_000,
            attempts: vec![],
            operators: vec![],
            inputs,
            runs_in: None,
            output: "hash (k)".into(),
        }
    }

    fn input(producer: u32, replicated: bool) -> Input {
        Input { producer, replicated, rows: 20, network_bytes: 1024 }
    }

    /// s0 is read whole by s2, which runs s1; s3 reads s2.
    fn stages() -> Vec<Stage> {
        let held =
            Stage { parallelism: 0, finished: 0, rows: 0, bytes: 0, runs_in: Some(2), ..stage(1, "scan fact", vec![]) };
        vec![
            stage(0, "scan dim", vec![]),
            held,
            stage(2, "scan fact → join", vec![input(0, true)]),
            Stage {
                output: "result".into(),
                spilled_bytes: 512,
                ..stage(3, "read → aggregate", vec![input(2, false)])
            },
        ]
    }

    #[test]
    fn a_stage_stands_under_the_one_that_reads_or_runs_it() {
        let expected = "  s3  read → aggregate
  │   2 tasks, 12 ms, 10 rows, 2.0 KB, cpu 3 ms, 512 B spilled
  └─ s2  scan fact → join
     │   2 tasks, 12 ms, 10 rows, 2.0 KB, cpu 3 ms
     │   to s3 by hash (k): 20 rows read, 1.0 KB over the network
     ├─ s1  scan fact
     │      its operators ran in the tasks of s2, its rows were never written
     └─ s0  scan dim
            2 tasks, 12 ms, 10 rows, 2.0 KB, cpu 3 ms
            to s2 by hash (k): 20 rows read, all of it by every task, 1.0 KB over the network
";
        assert_eq!(Tree::of(&stages()).text(), expected);
    }

    #[test]
    fn bytes_that_moved_and_those_that_did_not() {
        let expected = "  4.0 KB written to exchanges, 512 B spilled; 2.0 KB read over the network; result 2.0 KB\n  \
            never written: the output of s1 (hash (k))\n";
        assert_eq!(bytes_text(&stages()), expected);
    }

    #[test]
    fn an_unfinished_stage_says_how_far_it_came() {
        let mut running = stage(0, "scan", vec![]);
        running.finished = 1;
        assert!(facts(&running, &Edge::Result).unwrap().starts_with("1 of 2 tasks finished, 12 ms"));
        running.parallelism = 0;
        assert_eq!(facts(&running, &Edge::Result).unwrap(), "did not start");
    }

    #[test]
    fn a_damaged_answer_is_drawn_once() {
        let round = vec![stage(0, "a", vec![input(1, false)]), stage(1, "b", vec![input(0, false), input(9, false)])];
        assert_eq!(Tree::of(&round).text(), "", "no stage is on top");
        let mut twice = round;
        twice.push(stage(2, "c", vec![input(1, false), input(1, false)]));
        assert_eq!(Tree::of(&twice).text().matches("  a\n").count(), 1);
    }
}
