//! thalweg-rpc
