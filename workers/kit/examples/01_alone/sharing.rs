//! How many watches of the kernel a process has: each of these is the only one of its process.

use std::fs;

use crate::running::TestResult;
use crate::watching::{Watching, is_told};

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

/// Watches many files in many folders.
pub(crate) async fn many_files() -> TestResult {
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

/// Drops the subscriptions of a folder one by one.
pub(crate) async fn releasing() -> TestResult {
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

/// Moves a watched folder away.
pub(crate) async fn moving() -> TestResult {
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
