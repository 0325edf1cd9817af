use std::fs;

use super::{Watching, is_told};
use crate::alone::run_alone;
use crate::running::{TestResult, guarded};

/// Returns the number of kernel watches of each inotify instance of this process.
fn kernel_watches() -> std::io::Result<Vec<usize>> {
    let mut instances = Vec::new();
    for fd in fs::read_dir("/proc/self/fd")? {
        let fd = fd?;
        if fs::read_link(fd.path()).is_ok_and(|to| to.as_os_str() == "anon_inode:inotify") {
            let info =
                fs::read_to_string(format!("/proc/self/fdinfo/{}", fd.file_name().display()))?;
            instances.push(info.lines().filter(|line| line.starts_with("inotify ")).count());
        }
    }
    Ok(instances)
}

async fn expect_alone(name: &str) -> TestResult {
    let (is_passed, output) = run_alone(&[], name).await?;
    assert!(is_passed, "{output}");
    Ok(())
}

#[tokio::test]
async fn many_files_in_many_folders_share_one_instance_and_a_watch_per_folder() -> TestResult {
    expect_alone("file_watch::sharing::many_files_alone").await
}

#[tokio::test]
#[ignore = "counts the watches of a process of its own"]
async fn many_files_alone() -> TestResult {
    let mut watching = Watching::new()?;
    let before = kernel_watches()?;
    let mut subscriptions = Vec::new();
    for folder in 0..20 {
        fs::create_dir(watching.path(&format!("{folder}")))?;
        for file in 0..50 {
            subscriptions.push(watching.watch(&format!("{folder}/{file}"))?);
        }
    }

    assert_eq!(before.len(), 1);
    assert_eq!(kernel_watches()?, [before[0] + 20]);
    watching.settle().await?;
    for subscription in &mut subscriptions {
        while is_told(subscription).await {}
    }
    for name in ["0/0", "7/49", "19/25"] {
        fs::write(watching.path(name), "")?;
    }
    watching.settle().await?;
    let mut told = Vec::new();
    for subscription in &mut subscriptions {
        if is_told(subscription).await {
            told.push(subscription.path().to_owned());
        }
    }
    assert_eq!(told, ["0/0", "7/49", "19/25"].map(|name| watching.path(name)));
    watching.end().await
}

#[tokio::test]
async fn the_last_subscription_of_a_folder_releases_its_watch() -> TestResult {
    expect_alone("file_watch::sharing::releasing_alone").await
}

#[tokio::test]
#[ignore = "counts the watches of a process of its own"]
async fn releasing_alone() -> TestResult {
    let mut watching = Watching::new()?;
    let before = kernel_watches()?[0];
    fs::create_dir_all(watching.path("a/b"))?;
    let first = watching.watch("a/b/first")?;
    let mut second = watching.watch("a/b/second")?;
    assert_eq!(kernel_watches()?, [before + 2]);

    drop(first);
    assert_eq!(kernel_watches()?, [before + 2]);
    assert!(watching.tells(&mut second, |path| fs::write(path.join("a/b/second"), "")).await?);
    drop(second);
    assert_eq!(kernel_watches()?, [before]);

    watching.end().await
}

#[tokio::test]
async fn a_folder_that_was_moved_away_releases_its_watch() -> TestResult {
    expect_alone("file_watch::sharing::moving_alone").await
}

#[tokio::test]
#[ignore = "counts the watches of a process of its own"]
async fn moving_alone() -> TestResult {
    let mut watching = Watching::new()?;
    let before = kernel_watches()?[0];
    fs::create_dir_all(watching.path("a/b"))?;
    let mut subscription = watching.watch("a/b/file")?;

    let moved =
        watching.tells(&mut subscription, |path| fs::rename(path.join("a"), path.join("gone")));

    assert!(moved.await?);
    assert_eq!(kernel_watches()?, [before]);
    watching.end().await
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
