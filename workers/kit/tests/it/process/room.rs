//! The room that a ledger keeps for its records.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crankcase_workers::{Fate, Ledger, ProcessGroup, end_leftovers};
use tempfile::TempDir;

use super::shell;
use crate::running::{TestResult, guarded};

/// Returns the files of a ledger that keeps room, by their inodes. Each has its blocks.
fn files(folder: &Path) -> io::Result<BTreeSet<u64>> {
    let mut files = BTreeSet::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        assert_eq!(metadata.len(), 4096, "{entry:?}");
        assert!(metadata.blocks() > 0, "{entry:?}");
        files.insert(metadata.ino());
    }
    Ok(files)
}

#[tokio::test]
async fn a_process_is_started_again_without_a_new_file() -> TestResult {
    let folder = TempDir::new()?;
    let ledger = Ledger::new(folder.path()).keeping_room();
    let [first, other] = [
        ProcessGroup::spawn(&shell("exit 3"), Some(&ledger)).await?,
        ProcessGroup::spawn(&shell("exit 3"), Some(&ledger)).await?,
    ];
    let held = files(folder.path())?;
    assert_eq!(held.len(), 4);
    guarded(first.release()).await?;
    guarded(other.release()).await?;
    assert_eq!(files(folder.path())?, held);

    for _ in 0..3 {
        let again = ProcessGroup::spawn(&shell("exit 3"), Some(&ledger)).await?;
        assert_eq!(files(folder.path())?, held);
        guarded(again.release()).await?;
    }

    assert_eq!(files(folder.path())?, held);
    assert!(guarded(end_leftovers(folder.path())).await?.is_empty());
    Ok(())
}

#[tokio::test]
async fn the_room_of_what_a_killed_agent_left_is_kept_for_the_next() -> TestResult {
    let folder = TempDir::new()?;
    let ledger = Ledger::new(folder.path()).keeping_room();
    let group = ProcessGroup::spawn(&shell("exec sleep 1000"), Some(&ledger)).await?;
    let held = files(folder.path())?;
    let unbegun = folder.path().join("1-2-3.next");
    std::fs::write(&unbegun, [b' '; 4096])?;

    let leftovers = guarded(end_leftovers(folder.path())).await?;

    assert_eq!(leftovers.len(), 1);
    assert_eq!((leftovers[0].pid, leftovers[0].fate), (Some(group.pid()), Fate::Ended));
    guarded(group.release()).await?;
    let kept = files(folder.path())?;
    assert!(kept.is_superset(&held) && kept.len() == 3 && !unbegun.exists());
    let again = ProcessGroup::spawn(&shell("exit 3"), Some(&ledger)).await?;
    assert_eq!(files(folder.path())?, kept);
    guarded(again.release()).await?;
    Ok(())
}
