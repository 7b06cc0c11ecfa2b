//! thalweg-exec

pub mod stable_hash;
