//! The wire API: generated from the `.proto` files beside this crate, and nothing else.

/// Public API and internal services, version 1.
pub mod v1 {
    #![allow(clippy::all, missing_docs)]
    tonic::include_proto!("thalweg.v1");
}

/// The encoded `FileDescriptorSet`, for gRPC reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
