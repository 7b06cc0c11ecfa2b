//! Stages, exchanges and the leaves that are handed splits.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thalweg_types::{ExchangeId, StageId};

use crate::operators::Part;

/// A compiled query. See the crate header for what [`PlanTemplate::validate`] guarantees.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanTemplate {
    /// Producers before consumers; `stages[i].id == StageId(i)`. The last one writes the result.
    pub stages: Vec<Stage>,
    /// `exchanges[i].id == ExchangeId(i)`.
    pub exchanges: Vec<Exchange>,
}

/// A pipeline of operators between exchanges, run by one or more tasks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    pub id: StageId,
    /// One line for people, for example `scan lineitem → aggregate (partial)`.
    pub name: String,
    /// The operators; the first part is the root.
    pub parts: Vec<Part>,
    /// Leaves that read tables. Tasks of the stage ask for splits while they run; a leaf is named by its position.
    pub sources: Vec<Source>,
    /// Leaves that read exchanges; a leaf is named by its position.
    pub inputs: Vec<StageInput>,
    pub output: ExchangeId,
    pub parallelism: Parallelism,
    pub determinism: Determinism,
    /// The stage whose tasks run these operators, since it was decided that they do; this one never runs.
    pub fused_into: Option<StageId>,
}

/// How many tasks a stage may get.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Parallelism {
    /// Decided from measured bytes when the inputs are sealed.
    Auto,
    /// Set by the user; ranges are balanced by bytes all the same.
    Fixed(u32),
    /// Must be one task: an ungrouped aggregate, a global sort or limit, a join that may only see its build side once.
    Single,
}

/// What a re-run of a finished task may be assumed to produce (the retry rule, design (b.3)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Determinism {
    /// The same rows in the same order, given the same splits in the same order.
    Deterministic,
    /// The same bag of rows in each subpartition, in any order.
    OrderFree,
    /// Anything may change: volatile functions, LIMIT or ROW_NUMBER with ties over inputs in free order.
    Random,
}

/// An input of a stage that comes from another stage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageInput {
    pub exchange: ExchangeId,
    pub role: InputRole,
    /// Inputs with the same type number are alternatives of one logical input (UNION ALL); joins number their sides.
    pub type_number: u32,
    /// A subpartition may be divided among several tasks, each of which reads the same subpartition of the other sides whole:
    /// every operator above treats this input's rows one by one, given the other sides.
    pub divisible: bool,
    /// Every task of the stage reads all of it: always so for a broadcast exchange, and for a hash exchange that turned out
    /// small enough. Fetched once per TaskManager.
    pub replicated: bool,
    /// The reader wants each map's output as a stream of its own (each is sorted; the reader merges them).
    pub per_map: bool,
}

/// What the input is to the operator that reads it; bounds how large one task's share may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum InputRole {
    /// Held in memory by a join: shares are kept under half a task's memory quota.
    Build,
    /// Streamed.
    Probe,
}

/// A table leaf with the splits that make it up. A constant leaf is a source with one split.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// For people: the table's name, or `values`.
    pub name: String,
    pub splits: Vec<Split>,
}

/// The unit of work handed to a task: a file's row groups, a part of a generated table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Split {
    /// Bytes the split is expected to make a task read; 0 when unknown.
    pub bytes: u64,
    /// Opaque; decoded by the connector.
    pub payload: Arc<[u8]>,
}

/// The data of one stage on its way to the next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exchange {
    pub id: ExchangeId,
    pub producer: StageId,
    /// `None`: the client reads it.
    pub consumer: Option<StageId>,
    pub kind: ExchangeKind,
    /// For people: the key columns of a hash exchange.
    pub keys: String,
}

/// How an exchange distributes rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExchangeKind {
    /// Rows go to `(stable_hash(keys) * subpartitions) >> 64`; consumers read intervals of subpartitions.
    Hash { subpartitions: u32 },
    /// Everything to the one task of the consuming stage.
    Gather,
    /// Everything to every task of the consuming stage, fetched once per TaskManager.
    Broadcast,
    /// Everything to the client, maps in order.
    Result,
}

impl ExchangeKind {
    /// Subpartitions that each producing task writes.
    pub fn subpartitions(self) -> u32 {
        match self {
            ExchangeKind::Hash { subpartitions } => subpartitions,
            ExchangeKind::Gather | ExchangeKind::Broadcast | ExchangeKind::Result => 1,
        }
    }

    pub fn is_hash(self) -> bool {
        matches!(self, ExchangeKind::Hash { .. })
    }
}

impl PlanTemplate {
    pub fn stage(&self, id: StageId) -> &Stage {
        &self.stages[id.index()]
    }

    pub fn exchange(&self, id: ExchangeId) -> &Exchange {
        &self.exchanges[id.index()]
    }

    /// The stage whose output the client reads.
    pub fn result_stage(&self) -> &Stage {
        self.stages.last().expect("a valid template has a stage")
    }
}

impl fmt::Display for ExchangeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExchangeKind::Hash { subpartitions } => write!(f, "hash({subpartitions})"),
            ExchangeKind::Gather => f.write_str("gather"),
            ExchangeKind::Broadcast => f.write_str("broadcast"),
            ExchangeKind::Result => f.write_str("result"),
        }
    }
}

impl fmt::Display for Parallelism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Parallelism::Auto => f.write_str("auto"),
            Parallelism::Fixed(n) => write!(f, "{n}"),
            Parallelism::Single => f.write_str("1"),
        }
    }
}

/// One line per stage: what it does, how parallel, what it reads, what it writes.
impl fmt::Display for PlanTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for stage in &self.stages {
            write!(f, "{} [parallelism {}, {:?}] {}", stage.id, stage.parallelism, stage.determinism, stage.name)?;
            for source in &stage.sources {
                let bytes: u64 = source.splits.iter().map(|s| s.bytes).sum();
                write!(f, "; source {} ({} splits, {bytes} bytes)", source.name, source.splits.len())?;
            }
            for input in &stage.inputs {
                let role = if input.role == InputRole::Build { " as build side" } else { "" };
                write!(f, "; reads {}{role}", input.exchange)?;
            }
            let out = self.exchange(stage.output);
            write!(f, "; writes {} {}", out.id, out.kind)?;
            if !out.keys.is_empty() {
                write!(f, " on [{}]", out.keys)?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
