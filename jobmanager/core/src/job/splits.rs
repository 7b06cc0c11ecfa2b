//! Handing out splits: each goes to exactly one attempt that finishes.
//!
//! Splits go to whoever asks, the lowest first. Those of an attempt that ends without a result return to the pool, and since lower ones
//! were handed out earlier they stand in front again. A task that had finished reads what it read then, and asks for nothing.

use thalweg_types::{AttemptId, TaskManagerId};

use super::{Context, Job};
use crate::Action;

impl Job {
    pub fn split_requested(
        &mut self,
        ctx: &mut Context<'_>,
        attempt: AttemptId,
        tm: TaskManagerId,
        source: u32,
        request: u64,
    ) {
        let Some(stage) = self.current(attempt, &tm) else { return };
        let run = &mut self.stages[stage];
        if source as usize >= run.pools.len() {
            tracing::warn!(%attempt, source, "an attempt asks for splits of a source it does not have");
            return;
        }
        let index = attempt.task.index;
        let reads_exactly = run.tasks[index as usize].exact.is_some();
        let Some(running) = run.running(index) else { return };
        let repeated = running.answers.get(&(source, request)).copied();
        let ended = reads_exactly || running.exhausted.contains(&source);
        let split = match repeated {
            Some(split) => Some(split),
            None if ended => None,
            None => run.pools[source as usize].pop_first(),
        };
        if repeated.is_none() {
            self.note_answer(ctx, stage, index, (source, request), split);
        }
        ctx.out.push(Action::GiveSplit { tm, attempt, source, request, split });
    }

    fn note_answer(
        &mut self,
        ctx: &Context<'_>,
        stage: usize,
        index: u32,
        (source, request): (u32, u64),
        split: Option<u32>,
    ) {
        let Some(running) = self.stages[stage].running_mut(index) else { return };
        match split {
            Some(split) => {
                running.given[source as usize].push(split);
                running.answers.insert((source, request), split);
                self.last_progress = ctx.now;
            }
            None => {
                running.exhausted.insert(source);
            }
        }
    }
}
