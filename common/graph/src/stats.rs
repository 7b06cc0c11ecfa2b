//! What a finished attempt reports.

use serde::{Deserialize, Serialize};

/// In [`OutputStats::input_rows`]: the input was not read to its end, so there is nothing to compare.
pub const NOT_READ_TO_END: u64 = u64::MAX;

/// Row-exact statistics of one map output.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputStats {
    /// Rows per subpartition.
    pub rows: Vec<u64>,
    /// Raw (uncompressed, referenced) Arrow bytes per subpartition.
    pub bytes: Vec<u64>,
    /// Bytes of this output that went to disk.
    pub spilled_bytes: u64,
    /// Rows read per input of the stage; compared with what the producers say they wrote. [`NOT_READ_TO_END`] for an input
    /// that the operators left before its end (a limit, a join with an empty build side).
    pub input_rows: Vec<u64>,
    /// Bytes read per input that came over the network.
    pub network_bytes: Vec<u64>,
    /// CPU time of the attempt, nanoseconds.
    pub cpu_nanos: u64,
    pub operators: Vec<OperatorMetrics>,
}

impl OutputStats {
    pub fn total_rows(&self) -> u64 {
        self.rows.iter().sum()
    }

    pub fn total_bytes(&self) -> u64 {
        self.bytes.iter().sum()
    }
}

/// One operator of the fragment, in pre-order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorMetrics {
    /// Depth in the fragment's tree; the root is 0.
    pub depth: u32,
    pub name: String,
    pub output_rows: u64,
    /// Time spent computing, nanoseconds.
    pub elapsed_nanos: u64,
    pub spilled_bytes: u64,
    /// Rows that runtime filters removed of a scan.
    pub filtered_rows: u64,
}
