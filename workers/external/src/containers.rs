//! Containers that do not outlive their calls.
//!
//! A container may run on after the client of its engine was ended. So each container has a name,
//! which is on record while it runs, with the process that has started it. The next agent removes
//! the containers that a killed process has left.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crankcase_resources::blocking;
use crankcase_workers::{Folder, ProcessId, forget_file};
use serde::{Deserialize, Serialize};
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::calls::{Calls, OpenCall};
use crate::engine::{Removal, remove};

/// The label of all containers, with the state folder of the agent that has started them.
pub(crate) const LABEL: &str = "crankcase.agent";

/// How many records are read.
const MOST: usize = 100_000;

/// The largest record, in bytes.
const LARGEST: u64 = 64 * 1024;

/// How long a call waits for the removal of its container, which then goes on without it.
const PATIENCE: Duration = Duration::from_secs(10);

/// A container that is about to run, or runs. Dropped before it has [ended](Self::ended), it is removed
/// a little later.
#[derive(Debug)]
pub(crate) struct Container {
    engine: Vec<String>,
    /// How long the engine may take to remove it.
    limit: Duration,
    pub(crate) name: String,
    record: Option<PathBuf>,
    /// None once the container has ended, or is being removed.
    open: Option<OpenCall>,
}

#[derive(Serialize, Deserialize)]
struct Record {
    engine: Vec<String>,
    /// The pid of the process that has started it, and when that began.
    starter: (i32, u64),
}

impl Record {
    fn new(engine: &[String]) -> io::Result<Self> {
        let ProcessId { pid, start_time, .. } = ProcessId::of_self()?;
        Ok(Self { engine: engine.to_owned(), starter: (pid, start_time) })
    }

    /// Returns whether the process that has started the container is alive. That process also ends it.
    fn is_looked_after(&self) -> bool {
        let (pid, start_time) = self.starter;
        ProcessId::new(pid, start_time).is_alive()
    }
}

impl Container {
    /// Names a container, which its engine removes within a limit, and puts it on record in the state folder.
    pub(crate) async fn begin(
        (engine, limit): (&[String], Duration),
        state: Option<&Path>,
        calls: &Calls,
    ) -> Result<Self, String> {
        let name = format!("crankcase-{:032x}", rand::random::<u128>());
        let open = Some(calls.begin(format!("the end of container {name}")));
        let mut container = Self { engine: engine.to_owned(), limit, name, record: None, open };
        let Some(folder) = state.map(records) else { return Ok(container) };
        let (name, engine) = (container.name.clone(), engine.to_owned());
        let noted = folder.clone();
        let note = move || -> io::Result<()> {
            let record = Record::new(&engine)?;
            let folder = Folder::make_own(&noted).map_err(io::Error::other)?;
            folder.replace(&name, &serde_json::to_vec(&record)?, 0o600).map_err(io::Error::other)
        };
        let cannot = |error| format!("cannot note the container that is to run: {error}");
        blocking(note).await.map_err(cannot)?;
        container.record = Some(folder.join(&container.name));
        Ok(container)
    }

    /// Notes that it has ended by itself.
    pub(crate) fn ended(mut self) {
        self.open = None;
        forget(self.record.as_deref());
    }

    /// Removes it with all that runs in it: it may run on although its client was ended. Waits with
    /// a limit, because an engine may not answer.
    pub(crate) async fn end(mut self) {
        let removed = self.remove();
        drop(timeout(PATIENCE, removed).await);
    }

    /// Removes it, unless it has ended. Returns a receiver that tells when this is done.
    fn remove(&mut self) -> oneshot::Receiver<()> {
        let (removed, told) = oneshot::channel();
        let Some(open) = self.open.take() else { return told };
        let (engine, name) = (std::mem::take(&mut self.engine), std::mem::take(&mut self.name));
        let (record, limit) = (self.record.take(), self.limit);
        let remove = move || {
            let runtime = Builder::new_current_thread().enable_all().build();
            let removal = runtime.map(|runtime| runtime.block_on(remove(&engine, &name, limit)));
            if removal.is_ok_and(|removal| removal == Removal::Gone) {
                forget(record.as_deref());
            }
            drop((open, removed));
        };
        // The thread that drops it cannot wait for an engine, and its runtime may be about to end.
        let thread = std::thread::Builder::new().name("container end".to_owned()).spawn(remove);
        if let Err(error) = thread {
            tracing::warn!(%error, "a container is left to the next agent");
        }
        told
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        drop(self.remove());
    }
}

/// Removes the containers that a killed agent has left, each within a limit; returns their names.
/// An engine that does not answer for one container is not asked for its others, because each would
/// cost that time.
pub(crate) async fn end_leftovers(state: &Path, limit: Duration) -> Vec<String> {
    let folder = records(state);
    let listed = folder.clone();
    let mut left = blocking(move || left(&listed)).await.unwrap_or_else(|error| {
        tracing::warn!(error, "cannot look for containers that were left behind");
        Vec::new()
    });
    let mut ended = Vec::new();
    while let Some((name, engine)) = left.pop() {
        match remove(&engine, &name, limit).await {
            Removal::Gone => {
                forget(Some(&folder.join(&name)));
                ended.push(name);
            }
            Removal::Refused => {}
            Removal::Unanswered => {
                tracing::warn!(?engine, "containers stay behind: their engine does not answer");
                left.retain(|(_, other)| *other != engine);
            }
        }
    }
    ended
}

/// Returns the containers on record whose processes do not live any more, each with its engine.
fn left(folder: &Path) -> io::Result<Vec<(String, Vec<String>)>> {
    let listed = Folder::open_own(folder).and_then(|it| Ok((it.names(MOST)?, it)));
    let (names, records) = match listed {
        Err(error) if error.is_missing() => return Ok(Vec::new()),
        listed => listed.map_err(io::Error::other)?,
    };
    let mut left = Vec::new();
    let names = names.iter().filter_map(|name| name.to_str());
    for name in names.filter(|name| name.starts_with("crankcase-")) {
        let read = match records.read(name, LARGEST) {
            Ok(read) => read,
            // Its container has ended by now.
            Err(error) if error.is_missing() => continue,
            Err(error) => {
                let error: &dyn std::error::Error = &error;
                tracing::warn!(container = name, error, "cannot read the record of a container");
                continue;
            }
        };
        let Ok(record) = serde_json::from_slice::<Record>(&read) else { continue };
        if !record.is_looked_after() {
            left.push((name.to_owned(), record.engine));
        }
    }
    Ok(left)
}

fn records(state: &Path) -> PathBuf {
    state.join("containers")
}

fn forget(record: Option<&Path>) {
    let Some(record) = record else { return };
    if let Err(error) = forget_file(record) {
        tracing::warn!(path = ?record, %error, "cannot forget a container that has ended");
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;
    use std::fs;

    use super::{Record, left};

    #[test]
    fn a_record_that_cannot_be_read_hides_no_other_one() -> Result<(), Box<dyn Error>> {
        let folder = tempfile::tempdir()?;
        fs::create_dir(folder.path().join("crankcase-a"))?;
        fs::write(folder.path().join("crankcase-b"), "no record")?;
        // The first process of a machine did not start at that time.
        let record = Record { engine: vec!["docker".to_owned()], starter: (1, u64::MAX) };
        fs::write(folder.path().join("crankcase-c"), serde_json::to_vec(&record)?)?;

        let left = left(folder.path())?;

        assert_eq!(left, [("crankcase-c".to_owned(), vec!["docker".to_owned()])]);
        Ok(())
    }
}
