//! What the kernel refuses: each of these runs in user and mount namespaces of its own.

use std::fs;
use std::process::Command;
use std::time::Duration;

use crankcase_workers::{Subscription, WatchProblem, WatcherConfig};

use crate::running::{TestResult, guarded};
use crate::watching::{Watching, is_told};

const WATCHES: &str = "/proc/sys/user/max_inotify_watches";
const INSTANCES: &str = "/proc/sys/user/max_inotify_instances";

fn often() -> WatcherConfig {
    WatcherConfig::default().look_every(Duration::from_millis(1))
}

/// Waits for looks until the problem is gone.
async fn recovered(subscription: &mut Subscription) -> TestResult {
    while subscription.problem().is_some() {
        guarded(subscription.changed()).await?;
    }
    Ok(())
}

/// Subscribes beyond the limit of watches, which changes the limit of the namespace.
pub(crate) async fn watches() -> TestResult {
    let mut watching = Watching::start(often())?;
    fs::create_dir(watching.path("folder"))?;
    fs::write(WATCHES, "1")?;
    watching.settle().await?;

    let mut subscription = watching.watch("folder/file")?;

    let problem = subscription.problem().ok_or("no problem")?;
    assert!(
        matches!(&*problem, WatchProblem::Limit { folder, .. } if *folder == watching.path("folder"))
    );
    let text = problem.to_string();
    assert!(text.contains("user.max_inotify_watches is 1)"), "{text}");
    assert!(text.contains("(fs.inotify.max_user_watches is "), "{text}");
    assert_eq!(watching.told().await?, Some(format!("a path is not watched: {text}")));
    assert_eq!(watching.problems(), 1);
    guarded(subscription.changed()).await?;
    guarded(subscription.changed()).await?;
    fs::write(WATCHES, "1000")?;
    recovered(&mut subscription).await?;
    while watching.told().await?.is_some() {}
    assert_eq!(watching.problems(), 0);
    let is_told = watching.tells(&mut subscription, |path| fs::write(path.join("folder/file"), ""));
    assert!(is_told.await?);
    watching.end().await
}

/// Subscribes without an instance, which changes the limit of the namespace.
pub(crate) async fn instances() -> TestResult {
    fs::write(INSTANCES, "0")?;
    let mut watching = Watching::start(often())?;

    let mut subscription = watching.watch("file")?;

    let problem = subscription.problem().ok_or("no problem")?;
    assert!(matches!(&*problem, WatchProblem::Instance { .. }));
    let text = problem.to_string();
    assert!(text.ends_with("user.max_inotify_instances is 0)"), "{text}");
    guarded(subscription.changed()).await?;
    fs::write(INSTANCES, "10")?;
    recovered(&mut subscription).await?;
    let is_told = watching.tells(&mut subscription, |path| fs::write(path.join("file"), ""));
    assert!(is_told.await?);
    watching.end().await
}

/// Mounts a file system on the way to a watched file.
pub(crate) async fn mounts() -> TestResult {
    let mut watching = Watching::new()?;
    fs::create_dir_all(watching.path("a/b"))?;
    let mut subscription = watching.watch("a/b/file")?;
    let (mount_point, file) = (watching.path("a"), watching.path("a/b/file"));

    watching.settle().await?;
    while is_told(&mut subscription).await {}
    let mounted = Command::new("mount").args(["-t", "tmpfs", "none"]).arg(&mount_point).status()?;
    assert!(mounted.success());
    guarded(subscription.changed()).await?;
    fs::create_dir(watching.path("a/b"))?;
    let created = watching.tells(&mut subscription, |_| fs::write(&file, ""));
    assert!(created.await?);
    let unmounted = Command::new("umount").arg("-l").arg(&mount_point).status()?;

    assert!(unmounted.success());
    guarded(subscription.changed()).await?;
    let created = watching.tells(&mut subscription, |_| fs::write(&file, ""));
    assert!(created.await?);
    watching.end().await
}
