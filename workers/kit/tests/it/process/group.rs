//! The process group of a command that is released or dropped.

use crankcase_workers::{Ledger, ProcessGroup};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;

use super::shell;
use crate::fifo::{Fifo, holding};
use crate::running::{TestResult, guarded};

#[tokio::test]
async fn what_a_released_command_leaves_runs_on_and_is_on_no_record() -> TestResult {
    let (folder, fifo) = (TempDir::new()?, Fifo::new()?);
    let config = shell(&format!("cat {} & exit 3", fifo.path().display()));
    let ledger = Ledger::new(folder.path());
    let mut group = ProcessGroup::spawn(&config, Some(&ledger)).await?;
    let mut said = group.take_output().0.ok_or("no stdout")?;
    assert_eq!(std::fs::read_dir(folder.path())?.count(), 1);

    let status = guarded(group.release()).await?;

    assert_eq!((status.code(), std::fs::read_dir(folder.path())?.count()), (Some(3), 0));
    let mut told = pipe::OpenOptions::new().read_write(true).open_sender(fifo.path())?;
    told.write_all(b"still here").await?;
    let mut text = [0; 10];
    guarded(said.read_exact(&mut text)).await?;
    assert_eq!(&text, b"still here");
    drop(told);
    Ok(())
}

#[tokio::test]
async fn a_command_that_is_dropped_is_killed_with_its_group() -> TestResult {
    let (folder, fifo) = (TempDir::new()?, Fifo::new()?);
    let mut writers = fifo.writers();
    let script = holding(&fifo.path(), "sleep 1000 & echo up >&3; wait");
    let ledger = Ledger::new(folder.path());
    let group = ProcessGroup::spawn(&shell(&script), Some(&ledger)).await?;
    writers.come().await?;

    drop(group);

    writers.are_gone().await
}
