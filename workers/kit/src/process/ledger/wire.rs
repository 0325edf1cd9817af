//! How a record is stored: one JSON file for each process.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::room::{located, replace};
use crate::process::cgroup::Cgroup;

/// How large a record may be, in bytes; of the usual ones each has some hundred.
const LIMIT: u64 = 64 * 1024;

/// One record.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in super::super) struct Entry {
    pub(in super::super) name: String,
    pub(in super::super) boot_id: String,
    pub(in super::super) token: String,
    /// The process; absent until it is spawned.
    pub(in super::super) process: Option<Identity>,
    /// The data that another agent needs to adopt it; absent if it ends with its own agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in super::super) adoption: Option<Adoption>,
    /// Whether it is a command whose daemon is not found yet. What has its mark belongs to it then,
    /// in whatever group that is.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(in super::super) awaits_daemon: bool,
    /// The cgroup of the process; absent if it has none of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in super::super) cgroup: Option<Cgroup>,
    /// Where the record stands; not part of it.
    #[serde(skip)]
    pub(in super::super) path: PathBuf,
}

/// The identity of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct Identity {
    pub(in super::super) id: i32,
    /// In clock ticks after the boot.
    pub(in super::super) start_time: u64,
    /// Its process group; absent if the group has the id of the process, as the group of a command
    /// has. A daemon may be in another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in super::super) group: Option<i32>,
}

impl Identity {
    /// Returns the id of its process group.
    pub(in super::super) fn group(&self) -> i32 {
        self.group.unwrap_or(self.id)
    }
}

/// The data that an agent needs to adopt a process, or to end it in good order.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in super::super) struct Adoption {
    /// The digest of everything that it was started with.
    pub(in super::super) digest: String,
    /// The name of the signal that asks it to end.
    pub(in super::super) stop_signal: String,
    /// How long it may take to end, in milliseconds.
    pub(in super::super) grace_ms: u64,
    /// Whether it was ready.
    #[serde(default)]
    pub(in super::super) is_ready: bool,
}

impl Entry {
    /// Reads the record at `path`. A cgroup that is not the record's own is left out.
    pub(in super::super) fn read(path: &Path) -> io::Result<Self> {
        let (folder, name) = located(path)?;
        let mut entry: Self = serde_json::from_slice(&folder.read(name, LIMIT)?)?;
        path.clone_into(&mut entry.path);
        entry.cgroup = entry.cgroup.take().filter(|cgroup| cgroup.is_of(&entry.token));
        Ok(entry)
    }

    /// Puts the record in its place, as a whole and on the disk; when it fails, leaves nothing
    /// beside it but its room.
    pub(in super::super) fn replace(&self) -> io::Result<()> {
        let (folder, name) = located(&self.path)?;
        Ok(replace(&folder, name, serde_json::to_vec(self)?)?)
    }
}
