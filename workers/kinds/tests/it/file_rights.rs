//! Files and folders whose mode and owners stand against the agent itself.
//!
//! Root has every right, so the tests give up those that they are about, in their own thread: those
//! that it begins do not have them either, and those of other tests do.
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use serde_json::json;
use tempfile::tempdir;

use crate::support::{TestResult, apply_builtin, declare, failure, names, plan_builtin};

/// Gives up rights; who is not root has none of them.
fn without(rights: CapabilitySet) -> std::io::Result<()> {
    let mut sets = capabilities(None)?;
    sets.effective.remove(rights);
    Ok(set_capabilities(None, sets)?)
}

fn without_reading_all() -> std::io::Result<()> {
    without(CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH)
}

fn set_mode(path: &Path, mode: u32) -> std::io::Result<()> {
    fs::set_permissions(path, Permissions::from_mode(mode))
}

fn mode(path: &Path) -> std::io::Result<u32> {
    Ok(path.metadata()?.mode() & 0o7777)
}

fn as_folder(path: &Path) -> String {
    format!("{}/", path.display())
}

#[tokio::test]
async fn a_mode_that_locks_the_agent_out_is_mended() -> TestResult {
    without_reading_all()?;
    let folder = tempdir()?;
    let (file, below) = (folder.path().join("file"), folder.path().join("below"));
    fs::write(&file, "as it was")?;
    fs::create_dir(&below)?;
    set_mode(&file, 0o000)?;
    set_mode(&below, 0o300)?;

    let account = apply_builtin(&[
        declare("file", "file", json!({"path": file, "mode": "0644"})),
        declare("below", "file", json!({"path": as_folder(&below), "mode": "0755"})),
    ])
    .await?;

    assert_eq!((account.changes(), account.failures()), (2, 0), "{account}");
    assert_eq!((mode(&file)?, mode(&below)?), (0o644, 0o755));
    assert_eq!(fs::read_to_string(&file)?, "as it was");
    Ok(())
}

#[tokio::test]
async fn a_file_that_locks_the_agent_out_is_written_anew_where_its_content_is_declared()
-> TestResult {
    without_reading_all()?;
    let folder = tempdir()?;
    let path = folder.path().join("page");
    fs::write(&path, "old")?;
    set_mode(&path, 0o000)?;

    let stays = declare("page", "file", json!({"path": path, "content": "new"}));
    let account = apply_builtin(&[stays]).await?;
    let text = failure(&account, "page");
    assert!(text.contains("cannot open") && text.contains("Permission denied"), "{text}");

    let mended = declare("page", "file", json!({"path": path, "content": "new", "mode": "0600"}));
    let account = apply_builtin(&[mended]).await?;
    assert_eq!((account.changes(), account.failures()), (1, 0), "{account}");
    assert_eq!((fs::read_to_string(&path)?, mode(&path)?), ("new".to_owned(), 0o600));
    Ok(())
}

#[tokio::test]
async fn a_file_that_may_not_be_read_can_be_as_declared() -> TestResult {
    without_reading_all()?;
    let folder = tempdir()?;
    let path = folder.path().join("secret");
    fs::write(&path, "four")?;
    set_mode(&path, 0o000)?;

    let declared = [declare("secret", "file", json!({"path": path, "mode": "0000"}))];
    let account = apply_builtin(&declared).await?;

    assert_eq!((account.changes(), account.failures()), (0, 0), "{account}");
    assert_eq!(plan_builtin(&declared).await?.changes(), 0);
    Ok(())
}

#[tokio::test]
async fn nothing_is_written_where_it_could_not_be_made_to_last() -> TestResult {
    without_reading_all()?;
    let folder = tempdir()?;
    let below = folder.path().join("below");
    fs::create_dir(&below)?;
    fs::write(below.join("old"), "")?;
    set_mode(&below, 0o300)?;

    let account = apply_builtin(&[
        declare("file", "file", json!({"path": below.join("new"), "content": "x"})),
        declare("folder", "file", json!({"path": as_folder(&below.join("folder"))})),
        declare("gone", "file", json!({"path": below.join("old"), "state": "absent"})),
    ])
    .await?;

    for name in ["file", "folder", "gone"] {
        let text = failure(&account, name);
        assert!(text.contains("cannot open for syncing"), "{text}");
    }
    set_mode(&below, 0o700)?;
    assert_eq!(names(&below)?, ["old"]);
    Ok(())
}

#[tokio::test]
async fn nobody_gets_more_than_the_old_and_the_new_mode_while_the_owner_is_set() -> TestResult {
    without(CapabilitySet::CHOWN)?;
    let folder = tempdir()?;
    let path = folder.path().join("page");
    fs::write(&path, "")?;
    set_mode(&path, 0o664)?;

    let config = json!({"path": path, "mode": "0641", "owner": 12_345});
    let account = apply_builtin(&[declare("page", "file", config)]).await?;

    // What the owner could not be set for stays as it was in between.
    let text = failure(&account, "page");
    assert!(text.contains("cannot set the owner of"), "{text}");
    assert_eq!(mode(&path)?, 0o640);
    Ok(())
}
