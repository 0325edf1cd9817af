//! Which resources a site keeps, on disk: what is missing there later has been released.

use std::collections::BTreeMap;
use std::path::Path;

use crankcase_workers::Folder;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::error::BoxError;
use crate::facilities::Facilities;

/// The largest file that is read, in bytes.
const LIMIT: u64 = 256 * 1024 * 1024;

const NAME: &str = "kept";

/// The version of the file's format.
const FORMAT: u32 = 1;

/// The resources of a site, by their names.
pub(crate) type Keeps = BTreeMap<String, Keep>;

/// What a resource is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Keep {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    /// The name of the [thing](crate::thing::Thing) that it keeps.
    pub(crate) thing: String,
}

/// What was kept last, once it is known.
#[derive(Debug, Default)]
pub(crate) struct Kept(Mutex<Option<Known>>);

#[derive(Debug, Default)]
struct Known {
    keeps: Keeps,
    /// Whether the disk has it.
    is_on_disk: bool,
}

#[derive(Serialize, Deserialize)]
struct File {
    format: u32,
    resources: Keeps,
}

impl Facilities {
    /// Returns what was kept last, by this agent or, if it has kept nothing yet, by the one before. Blocks
    /// for the disk.
    pub(crate) fn kept(&self) -> Keeps {
        let mut kept = self.inner.kept.0.lock();
        kept.get_or_insert_with(|| self.state().map(read).unwrap_or_default()).keeps.clone()
    }

    /// Puts on disk what is kept now; what could not be written is written the next time. Blocks for the
    /// disk.
    pub(crate) fn keep(&self, keeps: Keeps) {
        let mut kept = self.inner.kept.0.lock();
        let is_there = |known: &Known| known.is_on_disk && known.keeps == keeps;
        if self.is_plan() || kept.as_ref().is_some_and(is_there) {
            return;
        }
        let file = File { format: FORMAT, resources: keeps };
        let written = self.state().map_or(Ok(()), |state| write(state, &file));
        if let Err(error) = &written {
            let path = self.state().map(|state| state.join(NAME));
            tracing::warn!(?path, error, "cannot note what is kept; what leaves may not be told");
        }
        *kept = Some(Known { keeps: file.resources, is_on_disk: written.is_ok() });
    }
}

fn read(state: &Path) -> Known {
    let read = || -> Result<Keeps, BoxError> {
        let bytes = match Folder::open(state).and_then(|folder| folder.read(NAME, LIMIT)) {
            // Nothing is kept, and no file says so.
            Err(error) if error.is_missing() => return Ok(Keeps::default()),
            read => read?,
        };
        let File { format, resources } = serde_json::from_slice(&bytes)?;
        if format != FORMAT {
            return Err(format!("it has format {format}; expected {FORMAT}").into());
        }
        Ok(resources)
    };
    let read = read().map(|keeps| Known { keeps, is_on_disk: true });
    read.unwrap_or_else(|error| {
        let path = state.join(NAME);
        tracing::warn!(?path, error, "cannot read what was kept; what has left is not told");
        Known::default()
    })
}

fn write(state: &Path, file: &File) -> Result<(), BoxError> {
    let folder = Folder::make(state)?;
    Ok(folder.replace(NAME, &serde_json::to_vec(file)?, 0o600)?)
}
