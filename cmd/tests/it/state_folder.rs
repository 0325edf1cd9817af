//! Who may look into the folder in which an agent keeps what outlives it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::process::Signal;

use crate::agent::Agent;
use crate::machine::{Machine, signal};
use crate::world::{Error, TestResult};

/// Requires that a folder and all in it are for their owner alone; returns how many files it holds.
fn private(folder: &Path) -> Result<usize, Error> {
    assert_eq!(folder.metadata()?.mode() & 0o7777, 0o700, "{folder:?}");
    let mut count = 0;
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let found = fs::symlink_metadata(&path)?;
        if found.is_dir() {
            count += private(&path)?;
        } else {
            assert_eq!(found.mode() & 0o7777, 0o600, "{path:?}");
            count += 1;
        }
    }
    Ok(count)
}

#[tokio::test]
async fn the_state_folder_is_for_its_owner_alone_whatever_the_umask_is() -> TestResult {
    for umask in ["000", "0277"] {
        let machine = Machine::new(
            r#"resources:
  server:
    type: process
    config: {command: [/bin/sh, -c, "umask 022; echo $$ >> @/pids; exec sleep 1000"]}
"#,
        )?;
        let program = machine.program_after(&format!("umask {umask}"), &["run", "site.yaml"]);
        let mut agent = Agent::of(program).await?;
        agent.until_logged(&["everything is settled"]).await?;
        let server = machine.lines("pids", 1).await?.remove(0);
        // Killed, it changes nothing while the test looks.
        agent.dirty_kill().await?;
        signal(&server, Signal::KILL)?;

        let count = private(&machine.path("state"))?;

        // The lock, the socket, what is kept, and the record of the server; one may be just being replaced.
        assert!((4..=5).contains(&count), "umask {umask}: {count}");
    }
    Ok(())
}

#[tokio::test]
async fn no_command_takes_a_resource_in_the_state_folder() -> TestResult {
    let machine = Machine::new(
        "resources: {lock: {type: file, config: {path: '@/state/lock', state: absent}}}\n",
    )?;
    for command in ["check", "plan", "apply", "run"] {
        let ran = machine.run(&[command, "site.yaml"]).await?;

        let expected = "path \"@/state/lock\" is in the agent's state folder \"@/state\"";
        assert_eq!(ran.code, Some(65), "{command}: {ran:?}");
        assert!(ran.stderr.contains(expected), "{command}: {ran:?}");
    }
    Ok(())
}
