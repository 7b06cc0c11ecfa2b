//! Tests of the exchange through its public interface.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a test fails by panicking and says what it measured")]

mod decode;
mod fetch_size;
mod flight;
mod input;
mod roundtrip;
mod spill;
mod support;
