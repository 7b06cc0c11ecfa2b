//! The plan template: what the planner hands to the scheduler, as data.
//!
//! A job is a list of *stages* joined by *exchanges*. The scheduler reads this description without knowing what an operator
//! is: how a stage computes is an opaque fragment that only the executor decodes. What is decided while the job runs
//! (how many tasks a stage gets, which interval each of them reads) is not in here; what constrains those decisions is.
//!
//! Guarantees of a template that passed [`PlanTemplate::validate`]: ids equal positions, producers stand before consumers,
//! every stage writes exactly one exchange, every exchange but the result has exactly one consumer, all hash exchanges have
//! the same number of subpartitions (so that any two are co-partitioned).

mod operators;
mod stats;
mod task;
mod template;
mod validate;

pub use operators::{Leaf, Part, parts_fit};
pub use stats::{NOT_READ_TO_END, OperatorMetrics, OutputStats};
pub use task::{InputAssignment, MapLocation, Placement, SplitPolicy, TaskSpec};
pub use template::{
    Determinism, Exchange, ExchangeKind, InputRole, Parallelism, PlanTemplate, Source, Split, Stage, StageInput,
};
pub use validate::InvalidTemplate;
