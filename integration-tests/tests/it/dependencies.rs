//! Which crate may depend on which, read from `cargo metadata`; and one version of each library that moves as a set.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

/// Normal dependencies (not for tests or build scripts) of each crate of this workspace, by name.
fn direct() -> BTreeMap<String, BTreeSet<String>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    let output = command.output().expect("cargo runs");
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo prints JSON");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    let normal = |package: &Value| -> BTreeSet<String> {
        let dependencies = package["dependencies"].as_array().into_iter().flatten();
        dependencies.filter(|d| d["kind"].is_null()).map(|d| text(&d["name"])).collect()
    };
    let packages = metadata["packages"].as_array().into_iter().flatten();
    packages.map(|package| (text(&package["name"]), normal(package))).collect()
}

/// What a crate reaches through crates of this workspace, with the libraries those name.
fn reachable(direct: &BTreeMap<String, BTreeSet<String>>, from: &str) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    let mut todo = vec![from.to_string()];
    while let Some(name) = todo.pop() {
        for dependency in direct.get(&name).into_iter().flatten() {
            if seen.insert(dependency.clone()) {
                todo.push(dependency.clone());
            }
        }
    }
    seen
}

fn crates_that_name<'a>(direct: &'a BTreeMap<String, BTreeSet<String>>, prefix: &str) -> BTreeSet<&'a str> {
    let names = |dependencies: &BTreeSet<String>| {
        dependencies.iter().any(|d| d == prefix || d.starts_with(&format!("{prefix}-")))
    };
    direct.iter().filter(|(_, dependencies)| names(dependencies)).map(|(name, _)| name.as_str()).collect()
}

fn assert_only(found: BTreeSet<&str>, allowed: &[&str], what: &str) {
    let strangers: Vec<&str> = found.into_iter().filter(|name| !allowed.contains(name)).collect();
    assert!(strangers.is_empty(), "{what} belongs to {allowed:?}, but is named by {strangers:?}");
}

#[test]
fn the_metadata_was_read() {
    let direct = direct();
    assert!(direct.len() >= 14, "{:?}", direct.keys());
    assert!(direct["thalweg-client"].contains("thalweg-jobmanager"));
    assert!(reachable(&direct, "thalweg-client").contains("thalweg-core"));
    assert!(!crates_that_name(&direct, "datafusion").is_empty());
}

#[test]
fn decisions_are_made_without_runtime_network_or_engine() {
    let reached = reachable(&direct(), "thalweg-core");
    for library in
        ["tokio", "tonic", "prost", "arrow", "datafusion", "rocksdb", "object_store", "futures", "async-trait"]
    {
        let found: Vec<&String> =
            reached.iter().filter(|d| *d == library || d.starts_with(&format!("{library}-"))).collect();
        assert!(found.is_empty(), "thalweg-core reaches {found:?}");
    }
}

#[test]
fn the_daemons_do_not_know_each_other() {
    let direct = direct();
    assert!(!reachable(&direct, "thalweg-jobmanager").contains("thalweg-taskmanager"));
    assert!(!reachable(&direct, "thalweg-taskmanager").contains("thalweg-jobmanager"));
    let meets = |d: &BTreeSet<String>| d.contains("thalweg-jobmanager") && d.contains("thalweg-taskmanager");
    let both = direct.iter().filter(|(_, d)| meets(d)).map(|(name, _)| name.as_str()).collect();
    assert_only(both, &["thalweg-client", "thalweg-integration-tests"], "a crate that sees both daemons");
}

#[test]
fn the_task_manager_does_not_decide() {
    let reached = reachable(&direct(), "thalweg-taskmanager");
    assert!(!reached.contains("thalweg-planner"), "the TaskManager reaches the planner");
}

#[test]
fn the_engine_stays_where_plans_are_made_and_run() {
    let allowed = [
        "thalweg-exec",
        "thalweg-planner",
        "thalweg-connectors",
        // They only put the engine's parts together.
        "thalweg-jobmanager",
        "thalweg-taskmanager",
        "thalweg-integration-tests",
    ];
    assert_only(crates_that_name(&direct(), "datafusion"), &allowed, "datafusion");
}

#[test]
fn generated_messages_stay_at_the_edges() {
    let allowed =
        ["thalweg-rpc", "thalweg-jobmanager", "thalweg-taskmanager", "thalweg-client", "thalweg-integration-tests"];
    assert_only(crates_that_name(&direct(), "thalweg-proto"), &allowed, "thalweg-proto");
}

#[test]
fn low_crates_do_not_look_up() {
    let direct = direct();
    let ours = |from: &str| -> BTreeSet<String> {
        reachable(&direct, from).into_iter().filter(|d| d.starts_with("thalweg-")).collect()
    };
    assert_eq!(ours("thalweg-types"), BTreeSet::new());
    assert_eq!(ours("thalweg-graph"), BTreeSet::from(["thalweg-types".to_string()]));
    assert_eq!(ours("thalweg-proto"), BTreeSet::new());
    for (crate_name, dependencies) in &direct {
        let user = dependencies.contains("thalweg-integration-tests") || dependencies.contains("thalweg-client");
        assert!(!user || crate_name == "thalweg-integration-tests", "{crate_name} depends on the top");
    }
}

/// Two majors of one of these in a build means types that look alike and do not fit.
#[test]
fn libraries_that_move_as_a_set_have_one_version() {
    let lock = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.lock");
    let text = std::fs::read_to_string(&lock).expect("Cargo.lock is committed");
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut name = "";
    for line in text.lines() {
        if let Some(value) = line.strip_prefix("name = ") {
            name = value.trim_matches('"');
        } else if let Some(value) = line.strip_prefix("version = ") {
            versions.entry(name).or_default().insert(value.trim_matches('"'));
        }
    }
    for library in ["arrow", "arrow-flight", "parquet", "object_store", "sqlparser", "tonic", "prost", "datafusion"] {
        let found = versions.get(library).unwrap_or_else(|| panic!("{library} is not in Cargo.lock"));
        assert_eq!(found.len(), 1, "{library} is there in versions {found:?}");
    }
}
