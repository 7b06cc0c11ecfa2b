//! Tests of the exchange through its public interface.

mod decode;
mod fetch_size;
mod flight;
mod input;
mod roundtrip;
mod spill;
mod support;
