//! How the parts of a cluster talk: domain messages, their conversion to and from protobuf, typed errors over gRPC.

pub mod link;
