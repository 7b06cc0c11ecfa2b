//! thalweg-jobmanager
