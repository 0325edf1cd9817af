//! Runs one test of this binary in a process of its own.

use std::process::Stdio;

use tokio::process::Command;

use crate::running::guarded;

/// Runs the ignored test `name` alone, under `wrapper` (a program and its arguments), and returns
/// whether it passed, with its output.
pub(crate) async fn run_alone(wrapper: &[&str], name: &str) -> std::io::Result<(bool, String)> {
    let binary = std::env::current_exe()?;
    let words = wrapper.iter().map(AsRef::as_ref).chain([binary.as_os_str()]);
    let mut words = words.map(std::ffi::OsStr::to_owned);
    let program = words.next().unwrap_or_default();
    let mut command = Command::new(program);
    command.args(words).args(["--exact", name, "--ignored", "--nocapture"]);
    command.stdin(Stdio::null()).kill_on_drop(true);
    let output = guarded(command.output()).await?;
    let text = [output.stdout, output.stderr].concat();
    Ok((output.status.success(), String::from_utf8_lossy(&text).into_owned()))
}

/// Returns whether this machine lets us make namespaces of our own, with limits of our own.
pub(crate) async fn can_unshare() -> std::io::Result<bool> {
    let probe = "echo 100 > /proc/sys/user/max_inotify_watches && mount -t tmpfs none /mnt";
    let mut command = Command::new("unshare");
    command.args(["-Urm", "sh", "-c", probe]).stderr(Stdio::null());
    Ok(command.status().await.is_ok_and(|status| status.success()))
}
