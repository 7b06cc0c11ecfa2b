//! thalweg-runtime
