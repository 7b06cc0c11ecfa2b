//! Scenarios, one per named failure, and random runs against a model of the executor.

mod broadcast;
mod life;
mod loss;
pub mod plans;
mod random;
mod recovery;
mod retry;
mod rowcut;
mod world;
