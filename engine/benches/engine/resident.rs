//! The memory of this process. The benchmarks of other crates use it too.

/// Returns the resident memory of this process in bytes.
pub(crate) fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    let kib: f64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib * 1024.0
}

/// Measures one kind of worker in a process of its own; returns bytes per worker.
pub(crate) fn spawn(kind: &str, count: usize) -> f64 {
    let program = std::env::current_exe().unwrap();
    let args = ["--memory-of", kind, &count.to_string()];
    let mut command = std::process::Command::new(program);
    // Memory is that of a program as anyone runs it.
    for (setting, _) in crate::allocator::SETTINGS {
        command.env_remove(setting);
    }
    let output = command.args(args).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
}
