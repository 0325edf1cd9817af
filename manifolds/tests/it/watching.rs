//! What is said of paths that the kernel does not watch, in a user namespace with limits of its own.

use std::process::Stdio;

use tokio::process::Command;

use crate::process::{TestResult, example, guarded};

#[tokio::test]
async fn paths_beyond_the_limits_degrade_the_worker_until_the_limits_are_raised() -> TestResult {
    let mut command = Command::new("unshare");
    command.arg("-Urm").arg(example("03_alone")?).arg("watches");
    command.stdin(Stdio::null()).kill_on_drop(true);

    let output = guarded(command.output()).await?;

    let text = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&text));
    Ok(())
}
