//! What the tasks of one TaskManager share, and the context each of them runs in.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use datafusion::error::Result;
use datafusion::execution::SessionStateDefaults;
use datafusion::execution::TaskContext;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::logical_expr::{AggregateUDF, ScalarUDF, WindowUDF};

use crate::functions;
use crate::io::TaskIo;
use crate::session::session_config;

/// How operators of one stage work.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OperatorOptions {
    /// Rows.
    pub batch_size: usize,
    pub local_aggregates: LocalAggregates,
}

/// Whether a task aggregates before it passes rows on to those who aggregate all of a key.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LocalAggregates {
    Always,
    /// Not any more once so many rows had at least so many groups each.
    StopIfUseless {
        rows: usize,
        groups_per_row: f64,
    },
}

/// Functions, spill directories and file metadata caches; made once per process.
#[derive(Debug)]
pub struct TaskEnvironment {
    runtime: RuntimeEnv,
    scalar: HashMap<String, Arc<ScalarUDF>>,
    aggregate: HashMap<String, Arc<AggregateUDF>>,
    window: HashMap<String, Arc<WindowUDF>>,
}

impl TaskEnvironment {
    /// Operators spill into `spill_dirs`, which must exist.
    pub fn new(spill_dirs: Vec<PathBuf>) -> Result<Self> {
        let disk = DiskManagerBuilder::default().with_mode(DiskManagerMode::Directories(spill_dirs));
        let runtime = RuntimeEnvBuilder::new().with_disk_manager_builder(disk).build()?;
        let mut scalar: HashMap<_, _> = SessionStateDefaults::default_scalar_functions()
            .into_iter()
            .flat_map(|f| names(f.name(), f.aliases()).into_iter().map(move |name| (name, Arc::clone(&f))))
            .collect();
        scalar.extend(functions::scalar_functions().into_iter().map(|f| (f.name().to_owned(), f)));
        let aggregate = SessionStateDefaults::default_aggregate_functions()
            .into_iter()
            .flat_map(|f| names(f.name(), f.aliases()).into_iter().map(move |name| (name, Arc::clone(&f))))
            .collect();
        let window = SessionStateDefaults::default_window_functions()
            .into_iter()
            .flat_map(|f| names(f.name(), f.aliases()).into_iter().map(move |name| (name, Arc::clone(&f))))
            .collect();
        Ok(Self { runtime, scalar, aggregate, window })
    }

    /// The context of one task attempt: its own memory pool and io, everything else shared.
    pub fn task_context(
        &self,
        id: String,
        pool: Arc<dyn MemoryPool>,
        io: TaskIo,
        options: &OperatorOptions,
    ) -> Arc<TaskContext> {
        let mut config = session_config(1, options.batch_size).with_extension(Arc::new(io));
        let execution = &mut config.options_mut().execution;
        match options.local_aggregates {
            LocalAggregates::StopIfUseless { rows, groups_per_row } => {
                execution.skip_partial_aggregation_probe_rows_threshold = rows;
                execution.skip_partial_aggregation_probe_ratio_threshold = groups_per_row;
            }
            // there are never more groups than rows
            LocalAggregates::Always => execution.skip_partial_aggregation_probe_ratio_threshold = 2.0,
        }
        // inside of one task nothing has to be waited for
        config.options_mut().optimizer.enable_topk_dynamic_filter_pushdown = true;
        let runtime = RuntimeEnv { memory_pool: pool, ..self.runtime.clone() };
        Arc::new(TaskContext::new(
            Some(id.clone()),
            id,
            config,
            self.scalar.clone(),
            HashMap::new(),
            self.aggregate.clone(),
            self.window.clone(),
            Arc::new(runtime),
        ))
    }
}

fn names(name: &str, aliases: &[String]) -> Vec<String> {
    std::iter::once(name.to_owned()).chain(aliases.iter().cloned()).collect()
}
