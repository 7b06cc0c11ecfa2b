//! thalweg-shuffle
