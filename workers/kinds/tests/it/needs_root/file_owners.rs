//! Files that other users have made where the agent is to keep one.
use std::error::Error;
use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::PathBuf;

use serde_json::{Value, json};
use tempfile::{TempDir, tempdir};

use crate::support::{TestResult, apply_builtin, declare, failure, plan_builtin};

/// A user that is neither root nor in the machine's list of users.
const OTHER: u32 = 12_345;

/// A folder that others can write to, with a file in it that another user made and holds open.
struct Trap {
    folder: TempDir,
    path: PathBuf,
    held: File,
}

impl Trap {
    fn new(mode: u32) -> Result<Self, Box<dyn Error>> {
        let folder = tempdir()?;
        let path = folder.path().join("page");
        let held = File::create(&path)?;
        (&held).write_all(b"right")?;
        fs::set_permissions(&path, Permissions::from_mode(0o666))?;
        chown(&path, Some(OTHER), Some(OTHER))?;
        fs::set_permissions(folder.path(), Permissions::from_mode(mode))?;
        Ok(Self { folder, path, held })
    }

    fn with(&self, mut config: Value) -> [crankcase_resources::Declaration; 1] {
        config["path"] = json!(self.path);
        [declare("it", "file", config)]
    }
}

#[tokio::test]
async fn a_file_of_another_user_is_written_anew_where_others_can_write() -> TestResult {
    for mode in [0o777, 0o1777] {
        for config in [
            json!({"content": "right", "owner": 0, "mode": "0644"}),
            json!({"content": "right", "owner": 54_321, "mode": "0644"}),
            json!({"content": "right"}),
        ] {
            let mut trap = Trap::new(mode)?;

            let account = apply_builtin(&trap.with(config.clone())).await?;
            trap.held.write_all(b" of somebody else")?;

            assert_eq!((account.changes(), account.failures()), (1, 0), "{account}");
            let owner = config["owner"].as_u64().unwrap_or(0);
            assert_eq!(u64::from(trap.path.metadata()?.uid()), owner, "{config}");
            assert_eq!(trap.path.metadata()?.mode() & 0o7777, 0o644, "{config}");
            assert_eq!(fs::read_to_string(&trap.path)?, "right", "{config}");
            assert_eq!(apply_builtin(&trap.with(config)).await?.changes(), 0);
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_file_of_another_user_is_not_given_away_without_its_content() -> TestResult {
    for mode in [0o777, 0o1777] {
        let trap = Trap::new(mode)?;

        let declared = trap.with(json!({"owner": 0, "mode": "0600"}));
        let plan = plan_builtin(&declared).await?.to_string();
        let account = apply_builtin(&declared).await?;

        for text in [plan, failure(&account, "it")] {
            assert!(text.contains("was made by user 12345 where others"), "{text}");
            assert!(text.contains("Declare its content"), "{text}");
        }
        assert_eq!(trap.path.metadata()?.uid(), OTHER);
    }
    Ok(())
}

#[tokio::test]
async fn a_file_that_is_left_to_its_owner_stays_the_same_file() -> TestResult {
    let trap = Trap::new(0o777)?;
    let is_same = |account: crankcase_resources::Account| {
        let (path, held) = (trap.path.metadata()?, trap.held.metadata()?);
        assert_eq!((account.failures(), path.ino()), (0, held.ino()), "{account}");
        assert_eq!(path.uid(), OTHER);
        TestResult::Ok(())
    };

    // It is that user's by declaration, or nothing but its mode is declared.
    is_same(apply_builtin(&trap.with(json!({"content": "right", "owner": OTHER}))).await?)?;
    is_same(apply_builtin(&trap.with(json!({"mode": "0640"}))).await?)?;
    // In a folder of that user's own nobody else is expected.
    fs::set_permissions(trap.folder.path(), Permissions::from_mode(0o755))?;
    chown(trap.folder.path(), Some(OTHER), None)?;
    is_same(apply_builtin(&trap.with(json!({"content": "right"}))).await?)
}

#[tokio::test]
async fn a_file_of_another_user_in_a_folder_of_our_own_is_only_adjusted() -> TestResult {
    let trap = Trap::new(0o755)?;

    let account = apply_builtin(&trap.with(json!({"content": "right", "owner": 0}))).await?;

    assert_eq!((account.changes(), account.failures()), (1, 0), "{account}");
    assert_eq!(trap.path.metadata()?.ino(), trap.held.metadata()?.ino());
    Ok(())
}
