//! What is in the programs that resources execute, and how the files are that they read.

use std::collections::HashMap;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crankcase_workers::open_file;
use parking_lot::Mutex;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// How much of a program is read at a time, in bytes.
const PIECE: usize = 64 * 1024;

/// The digests of the programs that were read: many resources may execute one.
#[derive(Debug, Default)]
pub(crate) struct Programs(Mutex<HashMap<PathBuf, (Stamp, String)>>);

/// What tells a file from another one and from itself before a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    number: u64,
    size: u64,
    /// When it was changed, in seconds and nanoseconds.
    changed: (i64, i64),
}

impl Stamp {
    fn of(found: &Metadata) -> Self {
        let changed = (found.ctime(), found.ctime_nsec());
        Self { device: found.dev(), number: found.ino(), size: found.size(), changed }
    }
}

/// A file as it was at some moment, or that there was none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileStamp {
    path: PathBuf,
    stamp: Option<Stamp>,
}

impl FileStamp {
    /// Returns how a file is now. Blocks for the disk.
    pub(crate) fn now(path: PathBuf) -> Self {
        let stamp = fs::metadata(&path).ok().map(|found| Stamp::of(&found));
        Self { path, stamp }
    }
}

impl Programs {
    /// Returns a path, and the digest of the file that is there; null if there is none that can be read. Nothing
    /// else is opened: a device may have no end. Blocks for the disk.
    pub(crate) fn digest(&self, path: &Path) -> Value {
        json!([path.to_string_lossy(), self.read(path).ok()])
    }

    fn read(&self, path: &Path) -> io::Result<String> {
        let (file, _) = open_file(path)?;
        let stamp = Stamp::of(&file.metadata()?);
        let known = self.0.lock().get(path).filter(|(known, _)| *known == stamp).cloned();
        if let Some((_, digest)) = known {
            return Ok(digest);
        }
        let digest = digest(file)?;
        self.0.lock().insert(path.to_owned(), (stamp, digest.clone()));
        Ok(digest)
    }
}

fn digest(mut file: File) -> io::Result<String> {
    let (mut hasher, mut buffer) = (Sha256::new(), vec![0; PIECE]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(base16ct::lower::encode_string(&hasher.finalize())),
            count => hasher.update(&buffer[..count]),
        }
    }
}
