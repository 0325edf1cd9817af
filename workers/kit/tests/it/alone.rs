//! Runs a scene of `examples/01_alone` in a process of its own.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;

use crate::running::{TestResult, guarded};

/// Expects that a scene goes well, run under `wrapper` (a program and its arguments, or nothing).
pub(crate) async fn expect_alone(wrapper: &[&str], scene: &str) -> TestResult {
    let example = example()?;
    let mut words = wrapper.iter().map(Path::new).chain([example.as_path()]);
    let mut command = Command::new(words.next().unwrap_or(&example));
    command.args(words).arg(scene).stdin(Stdio::null()).kill_on_drop(true);
    let output = guarded(command.output()).await?;
    let text = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&text));
    Ok(())
}

/// Cargo builds examples beside the tests, but tells no path.
pub(crate) fn example() -> Result<PathBuf, Box<dyn std::error::Error>> {
    let test = std::env::current_exe()?;
    let folder = test.parent().and_then(Path::parent).ok_or("no target folder")?;
    let example = folder.join("examples/01_alone");
    if example.exists() { Ok(example) } else { Err(format!("{example:?} is not built").into()) }
}

/// Returns whether this machine lets us make namespaces of our own, with limits of our own.
pub(crate) async fn can_unshare() -> std::io::Result<bool> {
    let probe = "echo 100 > /proc/sys/user/max_inotify_watches && mount -t tmpfs none /mnt";
    let mut command = Command::new("unshare");
    command.args(["-Urm", "sh", "-c", probe]).stderr(Stdio::null());
    Ok(command.status().await.is_ok_and(|status| status.success()))
}
