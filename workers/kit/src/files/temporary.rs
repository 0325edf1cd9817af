//! Writing a file under a temporary name in its folder.
//!
//! Invariants:
//! 1. Each target has one usual temporary name, so that what a killed agent has left is found and
//!    removed. In a folder that others write to, too, something may be there to stay; a name that
//!    nobody can guess is used then, and what a killed agent leaves under such a name stays.
//! 2. Who writes, renames or removes the temporary file holds its lock, and has then seen that the
//!    name still stands for the file that it has locked. The kernel frees the lock of a dead agent.
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::entry::{Found, explain_immutable, set_owners};
use super::error::FileError;
use super::folder::Folder;
use super::kind::EntryKind;
use crate::seed::any_seed;

/// How every temporary name ends.
const ENDING: &str = ".crankcase-tmp";

/// The longest name, in bytes, that the temporary name repeats in full.
const REPEATED: usize = 200;

/// How often to begin anew because another process was at the same file.
const ATTEMPTS: usize = 3;

/// A file that is not yet under its own name; dropping it removes it.
///
/// # Examples
///
/// ```
/// use std::io::Write;
/// use crankcase_workers::{Folder, Temporary};
///
/// # let outer = tempfile::tempdir()?;
/// let folder = Folder::open(outer.path())?;
/// let entries = folder.entries()?;
/// let mut temporary = Temporary::create(&folder, "motd")?;
/// temporary.file().write_all(b"hello")?;
/// temporary.set_mode(0o644)?;
/// temporary.place()?;
/// entries.sync()?;
/// assert_eq!(std::fs::read(outer.path().join("motd"))?, b"hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "the file is removed when this is dropped"]
pub struct Temporary<'a> {
    folder: &'a Folder,
    name: OsString,
    target: OsString,
    file: File,
    is_placed: bool,
}

impl<'a> Temporary<'a> {
    /// Creates the file that is to get the name `target`, for the agent's user alone, after removing
    /// what a dead agent has left.
    ///
    /// # Errors
    ///
    /// [`FileError::Busy`] while another process writes the same target, and when the system refuses.
    pub fn create(folder: &'a Folder, target: impl AsRef<OsStr>) -> Result<Self, FileError> {
        let target = target.as_ref();
        match Self::create_as(temporary_name(target), folder, target) {
            // Another user of the folder may have put something in the way, even a file of the agent's user.
            Err(_) if folder.is_shared() => Self::create_as(secret_name(), folder, target),
            usual => usual,
        }
    }

    fn create_as(name: OsString, folder: &'a Folder, target: &OsStr) -> Result<Self, FileError> {
        let path = folder.path().join(&name);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        for _ in 0..ATTEMPTS {
            let mode = Mode::RUSR | Mode::WUSR;
            match rustix::fs::openat(folder, &name, flags | OFlags::CLOEXEC, mode) {
                Ok(file) if lock(folder, &name, &file)? => {
                    let (file, target) = (File::from(file), target.to_owned());
                    return Ok(Self { folder, name, target, file, is_placed: false });
                }
                Ok(_) => {}
                Err(Errno::EXIST) => remove(folder, &name)?,
                Err(err) => return Err(FileError::io("create", &path)(err)),
            }
        }
        Err(FileError::Busy { path })
    }

    /// Returns the path that the file has until it is [placed](Self::place), for a program that is to read it
    /// before.
    pub fn temporary_path(&self) -> PathBuf {
        self.folder.path().join(&self.name)
    }

    /// Returns the file, to be written.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Sets the owners that are others than the file has.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn set_owners(&self, user: Option<u32>, group: Option<u32>) -> Result<(), FileError> {
        set_owners(self.file.as_fd(), &self.path(), (user, group))
    }

    /// Sets the permissions. It comes after [`set_owners`](Self::set_owners), which clears the
    /// set-user-ID bit.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn set_mode(&self, mode: u32) -> Result<(), FileError> {
        rustix::fs::fchmod(&self.file, Mode::from_raw_mode(mode))
            .map_err(FileError::io("set the mode of", &self.path()))
    }

    /// Syncs the file and gives it its own name, in place of the file that has it. The new name
    /// lasts once the folder's [entries](Folder::entries) are synced.
    ///
    /// # Errors
    ///
    /// [`FileError::WrongKind`] if something that is no file has the name, which is left as it is,
    /// and when the system refuses. The temporary file is removed.
    pub fn place(mut self) -> Result<(), FileError> {
        let path = self.path();
        self.file.sync_all().map_err(FileError::io("sync", &path))?;
        // It would take the place of a device or a symlink.
        self.folder.look_for_file(&self.target)?;
        let renamed = rustix::fs::renameat(self.folder, &self.name, self.folder, &self.target);
        renamed.map_err(|error| {
            let error = explain_immutable(self.folder, &self.target, error);
            FileError::io("replace", &path)(error)
        })?;
        self.is_placed = true;
        Ok(())
    }

    /// Returns the path of the target, which errors name.
    fn path(&self) -> PathBuf {
        self.folder.path().join(&self.target)
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if self.is_placed {
            return;
        }
        if let Err(err) = rustix::fs::unlinkat(self.folder, &self.name, AtFlags::empty()) {
            let path = self.temporary_path();
            tracing::warn!(?path, error = %err, "cannot remove a temporary file");
        }
    }
}

impl Folder {
    /// Replaces a file, or creates it: the old content or the new, never a mix, and on the disk when
    /// this returns. The new file gets `mode` whatever the umask is, and belongs to the agent's user.
    ///
    /// # Errors
    ///
    /// As [`Temporary::create`] and [`Temporary::place`]. The old file is then still there, unless
    /// only the last sync of the folder has failed.
    pub fn replace(
        &self,
        name: impl AsRef<OsStr>,
        content: &[u8],
        mode: u32,
    ) -> Result<(), FileError> {
        let name = name.as_ref();
        self.look_for_file(name)?;
        let entries = self.entries()?;
        let mut temporary = Temporary::create(self, name)?;
        let written = temporary.file().write_all(content);
        written.map_err(FileError::io("write", &temporary.path()))?;
        temporary.set_mode(mode)?;
        temporary.place()?;
        entries.sync()
    }

    /// Returns the usual temporary name of a target if a file is there, which an agent that was
    /// killed has left, or which another process is just writing.
    ///
    /// In a folder that others can write to, anyone could put a file there for good. It counts there
    /// only if it belongs to root, to the agent's user or to `owner`, and if nobody has locked it.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn leftover(
        &self,
        target: impl AsRef<OsStr>,
        owner: Option<u32>,
    ) -> Result<Option<OsString>, FileError> {
        let name = temporary_name(target.as_ref());
        let Some(found) = self.look(&name)? else { return Ok(None) };
        let is_ours = || found.is_ours() || owner == Some(found.user);
        // A writer that meets this lock takes a secret name.
        let is_free = || self.open_file(&name).and_then(|(file, _)| lock(self, &name, file));
        let counts = !self.is_shared() || (is_ours() && is_free().unwrap_or(false));
        Ok((found.kind == EntryKind::File && counts).then_some(name))
    }

    /// Removes a temporary file that an agent has left, if there is one.
    ///
    /// # Errors
    ///
    /// [`FileError::Busy`] while another process writes it, and when the system refuses.
    pub fn remove_leftover(&self, name: impl AsRef<OsStr>) -> Result<(), FileError> {
        remove(self, name.as_ref())
    }
}

/// Replaces a file at a path as [`Folder::replace`] does.
///
/// # Errors
///
/// As [`Folder::open`] and `Folder::replace`.
pub fn replace_file(path: &Path, content: &[u8], mode: u32) -> Result<(), FileError> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        // The root, or a path that ends in `.` or `..`.
        let (found, wanted) = (EntryKind::Folder, EntryKind::File);
        return Err(FileError::WrongKind { path: path.to_owned(), found, wanted });
    };
    Folder::open(parent)?.replace(name, content, mode)
}

/// Returns whether a name is one that only temporary files have.
pub fn is_temporary(name: &OsStr) -> bool {
    name.as_bytes().ends_with(ENDING.as_bytes())
}

/// Returns the usual temporary name of a file, under which it is written before it gets its own.
pub fn temporary_name(target: &OsStr) -> OsString {
    let bytes = target.as_bytes();
    let mut name = OsString::from(".");
    if bytes.len() > REPEATED {
        // Another release of Rust may hash otherwise; then what an older agent has left stays.
        let mut hasher = DefaultHasher::new();
        bytes.hash(&mut hasher);
        name.push(OsStr::from_bytes(&bytes[..REPEATED]));
        name.push(format!(".{:016x}", hasher.finish()));
    } else {
        name.push(target);
    }
    name.push(ENDING);
    name
}

fn secret_name() -> OsString {
    format!(".{:016x}{ENDING}", any_seed()).into()
}

/// Locks a file and returns whether `name` still stands for it.
fn lock(folder: &Folder, name: &OsStr, file: impl AsFd) -> Result<bool, FileError> {
    let path = folder.path().join(name);
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Err(FileError::Busy { path }),
        Err(err) => return Err(FileError::io("lock", &path)(err)),
    }
    let locked = Found::at(&file, &path)?;
    Ok(folder.look(name)?.is_some_and(|named| named.id == locked.id))
}

fn remove(folder: &Folder, name: &OsStr) -> Result<(), FileError> {
    let path = folder.path().join(name);
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let leftover = match rustix::fs::openat(folder, name, flags, Mode::empty()) {
        Ok(leftover) => leftover,
        Err(Errno::NOENT) => return Ok(()),
        Err(err) => return Err(FileError::io("remove leftover", &path)(err)),
    };
    if lock(folder, name, &leftover)? {
        rustix::fs::unlinkat(folder, name, AtFlags::empty())
            .map_err(FileError::io("remove leftover", &path))?;
    }
    Ok(())
}
