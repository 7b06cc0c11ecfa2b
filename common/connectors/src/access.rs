//! Which files may be read at all.
//!
//! Guarantees that a path [`AccessRules::resolve`] returns has no symbolic link or `..` left in it and lies under an allowed
//! root. A path outside is refused with the same words whether it exists or not. Does not hold the file open: whoever opens
//! it later resolves it again first.

use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

use crate::error::{Error, PathProblem};

/// Directories that tables may read from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccessRules {
    /// Canonical directories; empty means that nothing may be read.
    pub allowed_roots: Vec<PathBuf>,
}

impl AccessRules {
    /// The canonical form of `path`, if it exists and lies under an allowed root. Touches the file system.
    pub(crate) fn resolve(&self, path: &Path) -> Result<PathBuf, Error> {
        match path.canonicalize() {
            Ok(canonical) if self.allows(&canonical) => Ok(canonical),
            Ok(_) => Err(self.outside(path)),
            Err(error) => match self.would_lie_inside(path) {
                false => Err(self.outside(path)),
                true if error.kind() == io::ErrorKind::NotFound => Err(Error::path(path, PathProblem::Missing)),
                true => Err(Error::io(path, error)),
            },
        }
    }

    fn allows(&self, canonical: &Path) -> bool {
        self.allowed_roots.iter().any(|root| canonical.starts_with(root))
    }

    fn outside(&self, path: &Path) -> Error {
        Error::path(path, PathProblem::OutsideRoots { roots: self.allowed_roots.clone() })
    }

    /// Whether a path that cannot be resolved ends in an allowed root, judged by its deepest part that can be.
    fn would_lie_inside(&self, path: &Path) -> bool {
        let mut rest: Vec<OsString> = Vec::new();
        let mut known = path.to_path_buf();
        loop {
            if let Ok(base) = known.canonicalize() {
                let mut full = base;
                full.extend(rest.iter().rev());
                return !has_parent_component(&full) && self.allows(&full);
            }
            match known.components().next_back() {
                Some(Component::Normal(name)) => rest.push(name.to_owned()),
                _ => return false,
            }
            known.pop();
            if known.as_os_str().is_empty() {
                known = PathBuf::from(".");
            }
        }
    }
}

fn has_parent_component(path: &Path) -> bool {
    path.components().any(|component| component == Component::ParentDir)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_util::rules_for;

    fn problem(result: Result<PathBuf, Error>) -> PathProblem {
        match result {
            Err(Error::Path { problem, .. }) => problem,
            other => panic!("expected a path error, got {other:?}"),
        }
    }

    #[test]
    fn only_paths_under_a_root_are_resolved() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        std::fs::create_dir_all(root.join("sub")).unwrap();
        std::fs::create_dir_all(dir.path().join("rootless")).unwrap();
        std::fs::write(root.join("a.csv"), "x").unwrap();
        std::fs::write(dir.path().join("secret"), "x").unwrap();
        std::os::unix::fs::symlink(dir.path().join("secret"), root.join("link")).unwrap();
        std::os::unix::fs::symlink("a.csv", root.join("inner")).unwrap();
        std::os::unix::fs::symlink(dir.path().join("nowhere"), root.join("dangling")).unwrap();
        let rules = rules_for(&root);
        let canonical_root = root.canonicalize().unwrap();

        assert_eq!(rules.resolve(&root.join("a.csv")).unwrap(), canonical_root.join("a.csv"));
        assert_eq!(rules.resolve(&root.join("sub/../a.csv")).unwrap(), canonical_root.join("a.csv"));
        assert_eq!(rules.resolve(&root.join("inner")).unwrap(), canonical_root.join("a.csv"));
        assert_eq!(problem(rules.resolve(&root.join("b.csv"))), PathProblem::Missing);
        for outside in ["link", "../secret", "../nothing", "../rootless", "sub/../../secret", "nope/../../secret"] {
            let found = problem(rules.resolve(&root.join(outside)));
            assert!(matches!(found, PathProblem::OutsideRoots { .. }), "{outside}: {found:?}");
        }
        // the link itself lies inside, its target is gone: nothing can be read through it
        assert_eq!(problem(rules.resolve(&root.join("dangling"))), PathProblem::Missing);
    }

    #[test]
    fn no_roots_allow_nothing() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a"), "x").unwrap();
        let error = AccessRules::default().resolve(&dir.path().join("a")).unwrap_err();
        assert!(error.to_string().contains("no data directory is allowed"), "{error}");
    }
}
