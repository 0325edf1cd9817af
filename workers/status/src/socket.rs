//! Where the control socket of a state folder is, and how it gets there.
//!
//! The socket is `control.sock` in the state folder. A path that is too long for the address of a
//! socket gets a short one in the user's runtime folder, and `control.path` says which. On a
//! read-only disk the socket is in the runtime folder too, under the name that the folder has there.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crankcase_engine::WithCauses;
use crankcase_workers::{EntryKind, FileError, Folder, explain_proc};
use rustix::fs::StatVfsMountFlags;
use rustix::process::geteuid;
use thiserror::Error;
use tokio::net::{UnixListener, UnixSocket};

use crate::config_error::ConfigError;
use crate::state_dir::{self, StateError, StateLock};

/// The longest path in the address of a socket, in bytes.
const MAX_PATH: usize = 107;

/// How many connections wait to be taken; the system has a bound of its own, which is mostly lower.
const BACKLOG: u32 = 4096;

/// The name of the socket in the state folder.
const SOCKET: &str = "control.sock";

/// The name of the file that says where the socket is, if it is elsewhere.
const POINTER: &str = "control.path";

/// Why the control socket cannot be made or found.
#[derive(Error)]
#[non_exhaustive]
pub enum SocketError {
    /// Something that is no socket, such as a symlink, is where the socket has to be: remove it.
    #[error("cannot make the control socket: {path:?} is there and is not a socket")]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// Neither the state folder nor the runtime folder has a path that is short enough.
    #[error(
        "cannot make the control socket: the path {path:?} is longer than {MAX_PATH} bytes; set \
         XDG_RUNTIME_DIR to a shorter one"
    )]
    TooLong {
        /// The path in the runtime folder.
        path: PathBuf,
    },
    /// The runtime folder cannot be used.
    #[error("cannot make the control socket")]
    RuntimeFolder(#[source] StateError),
    /// The configuration cannot be used.
    #[error("cannot make the control socket")]
    Config(#[from] ConfigError),
    /// The system refused.
    #[error("cannot make the control socket {path:?}")]
    Io {
        /// The path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl fmt::Debug for SocketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&WithCauses(self), f)
    }
}

/// The files of a socket. They are removed when this is dropped, while the folder is still held.
#[derive(Debug)]
pub(crate) struct Files {
    socket: PathBuf,
    /// The runtime folder, if the socket is there.
    runtime: Option<Folder>,
    lock: Arc<StateLock>,
}

impl Drop for Files {
    fn drop(&mut self) {
        let pointer = self.lock.folder().forget(POINTER);
        let socket = self.folder().forget(name(&self.socket));
        for error in [pointer, socket].into_iter().filter_map(Result::err) {
            tracing::debug!(%error, "cannot remove a file of the control socket");
        }
    }
}

impl Files {
    /// Returns the path of the socket.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Returns the folder that the socket is in.
    fn folder(&self) -> &Folder {
        self.runtime.as_ref().unwrap_or_else(|| self.lock.folder())
    }
}

/// Listens on the socket of a folder that is held. A socket that a dead agent has left is taken
/// over: while the lock is held, nobody else listens on it.
pub(crate) fn bind(lock: &Arc<StateLock>) -> Result<(UnixListener, Files), SocketError> {
    let itself = lock.folder().through("");
    let place = itself.canonicalize().map_err(explain_proc);
    let place = place.map_err(|source| failed(lock.state_dir().path(), source))?;
    let is_read_only = is_read_only(&itself);
    let direct = place.join(SOCKET);
    let is_direct = fits(&direct) && !is_read_only;
    let (runtime, socket) = match is_direct {
        true => (None, direct),
        false => short_path(&itself).map(|(runtime, socket)| (Some(runtime), socket))?,
    };
    let listener = listen(runtime.as_ref().unwrap_or_else(|| lock.folder()), &socket)?;
    let files = Files { socket, runtime, lock: Arc::clone(lock) };
    let pointed = if is_read_only {
        Ok(())
    } else if is_direct {
        lock.folder().forget(POINTER)
    } else {
        let text = files.socket.as_os_str().as_encoded_bytes();
        lock.folder().replace(POINTER, text, 0o600)
    };
    pointed.map_err(|error| refused(&place.join(POINTER), error))?;
    Ok((listener, files))
}

/// Returns where the socket of a folder may be: at its usual place, and in the runtime folder.
///
/// There may be one at both places: on a read-only disk nobody can remove that of an agent that was killed. An agent may
/// also listen at the place that was right before the disk became read-only, or could be written again. At most one
/// agent listens, because it holds the folder.
pub(crate) fn find(folder: &Path) -> io::Result<Vec<PathBuf>> {
    // In the agent itself the path leads to the folder that is held.
    let folder = match Folder::open(folder) {
        Ok(folder) => folder.through("").canonicalize()?,
        Err(_) => folder.canonicalize()?,
    };
    let direct = folder.join(SOCKET);
    let usual = if fits(&direct) { Ok(direct) } else { read_pointer(&folder) };
    match (usual, in_runtime_folder(&folder)) {
        (Ok(usual), other) => Ok([usual].into_iter().chain(other).collect()),
        (Err(_), Ok(other)) => Ok(vec![other]),
        (Err(error), Err(_)) => Err(error),
    }
}

/// Returns the socket of a folder in the runtime folder, if it is there and nobody else has made it.
fn in_runtime_folder(folder: &Path) -> io::Result<PathBuf> {
    let path = runtime_path(folder)?;
    let owner = fs::symlink_metadata(&path)?.uid();
    match may_point(owner, fs::metadata(folder)?.uid(), geteuid().as_raw()) {
        true => Ok(path),
        false => Err(io::Error::other(format!("{path:?} belongs to someone else"))),
    }
}

/// Returns whether the folder is on a disk that cannot be written now.
fn is_read_only(folder: &Path) -> bool {
    rustix::fs::statvfs(folder).is_ok_and(|disk| disk.f_flag.contains(StatVfsMountFlags::RDONLY))
}

/// Reads where the socket of a folder is. What is there may be anyone's work: nothing is followed or
/// waited for, and no more is read than the address of a socket has.
fn read_pointer(folder: &Path) -> io::Result<PathBuf> {
    let wrong = |what: &str| io::Error::other(format!("{POINTER} in it {what}"));
    let folder = Folder::open(folder)?;
    if folder.look(POINTER)?.is_some_and(|found| found.kind != EntryKind::File) {
        return Err(wrong("is not a regular file"));
    }
    let (file, found) = folder.open_file(POINTER)?;
    if !may_point(found.user, folder.look_at_itself()?.user, geteuid().as_raw()) {
        return Err(wrong("belongs to someone else"));
    }
    let mut text = Vec::new();
    file.take(MAX_PATH as u64 + 1).read_to_end(&mut text)?;
    if text.len() > MAX_PATH {
        return Err(wrong("is longer than the address of a socket"));
    }
    Ok(PathBuf::from(OsString::from_vec(text)))
}

/// Returns whether a user may say where the socket of a folder is: the owner of the folder, this
/// process's own user, or root.
fn may_point(owner: u32, of_folder: u32, own: u32) -> bool {
    [of_folder, own, 0].contains(&owner)
}

fn fits(path: &Path) -> bool {
    path.as_os_str().len() <= MAX_PATH
}

fn failed(path: &Path, source: io::Error) -> SocketError {
    SocketError::Io { path: path.to_owned(), source }
}

fn refused(path: &Path, error: FileError) -> SocketError {
    failed(path, error.into())
}

/// Returns the name of a socket in its folder.
fn name(socket: &Path) -> &OsStr {
    socket.file_name().unwrap_or_default()
}

/// Returns the runtime folder, and a path in it that no other state folder has.
fn short_path(folder: &Path) -> Result<(Folder, PathBuf), SocketError> {
    let path = runtime_path(folder).map_err(|source| failed(folder, source))?;
    let runtime = state_dir::own(&runtime_folder()).map_err(SocketError::RuntimeFolder)?;
    if fits(&path) { Ok((runtime, path)) } else { Err(SocketError::TooLong { path }) }
}

fn runtime_path(folder: &Path) -> io::Result<PathBuf> {
    let metadata = fs::metadata(folder)?;
    Ok(runtime_folder().join(format!("{:x}-{:x}.sock", metadata.dev(), metadata.ino())))
}

fn runtime_folder() -> PathBuf {
    let given = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    match given.filter(|path| path.is_absolute()) {
        Some(folder) => folder.join("crankcase"),
        None if geteuid().is_root() => PathBuf::from("/run/crankcase"),
        None => std::env::temp_dir().join(format!("crankcase-{}", geteuid().as_raw())),
    }
}

/// Listens on a socket in a folder. The socket gets there under another name, so that there always is one in the place
/// of a socket that is taken over.
fn listen(folder: &Folder, path: &Path) -> Result<UnixListener, SocketError> {
    let new = path.with_extension("new_");
    for path in [path, &new] {
        check(folder, path)?;
    }
    folder.forget(name(&new)).map_err(|error| refused(&new, error))?;
    let listener = place(folder, name(&new)).and_then(|socket| socket.listen(BACKLOG));
    let listener = listener.and_then(|listener| {
        rustix::fs::renameat(folder, name(&new), folder, name(path))?;
        Ok(listener)
    });
    listener.map_err(|source| {
        drop(folder.forget(name(&new)));
        failed(path, source)
    })
}

/// Makes a socket that is for its owner only, and on which nobody listens yet: from its binding to
/// its mode it may be open to others, who could connect once somebody listened.
fn place(folder: &Folder, name: &OsStr) -> io::Result<UnixSocket> {
    let socket = UnixSocket::new_stream()?;
    socket.bind(folder.through(name)).map_err(explain_proc)?;
    folder.hold(name)?.set_mode(0o600)?;
    Ok(socket)
}

/// Checks that nothing but a socket would be taken over.
fn check(folder: &Folder, path: &Path) -> Result<(), SocketError> {
    match folder.look(name(path)).map_err(|error| refused(path, error))? {
        Some(found) if found.kind != EntryKind::Socket => {
            Err(SocketError::NotASocket { path: path.to_owned() })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;
    use std::ffi::OsStr;
    use std::fs;
    use std::io::ErrorKind;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixStream;

    use super::{Folder, listen, may_point, place};

    #[test]
    fn a_stranger_does_not_say_where_a_socket_is() {
        let (owner, asker, stranger) = (1000, 1001, 1002);
        for user in [owner, asker, 0] {
            assert!(may_point(user, owner, asker), "{user}");
        }
        assert!(!may_point(stranger, owner, asker) && !may_point(stranger, 0, 0));
    }

    #[tokio::test]
    async fn nobody_can_connect_before_the_socket_has_its_mode() -> Result<(), Box<dyn Error>> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("socket");

        let socket = place(&Folder::open(folder.path())?, OsStr::new("socket"))?;

        let mode = fs::symlink_metadata(&path)?.permissions().mode() & 0o777;
        let refused = UnixStream::connect(&path).err().ok_or("somebody listens")?;
        assert_eq!((mode, refused.kind()), (0o600, ErrorKind::ConnectionRefused));
        let _listener = socket.listen(1)?;
        UnixStream::connect(&path)?;
        Ok(())
    }

    #[tokio::test]
    async fn a_socket_that_cannot_be_put_in_its_place_is_not_left_behind()
    -> Result<(), Box<dyn Error>> {
        let outer = tempfile::tempdir()?;
        let path = outer.path().join("gone");
        let folder = Folder::make(&path)?;
        fs::remove_dir(&path)?;

        assert!(listen(&folder, &path.join("control.sock")).is_err());

        assert_eq!(fs::read_dir(outer.path())?.count(), 0);
        Ok(())
    }
}
