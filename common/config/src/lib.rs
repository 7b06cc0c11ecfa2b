//! thalweg-config
