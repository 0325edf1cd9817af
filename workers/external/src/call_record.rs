//! The record of calls that are made without the ledger of an agent: by a load, before an agent holds the state
//! folder, and by a plan, which never holds it.
//!
//! Each load has a folder of its own with the name of its process, so that loads, plans and an
//! agent may work at the same time. The agent that holds the state folder ends the calls that
//! killed loads and plans have left.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crankcase_resources::{BoxError, blocking};
use crankcase_workers::{EntryKind, FileError, Folder, Ledger, ProcessId, end_leftovers};

/// How many folders are looked at.
const MOST: usize = 100_000;

/// Makes the folders of one process differ.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// The record of the calls of one load, and of later calls for its site. When it is dropped, its
/// folder is removed if nothing is left in it.
#[derive(Debug)]
pub(crate) struct CallRecord {
    /// The state folder, if there may be a record in it.
    state: Option<PathBuf>,
    /// Made at the first call; none if that cannot be.
    made: OnceLock<Option<(PathBuf, Ledger)>>,
}

impl CallRecord {
    /// Returns the record of a load, in this state folder.
    pub(crate) fn new(state: Option<&Path>) -> Self {
        Self { state: state.map(Path::to_owned), made: OnceLock::new() }
    }

    /// Returns where calls are noted, if they can be.
    pub(crate) fn ledger(&self) -> Option<&Ledger> {
        let made = self.made.get_or_init(|| {
            let make = |state| {
                make(state).inspect_err(|error| {
                    tracing::debug!(error, "calls are not on record");
                })
            };
            self.state.as_deref().and_then(|state| make(state).ok())
        });
        made.as_ref().map(|(_, ledger)| ledger)
    }

    /// Removes the folder if nothing is left in it. The ledger makes it again for the next call. No call may be
    /// under way.
    pub(crate) fn tidy(&self) {
        if let Some((folder, _)) = self.made.get().and_then(Option::as_ref) {
            // A folder with a record is not removed: its call has not ended yet.
            let _not_empty = remove(folder);
        }
    }
}

impl Drop for CallRecord {
    fn drop(&mut self) {
        self.tidy();
    }
}

fn make(state: &Path) -> Result<(PathBuf, Ledger), BoxError> {
    let ProcessId { pid, start_time, .. } = ProcessId::of_self()?;
    require_own(&Folder::make(state)?)?;
    let count = NEXT.fetch_add(1, Ordering::Relaxed);
    let folder = records(state).join(format!("{pid}-{start_time}-{count}"));
    Folder::make_own(&records(state))?;
    Folder::make_own(&folder)?;
    let ledger = Ledger::new(&folder);
    Ok((folder, ledger))
}

/// Takes the rights of other users to an empty state folder away, as its holder does. Refuses a
/// folder with other content that other users can look into: its holder would refuse it for the
/// record that is put there.
fn require_own(state: &Folder) -> Result<(), FileError> {
    if state.look_at_itself()?.mode & 0o077 != 0 && !state.names(1)?.is_empty() {
        let reason = "others can look into it".to_owned();
        return Err(FileError::NotPrivate { path: state.path().to_owned(), reason });
    }
    state.make_private()
}

/// Ends the calls that killed loads and plans have left.
pub(crate) async fn end_left(state: &Path) {
    let folder = records(state);
    let dead = blocking(move || dead(&folder).map_err(BoxError::from)).await;
    let dead = dead.unwrap_or_else(|error| {
        tracing::warn!(error, "cannot look for programs that loads and plans have left behind");
        Vec::new()
    });
    for folder in dead {
        match end_leftovers(&folder).await {
            Ok(_) => drop(remove(&folder)),
            Err(error) => {
                let error: &dyn std::error::Error = &error;
                tracing::warn!(error, "cannot end what a load or a plan has left behind");
            }
        }
    }
}

/// Returns the folders whose process has ended.
fn dead(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let names = match Folder::open_own(folder).and_then(|opened| opened.names(MOST)) {
        Err(error) if error.is_missing() => return Ok(Vec::new()),
        names => names.map_err(io::Error::other)?,
    };
    let dead = names.into_iter().filter(|name| {
        let mut numbers = name.to_str().unwrap_or_default().split('-');
        let pid = numbers.next().and_then(|pid| pid.parse().ok());
        let start_time = numbers.next().and_then(|time| time.parse().ok());
        let process = pid.zip(start_time).map(|(pid, time)| ProcessId::new(pid, time));
        process.is_some_and(|process| !process.is_alive())
    });
    Ok(dead.map(|name| folder.join(name)).collect())
}

/// Removes the folder of a load, if nothing is left in it.
fn remove(folder: &Path) -> Result<(), FileError> {
    let missing = || FileError::MissingFolder { path: folder.to_owned() };
    let (all, name) = folder.parent().zip(folder.file_name()).ok_or_else(missing)?;
    Folder::open_own(all)?.remove(name, EntryKind::Folder)
}

fn records(state: &Path) -> PathBuf {
    state.join("asking")
}
