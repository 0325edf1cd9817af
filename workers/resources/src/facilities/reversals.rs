//! What puts back what resources have changed, on disk.
//!
//! Invariants:
//! 1. It is on disk before the resource acts for the first time, so no crash loses what there was. If
//!    nothing was changed after all, putting it back does nothing.
//! 2. What was there first counts: a record is replaced by no later one.

use std::io;
use std::path::{Path, PathBuf};

use crankcase_workers::Folder;
use serde::{Deserialize, Serialize};

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
    /// The config that declares it as it was; none if its kind could not say.
    pub(crate) config: Option<Config>,
}

impl Facilities {
    fn reversals_folder(&self) -> Option<PathBuf> {
        Some(self.state()?.join("reversals"))
    }

    /// Returns where it is on record how a resource is put back, if there is a state folder.
    pub(crate) fn reversal_file(&self, resource: &str) -> Option<PathBuf> {
        Some(self.reversals_folder()?.join(format!("{}.json", worker_name(resource))))
    }

    /// Puts on disk how a resource is put back. Blocks for the disk.
    pub(crate) fn note_reversal(&self, reversal: &Reversal) -> Result<(), BoxError> {
        let Some(folder) = self.reversals_folder().filter(|_| !self.is_plan()) else {
            return Ok(());
        };
        let folder = Folder::make(&folder)?;
        folder.make_private()?;
        let name = format!("{}.json", worker_name(&reversal.resource));
        Ok(folder.replace(name, &serde_json::to_vec(reversal)?, 0o600)?)
    }

    /// Forgets how a resource is put back. Blocks for the disk. That the disk refuses costs another
    /// look at what is back already.
    pub(crate) fn forget_reversal(&self, resource: &str) {
        let Some(path) = self.reversal_file(resource).filter(|_| !self.is_plan()) else { return };
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(?path, %error, "cannot forget how a resource is put back");
            }
            _ => {}
        }
    }

    /// Returns how the resources are put back that are on record, in the order of their names. What
    /// cannot be read is said in the log. Blocks for the disk.
    pub(crate) fn reversals(&self) -> Vec<Reversal> {
        let Some(path) = self.reversals_folder() else { return Vec::new() };
        let listed = Folder::open(&path).and_then(|folder| Ok((folder.names(MOST)?, folder)));
        let (mut names, folder) = match listed {
            Ok(listed) => listed,
            Err(error) => {
                if !error.is_missing() {
                    tracing::warn!(?path, %error, "cannot read how resources are put back");
                }
                return Vec::new();
            }
        };
        names.retain(|name| Path::new(name).extension().is_some_and(|it| it == "json"));
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
}
