//! The socket to which a process says that it is ready.
//!
//! Invariants:
//! 1. The socket is read as long as the process runs, also after it was ready: one that waits for
//!    room in a full socket would hang.
//! 2. The folder is the agent's alone, so that nobody reaches a socket before it has its mode, and
//!    nobody else sends to it.
//! 3. The file of the socket goes with its owner; that of a killed agent goes when the next one
//!    makes a socket in the folder.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixDatagram as Unregistered;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::geteuid;
use tokio::net::UnixDatagram;
use tokio::sync::watch;

use crate::files::Folder;
use crate::printable::spaced;
use crate::seed::any_seed;

const EXTENSION: &str = "notify";

/// The longest message that is understood, in bytes; of a longer one, what comes after is lost.
const MAX_MESSAGE: usize = 4096;

/// How much of a status is kept, in characters.
const MAX_STATUS: usize = 256;

/// Tells the names of this process from those of any other. Its pid does not: the first process of a
/// container has that of the one before; nor does its start time, which counts in hundredths of a
/// second after the boot.
static OWN: LazyLock<u64> = LazyLock::new(any_seed);

/// Makes names unique within this process.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// What a process has said of itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Notified {
    pub(super) is_ready: bool,
    pub(super) status: Option<String>,
}

impl Notified {
    fn take(&mut self, message: &str) {
        for line in message.lines() {
            match line.split_once('=') {
                Some(("READY", "1")) => self.is_ready = true,
                Some(("STATUS", "")) => self.status = None,
                Some(("STATUS", status)) => {
                    self.status = Some(spaced(status).take(MAX_STATUS).collect());
                }
                _ => {}
            }
        }
    }
}

/// A socket with a file of its own; dropping it removes the file.
#[derive(Debug)]
pub(super) struct NotifySocket {
    socket: UnixDatagram,
    path: PathBuf,
}

impl NotifySocket {
    /// Makes a socket in `folder`, or in the one that is held under this path. Blocks for the disk.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime with its I/O driver enabled.
    pub(super) fn bind(folder: &Path) -> io::Result<Self> {
        // The process gets a path, and does not know which folders this one holds.
        let folder = Folder::make(folder)?.current_path()?;
        require_private(&folder)?;
        stale(&folder)?.iter().try_for_each(|path| remove(path))?;
        let count = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}{count:x}.{EXTENSION}", own_prefix());
        let path = folder.join(name);
        let socket = Unregistered::bind(&path)?;
        fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket: UnixDatagram::from_std(socket)?, path })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Takes what is said, for ever (invariant 1).
    pub(super) async fn listen(self, notified: watch::Sender<Notified>) {
        let mut buffer = vec![0; MAX_MESSAGE];
        loop {
            match self.socket.recv(&mut buffer).await {
                Ok(length) => {
                    let message = String::from_utf8_lossy(&buffer[..length]);
                    notified.send_modify(|notified| notified.take(&message));
                }
                Err(err) => {
                    let error: &dyn std::error::Error = &err;
                    tracing::warn!(path = ?self.path, error, "cannot read the notify socket");
                    return;
                }
            }
        }
    }
}

impl Drop for NotifySocket {
    fn drop(&mut self) {
        if let Err(err) = remove(&self.path) {
            let error: &dyn std::error::Error = &err;
            tracing::warn!(path = ?self.path, error, "cannot remove the notify socket");
        }
    }
}

/// Refuses a folder that is not this user's alone (invariant 2).
fn require_private(folder: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(folder)?;
    if found.is_dir() && found.uid() == geteuid().as_raw() && found.mode() & 0o077 == 0 {
        return Ok(());
    }
    let reason = "it must be a folder of the agent's own user, with mode 0700";
    Err(io::Error::new(io::ErrorKind::PermissionDenied, reason))
}

fn own_prefix() -> String {
    format!("{:016x}-", *OWN)
}

/// Returns the sockets that nobody reads any more. Those of this process are left alone: one that is
/// being made is not read for an instant.
fn stale(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let own = own_prefix();
    let mut stale = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let is_socket = path.extension().is_some_and(|extension| extension == EXTENSION);
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        if !is_socket || name.is_none_or(|name| name.starts_with(&own)) {
            continue;
        }
        let refused = Unregistered::unbound()?.connect(&path);
        if refused.is_err_and(|err| err.kind() == io::ErrorKind::ConnectionRefused) {
            stale.push(path);
        }
    }
    Ok(stale)
}

/// Removes a file that others, which start at the same time, may have removed.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;
    use std::fs;
    use std::os::unix::net::UnixDatagram;

    use tempfile::TempDir;

    use super::{Notified, NotifySocket, remove, stale};
    use crate::files::Folder;

    #[tokio::test]
    async fn a_socket_is_made_in_the_held_folder_when_another_one_has_got_its_path()
    -> Result<(), Box<dyn Error>> {
        let outer = TempDir::new()?;
        let (state, moved) = (outer.path().join("state"), outer.path().join("moved"));
        let _held = Folder::make(&state)?.hold_path()?;
        fs::rename(&state, &moved)?;
        fs::create_dir(&state)?;

        let socket = NotifySocket::bind(&state.join("notify"))?;

        assert_eq!(socket.path().parent(), Some(&*moved.canonicalize()?.join("notify")));
        assert_eq!(fs::read_dir(&state)?.count(), 0);
        Ok(())
    }

    #[tokio::test]
    async fn a_held_folder_that_was_deleted_is_not_made_anew() -> Result<(), Box<dyn Error>> {
        let outer = TempDir::new()?;
        let state = outer.path().join("state");
        let _held = Folder::make(&state)?.hold_path()?;
        fs::remove_dir(&state)?;

        let refused = NotifySocket::bind(&state.join("notify"));

        assert!(refused.is_err(), "{refused:?}");
        assert!(!state.exists());
        Ok(())
    }

    #[test]
    fn two_that_start_at_once_can_both_remove_what_is_stale() -> std::io::Result<()> {
        let folder = TempDir::new()?;
        let path = folder.path().join("1-0.notify");
        drop(UnixDatagram::bind(&path)?);
        let (one, other) = (stale(folder.path())?, stale(folder.path())?);
        assert_eq!((&*one, &*other), (&[path.clone()][..], &[path.clone()][..]));

        for path in one.iter().chain(&other) {
            remove(path)?;
        }

        assert!(!path.exists());
        Ok(())
    }

    #[test]
    fn what_is_not_understood_changes_nothing() {
        let mut notified = Notified::default();
        notified.take("READY=0\nMAINPID=7\nSTATUS=warming up\n\nREADY\n");
        assert_eq!(notified, Notified { is_ready: false, status: Some("warming up".to_owned()) });

        notified.take("STATUS=\u{1b}[2Jgone\u{7}");
        assert_eq!(notified.status.as_deref(), Some(" [2Jgone "));
        notified.take("STATUS=\nREADY=1");

        assert_eq!(notified, Notified { is_ready: true, status: None });
    }
}
