//! What puts back what resources have changed, on disk.
//!
//! Invariants:
//! 1. It is on disk before the resource acts for the first time, so no crash loses what there was. If
//!    nothing was changed after all, putting it back does nothing.
//! 2. What was there first counts: a record is replaced by no later one.
//! 3. A record is of a thing, such as a file, and not of the name that a manifest has for it.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fmt;
use std::path::{Path, PathBuf};

use crankcase_workers::{EntryKind, Folder, forget_file, is_temporary};
use serde::{Deserialize, Serialize};

use crate::blocking::blocking;
use crate::declaration::Config;
use crate::error::BoxError;
use crate::facilities::Facilities;
use crate::shape::Shape;
use crate::thing::Thing;

/// The largest record that is read, in bytes.
const LIMIT: u64 = 16 * 1024 * 1024;

/// How many records are read.
const MOST: usize = 1_000_000;

/// How a resource is put back as it was.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Reversal {
    pub(crate) resource: String,
    #[serde(rename = "type")]
    pub(crate) kind: String,
    /// Where relative paths of the config start.
    pub(crate) folder: PathBuf,
    /// The resources that it notified.
    pub(crate) notified: Vec<String>,
    /// The attributes of that config that are shown to nobody.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) hidden: BTreeSet<String>,
    /// The config that declares it as it was; none if its kind could not say.
    pub(crate) config: Option<Config>,
}

impl fmt::Debug for Reversal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Reversal");
        shown.field("resource", &self.resource).field("kind", &self.kind);
        shown.field("config", &self.config.as_ref().map(Shape::of_map)).finish_non_exhaustive()
    }
}

impl Facilities {
    fn reversals_folder(&self) -> Option<PathBuf> {
        Some(self.state()?.join("reversals"))
    }

    /// Returns where it is on record how a thing is put back, if there is a state folder.
    pub(crate) fn reversal_file(&self, thing: &Thing) -> Option<PathBuf> {
        Some(self.reversals_folder()?.join(thing.name()))
    }

    /// Returns whether it can be put on record how something is put back.
    pub(crate) fn keeps_reversals(&self) -> bool {
        self.state().is_some() && !self.is_plan()
    }

    /// Returns whether it is on record how a thing is put back.
    pub(crate) async fn has_reversal(&self, thing: &Thing) -> bool {
        let Some(folder) = self.reversals_folder() else { return false };
        let name = thing.name().to_owned();
        let look = move || Folder::open_own(&folder).and_then(|folder| folder.look(&name));
        let found = blocking(look).await.ok().flatten();
        found.is_some_and(|found| found.kind == EntryKind::File)
    }

    /// Puts on disk how a thing is put back. Blocks for the disk.
    pub(crate) fn note_reversal(&self, thing: &Thing, reversal: &Reversal) -> Result<(), BoxError> {
        let Some(folder) = self.reversals_folder().filter(|_| self.keeps_reversals()) else {
            return Ok(());
        };
        let folder = Folder::make_own(&folder)?;
        Ok(folder.replace(thing.name(), &serde_json::to_vec(reversal)?, 0o600)?)
    }

    /// Forgets how a thing is put back, as it is back or is to stay.
    pub(crate) async fn forget_reversal(&self, thing: &Thing) {
        let Some(path) = self.reversal_file(thing).filter(|_| self.keeps_reversals()) else {
            return;
        };
        let shown = path.clone();
        if let Err(error) = blocking(move || forget_file(&path)).await {
            tracing::warn!(path = ?shown, error, "cannot forget what is back; it is put back again");
        }
    }

    /// Returns how those things are put back that `is_read` wants to know of, in the order of their
    /// names. What cannot be read is said in the log.
    pub(crate) async fn reversals(
        &self,
        is_read: impl Fn(&Thing) -> bool + Send + 'static,
    ) -> Vec<(Thing, Reversal)> {
        let Some(path) = self.reversals_folder() else { return Vec::new() };
        let read = blocking(move || Ok::<_, Infallible>(read_some(&path, &is_read))).await;
        read.unwrap_or_default()
    }
}

fn read_some(path: &Path, is_read: &dyn Fn(&Thing) -> bool) -> Vec<(Thing, Reversal)> {
    let listed = Folder::open_own(path).and_then(|folder| Ok((folder.names(MOST)?, folder)));
    let (mut names, folder) = match listed {
        Ok(listed) => listed,
        Err(error) if error.is_missing() => return Vec::new(),
        Err(error) => {
            tracing::warn!(?path, %error, "cannot read how resources are put back");
            return Vec::new();
        }
    };
    names.retain(|name| !is_temporary(name));
    let things = names.iter().filter_map(|name| name.to_str()).map(Thing::named);
    let read = |thing: &Thing| -> Result<Reversal, BoxError> {
        Ok(serde_json::from_slice(&folder.read(thing.name(), LIMIT)?)?)
    };
    let read = things.filter(is_read).filter_map(|thing| match read(&thing) {
        Ok(reversal) => Some((thing, reversal)),
        Err(error) => {
            let path = path.join(thing.name());
            tracing::warn!(?path, %error, "cannot read how a resource is put back");
            None
        }
    });
    let mut read: Vec<_> = read.collect();
    read.sort_by(|(one, first), (other, second)| {
        (&first.resource, one).cmp(&(&second.resource, other))
    });
    read
}
