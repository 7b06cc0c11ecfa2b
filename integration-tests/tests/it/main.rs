//! All integration tests, as one binary: `cargo test -p thalweg-integration-tests --test it [MODULE]`.
//!
//! Tests with a cluster run one at a time whatever the number of test threads (see `cluster::exclusive`).

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a test fails by panicking and says what it saw")]

mod broadcast_joins;
mod cases;
mod chaos;
mod command_line;
mod dependencies;
mod hostile;
mod jobmanager_loss;
mod kills;
mod lifecycle;
mod partial_loss;
mod random_queries;
mod runtime_filters;
mod skewed_joins;
mod tpch_local;
mod tpch_processes;
