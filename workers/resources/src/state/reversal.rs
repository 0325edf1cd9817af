//! How resources are put back as they were, on record.
//!
//! Invariants:
//! 1. It is on disk before the resource acts for the first time, so no crash loses what there was. If
//!    nothing was changed after all, putting it back does nothing.
//! 2. What was there first counts: a record is replaced by no later one.
//! 3. A record is of a thing, such as a file, and not of the name that a manifest has for it.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::base::error::BoxError;
use crate::base::shape::Shape;
use crate::base::text::chain;
use crate::declare::declaration::Config;
use crate::declare::kept_thing::KeptThing;
use crate::state::{Document, DocumentError, Key, Position, Record, Records, Topic};

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

impl Reversal {
    /// Returns whether it is on record how a thing is put back.
    pub(crate) fn is_on_record(records: &Records, thing: &KeptThing) -> bool {
        Self::position(records, thing).is_some()
    }

    /// Returns up to where records have to be on disk for that of a thing to be, if it is on record.
    pub(crate) fn position(records: &Records, thing: &KeptThing) -> Option<Position> {
        records.position_of(&key(thing))
    }

    /// Puts on record how a thing is put back.
    pub(crate) fn push(
        &self,
        records: &Records,
        thing: &KeptThing,
    ) -> Result<Position, DocumentError> {
        let document = Document::of(self)?;
        Ok(records.push([Record::Stored { key: key(thing), document }]))
    }

    /// Forgets how a thing is put back that was not changed after all. Does not wait for the disk.
    pub(crate) fn withdraw(records: &Records, thing: &KeptThing) {
        records.push([Record::Removed { key: key(thing) }]);
    }

    /// Forgets how things are put back, as they are back or are to stay.
    pub(crate) async fn forget(records: &Records, things: &[KeptThing]) {
        if things.is_empty() {
            return;
        }
        let removed = things.iter().map(|thing| Record::Removed { key: key(thing) });
        if let Err(error) = records.flush(records.push(removed)).await {
            let error = chain(&error);
            tracing::warn!(error, "cannot forget what is back; it is put back again");
        }
    }

    /// Returns how those things are put back that `is_read` wants to know of, in the order of their
    /// names. What cannot be read is said in the log.
    pub(crate) async fn all(
        records: &Records,
        is_read: impl Fn(&KeptThing) -> bool,
    ) -> Vec<(KeptThing, Self)> {
        let things: Vec<KeptThing> = records.look(|loaded| {
            let keys = loaded.documents.iter().filter(|key| key.topic == Topic::Reversal);
            keys.map(|key| KeptThing::named(&key.name)).filter(is_read).collect()
        });
        let mut all = Vec::new();
        for thing in things {
            match read(records, &thing).await {
                Ok(reversal) => all.extend(reversal.map(|reversal| (thing, reversal))),
                Err(error) => {
                    let (thing, error) = (thing.name(), chain(&*error));
                    tracing::warn!(thing, error, "cannot read how a resource is put back");
                }
            }
        }
        all.sort_by(|(one, first), (other, second)| {
            (&first.resource, one).cmp(&(&second.resource, other))
        });
        all
    }
}

async fn read(records: &Records, thing: &KeptThing) -> Result<Option<Reversal>, BoxError> {
    let document = records.document(&key(thing)).await?;
    Ok(document.map(|document| document.read()).transpose()?)
}

fn key(thing: &KeptThing) -> Key {
    Key::new(Topic::Reversal, thing.name())
}
