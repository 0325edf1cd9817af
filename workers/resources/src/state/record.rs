//! Records.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::state::document::Document;

/// A change of what outlives the process. It may be made twice: the second time it changes nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// The source may act from now on, and notifies the target.
    Pending(Notification),
    /// The target has acknowledged the notification, or the source has not acted.
    Acknowledged(Notification),
    /// The site keeps a resource.
    Kept {
        /// The name of the resource.
        resource: Arc<str>,
        /// What the resource is.
        keep: Keep,
    },
    /// The site does not keep a resource any more.
    Released {
        /// The name of the resource.
        resource: Arc<str>,
    },
    /// A document is on record, in the place of an earlier one with this key.
    Stored {
        /// The key of the document.
        key: Key,
        /// The document.
        document: Document,
    },
    /// The document with a key is not on record any more.
    Removed {
        /// The key of the document.
        key: Key,
    },
}

/// That a resource notifies another one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Notification {
    /// The name of the resource that is notified.
    pub target: Arc<str>,
    /// The name of the resource or rule that notifies it.
    pub source: Arc<str>,
}

impl Notification {
    /// Returns the notification of a target by a source.
    pub fn new(target: impl Into<Arc<str>>, source: impl Into<Arc<str>>) -> Self {
        Self { target: target.into(), source: source.into() }
    }
}

/// What a resource is that a site keeps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keep {
    /// The name of its kind.
    #[serde(rename = "type")]
    pub kind: String,
    /// The digest of what it keeps, whatever the resource is called.
    pub thing: String,
}

/// The key of a document.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// What the document is about.
    pub topic: Topic,
    /// Its name in the topic.
    pub name: Arc<str>,
}

impl Key {
    /// Returns the key with these parts.
    pub fn new(topic: Topic, name: impl Into<Arc<str>>) -> Self {
        Self { topic, name: name.into() }
    }
}

/// What a document is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Topic {
    /// How something is put back as it was. The name is the digest of what a resource keeps.
    Reversal,
    /// What a rule has handled, and what waits for it. The name is that of the rule.
    Rule,
    /// The config with which a resource was good last. The name is that of the resource, a line
    /// break, and the digest of the document. Nobody waits for such a document, and it is left out
    /// when it cannot be written.
    LastGood,
    /// The hold of a parked resource, by the resource's name.
    Park,
    /// The hold of a paused resource, by the resource's name.
    Pause,
}

impl Topic {
    /// All topics.
    pub const ALL: [Self; 5] =
        [Self::Reversal, Self::Rule, Self::LastGood, Self::Park, Self::Pause];

    /// Returns the topic as a word, for a store. No later version changes it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Reversal => "reversal",
            Self::Rule => "rule",
            Self::LastGood => "last_good",
            Self::Park => "park",
            Self::Pause => "pause",
        }
    }

    /// Returns the topic with this word, if there is one.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|topic| topic.word() == word)
    }
}

/// What a record is about: a later record about the same replaces an earlier one.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Subject<'a> {
    Notification(&'a Notification),
    Resource(&'a str),
    Document(&'a Key),
}

impl Record {
    fn subject(&self) -> Subject<'_> {
        match self {
            Self::Pending(notification) | Self::Acknowledged(notification) => {
                Subject::Notification(notification)
            }
            Self::Kept { resource, .. } | Self::Released { resource } => {
                Subject::Resource(resource)
            }
            Self::Stored { key, .. } | Self::Removed { key } => Subject::Document(key),
        }
    }
}

/// Leaves out the documents that nobody needs. Returns their keys.
///
/// A name says what is in such a document, so none is stored while one of its name is on record. If
/// the first record of a key stores it, the document is not on disk, and need not be removed there.
pub(super) fn leave_out_optional(records: &mut Vec<Record>) -> Vec<Key> {
    let (mut is_on_disk, mut left_out) = (HashMap::new(), Vec::new());
    records.retain(|record| match record {
        Record::Stored { key, .. } if key.topic == Topic::LastGood => {
            is_on_disk.entry(key.clone()).or_insert(false);
            left_out.push(key.clone());
            false
        }
        Record::Removed { key } if key.topic == Topic::LastGood => {
            *is_on_disk.entry(key.clone()).or_insert(true)
        }
        _ => true,
    });
    left_out
}

/// Removes the records that later ones replace. The order of the others stays.
pub(super) fn remove_replaced(records: &mut Vec<Record>) {
    let mut subjects = HashSet::new();
    let is_last: Vec<bool> =
        records.iter().rev().map(|record| subjects.insert(record.subject())).collect();
    drop(subjects);
    let mut is_last = is_last.into_iter().rev();
    records.retain(|_| is_last.next().unwrap_or(true));
}
