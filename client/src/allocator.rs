//! The allocator, and how long it keeps what was given back.
//!
//! Pages fresh from the kernel cost about a second of CPU per gigabyte, more than writing them: a TaskManager that returned its
//! memory between two stages would pay that at each of them. So freed memory stays for a while, and large blocks may use huge
//! pages; at its peak a process holds somewhat more (docs/decisions/0003). The allocator reads its settings from the environment before `main`,
//! which is why a process that finds none there starts itself over with them: same process id, a millisecond.

use std::os::unix::process::CommandExt;
use std::process::Command;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Milliseconds before freed memory goes back to the kernel, and huge pages (2 = ask for them) where the system leaves the choice.
const SETTINGS: [(&str, &str); 2] = [("MIMALLOC_PURGE_DELAY", "10000"), ("MIMALLOC_ALLOW_THP", "2")];

/// Starts the program over with the allocator's settings, unless some are in the environment. Returns if that was not
/// necessary, or not possible: the program then runs with the allocator's defaults.
pub fn keep_freed_memory() {
    if SETTINGS.iter().any(|(name, _)| std::env::var_os(name).is_some()) {
        return;
    }
    if let Ok(program) = std::env::current_exe() {
        let mut arguments = std::env::args_os();
        let mut again = Command::new(program);
        if let Some(name) = arguments.next() {
            again.arg0(name);
        }
        let _ = again.args(arguments).envs(SETTINGS).exec();
    }
}
