//! How the memory of a TaskManager process is divided, and how large the process may be when nobody says.
//!
//! ```text
//! process = base 96 mb + network (fraction, min … max) + slack 10 % + managed (the rest, or its fraction)
//! ```
//!
//! With `managed.fraction` set, what it leaves over is added to the slack.

use std::path::Path;

use crate::config::Memory;
use crate::syntax::format_memory;

const MB: u64 = 1 << 20;
/// Code, stacks, allocator and the RPC layer.
const BASE: u64 = 96 * MB;
/// Under this no operator can work.
const LEAST_MANAGED: u64 = 32 * MB;
/// Used where the system tells neither its memory nor a limit.
const FALLBACK: u64 = 2048 * MB;

/// Bytes of each part; they add up to the process size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryLayout {
    pub base: u64,
    pub network: u64,
    pub managed: u64,
    /// Not given to anyone: fragmentation and what is not counted.
    pub slack: u64,
}

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    #[error(
        "a process size of {process} leaves less than {least} of managed memory; set taskmanager.memory.process.size \
         to at least {minimum}", process = format_memory(*process), least = format_memory(LEAST_MANAGED),
        minimum = format_memory(*minimum)
    )]
    TooSmall { process: u64, minimum: u64 },
    #[error(
        "taskmanager.memory.managed.fraction {fraction} of {process} is {wanted}, but base, network and slack leave \
         only {left}; lower the fraction or leave it unset", process = format_memory(*process),
        wanted = whole_mb(*wanted), left = whole_mb(*left)
    )]
    FractionTooLarge { process: u64, fraction: f64, wanted: u64, left: u64 },
    #[error("no process size is enough with taskmanager.memory.network.{{fraction,min,max}} as set; lower them")]
    NetworkTooLarge,
}

/// Divides `process` bytes. Errors if less than 32 MB would be left to manage, naming the least process size, or if the
/// fractions ask for more than there is.
pub fn memory_layout(process: u64, memory: &Memory) -> Result<MemoryLayout, MemoryError> {
    let network = network_bytes(process, memory);
    let left = bytes_left(process, memory);
    let managed = managed_bytes(process, memory);
    if left < LEAST_MANAGED || managed < LEAST_MANAGED {
        let minimum = least_process_size(memory).ok_or(MemoryError::NetworkTooLarge)?;
        return Err(MemoryError::TooSmall { process, minimum });
    }
    if let (Some(fraction), true) = (memory.managed_fraction, managed > left) {
        return Err(MemoryError::FractionTooLarge { process, fraction, wanted: managed, left });
    }
    Ok(MemoryLayout { base: BASE, network, managed, slack: process - BASE - network - managed })
}

fn network_bytes(process: u64, memory: &Memory) -> u64 {
    // Not `clamp`, which panics if a caller made a `Memory` with min > max.
    share(process, memory.network_fraction).max(memory.network_min).min(memory.network_max)
}

/// What base, network and slack leave.
fn bytes_left(process: u64, memory: &Memory) -> u64 {
    process.saturating_sub(BASE).saturating_sub(network_bytes(process, memory)).saturating_sub(process / 10)
}

fn managed_bytes(process: u64, memory: &Memory) -> u64 {
    match memory.managed_fraction {
        Some(fraction) => share(process, fraction),
        None => bytes_left(process, memory),
    }
}

fn share(bytes: u64, fraction: f64) -> u64 {
    // Sizes are far below 2^53, so the rounding of f64 is under a byte; the cast saturates.
    (bytes as f64 * fraction) as u64
}

/// The least whole number of MB that leaves enough, by bisection: once there is enough, more memory is enough too.
fn least_process_size(memory: &Memory) -> Option<u64> {
    let is_enough = |mb: u64| {
        let process = mb * MB;
        bytes_left(process, memory).min(managed_bytes(process, memory)) >= LEAST_MANAGED
    };
    let (mut too_small, mut enough) = (0, 1 << 32); // in MB
    if !is_enough(enough) {
        return None;
    }
    while enough - too_small > 1 {
        let middle = too_small + (enough - too_small) / 2;
        if is_enough(middle) { enough = middle } else { too_small = middle }
    }
    Some(enough * MB)
}

fn whole_mb(bytes: u64) -> String {
    format!("{} mb", bytes / MB)
}

/// min(cgroup limit, 60 % of RAM), in bytes. Where neither can be told (not Linux), 2 GB.
pub fn default_process_size() -> u64 {
    process_size_under(Path::new("/"))
}

/// As [`default_process_size`], with `/proc` and `/sys` below `root`.
fn process_size_under(root: &Path) -> u64 {
    let of_ram = total_ram(root).map(|ram| ram / 10 * 6);
    let limit = cgroup_limit(root);
    of_ram.into_iter().chain(limit).min().unwrap_or(FALLBACK)
}

fn total_ram(root: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The smallest limit of the process's groups and all groups above them, version 2 and 1. A container that sees only its
/// own group finds it at the root.
fn cgroup_limit(root: &Path) -> Option<u64> {
    let groups = std::fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let mut limits = Vec::new();
    for line in groups.lines().chain(["0::/", "1:memory:/"]) {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let (mount, file) = match controllers {
            "" => ("sys/fs/cgroup", "memory.max"),
            list if list.split(',').any(|name| name == "memory") => ("sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            _ => continue,
        };
        let mount = root.join(mount);
        let group = mount.join(path.trim_start_matches('/'));
        let above = group.ancestors().take_while(|folder| folder.starts_with(&mount));
        limits.extend(above.filter_map(|folder| {
            // "max" and, in version 1, a number near 2^63 mean no limit: the first does not parse, the second is
            // larger than any RAM.
            std::fs::read_to_string(folder.join(file)).ok()?.trim().parse::<u64>().ok().filter(|limit| *limit > 0)
        }));
    }
    limits.into_iter().min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;
    use proptest::prelude::*;

    fn defaults() -> Memory {
        Config::default().taskmanager.memory
    }

    #[test]
    fn the_parts_add_up() {
        let layout = memory_layout(1024 * MB, &defaults()).unwrap();
        assert_eq!((layout.base, layout.network), (96 * MB, share(1024 * MB, 0.1)));
        assert_eq!(layout.slack, 1024 * MB / 10);
        assert_eq!(layout.base + layout.network + layout.managed + layout.slack, 1024 * MB);
        // clamped at both ends
        assert_eq!(memory_layout(300 * MB, &defaults()).unwrap().network, 64 * MB);
        assert_eq!(memory_layout(64 << 30, &defaults()).unwrap().network, 1 << 30);
    }

    #[test]
    fn a_fraction_sets_managed_memory() {
        let memory = Memory { managed_fraction: Some(0.5), ..defaults() };
        let layout = memory_layout(1024 * MB, &memory).unwrap();
        assert_eq!(layout.managed, 512 * MB);
        assert_eq!(layout.base + layout.network + layout.managed + layout.slack, 1024 * MB);
        let memory = Memory { managed_fraction: Some(0.9), ..defaults() };
        let error = memory_layout(1024 * MB, &memory).unwrap_err();
        assert!(matches!(error, MemoryError::FractionTooLarge { .. }), "{error}");
    }

    #[test]
    fn too_small_a_process_names_the_minimum() {
        let error = memory_layout(100 * MB, &defaults()).unwrap_err();
        let MemoryError::TooSmall { minimum, .. } = error else { panic!("{error}") };
        assert_eq!(minimum, 214 * MB); // (96 + 64 + 32) / 0.9, rounded up
        assert!(memory_layout(minimum, &defaults()).is_ok());
        assert!(memory_layout(minimum - MB, &defaults()).is_err());
        assert!(error.to_string().contains("to at least 214 mb"), "{error}");
        assert!(memory_layout(0, &defaults()).is_err());
        assert!(memory_layout(u64::MAX, &defaults()).is_ok());
    }

    #[test]
    fn limits_of_the_host_are_read() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        assert_eq!(process_size_under(root.path()), FALLBACK);
        write("proc/meminfo", "MemFree: 1 kB\nMemTotal:       10240 kB\n");
        assert_eq!(process_size_under(root.path()), 1024 * 1024 * 6);
        write("proc/self/cgroup", "0::/a/b\n");
        write("sys/fs/cgroup/a/b/memory.max", "max\n");
        assert_eq!(process_size_under(root.path()), 1024 * 1024 * 6);
        write("sys/fs/cgroup/a/memory.max", "5000000\n"); // the group above limits too
        assert_eq!(process_size_under(root.path()), 5_000_000);
        write("proc/self/cgroup", "9:cpu,memory:/x\n0::/\n");
        write("sys/fs/cgroup/memory/x/memory.limit_in_bytes", "4000000\n");
        write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(process_size_under(root.path()), 4_000_000);
    }

    #[test]
    fn this_host_has_some_memory() {
        assert!(default_process_size() > 0);
    }

    proptest! {
        #[test]
        fn every_layout_adds_up(process in any::<u64>(), network in 0.01..0.99f64, managed in proptest::option::of(0.01..0.99f64)) {
            let memory = Memory { network_fraction: network, managed_fraction: managed, ..defaults() };
            match memory_layout(process, &memory) {
                Ok(l) => {
                    prop_assert_eq!(l.base + l.network + l.managed + l.slack, process);
                    prop_assert!(l.managed >= LEAST_MANAGED && l.slack >= process / 10);
                }
                Err(MemoryError::TooSmall { minimum, .. }) => {
                    prop_assert!(minimum > process);
                    let again = memory_layout(minimum, &memory);
                    prop_assert!(!matches!(again, Err(MemoryError::TooSmall { .. })), "{again:?}");
                }
                Err(_) => {}
            }
        }
    }
}
