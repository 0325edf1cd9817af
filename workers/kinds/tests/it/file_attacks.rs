//! What others may put in a file's way.
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, FileType, FlockOperation, Mode};
use serde_json::json;
use tempfile::{TempDir, tempdir};

use crate::support::{TestResult, apply_builtin, declare, failure, names, plan_builtin};

/// Returns a folder that others can write to, as /tmp without its sticky bit.
fn shared() -> Result<TempDir, Box<dyn std::error::Error>> {
    let folder = tempdir()?;
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777))?;
    Ok(folder)
}

async fn write(path: &Path) -> Result<crankcase_resources::Account, Box<dyn std::error::Error>> {
    apply_builtin(&[declare("it", "file", json!({"path": path, "content": "new"}))]).await
}

#[tokio::test]
async fn a_target_of_another_type_is_left_as_it_is() -> TestResult {
    let folder = tempdir()?;
    let root = folder.path();
    std::fs::write(root.join("victim"), "old")?;
    symlink(root.join("victim"), root.join("symlink"))?;
    symlink(root.join("nowhere"), root.join("dangling"))?;
    std::fs::create_dir(root.join("folder"))?;
    let fifo = root.join("fifo");
    rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
    std::os::unix::net::UnixListener::bind(root.join("socket"))?;
    let before = names(root)?;

    for (name, found) in [
        ("symlink", "a symlink"),
        ("dangling", "a symlink"),
        ("folder", "a folder"),
        ("fifo", "a FIFO"),
        ("socket", "a socket"),
    ] {
        for config in [
            json!({"path": root.join(name), "content": "new"}),
            json!({"path": root.join(name), "mode": "0777"}),
            json!({"path": root.join(name), "state": "absent"}),
        ] {
            let account = apply_builtin(&[declare("it", "file", config)]).await?;
            let wanted = format!("{name}\" is {found} and not a file; it is left as it is");
            assert!(failure(&account, "it").contains(&wanted), "{account}");
        }
    }

    assert_eq!(std::fs::read_to_string(root.join("victim"))?, "old");
    assert_eq!(names(root)?, before);
    Ok(())
}

#[tokio::test]
async fn a_folder_on_the_way_that_is_a_file_is_named() -> TestResult {
    let folder = tempdir()?;
    let file = folder.path().join("file");
    std::fs::write(&file, "")?;

    let account = write(&file.join("below")).await?;

    assert!(failure(&account, "it").contains(&format!("{file:?} is not a folder")), "{account}");
    Ok(())
}

#[tokio::test]
async fn a_symlink_on_the_way_is_followed_only_where_others_cannot_write() -> TestResult {
    let (own, foreign, outside) = (tempdir()?, shared()?, tempdir()?);
    symlink(outside.path(), own.path().join("way"))?;
    symlink(outside.path(), foreign.path().join("way"))?;

    let followed = write(&own.path().join("way/page")).await?;
    let refused = write(&foreign.path().join("way/other")).await?;

    assert_eq!(followed.failures(), 0, "{followed}");
    let text = failure(&refused, "it");
    assert!(text.contains("is a symlink where others than the agent's user can write"), "{text}");
    assert_eq!(names(outside.path())?, ["page"]);
    Ok(())
}

#[tokio::test]
async fn relative_and_chained_symlinks_lead_to_the_right_folder() -> TestResult {
    let own = tempdir()?;
    std::fs::create_dir_all(own.path().join("a/b"))?;
    std::fs::create_dir(own.path().join("c"))?;
    symlink("../../c", own.path().join("a/b/up"))?;
    symlink("a/b/up", own.path().join("way"))?;
    symlink("loop", own.path().join("loop"))?;

    let account = write(&own.path().join("way/page")).await?;
    let looped = write(&own.path().join("loop/page")).await?;

    assert_eq!(account.failures(), 0, "{account}");
    assert_eq!(names(&own.path().join("c"))?, ["page"]);
    assert!(failure(&looped, "it").contains("too many symlinks"), "{looped}");
    Ok(())
}

/// How often to write while the folder is swapped, and how often the symlink has to be met.
const ROUNDS: usize = 300;
const HITS: usize = 20;

/// After how many rounds the machine does not swap and write at the same time.
const MOST_ROUNDS: usize = 100_000;

/// Ends the swapping, also when the test fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn nothing_is_written_through_a_symlink_that_is_swapped_in() -> TestResult {
    let (foreign, outside) = (shared()?, tempdir()?);
    let (way, kept, link) =
        (foreign.path().join("way"), foreign.path().join("kept"), foreign.path().join("link"));
    std::fs::create_dir(&way)?;
    symlink(outside.path(), &link)?;
    let is_over = AtomicBool::new(false);
    let mut hits = 0;

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let write = |content: &str| {
        let config = json!({"path": way.join("page"), "content": content});
        runtime.block_on(apply_builtin(&[declare("it", "file", config)]))
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                std::fs::rename(&way, &kept).unwrap();
                std::fs::rename(&link, &way).unwrap();
                std::fs::rename(&way, &link).unwrap();
                std::fs::rename(&kept, &way).unwrap();
            }
        });
        let _over = Over(&is_over);
        // Whether it comes through depends on the moment.
        for round in 0..MOST_ROUNDS {
            let account = write(&round.to_string()).unwrap().to_string();
            hits += usize::from(account.contains("is a symlink where others"));
            if round >= ROUNDS && hits >= HITS {
                break;
            }
        }
    });

    assert!(hits >= HITS, "the symlink was met {hits} times");

    assert_eq!(write("at rest")?.failures(), 0);
    assert_eq!(names(outside.path())?.len(), 0);
    Ok(())
}

#[tokio::test]
async fn a_hard_link_that_others_may_have_made_keeps_its_mode() -> TestResult {
    let (own, foreign) = (tempdir()?, shared()?);
    let secret = own.path().join("secret");
    std::fs::write(&secret, "x")?;
    std::fs::set_permissions(&secret, PermissionsExt::from_mode(0o600))?;
    let link = foreign.path().join("link");
    std::fs::hard_link(&secret, &link)?;

    let config = json!({"path": link, "mode": "0644"});
    let account = apply_builtin(&[declare("it", "file", config)]).await?;

    assert!(failure(&account, "it").contains("has other names (hard links)"), "{account}");
    assert_eq!(secret.metadata()?.permissions().mode() & 0o777, 0o600);
    Ok(())
}

#[tokio::test]
async fn new_content_leaves_other_names_of_the_old_file_alone() -> TestResult {
    let folder = tempdir()?;
    let (one, other) = (folder.path().join("one"), folder.path().join("other"));
    std::fs::write(&one, "old")?;
    std::fs::hard_link(&one, &other)?;

    let account = write(&one).await?;

    assert_eq!(account.failures(), 0, "{account}");
    assert_eq!(std::fs::read_to_string(&other)?, "old");
    Ok(())
}

#[tokio::test]
async fn what_a_killed_agent_left_is_removed_by_the_next_write() -> TestResult {
    let folder = tempdir()?;
    let path = folder.path().join("page");
    std::fs::write(folder.path().join(".page.crankcase-tmp"), "half of ")?;

    let account = write(&path).await?;

    assert_eq!(account.failures(), 0, "{account}");
    assert_eq!(names(folder.path())?, ["page"]);
    assert_eq!(std::fs::read_to_string(&path)?, "new");
    Ok(())
}

#[tokio::test]
async fn what_a_killed_agent_left_is_removed_though_the_file_is_as_declared() -> TestResult {
    let folder = tempdir()?;
    let (path, left) = (folder.path().join("page"), folder.path().join(".page.crankcase-tmp"));
    std::fs::write(&path, "new")?;
    for (config, kept) in [
        (json!({"path": path, "content": "new"}), true),
        (json!({"path": path, "mode": "0600"}), true),
        (json!({"path": path, "mode": "0644"}), true),
        (json!({"path": path, "state": "absent"}), false),
        (json!({"path": path, "state": "absent"}), false),
    ] {
        std::fs::write(&left, "half of ")?;
        let declared = [declare("it", "file", config.clone())];

        let plan = plan_builtin(&declared).await?.to_string();
        assert!(plan.contains(r#"leftover: ".page.crankcase-tmp" -> absent"#), "{plan}");
        assert!(left.exists(), "a plan changes nothing");
        let account = apply_builtin(&declared).await?;

        assert_eq!((account.changes(), account.failures()), (1, 0), "{account}");
        assert_eq!((left.exists(), path.exists()), (false, kept), "{config}");
        assert_eq!(plan_builtin(&declared).await?.changes(), 0);
    }
    Ok(())
}

#[tokio::test]
async fn a_temporary_file_that_another_agent_is_writing_is_left_to_it() -> TestResult {
    let folder = tempdir()?;
    let temporary = folder.path().join(".page.crankcase-tmp");
    let file = std::fs::File::create(&temporary)?;
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;

    let account = write(&folder.path().join("page")).await?;

    assert!(failure(&account, "it").contains("another process is just writing"), "{account}");
    assert!(temporary.exists());
    Ok(())
}

#[tokio::test]
async fn a_symlink_under_the_temporary_name_is_not_written_through() -> TestResult {
    let folder = tempdir()?;
    let victim = folder.path().join("victim");
    std::fs::write(&victim, "old")?;
    symlink(&victim, folder.path().join(".page.crankcase-tmp"))?;

    let account = write(&folder.path().join("page")).await?;

    assert!(failure(&account, "it").contains("cannot remove leftover"), "{account}");
    assert_eq!(std::fs::read_to_string(&victim)?, "old");
    Ok(())
}

#[tokio::test]
async fn nobody_can_hold_the_temporary_name_where_others_write() -> TestResult {
    let held = shared()?;
    let file = std::fs::File::create(held.path().join(".page.crankcase-tmp"))?;
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    let taken = shared()?;
    std::fs::create_dir(taken.path().join(".page.crankcase-tmp"))?;

    for folder in [held, taken] {
        let path = folder.path().join("page");
        let account = write(&path).await?;

        assert_eq!(account.failures(), 0, "{account}");
        assert_eq!(std::fs::read_to_string(&path)?, "new");
        assert_eq!(names(folder.path())?, [".page.crankcase-tmp", "page"]);
        assert_eq!(write(&path).await?.changes(), 0);
    }
    Ok(())
}

#[tokio::test]
async fn long_names_have_temporary_names_too() -> TestResult {
    let folder = tempdir()?;
    let path = folder.path().join("x".repeat(255));

    let account = write(&path).await?;

    assert_eq!(account.failures(), 0, "{account}");
    assert_eq!(names(folder.path())?.len(), 1);
    Ok(())
}

#[tokio::test]
async fn what_a_file_holds_cannot_steer_the_terminal_of_who_reads_the_plan() -> TestResult {
    let folder = tempdir()?;
    let path = folder.path().join("page");
    std::fs::write(&path, "\u{1b}]0;owned\u{7}\n")?;

    let declarations = [declare("it", "file", json!({"path": path, "content": "new\n"}))];
    let text = plan_builtin(&declarations).await?.to_string();

    assert!(text.contains(r"-\u{1b}]0;owned\u{7}"), "{text}");
    Ok(())
}
