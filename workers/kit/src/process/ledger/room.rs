//! The room on the disk that records keep, so that a full disk stops no process from being started
//! again.
//!
//! A record that keeps room has a second file beside it. Its next content is written into that
//! file, and then the two exchange their names. When the record is removed, both files become
//! spares, which later records take. So no block is given back to the disk, and no new one is
//! needed, except on a file system that never writes in place, such as btrfs. There are at most
//! twice as many files as there were records at one time.
//!
//! Invariants:
//! 1. A file that is being written has no record's name, so nobody reads it.
//! 2. A spare is taken by a rename, so only one record gets it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Write;
use std::path::Path;

use rustix::fs::{Mode, OFlags, RenameFlags, openat, renameat, renameat_with};
use rustix::io::Errno;

use crate::files::{FileError, Folder};

/// The length of each file, in bytes. A longer record goes without room.
const ROOM: u16 = 4096;

/// The extension of the file for the next content of a record.
const NEXT: &str = "next";

/// The extension of a spare.
const SPARE: &str = "spare";

/// Gets room for the next content of the record at `path`: a spare, or a new file.
pub(super) fn reserve(path: &Path) -> Result<(), FileError> {
    let (folder, name) = located(path)?;
    let next = next_of(name);
    for spare in folder.names(usize::MAX)?.into_iter().filter(|name| has_extension(name, SPARE)) {
        match renameat(&folder, &spare, &folder, &next) {
            // Another record was faster.
            Err(Errno::NOENT) => {}
            taken => return taken.map_err(FileError::io("take", &folder.path().join(&spare))),
        }
    }
    folder.replace(&next, &padded(Vec::new()), 0o600)
}

/// Puts the content of a record in its place, as a whole and on the disk: into the room that it
/// keeps, if it keeps some. When it fails, leaves nothing beside the record but that room.
pub(super) fn replace(folder: &Folder, name: &OsStr, content: Vec<u8>) -> Result<(), FileError> {
    let next = next_of(name);
    let is_small = content.len() <= usize::from(ROOM);
    if !is_small || folder.look_for_own_file(&next)?.is_none() {
        return folder.replace(name, &content, 0o600);
    }
    let entries = folder.entries()?;
    write(folder, &next, &padded(content))?;
    let replaced = match renameat_with(folder, &next, folder, name, RenameFlags::EXCHANGE) {
        // It is the first content, or the file system can exchange no names: the room is lost then.
        Err(Errno::NOENT | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            renameat(folder, &next, folder, name)
        }
        exchanged => exchanged,
    };
    replaced.map_err(FileError::io("replace", &folder.path().join(name)))?;
    entries.sync()
}

/// Removes the record at `path` if it is there. If it keeps room, its files become spares.
pub(in super::super) fn forget(path: &Path) -> Result<(), FileError> {
    let (folder, name) = match located(path) {
        Err(error) if error.is_missing() => return Ok(()),
        located => located?,
    };
    let next = next_of(name);
    if folder.look_for_file(&next)?.is_none() {
        return folder.forget(name);
    }
    // Both new names end like those of other spares, and come from this record alone.
    for (file, ending) in [(name, SPARE), (&*next, "next.spare")] {
        let spare = Path::new(name).with_extension(ending);
        match renameat(&folder, file, &folder, &spare) {
            Err(Errno::NOENT) => {}
            renamed => renamed.map_err(FileError::io("remove", &folder.path().join(file)))?,
        }
    }
    Ok(())
}

/// Returns whether a file is the room of a record.
pub(super) fn is_room(name: &OsStr) -> bool {
    has_extension(name, NEXT)
}

/// Opens the folder of a record, past no symlink; returns it with the record's name.
pub(super) fn located(path: &Path) -> Result<(Folder, &OsStr), FileError> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(FileError::MissingFolder { path: path.to_owned() });
    };
    Ok((Folder::open_own(folder)?, name))
}

/// Writes a file in place. It has its blocks already, so it needs no room.
fn write(folder: &Folder, name: &OsStr, content: &[u8]) -> Result<(), FileError> {
    let path = folder.path().join(name);
    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = openat(folder, name, flags, Mode::empty());
    let mut file = File::from(opened.map_err(FileError::io("open", &path))?);
    let written = file.write_all(content);
    // The file may have held a longer record.
    let written = written.and_then(|()| file.set_len(u64::from(ROOM)));
    written.and_then(|()| file.sync_all()).map_err(FileError::io("write", &path))
}

/// Fills a content up with spaces, which mean nothing at the end of JSON.
fn padded(mut content: Vec<u8>) -> Vec<u8> {
    content.resize(usize::from(ROOM), b' ');
    content
}

fn next_of(name: &OsStr) -> OsString {
    Path::new(name).with_extension(NEXT).into_os_string()
}

fn has_extension(name: &OsStr, extension: &str) -> bool {
    Path::new(name).extension().is_some_and(|its| its == extension)
}

#[cfg(test)]
mod tests {
    use std::error::Error;
    use std::fs;

    use super::{forget, replace, reserve};
    use crate::files::Folder;

    #[test]
    fn a_record_that_is_longer_than_its_room_is_whole_and_so_are_the_next()
    -> Result<(), Box<dyn Error>> {
        let outer = tempfile::tempdir()?;
        let folder = Folder::open(outer.path())?;
        let path = |name: &str| outer.path().join(name);
        reserve(&path("1.process"))?;
        replace(&folder, "1.process".as_ref(), vec![b'x'; 5_000])?;
        assert_eq!(fs::read(path("1.process"))?, [b'x'; 5_000]);
        forget(&path("1.process"))?;

        // Each takes one of the two files, and one of those is too long.
        for name in ["2.process", "3.process"] {
            reserve(&path(name))?;
            replace(&folder, name.as_ref(), b"short".to_vec())?;
        }

        for name in ["2.process", "3.process"] {
            let content = fs::read(path(name))?;
            assert_eq!((content.trim_ascii_end(), content.len()), (&b"short"[..], 4096), "{name}");
        }
        assert_eq!(fs::read_dir(outer.path())?.count(), 2);
        Ok(())
    }
}
