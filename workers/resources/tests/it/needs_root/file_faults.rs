//! What a file system may refuse. The tests need root, and say what they lack.
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use tempfile::{TempDir, tempdir};

use crate::support::{TestResult, apply_builtin, declare, failure, names};

/// A file system in memory, until it is dropped.
struct Mount {
    folder: TempDir,
}

impl Mount {
    fn new(options: &str) -> Result<Option<Self>, Box<dyn std::error::Error>> {
        let folder = tempdir()?;
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", options, "crankcase-test"]).arg(folder.path());
        if is_done(mount) { Ok(Some(Self { folder })) } else { Ok(None) }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let mut unmount = Command::new("umount");
        unmount.arg(self.folder.path());
        is_done(unmount);
    }
}

/// Runs a command and says what is lacking if it fails.
#[expect(clippy::print_stderr, reason = "who runs the test must see that it was skipped")]
fn is_done(mut command: Command) -> bool {
    let is_done = command.output().is_ok_and(|output| output.status.success());
    if !is_done {
        eprintln!("skipped or left over: {command:?} cannot be done here");
    }
    is_done
}

#[tokio::test]
async fn a_full_disk_leaves_the_old_file_and_nothing_else() -> TestResult {
    let Some(mount) = Mount::new("size=256k,mode=0755")? else { return Ok(()) };
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
    let Some(mount) = Mount::new("ro,mode=0755")? else { return Ok(()) };
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
    fn new(path: &Path) -> Option<Self> {
        let mut change = Command::new("chattr");
        change.arg("+i").arg(path);
        is_done(change).then(|| Self { path: path.to_owned() })
    }
}

impl Drop for Immutable {
    fn drop(&mut self) {
        let mut change = Command::new("chattr");
        change.arg("-i").arg(&self.path);
        is_done(change);
    }
}

#[tokio::test]
async fn a_file_that_may_not_be_replaced_leaves_no_temporary_file() -> TestResult {
    let folder = tempdir()?;
    let path = folder.path().join("page");
    std::fs::write(&path, "old")?;
    let Some(_immutable) = Immutable::new(&path) else { return Ok(()) };

    for (config, doing) in [
        (json!({"path": path, "content": "new"}), "cannot replace"),
        (json!({"path": path, "mode": "0777"}), "cannot set the"),
        (json!({"path": path, "state": "absent"}), "cannot remove"),
    ] {
        let account = apply_builtin(&[declare("it", "file", config)]).await?;
        let text = failure(&account, "it");
        assert!(text.contains(doing) && text.contains("Operation not permitted"), "{text}");
    }

    assert_eq!(names(folder.path())?, ["page"]);
    assert_eq!(std::fs::read_to_string(&path)?, "old");
    Ok(())
}
