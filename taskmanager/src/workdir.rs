//! The directories a TaskManager process works in: fresh, locked, gone when it stops.
//!
//! Several TaskManagers may share `io.tmp.dirs`. Each makes `tm-<id>/` in every one of them and holds a lock in it while it
//! lives; directories of processes that died without cleaning up have a free lock and are removed by whoever starts next.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use tracing::{info, warn};

const LOCK: &str = "lock";
const PREFIX: &str = "tm-";

/// Removed, with everything in it, when dropped.
#[derive(Debug)]
pub struct WorkDirs {
    dirs: Vec<PathBuf>,
    /// Held for the life of the process.
    _locks: Vec<File>,
}

/// A directory that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {path:?}: check io.tmp.dirs")]
pub struct WorkDirError {
    action: &'static str,
    path: PathBuf,
    source: io::Error,
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> WorkDirError {
    move |source| WorkDirError { action, path: path.to_owned(), source }
}

impl WorkDirs {
    /// Makes and locks `tm-<id>` in each of `parents`. `id` must be new: a directory that is there already is an error.
    pub fn create(parents: &[PathBuf], id: &str) -> Result<Self, WorkDirError> {
        let mut made = Self { dirs: vec![], _locks: vec![] };
        for parent in parents {
            std::fs::create_dir_all(parent).map_err(failed("create", parent))?;
            sweep(parent);
            let dir = parent.join(format!("{PREFIX}{id}"));
            std::fs::create_dir(&dir).map_err(failed("create", &dir))?;
            made.dirs.push(dir.clone());
            let path = dir.join(LOCK);
            let lock = File::create_new(&path).map_err(failed("create", &path))?;
            lock.lock().map_err(failed("lock", &path))?;
            made._locks.push(lock);
        }
        Ok(made)
    }

    /// A directory named `name` in each work directory.
    pub fn subdirs(&self, name: &str) -> Result<Vec<PathBuf>, WorkDirError> {
        let make = |dir: &PathBuf| {
            let sub = dir.join(name);
            std::fs::create_dir_all(&sub).map_err(failed("create", &sub))?;
            Ok(sub)
        };
        self.dirs.iter().map(make).collect()
    }
}

impl Drop for WorkDirs {
    fn drop(&mut self) {
        for dir in &self.dirs {
            if let Err(error) = std::fs::remove_dir_all(dir) {
                warn!(?dir, %error, "work directory not removed");
            }
        }
    }
}

/// Removes what dead processes left in `parent`. Whatever cannot be looked at is left alone.
fn sweep(parent: &Path) {
    let Ok(entries) = std::fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        let is_dir = entry.file_type().is_ok_and(|t| t.is_dir());
        if ours && is_dir && is_abandoned(&entry.path()) {
            info!(dir = ?entry.path(), "removing the work directory of a taskmanager that is gone");
            if let Err(error) = std::fs::remove_dir_all(entry.path()) {
                warn!(dir = ?entry.path(), %error, "not removed");
            }
        }
    }
}

fn is_abandoned(dir: &Path) -> bool {
    // without a lock file it is being made, or none of ours
    let Ok(lock) = File::open(dir.join(LOCK)) else { return false };
    match lock.try_lock() {
        Ok(()) => true,
        Err(TryLockError::WouldBlock | TryLockError::Error(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_living_are_left_alone_and_the_dead_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let parents = [parent.path().to_owned()];
        let living = WorkDirs::create(&parents, "a").unwrap();
        let dead = parent.path().join("tm-dead");
        std::fs::create_dir(&dead).unwrap();
        std::fs::write(dead.join(LOCK), "").unwrap();
        std::fs::write(dead.join("block"), "x").unwrap();
        std::fs::create_dir(parent.path().join("tm-being-made")).unwrap();
        let second = WorkDirs::create(&parents, "b").unwrap();
        assert!(!dead.exists());
        assert!(parent.path().join("tm-a").exists());
        assert!(parent.path().join("tm-being-made").exists());
        assert!(WorkDirs::create(&parents, "a").is_err());
        drop((living, second));
        assert!(!parent.path().join("tm-a").exists());
    }
}
