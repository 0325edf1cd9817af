//! Subscriptions that share watches of the kernel, and release them.

use std::fs;

use crate::alone::expect_alone;
use crate::running::{TestResult, guarded};
use crate::watching::{Watching, is_told};

#[tokio::test]
async fn many_files_in_many_folders_share_one_instance_and_a_watch_per_folder() -> TestResult {
    expect_alone(&[], "many_files").await
}

#[tokio::test]
async fn the_last_subscription_of_a_folder_releases_its_watch() -> TestResult {
    expect_alone(&[], "releasing").await
}

#[tokio::test]
async fn a_folder_that_was_moved_away_releases_its_watch() -> TestResult {
    expect_alone(&[], "moving").await
}

#[tokio::test]
async fn every_subscription_is_told_when_the_kernel_drops_events() -> TestResult {
    let limit: usize =
        fs::read_to_string("/proc/sys/fs/inotify/max_queued_events")?.trim().parse()?;
    let mut watching = Watching::new()?;
    fs::create_dir(watching.path("busy"))?;
    fs::create_dir(watching.path("late"))?;
    let _busy = watching.watch("busy")?;
    let mut late = watching.watch("late/a/file")?;
    watching.settle().await?;
    while is_told(&mut late).await {}
    // Two events each, and the worker does not run in between.
    let (from, to) = (watching.path("busy/from"), watching.path("busy/to"));
    fs::write(&from, "")?;
    for _ in 0..=limit / 4 {
        fs::rename(&from, &to)?;
        fs::rename(&to, &from)?;
    }

    fs::create_dir(watching.path("late/a"))?;

    guarded(late.changed()).await?;
    let created = watching.tells(&mut late, |path| fs::write(path.join("late/a/file"), ""));
    assert!(created.await?);
    watching.end().await
}
