//! The invariants of the module header, as assertions for tests.

use super::Job;
use super::stage::TaskState;

impl Job {
    pub fn check_invariants(&self) {
        for (s, run) in self.stages.iter().enumerate() {
            let count = |f: fn(&TaskState) -> bool| run.tasks.iter().filter(|t| f(&t.state)).count() as u32;
            assert_eq!(run.running, count(|t| matches!(t, TaskState::Running(_))), "running of s{s}");
            assert_eq!(run.done, count(|t| matches!(t, TaskState::Done(_))), "done of s{s}");
            let waiting = run.fresh.len() + run.reruns.len() + self.backoffs.iter().filter(|(_, b, _)| *b == s).count();
            assert_eq!(waiting as u32, count(|t| matches!(t, TaskState::Waiting)), "waiting tasks of s{s} are queued");
            for &lost in &run.output.lost {
                assert!(run.done_task(lost).is_some(), "only finished outputs can be lost");
            }
            let readable = (0..run.tasks.len() as u32).filter(|i| !run.output.lost.contains(i));
            let rows: u64 = readable.filter_map(|i| run.done_task(i)).map(|d| d.stats.total_rows).sum();
            assert_eq!(rows, run.output.rows.iter().sum::<u64>(), "row sums of s{s}");
            if run.running > 0 {
                assert!(self.inputs_sealed(s), "s{s} runs although an input is missing");
            }
            if run.is_bound() && !run.all_done() {
                assert!(self.consumer(s).is_none_or(|c| !self.stages[c].all_done()), "s{s} runs for nobody");
            }
            let needed = self.consumer(s).is_none_or(|c| !self.stages[c].all_done());
            assert!(!needed || run.output.lost.is_empty(), "s{s} is needed and lost but does not run again");
        }
    }
}
