//! What the kernel refuses, in a user namespace with limits of its own.

use crate::alone::{can_unshare, expect_alone};
use crate::running::TestResult;

async fn expect_in_namespace(scene: &str) -> TestResult {
    if !can_unshare().await? {
        return Err("needs user and mount namespaces: unshare -Urm".into());
    }
    expect_alone(&["unshare", "-Urm"], scene).await
}

#[tokio::test]
async fn a_subscription_beyond_the_limit_of_watches_says_so_and_recovers() -> TestResult {
    expect_in_namespace("watches").await
}

#[tokio::test]
async fn a_subscription_without_an_instance_says_so_and_recovers() -> TestResult {
    expect_in_namespace("instances").await
}

#[tokio::test]
async fn a_file_system_that_is_mounted_on_the_way_is_followed() -> TestResult {
    expect_in_namespace("mounts").await
}
