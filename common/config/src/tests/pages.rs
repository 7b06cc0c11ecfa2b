//! The files of the top-level `config` folder agree with the registry.

use std::path::{Path, PathBuf};

use crate::load::load_layers;
use crate::registry;
use crate::{Config, Loaded, reference_markdown};

fn page(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config").join(name)
}

fn load(name: &str) -> Loaded {
    let loaded = load_layers(Some(&page(name)), &[], None).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(loaded.notes, [], "{name}");
    loaded
}

#[test]
fn the_reference_page_is_fresh() {
    let path = page("reference.md");
    if std::env::var_os("THALWEG_UPDATE_REFERENCE").is_some() {
        std::fs::write(&path, reference_markdown()).unwrap();
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        there == reference_markdown(),
        "config/reference.md is stale: run `thalweg config reference > config/reference.md`"
    );
}

#[test]
fn the_full_example_is_the_defaults() {
    assert_eq!(load("thalweg.yaml").config, Config::default());
}

#[test]
fn the_full_example_has_every_key_in_effect() {
    let text = std::fs::read_to_string(page("thalweg.yaml")).unwrap();
    for option in registry::in_effect() {
        // Set options with their default, unset ones as a comment with a value that reads.
        let prefix =
            if option.default.text().is_some() { format!("{}: ", option.key) } else { format!("# {}: ", option.key) };
        let value = text.lines().find_map(|line| line.strip_prefix(&prefix));
        let value = value.unwrap_or_else(|| panic!("no line starts with `{prefix}`"));
        let value = value.trim_matches('"').to_string();
        assert!(option.kind.parse(&crate::syntax::Raw::Scalar(value.clone())).is_some(), "{}: {value}", option.key);
    }
}

#[test]
fn the_examples_of_each_role_load() {
    let job_manager = load("jobmanager.yaml").config;
    assert!(job_manager.check_exposure(crate::Role::JobManager).is_ok());
    assert!(job_manager.filesystem.allowed_roots.is_some());
    let task_manager = load("taskmanager.yaml").config;
    assert!(task_manager.check_exposure(crate::Role::TaskManager).is_ok());
    let memory = &task_manager.taskmanager.memory;
    assert!(crate::memory_layout(memory.process_size.unwrap(), memory).is_ok());
}
