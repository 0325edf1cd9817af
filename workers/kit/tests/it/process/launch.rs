//! The state in which a launched process begins: descriptors, signals, umask, limits and user.

use crankcase_workers::{Process, ProcessError};

use super::shell;
use crate::alone::expect_alone;
use crate::running::TestResult;

#[tokio::test]
async fn children_inherit_no_descriptor_and_no_ignored_signal() -> TestResult {
    let inheriting = "trap '' QUIT USR1 CHLD; exec 7</dev/null; exec \"$@\"";
    expect_alone(&["sh", "-c", inheriting, "sh"], "inherited").await
}

#[tokio::test]
async fn a_command_has_the_umask_and_the_limits_that_are_given() -> TestResult {
    expect_alone(&[], "bounded").await
}

#[tokio::test]
async fn what_is_launched_is_the_process_that_is_on_record() -> TestResult {
    expect_alone(&[], "recorded").await
}

#[tokio::test]
async fn a_program_and_a_user_that_are_not_there_are_named() -> TestResult {
    expect_alone(&[], "refused").await
}

#[tokio::test]
async fn a_process_that_is_launched_runs_on_if_its_health_command_is_not_there() -> TestResult {
    expect_alone(&[], "unasked").await
}

#[tokio::test]
async fn a_program_that_is_no_launcher_is_told_what_it_lacks() -> TestResult {
    let refused = Process::spawn(shell("exit 0").umask(0o022), None).await;

    let refused = refused.err().ok_or("it was spawned")?;
    assert!(matches!(refused, ProcessError::NoLauncher { .. }), "{refused}");
    assert!(refused.to_string().ends_with("main calls crankcase_workers::launch() first"));
    Ok(())
}

/// Left out by its name where the tests do not run as root.
mod needs_root {
    use crate::alone::expect_alone;
    use crate::running::TestResult;

    #[tokio::test]
    async fn a_command_runs_as_the_user_and_the_group_that_are_given() -> TestResult {
        expect_alone(&[], "another_user").await
    }
}
