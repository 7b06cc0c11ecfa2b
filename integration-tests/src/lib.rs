//! thalweg-integration-tests
