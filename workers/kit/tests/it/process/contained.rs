//! What ends with a process: its group, or all that is in its cgroup.

use crankcase_workers::{Containment, Process};

use super::shell;
use crate::running::{Running, TestResult};

#[tokio::test]
async fn a_process_without_a_cgroup_says_that_its_group_ends_with_it() -> TestResult {
    let process = Process::spawn(shell("exec sleep 1000"), None).await?;

    assert_eq!(process.handle().status().contained_by, Containment::ProcessGroup);
    Running::start(process).clean_kill().await.map_err(|exit| exit.to_string())?;
    Ok(())
}

/// Left out by its name where the tests do not run as root. They need cgroups of version 2 that
/// root may change, and say so where there are none.
mod needs_root {
    use crate::alone::expect_alone;
    use crate::running::TestResult;

    #[tokio::test]
    async fn what_is_in_a_session_of_its_own_ends_with_a_process_that_is_stopped() -> TestResult {
        expect_alone(&[], "contained_stopped").await
    }

    #[tokio::test]
    async fn what_is_in_a_session_of_its_own_ends_with_a_process_that_was_killed() -> TestResult {
        expect_alone(&[], "contained_ended").await
    }

    #[tokio::test]
    async fn a_program_that_daemonises_in_a_cgroup_leaves_nothing_behind() -> TestResult {
        expect_alone(&[], "contained_daemonised").await
    }

    #[tokio::test]
    async fn what_is_in_a_session_of_its_own_does_not_outlive_an_agent_that_was_killed()
    -> TestResult {
        expect_alone(&[], "contained_left_behind").await
    }

    #[tokio::test]
    async fn what_is_in_a_session_of_its_own_ends_with_a_process_that_was_left_running()
    -> TestResult {
        expect_alone(&[], "contained_left_running").await
    }
}
