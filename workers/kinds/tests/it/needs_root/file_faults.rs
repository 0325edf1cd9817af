//! What a file system may refuse.
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use tempfile::{TempDir, tempdir};

use crate::in_place::{actions, plan_and_apply};
use crate::support::{TestResult, apply_builtin, declare, failure, names};

/// A file system in memory, until it is dropped.
struct Mount {
    folder: TempDir,
}

impl Mount {
    fn new(options: &str) -> Result<Self, Box<dyn std::error::Error>> {
        let folder = tempdir()?;
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", options, "crankcase-test"]).arg(folder.path());
        done(mount)?;
        Ok(Self { folder })
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let mut unmount = Command::new("umount");
        unmount.arg(self.folder.path());
        done(unmount).expect("what was mounted can be unmounted");
    }
}

fn done(mut command: Command) -> TestResult {
    let output = command.output()?;
    if output.status.success() { Ok(()) } else { Err(format!("{command:?}: {output:?}").into()) }
}

#[tokio::test]
async fn a_full_disk_leaves_the_old_file_and_nothing_else() -> TestResult {
    let mount = Mount::new("size=256k,mode=0755")?;
    let path = mount.path().join("page");
    std::fs::write(&path, "old")?;

    let config = json!({"path": path, "content": "x".repeat(1024 * 1024)});
    let account = apply_builtin(&[declare("it", "file", config)]).await?;

    let text = failure(&account, "it");
    assert!(text.contains("cannot write") && text.contains("No space left on device"), "{text}");
    assert_eq!(names(mount.path())?, ["page"]);
    assert_eq!(std::fs::read_to_string(&path)?, "old");
    Ok(())
}

#[tokio::test]
async fn a_file_system_that_cannot_be_written_is_told_with_its_reason() -> TestResult {
    let mount = Mount::new("ro,mode=0755")?;
    let path = mount.path().join("page");

    let file = declare("file", "file", json!({"path": path, "content": "new"}));
    let folder = format!("{}/folder/", mount.path().display());
    let account =
        apply_builtin(&[file, declare("folder", "file", json!({"path": folder}))]).await?;

    for name in ["file", "folder"] {
        assert!(failure(&account, name).contains("Read-only file system"), "{account}");
    }
    Ok(())
}

/// A file that nobody may change, until it is dropped.
struct Immutable {
    path: PathBuf,
}

impl Immutable {
    fn new(path: &Path) -> Result<Self, Box<dyn std::error::Error>> {
        let mut change = Command::new("chattr");
        change.arg("+i").arg(path);
        done(change)?;
        Ok(Self { path: path.to_owned() })
    }
}

impl Drop for Immutable {
    fn drop(&mut self) {
        let mut change = Command::new("chattr");
        change.arg("-i").arg(&self.path);
        done(change).expect("what was set can be taken back");
    }
}

#[tokio::test]
async fn a_file_that_may_not_be_replaced_leaves_no_temporary_file() -> TestResult {
    let folder = tempdir()?;
    let path = folder.path().join("page");
    std::fs::write(&path, "old")?;
    let _immutable = Immutable::new(&path)?;

    for (config, doing) in [
        (json!({"path": path, "content": "new"}), "cannot replace"),
        (json!({"path": path, "mode": "0777"}), "cannot set the"),
        (json!({"path": path, "state": "absent"}), "cannot remove"),
    ] {
        let account = apply_builtin(&[declare("it", "file", config)]).await?;
        let text = failure(&account, "it");
        assert!(text.contains(doing) && text.contains("Operation not permitted"), "{text}");
        assert!(text.contains("lsattr shows it as immutable"), "{text}");
    }

    assert_eq!(names(folder.path())?, ["page"]);
    assert_eq!(std::fs::read_to_string(&path)?, "old");
    Ok(())
}

/// A file that another file is mounted on, until it is dropped.
struct Bound(PathBuf);

impl Bound {
    fn new(from: &Path, to: &Path) -> Result<Self, Box<dyn std::error::Error>> {
        let mut mount = Command::new("mount");
        mount.arg("--bind").args([from, to]);
        done(mount)?;
        Ok(Self(to.to_owned()))
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        let mut unmount = Command::new("umount");
        unmount.arg(&self.0);
        done(unmount).expect("what was mounted can be unmounted");
    }
}

#[tokio::test]
async fn a_mount_point_is_written_in_place_if_that_is_allowed() -> TestResult {
    let (folder, state) = (tempdir()?, tempdir()?);
    let (from, path) = (folder.path().join("from"), folder.path().join("hosts"));
    for path in [&from, &path] {
        std::fs::write(path, "old")?;
    }
    let _bound = Bound::new(&from, &path)?;
    let config = |in_place| json!({"path": path, "content": "new", "in_place": in_place});

    let (_, refused) = plan_and_apply(state.path(), config(json!(false))).await?;
    let mut validated = config(json!("auto"));
    validated["validate"] = json!(["test", "-s", "%s"]);
    let (_, unvalidated) = plan_and_apply(state.path(), validated).await?;
    let (plan, account) = plan_and_apply(state.path(), config(json!("auto"))).await?;

    let text = failure(&refused, "it");
    assert!(text.contains("cannot be replaced by a new file: it is a mount point"), "{text}");
    let text = failure(&unvalidated, "it");
    assert!(text.contains("there is no new file that validate could judge"), "{text}");
    assert_eq!(actions(&plan), ["overwrite"]);
    assert_eq!((account.changes(), account.failures()), (1, 0), "{account}");
    assert_eq!(std::fs::read_to_string(&from)?, "new");
    Ok(())
}

#[tokio::test]
async fn a_plan_says_that_a_mount_point_cannot_be_removed() -> TestResult {
    let (mount, state) = (Mount::new("size=256k,mode=0755")?, tempdir()?);
    let config = json!({"path": format!("{}/", mount.path().display()), "state": "absent"});

    let (plan, _) = plan_and_apply(state.path(), config).await?;

    assert_eq!(plan.failures(), 1, "{plan}");
    assert!(plan.to_string().contains("is a mount point, and cannot be removed"), "{plan}");
    Ok(())
}
