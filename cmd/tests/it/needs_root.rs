//! What only root can try. Without root, `.ci/test` counts these tests as skipped: they are left out
//! by the name of this module, and fail where they are run all the same.

use std::os::unix::fs::MetadataExt;

use tokio::process::Command;

use crate::machine::Machine;
use crate::processes::expect_told;
use crate::world::{TestResult, ran};

#[tokio::test]
async fn a_mode_is_set_without_the_right_to_set_owners() -> TestResult {
    let machine =
        Machine::new("resources: {page: {type: file, config: {path: '@/page', mode: '0640'}}}\n")?;
    machine.write("page", "kept")?;
    let path = machine.path("page");
    std::os::unix::fs::chown(&path, Some(65_534), None)?;
    let program = machine.program(&["apply", "site.yaml"]);
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set=-chown", "--inh-caps=-chown"]);
    command.arg(program.as_std().get_program()).args(program.as_std().get_args());
    command.env("PATH", "/usr/bin:/bin").current_dir(machine.path("")).kill_on_drop(true);

    let ran = ran(command).await?;

    assert_eq!(ran.code, Some(0), "{ran:?}");
    let metadata = std::fs::metadata(&path)?;
    assert_eq!((metadata.mode() & 0o7777, metadata.uid()), (0o640, 65_534));
    Ok(())
}

#[tokio::test]
async fn a_command_and_a_program_run_as_their_user_and_group() -> TestResult {
    let rights = "user: 54321, group: \"12345\", umask: \"077\", limits: {nofile: 32, core: 0}";
    expect_told(rights, &["54321", "12345", "0077", "32", "0"]).await
}
