//! Runs one attempt: decodes the fragment, pulls its rows, writes them out, reports.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use futures::StreamExt;
use thalweg_exec::environment::OperatorOptions;
use thalweg_exec::failure::failure_cause;
use thalweg_exec::fragment::Fragment;
use thalweg_exec::io::TaskIo;
use thalweg_exec::memory::TaskMemoryPool;
use thalweg_exec::metrics::operator_metrics;
use thalweg_graph::{OutputStats, Part, TaskSpec};
use thalweg_rpc::link::FromTaskManager;
use thalweg_shuffle::ExchangeStore;
use thalweg_shuffle::sizes::batch_bytes;
use thalweg_types::{ExchangeKey, FailureCause, MapOutputKey};

use crate::inputs::AttemptInputs;
use crate::output::Output;
use crate::shared::Shared;
use crate::splits::AttemptSplits;

/// Totals of a running attempt, read by the progress ticker.
#[derive(Debug, Default)]
pub struct TaskProgress {
    pub rows: AtomicU64,
    pub bytes: AtomicU64,
    pub busy_nanos: Arc<AtomicU64>,
}

/// Everything an attempt needs.
pub struct Attempt {
    pub spec: TaskSpec,
    pub parts: Arc<[Part]>,
    pub options: OperatorOptions,
    pub inputs: Arc<AttemptInputs>,
    pub splits: Arc<AttemptSplits>,
    pub progress: Arc<TaskProgress>,
    pub shared: Arc<Shared>,
}

impl Attempt {
    /// Runs to the end and says how it went. Dropping the future cancels the attempt and discards its output.
    pub async fn run(self) -> FromTaskManager {
        let attempt = self.spec.attempt;
        match self.execute().await {
            Ok((stats, splits, inline)) => FromTaskManager::Finished { attempt, stats, splits, inline },
            Err(cause) => FromTaskManager::Failed { attempt, cause },
        }
    }

    async fn execute(self) -> Result<(OutputStats, Vec<Vec<u32>>, Option<Bytes>), FailureCause> {
        let context = self.context();
        let fragment =
            Fragment::decode(&self.parts, self.spec.inputs.len(), &context).map_err(|e| failure_cause(&e))?;
        let plan = Arc::clone(&fragment.plan);
        let output = self.output(fragment)?;
        let written = self.pump(&plan, context, output).await.map_err(|e| failure_cause(&e))?;
        let operators = operator_metrics(plan.as_ref());
        let spilled: u64 = operators.iter().map(|o| o.spilled_bytes).sum();
        let stats = OutputStats {
            rows: written.stats.rows,
            bytes: written.stats.bytes,
            spilled_bytes: written.stats.spilled_bytes + spilled,
            input_rows: self.inputs.rows_read(),
            network_bytes: self.inputs.network_bytes(),
            cpu_nanos: self.progress.busy_nanos.load(Ordering::Relaxed),
            operators,
        };
        Ok((stats, self.splits.read(), written.inline))
    }

    fn context(&self) -> Arc<TaskContext> {
        let io = TaskIo {
            inputs: Arc::clone(&self.inputs) as _,
            splits: Arc::clone(&self.splits) as _,
            access: self.shared.access.clone(),
        };
        let pool = TaskMemoryPool::new(self.shared.slot_memory as usize, Arc::clone(&self.shared.operators) as _);
        let id = self.spec.attempt.to_string();
        self.shared.environment.task_context(id, Arc::new(pool), io, &self.options)
    }

    fn output(&self, fragment: Fragment) -> Result<Output, FailureCause> {
        let task = self.spec.attempt.task;
        let exchange = ExchangeKey { job: task.job, exchange: self.spec.output };
        let key = MapOutputKey { exchange, map: task.index, attempt: self.spec.attempt.attempt };
        let store: Arc<ExchangeStore> = Arc::clone(&self.shared.store);
        Output::new(store, key, fragment.plan.schema(), self.spec.subpartitions, fragment.hash_keys, self.spec.result)
            .map_err(|e| failure_cause(&e))
    }

    async fn pump(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        context: Arc<TaskContext>,
        mut output: Output,
    ) -> datafusion::error::Result<crate::output::Written> {
        let mut rows = plan.execute(0, context)?;
        while let Some(batch) = rows.next().await {
            let batch = batch?;
            self.progress.rows.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
            self.progress.bytes.fetch_add(batch_bytes(&batch) as u64, Ordering::Relaxed);
            output.write(batch)?;
        }
        drop(rows);
        output.finish()
    }
}
