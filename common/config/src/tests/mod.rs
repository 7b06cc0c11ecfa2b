mod layers;
mod pages;
mod values;

use std::ffi::OsString;
use std::path::PathBuf;

use crate::load::load_layers;
use crate::{Config, ConfigErrors, Loaded};

/// A configuration file in a folder of its own, gone with the value.
struct TestFile {
    folder: tempfile::TempDir,
}

impl TestFile {
    fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("thalweg.yaml"), text).unwrap();
        TestFile { folder }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("thalweg.yaml")
    }

    fn load(&self, overrides: &[(&str, &str)], token: Option<&str>) -> Result<Loaded, ConfigErrors> {
        let overrides: Vec<_> = overrides.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        load_layers(Some(&self.path()), &overrides, token.map(OsString::from))
    }
}

fn load(text: &str) -> Result<Loaded, ConfigErrors> {
    TestFile::new(text).load(&[], None)
}

/// The configuration of a file that has nothing to note.
fn config(text: &str) -> Config {
    let loaded = load(text).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(loaded.notes, [], "{text}");
    loaded.config
}

/// The problems of a file, each without the folder of the file.
fn problems(text: &str) -> Vec<String> {
    let file = TestFile::new(text);
    let prefix = format!("{}/", file.folder.path().display());
    match file.load(&[], None) {
        Ok(loaded) => panic!("no problem found: {loaded:?}"),
        Err(errors) => errors.problems.iter().map(|problem| problem.to_string().replace(&prefix, "")).collect(),
    }
}
