//! thalweg-exec
