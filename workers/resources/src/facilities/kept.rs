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
pub(crate) struct Kept(Mutex<Option<Keeps>>);

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
        kept.get_or_insert_with(|| self.state().map(read).unwrap_or_default()).clone()
    }

    /// Puts on disk what is kept now. Blocks for the disk.
    pub(crate) fn keep(&self, keeps: Keeps) {
        let mut kept = self.inner.kept.0.lock();
        if kept.as_ref() == Some(&keeps) || self.is_plan() {
            return;
        }
        let file = File { format: FORMAT, resources: keeps };
        if let Some(state) = self.state()
            && let Err(error) = write(state, &file)
        {
            let path = state.join(NAME);
            tracing::warn!(?path, error, "cannot note what is kept; what leaves may not be told");
        }
        *kept = Some(file.resources);
    }
}

fn read(state: &Path) -> Keeps {
    let read = || -> Result<Keeps, BoxError> {
        let bytes = match Folder::open(state).and_then(|folder| folder.read(NAME, LIMIT)) {
            Err(error) if error.is_missing() => return Ok(Keeps::default()),
            read => read?,
        };
        let File { format, resources } = serde_json::from_slice(&bytes)?;
        if format != FORMAT {
            return Err(format!("it has format {format}; expected {FORMAT}").into());
        }
        Ok(resources)
    };
    read().unwrap_or_else(|error| {
        let path = state.join(NAME);
        tracing::warn!(?path, error, "cannot read what was kept; what has left is not told");
        Keeps::default()
    })
}

fn write(state: &Path, file: &File) -> Result<(), BoxError> {
    let folder = Folder::make(state)?;
    Ok(folder.replace(NAME, &serde_json::to_vec(file)?, 0o600)?)
}
