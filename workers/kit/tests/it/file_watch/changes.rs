//! Which changes of files, folders and symlinks a watcher reports.

use std::fs::{self, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use crankcase_workers::{WatchError, Watcher, WatcherConfig, Writing};

use crate::running::{TestResult, guarded};
use crate::watching::Watching;

#[tokio::test]
async fn a_file_written_in_place_is_told_also_while_it_is_open() -> TestResult {
    let mut watching = Watching::new()?;
    let mut file = fs::File::create(watching.path("file"))?;
    let mut subscription = watching.watch("file")?;

    assert!(watching.tells(&mut subscription, |_| file.write_all(b"new")).await?);
    assert!(watching.tells(&mut subscription, |_| file.write_all(b"newer")).await?);

    watching.end().await
}

#[tokio::test]
async fn a_file_is_being_written_from_the_first_write_until_it_is_closed() -> TestResult {
    let mut watching = Watching::new()?;
    let mut file = fs::File::create(watching.path("file"))?;
    let mut subscription = watching.watch("file")?;
    assert_eq!(subscription.writing(), Writing::Closed);

    assert!(watching.tells(&mut subscription, |_| file.write_all(b"new")).await?);
    assert_eq!(subscription.writing(), Writing::Open);
    let restrict =
        |folder: &Path| fs::set_permissions(folder.join("file"), Permissions::from_mode(0o600));
    assert!(watching.tells(&mut subscription, restrict).await?);
    assert_eq!(subscription.writing(), Writing::Open);
    let close = |_: &Path| {
        drop(file);
        Ok(())
    };
    assert!(watching.tells(&mut subscription, close).await?);
    assert_eq!(subscription.writing(), Writing::Closed);

    watching.end().await
}

#[tokio::test]
async fn a_file_that_takes_the_place_of_an_open_one_is_not_being_written() -> TestResult {
    let mut watching = Watching::new()?;
    fs::write(watching.path("other"), "whole")?;
    let mut file = fs::File::create(watching.path("file"))?;
    let mut subscription = watching.watch("file")?;

    assert!(watching.tells(&mut subscription, |_| file.write_all(b"a part")).await?);
    assert_eq!(subscription.writing(), Writing::Open);
    let rename = |folder: &Path| fs::rename(folder.join("other"), folder.join("file"));
    assert!(watching.tells(&mut subscription, rename).await?);
    assert_eq!(subscription.writing(), Writing::Closed);

    watching.end().await
}

#[tokio::test]
async fn a_path_through_a_folder_takes_nothing_from_a_path_in_it() -> TestResult {
    let mut watching = Watching::new()?;
    let mut file = fs::File::create(watching.path("file"))?;
    let mut subscription = watching.watch("file")?;
    watching.settle().await?;
    let _through = watching.watch("folder/other")?;

    assert!(watching.tells(&mut subscription, |_| file.write_all(b"new")).await?);

    watching.end().await
}

#[tokio::test]
async fn an_editor_that_renames_over_the_file_is_told_every_time() -> TestResult {
    let mut watching = Watching::new()?;
    fs::write(watching.path("file"), "old")?;
    let mut subscription = watching.watch("file")?;

    for _ in 0..3 {
        let is_told = watching.tells(&mut subscription, |folder| {
            fs::write(folder.join(".file.swp"), "new")?;
            fs::rename(folder.join(".file.swp"), folder.join("file"))
        });
        assert!(is_told.await?);
    }

    watching.end().await
}

#[tokio::test]
async fn a_file_that_is_deleted_and_created_again_is_told_each_time() -> TestResult {
    let mut watching = Watching::new()?;
    fs::write(watching.path("file"), "old")?;
    let mut subscription = watching.watch("file")?;

    for _ in 0..2 {
        let deleted =
            watching.tells(&mut subscription, |folder| fs::remove_file(folder.join("file")));
        assert!(deleted.await?);
        let created =
            watching.tells(&mut subscription, |folder| fs::write(folder.join("file"), ""));
        assert!(created.await?);
    }
    let written = watching.tells(&mut subscription, |folder| fs::write(folder.join("file"), "x"));
    assert!(written.await?);

    watching.end().await
}

#[tokio::test]
async fn a_change_through_another_name_of_the_file_is_told() -> TestResult {
    let mut watching = Watching::new()?;
    fs::create_dir(watching.path("other"))?;
    fs::write(watching.path("file"), "old")?;
    fs::hard_link(watching.path("file"), watching.path("other/name"))?;
    let mut subscription = watching.watch("file")?;

    let write = |name: &'static str| move |folder: &Path| fs::write(folder.join(name), "new");
    assert!(watching.tells(&mut subscription, write("other/name")).await?);
    let replaced = watching.tells(&mut subscription, |folder| {
        fs::write(folder.join("other/new"), "newer")?;
        fs::hard_link(folder.join("other/new"), folder.join("other/newer"))?;
        fs::rename(folder.join("other/new"), folder.join("file"))
    });
    assert!(replaced.await?);
    assert!(watching.tells(&mut subscription, write("other/newer")).await?);
    // It is another file by now.
    assert!(!watching.tells(&mut subscription, write("other/name")).await?);

    watching.end().await
}

#[tokio::test]
async fn changed_permissions_are_told() -> TestResult {
    let mut watching = Watching::new()?;
    fs::write(watching.path("file"), "")?;
    let mut subscription = watching.watch("file")?;

    let change =
        |folder: &Path| fs::set_permissions(folder.join("file"), Permissions::from_mode(0o600));

    assert!(watching.tells(&mut subscription, change).await?);
    watching.end().await
}

#[tokio::test]
async fn another_file_in_the_folder_is_not_told() -> TestResult {
    let mut watching = Watching::new()?;
    let mut subscription = watching.watch("file")?;

    assert!(
        !watching.tells(&mut subscription, |folder| fs::write(folder.join("other"), "")).await?
    );

    watching.end().await
}

#[tokio::test]
async fn parents_that_appear_one_by_one_are_followed_down_to_the_file() -> TestResult {
    let mut watching = Watching::new()?;
    let mut subscription = watching.watch("a/b/c/file")?;

    for parent in ["a", "a/b", "a/b/c"] {
        let made = watching.tells(&mut subscription, |folder| fs::create_dir(folder.join(parent)));
        assert!(made.await?, "{parent}");
    }
    let created =
        watching.tells(&mut subscription, |folder| fs::write(folder.join("a/b/c/file"), ""));
    assert!(created.await?);
    let written =
        watching.tells(&mut subscription, |folder| fs::write(folder.join("a/b/c/file"), "x"));
    assert!(written.await?);

    watching.end().await
}

#[tokio::test]
async fn parents_that_appear_at_once_are_followed_down_to_the_file() -> TestResult {
    let mut watching = Watching::new()?;
    let mut subscription = watching.watch("a/b/c/file")?;

    let all = watching.tells(&mut subscription, |folder| fs::create_dir_all(folder.join("a/b/c")));
    assert!(all.await?);
    let created =
        watching.tells(&mut subscription, |folder| fs::write(folder.join("a/b/c/file"), ""));
    assert!(created.await?);

    watching.end().await
}

#[tokio::test]
async fn a_folder_that_is_deleted_and_made_again_is_followed() -> TestResult {
    let mut watching = Watching::new()?;
    fs::create_dir_all(watching.path("a/b"))?;
    let mut subscription = watching.watch("a/b/file")?;

    let deleted = watching.tells(&mut subscription, |folder| fs::remove_dir_all(folder.join("a")));
    assert!(deleted.await?);
    let made = watching.tells(&mut subscription, |folder| fs::create_dir_all(folder.join("a/b")));
    assert!(made.await?);
    let created =
        watching.tells(&mut subscription, |folder| fs::write(folder.join("a/b/file"), ""));
    assert!(created.await?);

    watching.end().await
}

#[tokio::test]
async fn an_ancestor_that_is_moved_and_replaced_is_followed() -> TestResult {
    let mut watching = Watching::new()?;
    fs::create_dir_all(watching.path("a/b"))?;
    fs::create_dir_all(watching.path("next/b"))?;
    let mut subscription = watching.watch("a/b/file")?;

    let moved = watching
        .tells(&mut subscription, |folder| fs::rename(folder.join("a"), folder.join("old")));
    assert!(moved.await?);
    let replaced = watching
        .tells(&mut subscription, |folder| fs::rename(folder.join("next"), folder.join("a")));
    assert!(replaced.await?);
    let created =
        watching.tells(&mut subscription, |folder| fs::write(folder.join("a/b/file"), ""));
    assert!(created.await?);
    let elsewhere =
        watching.tells(&mut subscription, |folder| fs::write(folder.join("old/b/file"), ""));
    assert!(!elsewhere.await?);

    watching.end().await
}

#[tokio::test]
async fn a_folder_that_is_replaced_by_a_symlink_is_followed() -> TestResult {
    let mut watching = Watching::new()?;
    fs::create_dir_all(watching.path("a"))?;
    fs::create_dir_all(watching.path("elsewhere"))?;
    let mut subscription = watching.watch("a/file")?;

    let replaced = watching.tells(&mut subscription, |folder| {
        fs::remove_dir(folder.join("a"))?;
        symlink(folder.join("elsewhere"), folder.join("a"))
    });
    assert!(replaced.await?);
    let created =
        watching.tells(&mut subscription, |folder| fs::write(folder.join("elsewhere/file"), ""));
    assert!(created.await?);

    watching.end().await
}

#[tokio::test]
async fn relative_symlinks_on_the_way_and_at_the_end_are_followed() -> TestResult {
    let mut watching = Watching::new()?;
    fs::create_dir_all(watching.path("a/sub"))?;
    fs::create_dir_all(watching.path("b"))?;
    symlink("../../b", watching.path("a/sub/link"))?;
    symlink("target", watching.path("b/file"))?;
    let mut subscription = watching.watch("a/sub/link/file")?;

    let created =
        watching.tells(&mut subscription, |folder| fs::write(folder.join("b/target"), ""));
    assert!(created.await?);
    let written =
        watching.tells(&mut subscription, |folder| fs::write(folder.join("b/target"), "x"));
    assert!(written.await?);
    let turned = watching.tells(&mut subscription, |folder| {
        symlink("other", folder.join("b/next"))?;
        fs::rename(folder.join("b/next"), folder.join("b/file"))
    });
    assert!(turned.await?);
    let other = watching.tells(&mut subscription, |folder| fs::write(folder.join("b/other"), ""));
    assert!(other.await?);

    watching.end().await
}

#[tokio::test]
async fn a_symlink_to_itself_is_watched_until_it_is_replaced() -> TestResult {
    let mut watching = Watching::new()?;
    symlink("loop", watching.path("loop"))?;
    let mut subscription = watching.watch("loop/file")?;

    let replaced = watching.tells(&mut subscription, |folder| {
        fs::remove_file(folder.join("loop"))?;
        fs::create_dir(folder.join("loop"))
    });
    assert!(replaced.await?);
    let created =
        watching.tells(&mut subscription, |folder| fs::write(folder.join("loop/file"), ""));
    assert!(created.await?);

    watching.end().await
}

#[tokio::test]
async fn a_folder_tells_of_its_entries_and_of_itself() -> TestResult {
    let mut watching = Watching::new()?;
    fs::create_dir(watching.path("folder"))?;
    let mut subscription = watching.watch("folder")?;

    let created =
        watching.tells(&mut subscription, |folder| fs::write(folder.join("folder/any"), ""));
    assert!(created.await?);
    let written = watching.tells(&mut subscription, |folder| {
        OpenOptions::new().write(true).open(folder.join("folder/any"))?.write_all(b"x")
    });
    assert!(written.await?);
    let deleted =
        watching.tells(&mut subscription, |folder| fs::remove_dir_all(folder.join("folder")));
    assert!(deleted.await?);

    watching.end().await
}

#[tokio::test]
async fn a_watched_folder_that_is_deleted_and_then_a_symlink_is_followed() -> TestResult {
    let mut watching = Watching::new()?;
    fs::create_dir(watching.path("folder"))?;
    fs::create_dir(watching.path("elsewhere"))?;
    let mut subscription = watching.watch("folder")?;

    let deleted = watching.tells(&mut subscription, |folder| fs::remove_dir(folder.join("folder")));
    assert!(deleted.await?);
    let unseen =
        watching.tells(&mut subscription, |folder| fs::write(folder.join("elsewhere/early"), ""));
    assert!(!unseen.await?);
    let linked =
        watching.tells(&mut subscription, |folder| symlink("elsewhere", folder.join("folder")));
    assert!(linked.await?);
    let created =
        watching.tells(&mut subscription, |folder| fs::write(folder.join("elsewhere/late"), ""));
    assert!(created.await?);
    let remade = watching.tells(&mut subscription, |folder| {
        fs::remove_file(folder.join("folder"))?;
        fs::create_dir(folder.join("folder"))
    });
    assert!(remade.await?);
    let elsewhere =
        watching.tells(&mut subscription, |folder| fs::write(folder.join("elsewhere/later"), ""));
    assert!(!elsewhere.await?);
    let within =
        watching.tells(&mut subscription, |folder| fs::write(folder.join("folder/file"), ""));
    assert!(within.await?);

    watching.end().await
}

#[tokio::test]
async fn a_subscription_ends_with_the_watcher() -> TestResult {
    let watching = Watching::new()?;
    let (mut subscription, watches) = (watching.watch("file")?, watching.watches.clone());

    watching.end().await?;

    assert!(matches!(guarded(subscription.changed()).await, Err(WatchError::Ended)));
    assert!(matches!(watches.watch(Path::new("/")), Err(WatchError::Ended)));
    Ok(())
}

#[tokio::test]
async fn a_subscription_ends_when_the_watcher_is_dropped() -> TestResult {
    let watching = Watching::new()?;
    let mut subscription = watching.watch("file")?;

    drop(watching.worker);

    assert!(matches!(guarded(subscription.changed()).await, Err(WatchError::Ended)));
    Ok(())
}

#[tokio::test]
async fn a_relative_path_is_refused() -> TestResult {
    let watcher = Watcher::new(WatcherConfig::default())?;

    let refused = watcher.handle().watch(Path::new("file"));

    assert!(matches!(refused, Err(WatchError::Relative { .. })));
    Ok(())
}

#[tokio::test]
async fn a_watcher_without_problems_says_nothing_of_its_health() -> TestResult {
    let mut watching = Watching::new()?;
    let _subscription = watching.watch("not/there/yet")?;
    watching.settle().await?;
    assert_eq!(watching.problems(), 0);

    watching.worker.stop();

    assert!(watching.told().await.is_err());
    Ok(())
}
