//! Readiness of file descriptors that tokio has no type for: inotify, pidfds and `/proc` files.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A file descriptor whose readiness can be waited for.
pub(crate) type ReadyFd = AsyncFd<Arc<OwnedFd>>;

/// Registers `fd` with the runtime.
///
/// # Panics
///
/// Panics outside of a tokio runtime with its I/O driver enabled.
#[expect(
    deprecated,
    reason = "the constructor is unsound only for a type that closes or changes its descriptor; \
              this one owns it and never does, and the replacement needs unsafe code"
)]
pub(crate) fn register(fd: Arc<OwnedFd>, interest: Interest) -> io::Result<ReadyFd> {
    AsyncFd::with_interest(fd, interest)
}
