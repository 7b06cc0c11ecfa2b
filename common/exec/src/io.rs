//! How the leaves of a task reach the exchange and the split queue.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use thalweg_connectors::AccessRules;

/// The inputs of one task attempt, by slot (position in the stage's list).
pub trait TaskInputs: Send + Sync {
    /// Partitions that the input at `slot` yields: 1, or one per map for an input read per map.
    fn partitions(&self, slot: usize) -> usize;

    /// The rows of one partition. Opened when first polled, so that an unread probe holds no window.
    fn open(&self, slot: usize, partition: usize, schema: SchemaRef) -> Result<SendableRecordBatchStream>;
}

/// The split queue of one task attempt.
#[async_trait]
pub trait TaskSplits: Send + Sync {
    /// The next split of the source at `slot`, or `None` when there is none left.
    async fn next(&self, slot: usize) -> Result<Option<Arc<[u8]>>>;
}

/// Put into the session configuration of a task's context as an extension.
pub struct TaskIo {
    pub inputs: Arc<dyn TaskInputs>,
    pub splits: Arc<dyn TaskSplits>,
    pub access: AccessRules,
}

impl TaskIo {
    /// The io of the task that `context` belongs to.
    pub fn of(context: &TaskContext) -> Result<Arc<TaskIo>> {
        context.session_config().get_extension::<TaskIo>().ok_or_else(|| {
            datafusion::error::DataFusionError::Internal(
                "a stage's leaf ran outside a task: its context carries no task io".to_owned(),
            )
        })
    }
}
