//! An open folder, whose entries are read and changed whatever becomes of the path to it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::entry::{Entry, Found, explain_immutable};
use super::error::FileError;
use super::held::{self, HeldFolder};
use super::kind::EntryKind;
use super::read::{READ, read_opened};
use super::walk::{self, Missing};
use crate::proc_mount::explain_proc;

/// A folder that is open, in which names are found whatever becomes of the path to it.
///
/// # Examples
///
/// ```
/// use crankcase_workers::{EntryKind, Folder};
///
/// # let outer = tempfile::tempdir()?;
/// let folder = Folder::make(&outer.path().join("state"))?;
/// folder.replace("count", b"3", 0o600)?;
/// let found = folder.look("count")?.ok_or("it was just written")?;
/// assert_eq!((found.kind, found.mode, found.size), (EntryKind::File, 0o600, 1));
/// assert_eq!(folder.read("count", 64)?, b"3");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Folder {
    fd: OwnedFd,
    path: PathBuf,
}

impl Folder {
    /// Opens a folder. A relative path begins at the working folder, which the empty path is.
    ///
    /// A symlink on the way, or in place of the folder, is followed only where nobody but root and
    /// the agent's user could have put it: if one of them owns the symlink and every folder above
    /// it, and others can write to none of those unless it is sticky.
    ///
    /// # Errors
    ///
    /// When there is no such folder, or the way to it is not safe.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        let fd = walk::open(path, Missing::IsAnError)?;
        Ok(Self { fd, path: path.to_owned() })
    }

    /// Opens a folder as [`open`](Self::open) does, and makes it and those above it where they are
    /// missing, with mode 0700 whatever the umask is.
    ///
    /// # Errors
    ///
    /// As `open`, and when a folder cannot be made.
    pub fn make(path: &Path) -> Result<Self, FileError> {
        let fd = walk::open(path, Missing::IsMade)?;
        Ok(Self { fd, path: path.to_owned() })
    }

    /// Opens a folder of the agent's own in a folder such as its state folder. That one is opened as
    /// [`open`](Self::open) does; a symlink in the place of the folder itself is an error, whose ever it is.
    ///
    /// # Errors
    ///
    /// [`FileError::WrongKind`], when there is no such folder, or the way to it is not safe.
    pub fn open_own(path: &Path) -> Result<Self, FileError> {
        if held::find(path).is_some() {
            return Self::open(path);
        }
        let (parent, name) = split(path)?;
        Self::open(parent)?.child(name)
    }

    /// Opens a folder of the agent's own as [`open_own`](Self::open_own) does, makes it and those above it where
    /// they are missing, and [takes the rights of others away](Self::make_private). What is no folder of the
    /// agent's own is not changed.
    ///
    /// # Errors
    ///
    /// As `open_own` and `make_private`, and when a folder cannot be made.
    pub fn make_own(path: &Path) -> Result<Self, FileError> {
        let folder = if held::find(path).is_some() {
            Self::make(path)?
        } else {
            let (parent, name) = split(path)?;
            let parent = Self::make(parent)?;
            match rustix::fs::mkdirat(&parent, name, Mode::RWXU) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(err) => return Err(FileError::io("create folder", path)(err)),
            }
            parent.child(name)?
        };
        // The mode of a new one was made with the umask.
        folder.make_private()?;
        Ok(folder)
    }

    /// Holds the folder under its path. Until the result is dropped, that path and all below it lead into this folder,
    /// for all in this process that opens a `Folder`, also if another folder has got the path. From the held folder on,
    /// no symlink is followed, whose ever it is. Of several folders that are held under one path the last one counts.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn hold_path(&self) -> Result<HeldFolder, FileError> {
        let held = FileError::io("hold", &self.path);
        let path = std::path::absolute(&self.path);
        let both = path.and_then(|path| Ok((path, self.fd.try_clone()?)));
        let (path, fd) = both.map_err(held)?;
        Ok(HeldFolder::new(path, fd))
    }

    /// Returns a path that leads through the open folder to an entry of it, or to the folder itself for an empty name.
    /// It is for calls that take only paths, and good in this process while the folder is open. `/proc` has to be
    /// mounted.
    pub fn through(&self, name: impl AsRef<OsStr>) -> PathBuf {
        let mut path = PathBuf::from(format!("/proc/self/fd/{}", self.fd.as_raw_fd()));
        if !name.as_ref().is_empty() {
            path.push(name.as_ref());
        }
        path
    }

    /// Opens a file with a library that takes a path and remembers it, as SQLite does. `open` gets the path at which
    /// the folder is now, with no symlink on it, and must follow none at the file. The file, and each one with its name
    /// and one of the endings, must be a regular file with one hard link, or absent.
    ///
    /// # Errors
    ///
    /// [`FileError::WrongKind`], [`FileError::HardLinks`], [`FileError::MissingFolder`] if the folder was removed, and
    /// when it was moved while `open` ran, or `/proc` is not mounted.
    pub fn open_by_path<T>(
        &self,
        name: impl AsRef<OsStr>,
        endings: &[&str],
        open: impl FnOnce(&Path) -> T,
    ) -> Result<T, FileError> {
        let name = name.as_ref();
        for ending in [""].iter().chain(endings) {
            let mut beside = name.to_owned();
            beside.push(ending);
            self.look_for_own_file(&beside)?;
        }
        let place = self.place()?;
        let opened = open(&place.join(name));
        if self.place()? == place {
            return Ok(opened);
        }
        let moved = io::Error::other("its folder was moved meanwhile");
        Err(FileError::io("open", &self.path.join(name))(moved))
    }

    /// Returns a path that leads to the folder now: the one that it was opened with or, if that leads elsewhere, the
    /// one at which it is. It is for other programs, which know nothing of this process's open folders.
    ///
    /// # Errors
    ///
    /// [`FileError::MissingFolder`] if the folder was removed, and when `/proc` is not mounted.
    pub fn current_path(&self) -> Result<PathBuf, FileError> {
        let own = self.look_at_itself()?.id;
        match rustix::fs::stat(&*self.path) {
            Ok(stat) if Found::from(&stat).id == own => Ok(self.path.clone()),
            _ => self.place(),
        }
    }

    /// Returns the path at which the folder is now, with no symlink on it.
    fn place(&self) -> Result<PathBuf, FileError> {
        let place = rustix::fs::readlink(self.through(""), Vec::new()).map_err(|error| {
            FileError::io("find folder", &self.path)(explain_proc(error.into()))
        })?;
        let place = PathBuf::from(OsString::from_vec(place.into_bytes()));
        let own = self.look_at_itself()?.id;
        // Of a folder that was removed the kernel makes up a name.
        match rustix::fs::stat(&*place) {
            Ok(stat) if Found::from(&stat).id == own => Ok(place),
            _ => Err(FileError::MissingFolder { path: self.path.clone() }),
        }
    }

    /// Returns the path that it was opened with.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Looks at the folder itself.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn look_at_itself(&self) -> Result<Found, FileError> {
        Found::at(self, &self.path)
    }

    /// Returns whether others than root and the agent's user can put entries into the folder; so it
    /// is assumed where the system does not say.
    pub fn is_shared(&self) -> bool {
        !self.look_at_itself().is_ok_and(|found| found.is_closed())
    }

    /// Takes the rights of others to the folder away: its mode becomes 0700.
    ///
    /// # Errors
    ///
    /// [`FileError::NotPrivate`] if it belongs to another user, or if others can write to it and so
    /// may have put something there.
    pub fn make_private(&self) -> Result<(), FileError> {
        let Found { user, mode, .. } = self.look_at_itself()?;
        let own = geteuid().as_raw();
        let reason = if user != own {
            format!("it belongs to user {user}, not to user {own}")
        } else if mode & 0o022 != 0 {
            format!("others can change what is in it (mode {mode:04o}); expected mode 0700")
        } else if mode == 0o700 {
            return Ok(());
        } else {
            let fd = self.fd.try_clone().map_err(FileError::io("hold", &self.path))?;
            return Entry { fd, path: self.path.clone() }.set_mode(0o700);
        };
        Err(FileError::NotPrivate { path: self.path.clone(), reason })
    }

    /// Looks at an entry without following it; `None` if there is none.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn look(&self, name: impl AsRef<OsStr>) -> Result<Option<Found>, FileError> {
        let name = name.as_ref();
        match rustix::fs::statat(self, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(Found::from(&stat))),
            Err(Errno::NOENT | Errno::NAMETOOLONG) => Ok(None),
            Err(err) => Err(FileError::io("look at", &self.path.join(name))(err)),
        }
    }

    /// Looks at a regular file; `None` if there is nothing.
    ///
    /// # Errors
    ///
    /// [`FileError::WrongKind`] if it is something else, such as a symlink, and when the system refuses.
    pub fn look_for_file(&self, name: impl AsRef<OsStr>) -> Result<Option<Found>, FileError> {
        let name = name.as_ref();
        let found = self.look(name)?;
        found.map(|found| found.require(EntryKind::File, &self.path.join(name))).transpose()
    }

    /// Looks at a regular file of the agent's own, which is to be written in place; `None` if there is nothing.
    ///
    /// # Errors
    ///
    /// As [`look_for_file`](Self::look_for_file), and [`FileError::HardLinks`] if the file has other names.
    pub fn look_for_own_file(&self, name: impl AsRef<OsStr>) -> Result<Option<Found>, FileError> {
        let name = name.as_ref();
        let found = self.look_for_file(name)?;
        found.map(|found| found.require_one_link(&self.path.join(name))).transpose()
    }

    /// Opens a regular file for reading; a symlink in its place is an error.
    ///
    /// # Errors
    ///
    /// [`FileError::WrongKind`], or when the system refuses.
    pub fn open_file(&self, name: impl AsRef<OsStr>) -> Result<(File, Found), FileError> {
        let Entry { fd, path } = self.open_as(READ, name.as_ref())?;
        let found = Found::at(&fd, &path)?.require(EntryKind::File, &path)?;
        Ok((File::from(fd), found))
    }

    /// Opens a regular file to write at its end, and makes it for the agent's user alone if it is not there; a
    /// symlink in its place is an error, and so is a file with other names.
    ///
    /// # Errors
    ///
    /// [`FileError::WrongKind`], [`FileError::HardLinks`], or when the system refuses.
    pub fn append(&self, name: impl AsRef<OsStr>) -> Result<File, FileError> {
        let name = name.as_ref();
        let path = self.path.join(name);
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::NONBLOCK;
        let flags = flags | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(self, name, flags, Mode::RUSR | Mode::WUSR);
        let file = file.map_err(FileError::io("open", &path))?;
        Found::at(&file, &path)?.require(EntryKind::File, &path)?.require_one_link(&path)?;
        Ok(File::from(file))
    }

    /// Reads a regular file; a symlink in its place is an error.
    ///
    /// # Errors
    ///
    /// As [`open_file`](Self::open_file), and [`FileError::TooLarge`] when it has more than `limit`
    /// bytes; no more than that many are kept in memory.
    pub fn read(&self, name: impl AsRef<OsStr>, limit: u64) -> Result<Vec<u8>, FileError> {
        let name = name.as_ref();
        let (file, found) = self.open_file(name)?;
        read_opened((file, found.size), &self.path.join(name), limit)
    }

    /// Holds an entry as it is, a symlink too, also one that may not be read.
    ///
    /// # Errors
    ///
    /// When there is none, or the system refuses.
    pub fn hold(&self, name: impl AsRef<OsStr>) -> Result<Entry, FileError> {
        self.open_as(OFlags::PATH | OFlags::CLOEXEC, name.as_ref())
    }

    fn open_as(&self, flags: OFlags, name: &OsStr) -> Result<Entry, FileError> {
        let path = self.path.join(name);
        let fd = rustix::fs::openat(self, name, flags | OFlags::NOFOLLOW, Mode::empty())
            .map_err(FileError::io("open", &path))?;
        Ok(Entry { fd, path })
    }

    /// Opens a folder in this one; a symlink in its place is an error.
    ///
    /// # Errors
    ///
    /// [`FileError::WrongKind`], or when the system refuses.
    pub fn child(&self, name: impl AsRef<OsStr>) -> Result<Self, FileError> {
        let Entry { fd, path } = self.hold(name)?;
        Found::at(&fd, &path)?.require(EntryKind::Folder, &path)?;
        Ok(Self { fd, path })
    }

    /// Makes a folder in this one, for the agent's user alone, and holds it.
    ///
    /// # Errors
    ///
    /// When the name is taken, or the system refuses.
    pub fn create_folder(&self, name: impl AsRef<OsStr>) -> Result<Entry, FileError> {
        let name = name.as_ref();
        rustix::fs::mkdirat(self, name, Mode::RWXU)
            .map_err(FileError::io("create folder", &self.path.join(name)))?;
        let entry = self.hold(name)?;
        // In a folder that others can write to, something else may have taken its place.
        entry.look()?.require(EntryKind::Folder, &entry.path)?;
        Ok(entry)
    }

    /// Removes a file or an empty folder, as `kind` says; the kernel refuses a folder that is not
    /// empty. A symlink is removed as a file is, and not followed.
    ///
    /// # Errors
    ///
    /// When there is none, or the system refuses.
    pub fn remove(&self, name: impl AsRef<OsStr>, kind: EntryKind) -> Result<(), FileError> {
        let is_folder = kind == EntryKind::Folder;
        let flags = if is_folder { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        let name = name.as_ref();
        rustix::fs::unlinkat(self, name, flags).map_err(|error| {
            let error = explain_immutable(self, name, error);
            FileError::io("remove", &self.path.join(name))(error)
        })
    }

    /// Removes a file or a symlink if it is there.
    ///
    /// # Errors
    ///
    /// When it is a folder, or the system refuses.
    pub fn forget(&self, name: impl AsRef<OsStr>) -> Result<(), FileError> {
        match self.remove(name, EntryKind::File) {
            Err(error) if error.is_missing() => Ok(()),
            removed => removed,
        }
    }

    /// Removes an entry if it is there, and if it is a folder, all that is in it. A symlink is removed, and not
    /// followed. `/proc` has to be mounted.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn remove_all(&self, name: impl AsRef<OsStr>) -> Result<(), FileError> {
        let name = name.as_ref();
        match self.look(name)? {
            Some(found) if found.kind == EntryKind::Folder => {
                let removed = std::fs::remove_dir_all(self.through(name)).map_err(explain_proc);
                match removed {
                    Err(error) if error.kind() != ErrorKind::NotFound => {
                        Err(FileError::io("remove", &self.path.join(name))(error))
                    }
                    _ => Ok(()),
                }
            }
            _ => self.forget(name),
        }
    }

    /// Returns at most `most` of the names in the folder, in no order.
    ///
    /// # Errors
    ///
    /// When the folder may not be read.
    pub fn names(&self, most: usize) -> Result<Vec<OsString>, FileError> {
        let entries = self.readable().and_then(Dir::new);
        let entries = entries.map_err(FileError::io("read", &self.path))?;
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(FileError::io("read", &self.path))?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(OsStr::from_bytes(name).to_owned());
            }
            if names.len() >= most {
                break;
            }
        }
        Ok(names)
    }

    /// Opens the folder so that changes of its entries can be made to last.
    ///
    /// Do so before the change: a folder that may not be read cannot be synced, and a caller that finds
    /// this out after the change has changed something and fails.
    ///
    /// # Errors
    ///
    /// When the folder may not be read.
    pub fn entries(&self) -> Result<Entries, FileError> {
        let readable = self.readable().map_err(FileError::io("open for syncing", &self.path))?;
        Ok(Entries { folder: File::from(readable), path: self.path.clone() })
    }

    fn readable(&self) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::openat(self, ".", flags, Mode::empty())
    }
}

/// Removes a file if it is there, from a folder of the agent's own, which is opened as by [`Folder::open_own`].
///
/// # Errors
///
/// As [`Folder::open_own`] and [`Folder::forget`].
pub fn forget_file(path: &Path) -> Result<(), FileError> {
    let (folder, name) = split(path)?;
    match Folder::open_own(folder) {
        Err(error) if error.is_missing() => Ok(()),
        folder => folder?.forget(name),
    }
}

/// Splits a path at its last name.
fn split(path: &Path) -> Result<(&Path, &OsStr), FileError> {
    let missing = || FileError::MissingFolder { path: path.to_owned() };
    path.parent().zip(path.file_name()).ok_or_else(missing)
}

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The entries of a folder, a change of which is to last.
#[derive(Debug)]
pub struct Entries {
    folder: File,
    path: PathBuf,
}

impl Entries {
    /// Makes the changes of entries last, also when the machine crashes.
    ///
    /// # Errors
    ///
    /// When the system cannot; the changes are there all the same, and a crash may undo them.
    pub fn sync(&self) -> Result<(), FileError> {
        self.folder.sync_all().map_err(FileError::io("sync", &self.path))
    }
}
