//! thalweg-taskmanager
