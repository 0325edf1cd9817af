//! How the allocator is to treat what is given back to it. The benchmarks of other crates use it too.

use std::env;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// Settings of glibc's allocator: it keeps what it is given back, and treats large blocks as it does
/// by itself once it has seen the largest.
pub(crate) const SETTINGS: [(&str, &str); 2] =
    [("MALLOC_TRIM_THRESHOLD_", "4294967296"), ("MALLOC_MMAP_THRESHOLD_", "33554432")];

/// Runs this program again with an allocator that keeps what it is given back.
///
/// By default it gives memory back to the kernel whenever the last blocks happen to be free. A round
/// then pays for pages or does not as the one before has left them, floor and engine alike, which
/// is up to a third of a start.
pub(crate) fn keep_memory() {
    if SETTINGS.iter().any(|(name, _)| env::var_os(name).is_none()) {
        let program = env::current_exe().unwrap();
        let error = Command::new(program).args(env::args_os().skip(1)).envs(SETTINGS).exec();
        panic!("cannot run itself again: {error}");
    }
}
