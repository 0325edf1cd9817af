//! Tells when a file may have changed. It stands where a program would use the crate `notify`.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags, Reader, WatchFlags};
use rustix::io::Errno;
use tokio::io::unix::AsyncFd;
use tokio::time::timeout;

/// For how long a file is left alone before it is read.
const QUIET: Duration = Duration::from_millis(100);

/// Tells when something in the folder of a file has changed.
#[derive(Debug)]
pub struct FileChanges(AsyncFd<OwnedFd>);

impl FileChanges {
    /// Begins to watch the folder of a file. Later changes are not missed.
    ///
    /// # Errors
    ///
    /// When the kernel does not watch it.
    #[expect(deprecated, reason = "the owner of the descriptor closes it, after the registration")]
    pub fn of(path: &Path) -> io::Result<Self> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let fd = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let what = WatchFlags::CLOSE_WRITE | WatchFlags::MOVE | WatchFlags::DELETE;
        inotify::add_watch(&fd, folder.unwrap_or(Path::new(".")), what)?;
        Ok(Self(AsyncFd::new(fd)?))
    }

    /// Waits for a change, and then until there was none for 100 ms.
    ///
    /// # Errors
    ///
    /// When the kernel does not tell of changes.
    pub async fn next(&mut self) -> io::Result<()> {
        self.any().await?;
        while let Ok(another) = timeout(QUIET, self.any()).await {
            another?;
        }
        Ok(())
    }

    /// Waits for changes, and takes all that there are.
    async fn any(&mut self) -> io::Result<()> {
        let mut ready = self.0.readable().await?;
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = Reader::new(self.0.get_ref(), &mut buffer);
        loop {
            match reader.next() {
                Ok(_) => {}
                Err(Errno::AGAIN) => break,
                Err(error) => return Err(error.into()),
            }
        }
        ready.clear_ready();
        Ok(())
    }
}
