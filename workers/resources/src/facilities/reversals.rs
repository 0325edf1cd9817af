//! What puts back what resources have changed, on disk.
//!
//! Invariants:
//! 1. It is on disk before the resource acts for the first time, so no crash loses what there was. If
//!    nothing was changed after all, putting it back does nothing.
//! 2. What was there first counts: a record is replaced by no later one.

use std::convert::Infallible;
use std::io;
use std::path::{Path, PathBuf};

use crankcase_workers::{Folder, is_temporary};
use serde::{Deserialize, Serialize};

use crate::blocking::blocking;
use crate::declaration::Config;
use crate::error::BoxError;
use crate::facilities::Facilities;
use crate::naming::worker_name;

/// The largest record that is read, in bytes.
const LIMIT: u64 = 16 * 1024 * 1024;

/// How many records are read.
const MOST: usize = 1_000_000;

/// How a resource is put back as it was.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Reversal {
    pub(crate) resource: String,
    #[serde(rename = "type")]
    pub(crate) kind: String,
    /// Where relative paths of the config start.
    pub(crate) folder: PathBuf,
    /// What it kept, each with its space and its name.
    pub(crate) kept: Vec<(String, String)>,
    /// The config that declares it as it was; none if its kind could not say.
    pub(crate) config: Option<Config>,
}

impl Facilities {
    fn reversals_folder(&self) -> Option<PathBuf> {
        Some(self.state()?.join("reversals"))
    }

    /// Returns where it is on record how a resource is put back, if there is a state folder.
    pub(crate) fn reversal_file(&self, resource: &str) -> Option<PathBuf> {
        Some(self.reversals_folder()?.join(worker_name(resource)))
    }

    /// Returns whether nothing has to be put on record for a resource.
    pub(crate) async fn has_reversal(&self, resource: &str) -> bool {
        let Some(file) = self.reversal_file(resource).filter(|_| !self.is_plan()) else {
            return true;
        };
        blocking(move || Ok::<_, Infallible>(file.exists())).await.unwrap_or(false)
    }

    /// Puts on disk how a resource is put back. Blocks for the disk.
    pub(crate) fn note_reversal(&self, reversal: &Reversal) -> Result<(), BoxError> {
        let Some(folder) = self.reversals_folder().filter(|_| !self.is_plan()) else {
            return Ok(());
        };
        let folder = Folder::make(&folder)?;
        folder.make_private()?;
        let name = worker_name(&reversal.resource);
        Ok(folder.replace(name, &serde_json::to_vec(reversal)?, 0o600)?)
    }

    /// Forgets how a resource is put back, as it is back or is to stay.
    pub(crate) async fn forget_reversal(&self, resource: &str) {
        let Some(path) = self.reversal_file(resource).filter(|_| !self.is_plan()) else { return };
        let removed = blocking(move || match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        });
        if let Err(error) = removed.await {
            tracing::warn!(resource, error, "cannot forget how it is put back; it is done again");
        }
    }

    /// Puts what is on record of one resource on record of another, unless something is.
    pub(crate) async fn hand_reversal(&self, from: &str, to: Reversal) {
        if !self.has_reversal(&to.resource).await {
            let this = self.clone();
            if let Err(error) = blocking(move || this.note_reversal(&to)).await {
                return tracing::warn!(resource = from, error, "cannot keep how it is put back");
            }
        }
        self.forget_reversal(from).await;
    }

    /// Returns how the resources are put back that are on record, in the order of their names. What
    /// cannot be read is said in the log.
    pub(crate) async fn reversals(&self) -> Vec<Reversal> {
        let Some(path) = self.reversals_folder() else { return Vec::new() };
        let read = blocking(move || Ok::<_, Infallible>(read_all(&path))).await;
        read.unwrap_or_default()
    }
}

fn read_all(path: &Path) -> Vec<Reversal> {
    let listed = Folder::open(path).and_then(|folder| Ok((folder.names(MOST)?, folder)));
    let (mut names, folder) = match listed {
        Ok(listed) => listed,
        Err(error) if error.is_missing() => return Vec::new(),
        Err(error) => {
            tracing::warn!(?path, %error, "cannot read how resources are put back");
            return Vec::new();
        }
    };
    names.retain(|name| !is_temporary(name));
    names.sort();
    let read = |name| -> Result<Reversal, BoxError> {
        Ok(serde_json::from_slice(&folder.read(name, LIMIT)?)?)
    };
    let reversals = names.iter().filter_map(|name| {
        let path = path.join(name);
        read(name)
            .inspect_err(|error| {
                tracing::warn!(?path, %error, "cannot read how a resource is put back");
            })
            .ok()
    });
    reversals.collect()
}
