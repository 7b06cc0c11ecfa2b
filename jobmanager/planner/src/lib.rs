//! thalweg-planner
