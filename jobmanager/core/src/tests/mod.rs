//! Scenarios, one per named failure, and random runs against a model of the executor.

mod life;
mod loss;
mod plans;
mod random;
mod retry;
mod rowcut;
mod world;
