use std::fs::File;
use std::os::fd::OwnedFd;

use crankcase_engine::Stop;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use serde_json::{Value, json};

use crate::file::config::EntryPath;
use crate::file::content::Digest;
use crate::file::error::FileError;
use crate::file::owner::{group_name, user_name};

/// How many entries of a folder an error names.
const NAMED: usize = 3;

/// A file or folder as it is.
#[derive(Debug)]
pub(super) struct Observed {
    pub(super) mode: u32,
    pub(super) user: u32,
    pub(super) group: u32,
    /// The size in bytes.
    size: u64,
    /// The content, or why it may not be read; a folder has none.
    pub(super) digest: Option<Result<Digest, FileError>>,
}

/// Returns the entry's metadata, or `None` if it does not exist.
///
/// Anything else than a file, or a folder where one is declared, is an error.
pub(super) fn stat(folder: &OwnedFd, path: &EntryPath) -> Result<Option<Stat>, FileError> {
    let full = path.full();
    let stat = match rustix::fs::statat(folder, &path.name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Ok(None),
        Err(err) => return Err(FileError::io("look at", &full)(err)),
    };
    let wanted = if path.is_folder { FileType::Directory } else { FileType::RegularFile };
    let found = FileType::from_raw_mode(stat.st_mode);
    if found != wanted {
        return Err(FileError::WrongType { path: full, found: noun(found), wanted: noun(wanted) });
    }
    Ok(Some(stat))
}

fn noun(kind: FileType) -> &'static str {
    match kind {
        FileType::RegularFile => "a file",
        FileType::Directory => "a folder",
        FileType::Symlink => "a symlink",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Unknown => "something unknown",
    }
}

/// Opens the entry itself for reading; a symlink that has taken its place is an error.
pub(super) fn open(folder: &OwnedFd, path: &EntryPath) -> Result<(OwnedFd, Stat), FileError> {
    open_as(OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY, folder, path)
}

/// As [`open`], but not for reading, so that it may be one that nobody may read.
pub(super) fn hold(folder: &OwnedFd, path: &EntryPath) -> Result<(OwnedFd, Stat), FileError> {
    open_as(OFlags::PATH, folder, path)
}

fn open_as(
    flags: OFlags,
    folder: &OwnedFd,
    path: &EntryPath,
) -> Result<(OwnedFd, Stat), FileError> {
    let full = path.full();
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let entry = rustix::fs::openat(folder, &path.name, flags, Mode::empty())
        .map_err(FileError::io("open", &full))?;
    let stat = rustix::fs::fstat(&entry).map_err(FileError::io("look at", &full))?;
    let found = FileType::from_raw_mode(stat.st_mode);
    let wanted = if path.is_folder { FileType::Directory } else { FileType::RegularFile };
    if found != wanted {
        return Err(FileError::WrongType { path: full, found: noun(found), wanted: noun(wanted) });
    }
    Ok((entry, stat))
}

impl Observed {
    /// Looks at the entry.
    pub(super) fn look(
        folder: &OwnedFd,
        path: &EntryPath,
        stop: &Stop,
    ) -> Result<Option<Self>, FileError> {
        let Some(mut stat) = stat(folder, path)? else { return Ok(None) };
        let mut digest = None;
        if !path.is_folder {
            match open(folder, path) {
                Ok((file, opened)) => {
                    digest = Some(Ok(Digest::read(File::from(file), &path.full(), stop)?));
                    stat = opened;
                }
                Err(error) if error.is_denied() => digest = Some(Err(error)),
                Err(error) => return Err(error),
            }
        }
        let (user, group) = (stat.st_uid, stat.st_gid);
        let size = u64::try_from(stat.st_size).unwrap_or_default();
        Ok(Some(Self { mode: stat.st_mode & 0o7777, user, group, size, digest }))
    }

    /// Returns what dependents see.
    pub(super) fn state(&self, path: &EntryPath) -> Value {
        let mut state = json!({
            "path": path.declared(),
            "state": "exists",
            "mode": octal(self.mode),
            "owner": user_name(self.user),
            "group": group_name(self.group),
        });
        if let Some(digest) = &self.digest {
            let digest = digest.as_ref().ok();
            state["size"] = digest.map_or(self.size, |digest| digest.size).into();
            state["sha256"] = digest.map(Digest::hex).into();
        }
        state
    }
}

/// Returns a mode as a manifest writes it.
pub(super) fn octal(mode: u32) -> String {
    format!("{mode:04o}")
}

/// Refuses a folder that is not empty.
pub(super) fn require_empty(folder: &OwnedFd, path: &EntryPath) -> Result<(), FileError> {
    let full = path.full();
    let (entry, _) = open(folder, path)?;
    let entries = Dir::new(entry).map_err(FileError::io("read", &full))?;
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(FileError::io("read", &full))?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(format!("{:?}", String::from_utf8_lossy(name)));
        }
        if names.len() > NAMED {
            break;
        }
    }
    if names.is_empty() {
        return Ok(());
    }
    names.sort();
    let more = if names.len() > NAMED { " and more" } else { "" };
    names.truncate(NAMED);
    let entries = format!("{}{more}", names.join(", "));
    Err(FileError::NotEmpty { path: full, entries })
}
