//! Writing a file in place, for files that cannot be replaced by a new one.
//!
//! Invariants:
//! 1. Before the first byte of a file changes, a record with its path, its whole old content and its
//!    whole new one is on the disk, in a journal.
//! 2. The record goes only when the file is synced, as the new one or as the old one.
//! 3. So a file that a crash has left partly written is found by its record, and gets the new content.
//! 4. Nobody but root and the agent's user can exchange the file for another one meanwhile.

use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, Mode, OFlags, StatxAttributes, StatxFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::entry::Found;
use super::error::FileError;
use super::folder::Folder;
use super::kind::EntryKind;
use super::read::{READ, read_opened};
use super::temporary::is_temporary;
use crate::seed::any_seed;

/// The largest content that is written in place, in bytes.
pub const OVERWRITE_LIMIT: u64 = 16 * 1024 * 1024;

/// The largest record, in bytes: both contents and the line about them.
const RECORD_LIMIT: u64 = 2 * OVERWRITE_LIMIT + 64 * 1024;

/// The most records that are read.
const MOST_RECORDS: usize = 100_000;

/// A file that is open to be written in place. It stays the same file, and its readers may see a part of the
/// change meanwhile.
///
/// # Examples
///
/// ```
/// use crankcase_workers::{Folder, finish_overwrites};
///
/// # let outer = tempfile::tempdir()?;
/// # let (folder, journal) = (Folder::open(outer.path())?, outer.path().join("journal"));
/// # std::fs::write(outer.path().join("hosts"), "old")?;
/// // At the start, for what a crash has left.
/// finish_overwrites(&journal)?;
/// folder.overwrite("hosts")?.write(b"new", &journal)?;
/// assert_eq!(folder.read("hosts", 64)?, b"new");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Overwrite {
    file: File,
    old: Vec<u8>,
    path: PathBuf,
}

impl fmt::Debug for Overwrite {
    // The content may be a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Overwrite").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Folder {
    /// Returns whether an entry is a mount point: it can be neither replaced nor removed.
    pub fn is_mount_point(&self, name: impl AsRef<OsStr>) -> bool {
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        let found = rustix::fs::statx(self, name.as_ref(), flags, StatxFlags::TYPE);
        found.is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
    }

    /// Returns why a file can only be written in place, if that is known before: it is a mount point, or the
    /// agent's user may write it and not the folder.
    pub fn only_in_place(&self, name: impl AsRef<OsStr>) -> Option<&'static str> {
        let name = name.as_ref();
        if self.is_mount_point(name) {
            return Some("it is a mount point");
        }
        let may = |name: &OsStr, access| {
            rustix::fs::accessat(self, name, access, AtFlags::EACCESS).is_ok()
        };
        let is_replaceable = may(OsStr::new("."), Access::WRITE_OK | Access::EXEC_OK);
        let is_writable = !is_replaceable && may(name, Access::WRITE_OK);
        is_writable.then_some("its folder cannot be written")
    }

    /// Refuses a folder in which others than root and the agent's user can put entries: a file that is written
    /// in place could be exchanged for another one.
    ///
    /// # Errors
    ///
    /// [`FileError::NotPrivate`].
    pub fn require_closed(&self) -> Result<(), FileError> {
        if !self.is_shared() {
            return Ok(());
        }
        let reason = "others than the agent's user can write to it, and could put another file there while \
                      one is written in place";
        Err(FileError::NotPrivate { path: self.path().to_owned(), reason: reason.to_owned() })
    }

    /// Opens a regular file to write it in place, and reads it.
    ///
    /// # Errors
    ///
    /// When others can put entries into the folder, when there is no such file or it has more than 16 MiB, and
    /// when the system refuses.
    pub fn overwrite(&self, name: impl AsRef<OsStr>) -> Result<Overwrite, FileError> {
        let name = name.as_ref();
        let path = self.path().join(name);
        self.require_closed()?;
        // It is looked at first: to open a device may do something.
        let missing = || FileError::io("write", &path)(Errno::NOENT);
        self.look(name)?.ok_or_else(missing)?.require(EntryKind::File, &path)?;
        let flags = READ | OFlags::RDWR | OFlags::NOFOLLOW;
        let file = rustix::fs::openat(self, name, flags, Mode::empty());
        let file = File::from(file.map_err(FileError::io("open", &path))?);
        let found = Found::at(&file, &path)?.require(EntryKind::File, &path)?;
        let copy = file.try_clone().map_err(FileError::io("read", &path))?;
        let old = read_opened((copy, found.size), &path, OVERWRITE_LIMIT)?;
        let path = std::path::absolute(&path).map_err(FileError::io("find", &path))?;
        Ok(Overwrite { file, old, path })
    }
}

impl Overwrite {
    /// Writes a content of at most 16 MiB, and syncs it. The old content and the new one are kept in a folder of
    /// the agent's own, `journal`, until that is done, so that [`finish_overwrites`] can finish it after a crash. The
    /// folder is made if it is not there.
    ///
    /// # Errors
    ///
    /// When the content is too large, or the system refuses. If only a part could be written, the old content is
    /// written back.
    pub fn write(self, content: &[u8], journal: &Path) -> Result<(), FileError> {
        let Self { file, old, path } = self;
        if content.len() as u64 > OVERWRITE_LIMIT {
            return Err(FileError::TooLarge { path, limit: OVERWRITE_LIMIT });
        }
        let journal = Folder::make_own(journal)?;
        let name = format!("{:016x}", any_seed());
        let record = Record { path: path.clone(), old: old.len() };
        journal.replace(&name, &record.write(&old, content)?, 0o600)?;
        let written = write(&file, content, &path);
        if written.is_err()
            && let Err(error) = write(&file, &old, &path)
        {
            tracing::warn!(?path, %error, "a file stays partly written until the next start");
            return written;
        }
        // A record that stays does no harm: the file is found whole.
        if let Err(error) = journal.remove(&name, EntryKind::File) {
            tracing::warn!(?path, %error, "cannot forget what was written in place");
        }
        written
    }
}

/// Finishes what a crash has interrupted in an [`Overwrite`]: a file with parts of the old and of the new content gets
/// the new content. A file that something else has changed since is left as it is. A file that cannot be written is
/// logged, and tried again by the next call.
///
/// # Errors
///
/// When the journal cannot be read.
pub fn finish_overwrites(journal: &Path) -> Result<(), FileError> {
    let folder = match Folder::open_own(journal) {
        Err(error) if error.is_missing() => return Ok(()),
        folder => folder?,
    };
    for name in folder.names(MOST_RECORDS)?.into_iter().filter(|name| !is_temporary(name)) {
        let finished = folder.read(&name, RECORD_LIMIT).and_then(|record| finish(&record, journal));
        let forgotten = finished.and_then(|()| folder.remove(&name, EntryKind::File));
        if let Err(error) = forgotten {
            tracing::warn!(?name, %error, "cannot finish a file that was written in place");
        }
    }
    folder.entries()?.sync()
}

/// The first line of a record. The old content and the new one follow it.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    path: PathBuf,
    /// How many bytes the old content has.
    old: usize,
}

impl Record {
    fn write(&self, old: &[u8], new: &[u8]) -> Result<Vec<u8>, FileError> {
        let head = serde_json::to_vec(self).map_err(FileError::io("note", &self.path))?;
        Ok([&head[..], b"\n", old, new].concat())
    }
}

/// Writes the new content of a record, if the file is partly written.
fn finish(record: &[u8], journal: &Path) -> Result<(), FileError> {
    let damaged =
        || FileError::io("understand", journal)(io::Error::from(io::ErrorKind::InvalidData));
    let end = record.iter().position(|byte| *byte == b'\n').ok_or_else(damaged)?;
    let Record { path, old } = serde_json::from_slice(&record[..end]).map_err(|_| damaged())?;
    let (old, new) = record[end + 1..].split_at_checked(old).ok_or_else(damaged)?;
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(damaged());
    };
    let opened = match Folder::open(parent).and_then(|folder| folder.overwrite(name)) {
        Ok(opened) => opened,
        // It is another thing by now, or it is gone.
        Err(error) if error.is_missing() => return Ok(()),
        Err(
            FileError::WrongKind { .. } | FileError::TooLarge { .. } | FileError::NotAFolder { .. },
        ) => return Ok(()),
        Err(error) => return Err(error),
    };
    if opened.old == old || opened.old == new {
        return Ok(());
    }
    if !is_mixed(&opened.old, old, new) {
        tracing::warn!(
            ?path,
            "a partly written file was changed by something else; it is left as it is"
        );
        return Ok(());
    }
    write(&opened.file, new, &path)?;
    tracing::warn!(?path, "a file that a crash had left partly written was finished");
    Ok(())
}

/// Returns whether each byte is one of the old content or of the new one, or was never written.
fn is_mixed(now: &[u8], old: &[u8], new: &[u8]) -> bool {
    let is_from = |content: &[u8], at: usize, byte: u8| content.get(at) == Some(&byte);
    let is_known =
        |(at, byte): (usize, &u8)| *byte == 0 || is_from(old, at, *byte) || is_from(new, at, *byte);
    now.len() <= old.len().max(new.len()) && now.iter().enumerate().all(is_known)
}

/// Writes the whole content, and syncs it.
fn write(file: &File, content: &[u8], path: &Path) -> Result<(), FileError> {
    let written = file.write_all_at(content, 0);
    let written = written.and_then(|()| file.set_len(content.len() as u64));
    written.map_err(FileError::io("write", path))?;
    match rustix::fs::fsync(file) {
        // A file that the kernel makes up, as in /proc, is on no disk.
        Ok(()) | Err(Errno::INVAL) => Ok(()),
        Err(err) => Err(FileError::io("sync", path)(err)),
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::{Folder, Record, finish_overwrites};

    type TestResult = Result<(), Box<dyn Error>>;

    #[test]
    fn a_file_that_is_written_in_place_stays_the_file_that_it_is() -> TestResult {
        let outer = tempfile::tempdir()?;
        let (path, journal) = (outer.path().join("page"), outer.path().join("journal"));
        fs::write(&path, "a long old content")?;
        let before = fs::metadata(&path)?.ino();

        Folder::open(outer.path())?.overwrite("page")?.write(b"new", &journal)?;

        let after = fs::metadata(&path)?.ino();
        assert_eq!((fs::read_to_string(&path)?.as_str(), after), ("new", before));
        assert_eq!(fs::read_dir(&journal)?.count(), 0);
        Ok(())
    }

    #[test]
    fn nothing_is_written_in_place_where_others_can_write() -> TestResult {
        let outer = tempfile::tempdir()?;
        fs::set_permissions(outer.path(), PermissionsExt::from_mode(0o777))?;
        fs::write(outer.path().join("page"), "old")?;

        let refused = Folder::open(outer.path())?.overwrite("page");

        assert!(
            refused.is_err_and(|error| error.to_string().contains("others than the agent's user"))
        );
        Ok(())
    }

    #[test]
    fn what_a_crash_has_left_in_part_becomes_the_new_content() -> TestResult {
        let (old, new) = ("the old content", "the new one, which is longer");
        let cases = [
            // The content after the crash, and after the next start.
            (old, old),
            (new, new),
            ("the new content", new),
            ("the new one, wh", new),
            ("the old\0content", new),
            ("", new),
            ("the old content, by hand", "the old content, by hand"),
            ("something else", "something else"),
        ];

        for (left, expected) in cases {
            let outer = tempfile::tempdir()?;
            let (path, journal) = (outer.path().join("page"), outer.path().join("journal"));
            fs::write(&path, left)?;
            let record = Record { path: path.clone(), old: old.len() };
            let record = record.write(old.as_bytes(), new.as_bytes())?;
            Folder::make(&journal)?.replace("record", &record, 0o600)?;

            finish_overwrites(&journal)?;

            assert_eq!(fs::read_to_string(&path)?, expected, "{left:?}");
            assert_eq!(fs::read_dir(&journal)?.count(), 0);
        }
        Ok(())
    }

    #[test]
    fn what_is_gone_since_a_crash_or_is_no_file_any_more_is_left() -> TestResult {
        let outer = tempfile::tempdir()?;
        let journal = outer.path().join("journal");
        fs::create_dir(outer.path().join("folder"))?;
        std::os::unix::fs::symlink("folder", outer.path().join("link"))?;
        for name in ["gone", "folder", "link", "gone/below"] {
            let record = Record { path: outer.path().join(name), old: 1 };
            let record = record.write(b"o", b"new")?;
            Folder::make(&journal)?.replace("record", &record, 0o600)?;

            finish_overwrites(&journal)?;

            assert_eq!(fs::read_dir(&journal)?.count(), 0, "{name}");
        }
        finish_overwrites(&outer.path().join("no-journal"))?;
        Ok(())
    }
}
