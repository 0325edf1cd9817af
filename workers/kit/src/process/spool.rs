//! The files that a process writes to if it may outlive its agent.
//!
//! A process that writes to a pipe waits, or ends, as soon as nobody reads the pipe any more.
//!
//! Invariants:
//! 1. The files of a process stand beside its record. They are made after the record, and removed
//!    before it.
//! 2. The part of a file that was read is given back to the disk, so that no secret stays in it,
//!    and its place in the file is not used again. So a position stays right, whatever is written
//!    meanwhile.
//! 3. A position is noted after the lines before it were dealt with. Lines may be logged twice if
//!    the agent is killed in between; none is lost.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, Mode, OFlags, fallocate, openat};
use rustix::io::Errno;

use super::stream::Stream;
use crate::files::{FileError, Folder, forget_file};

/// The extension of the file with the positions: eight bytes for each stream.
const POSITIONS: &str = "read";

/// How much is read at a time, in bytes.
const CHUNK: usize = 64 * 1024;

/// How many bytes that were read may stay on a disk that cannot take back a part of a file.
const KEPT: u64 = 1024 * 1024;

/// How many bytes of the output that nobody has read in time are read later: its last bytes.
const BACKLOG: u64 = 64 * 1024 * 1024;

/// The files of one process.
#[derive(Debug)]
pub(super) struct Spool {
    record: PathBuf,
}

impl Spool {
    /// Returns the files of the process that has this record.
    pub(super) fn of(record: &Path) -> Self {
        Self { record: record.to_owned() }
    }

    /// Makes the files; returns those for stdout and stderr, to write at their ends. Blocks for the
    /// disk.
    pub(super) fn create(&self) -> io::Result<(File, File)> {
        let (path, folder) = self.located(POSITIONS)?;
        // This mode holds whatever the umask is.
        let mode = || Permissions::from_mode(0o600);
        let mut positions = folder.append(name_of(&path)?)?;
        positions.set_permissions(mode())?;
        // Its room is taken now: a disk that is full later does not matter.
        positions.write_all(&[0; 16])?;
        let create = |stream: Stream| {
            let (path, folder) = self.located(stream.name())?;
            let file = folder.append(name_of(&path)?)?;
            file.set_permissions(mode())?;
            Ok::<_, io::Error>(file)
        };
        Ok((create(Stream::Stdout)?, create(Stream::Stderr)?))
    }

    /// Returns the reader of a stream, from the place up to which it was read. Blocks for the disk.
    pub(super) fn reader(&self, stream: Stream) -> io::Result<SpoolReader> {
        let (file, positions) = (self.open(stream.name())?, self.open(POSITIONS)?);
        let slot = match stream {
            Stream::Stdout => 0,
            Stream::Stderr => 8,
        };
        let mut bytes = [0; 8];
        let noted = match positions.read_exact_at(&mut bytes, slot) {
            Ok(()) => u64::from_le_bytes(bytes),
            Err(err) if err.kind() == ErrorKind::UnexpectedEof => 0,
            Err(err) => return Err(err),
        };
        let size = file.metadata()?.len();
        let from = if noted > size { 0 } else { noted };
        let at = from.max(size.saturating_sub(BACKLOG));
        let (given_back, skipped) = (0, at - from);
        Ok(SpoolReader { file, positions, slot, at, noted, given_back, skipped })
    }

    /// Returns whether a process still writes to one of the files. Nobody else does: they are the
    /// agent's alone. Blocks for `/proc`.
    pub(super) fn is_held_by(&self, id: i32) -> bool {
        let is_held = |(descriptor, stream): (i32, Stream)| {
            let held = fs::metadata(format!("/proc/{id}/fd/{descriptor}"));
            let own = fs::metadata(self.record.with_extension(stream.name()));
            matches!((held, own), (Ok(held), Ok(own))
                if (held.dev(), held.ino()) == (own.dev(), own.ino()))
        };
        [(1, Stream::Stdout), (2, Stream::Stderr)].into_iter().any(is_held)
    }

    /// Removes the files that are there. Blocks for the disk.
    pub(super) fn remove(&self) -> Result<(), FileError> {
        let streams = Stream::BOTH.map(Stream::name);
        let mut extensions = streams.into_iter().chain([POSITIONS]);
        extensions.try_for_each(|extension| forget_file(&self.record.with_extension(extension)))
    }

    fn open(&self, extension: &str) -> io::Result<File> {
        let (path, folder) = self.located(extension)?;
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        Ok(File::from(openat(&folder, name_of(&path)?, flags, Mode::empty())?))
    }

    /// Returns the path of a file, and its folder.
    fn located(&self, extension: &str) -> io::Result<(PathBuf, Folder)> {
        let path = self.record.with_extension(extension);
        let folder = Folder::open_own(path.parent().ok_or(ErrorKind::NotFound)?)?;
        Ok((path, folder))
    }
}

fn name_of(path: &Path) -> io::Result<&OsStr> {
    path.file_name().ok_or_else(|| ErrorKind::NotFound.into())
}

/// Reads the output of a process to one stream.
#[derive(Debug)]
pub(super) struct SpoolReader {
    file: File,
    positions: File,
    /// The offset of its own position in the file of positions.
    slot: u64,
    /// The position from which it reads next.
    at: u64,
    /// The noted position, up to which all was dealt with.
    noted: u64,
    /// The position up to which the disk has its room back.
    given_back: u64,
    skipped: u64,
}

impl SpoolReader {
    /// Returns how many bytes are left out because nobody has read for too long.
    pub(super) fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Reads on; returns nothing if nothing was written since. The caller has dealt with all that
    /// was read before, except the last `pending` bytes.
    ///
    /// # Cancel safety
    ///
    /// When it is dropped, the reader is gone. The next reader reads on from the noted position.
    pub(super) async fn next(self, pending: usize) -> io::Result<(Self, Vec<u8>)> {
        let pending = u64::try_from(pending).unwrap_or(u64::MAX);
        // The kernel knows the size of an open file without waiting for the disk.
        let size = self.file.metadata()?.len();
        if size == self.at && self.at.saturating_sub(pending) == self.noted {
            return Ok((self, Vec::new()));
        }
        let step = move || {
            let mut reader = self;
            let read = reader.step(pending)?;
            Ok((reader, read))
        };
        let stepped = tokio::task::spawn_blocking(step).await;
        stepped.unwrap_or_else(|err| Err(io::Error::other(err)))
    }

    /// Notes the position up to which all was dealt with, and reads on. Blocks for the disk.
    fn step(&mut self, pending: u64) -> io::Result<Vec<u8>> {
        if self.file.metadata()?.len() < self.at {
            // The process has emptied its own output, as a shell does by `> /dev/stdout`.
            (self.at, self.given_back) = (0, 0);
        }
        let done = self.at.saturating_sub(pending);
        self.note(done);
        if done > self.given_back {
            self.give_back(done);
        }
        let mut chunk = vec![0; CHUNK];
        let length = self.file.read_at(&mut chunk, self.at)?;
        chunk.truncate(length);
        self.at = self.at.saturating_add(u64::try_from(length).unwrap_or(u64::MAX));
        Ok(chunk)
    }

    fn note(&mut self, done: u64) {
        if done == self.noted {
            return;
        }
        self.noted = done;
        // Lines would be logged twice. That is no reason to log none.
        if let Err(err) = self.positions.write_all_at(&done.to_le_bytes(), self.slot) {
            let error: &dyn std::error::Error = &err;
            tracing::debug!(error, "cannot note how far output was read");
        }
    }

    /// Gives the part that was dealt with back to the disk (invariant 2).
    fn give_back(&mut self, done: u64) {
        let (from, length) = (self.given_back, done - self.given_back);
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match fallocate(&self.file, hole, from, length) {
            Ok(()) => self.given_back = done,
            Err(Errno::OPNOTSUPP) => self.empty(done),
            Err(err) => {
                let error: &dyn std::error::Error = &err;
                tracing::debug!(error, "cannot give the room of output back");
            }
        }
    }

    /// Empties the file, on a file system that knows no holes. Output that the process writes at
    /// that moment is lost.
    fn empty(&mut self, done: u64) {
        let is_all = done >= KEPT && self.file.metadata().is_ok_and(|found| found.len() == done);
        if is_all && self.file.set_len(0).is_ok() {
            (self.at, self.given_back) = (0, 0);
            self.note(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::MetadataExt;

    use tempfile::TempDir;

    use super::{BACKLOG, KEPT, Spool, Stream};

    #[test]
    fn a_reader_goes_on_after_the_last_line_that_was_dealt_with() -> Result<(), Box<dyn Error>> {
        let folder = TempDir::new()?;
        let spool = Spool::of(&folder.path().join("1-2-3.process"));
        let (mut stdout, _stderr) = spool.create()?;
        stdout.write_all(b"one\ntwo\nthr")?;
        let mut reader = spool.reader(Stream::Stdout)?;
        assert_eq!(reader.step(0)?, b"one\ntwo\nthr");
        stdout.write_all(b"ee\n")?;
        assert_eq!(reader.step(3)?, b"ee\n");

        let mut next = spool.reader(Stream::Stdout)?;

        assert_eq!(next.step(0)?, b"three\n");
        assert_eq!(spool.reader(Stream::Stderr)?.step(0)?, b"");
        Ok(())
    }

    #[test]
    fn what_was_read_takes_no_room() -> Result<(), Box<dyn Error>> {
        let folder = TempDir::new()?;
        let spool = Spool::of(&folder.path().join("1-2-3.process"));
        let (mut stdout, _stderr) = spool.create()?;
        let mut reader = spool.reader(Stream::Stdout)?;
        let mut length = 0;

        for _ in 0..64 {
            stdout.write_all(&[b'x'; 128 * 1024])?;
            while let read @ 1.. = reader.step(0)?.len() {
                length += read;
            }
        }

        let found = fs::metadata(folder.path().join("1-2-3.stdout"))?;
        assert_eq!(length, 8 * 1024 * 1024);
        assert!(found.blocks() * 512 <= 2 * KEPT, "{found:?}");
        Ok(())
    }

    #[test]
    fn of_much_that_nobody_has_read_the_end_is_read_and_the_rest_takes_no_room()
    -> Result<(), Box<dyn Error>> {
        let folder = TempDir::new()?;
        let spool = Spool::of(&folder.path().join("1-2-3.process"));
        let (mut stdout, _stderr) = spool.create()?;
        let skipped = 4 * KEPT;
        stdout.write_all(&vec![b'x'; usize::try_from(skipped)?])?;
        // A hole, which takes no room.
        stdout.set_len(skipped + BACKLOG)?;
        let mut reader = spool.reader(Stream::Stdout)?;

        let read = reader.step(0)?;

        let found = fs::metadata(folder.path().join("1-2-3.stdout"))?;
        assert_eq!((reader.skipped(), read.first()), (skipped, Some(&0)));
        assert!(found.blocks() * 512 <= KEPT, "{found:?}");
        Ok(())
    }

    #[test]
    fn output_that_the_process_has_emptied_is_read_from_its_beginning() -> Result<(), Box<dyn Error>>
    {
        let folder = TempDir::new()?;
        let spool = Spool::of(&folder.path().join("1-2-3.process"));
        let (mut stdout, _stderr) = spool.create()?;
        stdout.write_all(b"a long line\n")?;
        let mut reader = spool.reader(Stream::Stdout)?;
        reader.step(0)?;

        stdout.set_len(0)?;
        stdout.write_all(b"new\n")?;

        assert_eq!(reader.step(0)?, b"new\n");
        Ok(())
    }

    #[test]
    fn files_are_removed_also_if_some_are_gone() -> Result<(), Box<dyn Error>> {
        let folder = TempDir::new()?;
        let spool = Spool::of(&folder.path().join("1-2-3.process"));
        drop(spool.create()?);
        fs::remove_file(folder.path().join("1-2-3.stdout"))?;

        spool.remove()?;

        assert_eq!(fs::read_dir(folder.path())?.count(), 0);
        Ok(())
    }
}
