//! From SQL text to an executable plan.
//!
//! [`sql`] turns text into statements, [`session`] keeps the tables and views of one session and turns a statement into a
//! logical plan, [`compile`] cuts the physical plan into stages.

pub mod catalog;
mod checks;
pub mod compile;
mod describe;
mod error;
pub mod functions;
mod logical;
mod order;
pub mod session;
pub mod sql;
mod stack;

pub use error::PlanError;
pub use order::JoinOrderOptions;
pub use session::{Outcome, PlannerOptions, RuntimeFilterOptions, Session};

#[cfg(test)]
mod tests;
