//! Sockets of both families.

use std::io;
use std::task::{Context, Poll};

use tokio::io::{Interest, Ready};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

/// Where clients connect.
#[derive(Debug)]
pub(crate) enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Listener {
    pub(crate) async fn accept(&self) -> io::Result<Stream> {
        match self {
            Self::Unix(listener) => Ok(Stream::Unix(listener.accept().await?.0)),
            Self::Tcp(listener) => Ok(Stream::Tcp(listener.accept().await?.0)),
        }
    }
}

/// A connection to a client.
#[derive(Debug)]
pub(crate) enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

/// Calls a method of the same name on the stream, whatever its family.
macro_rules! each {
    ($stream:expr, $it:ident => $call:expr) => {
        match $stream {
            Stream::Unix($it) => $call,
            Stream::Tcp($it) => $call,
        }
    };
}

impl Stream {
    /// Returns the user id of the client, if the system knows it.
    pub(crate) fn user(&self) -> io::Result<Option<u32>> {
        match self {
            Self::Unix(stream) => stream.peer_cred().map(|peer| Some(peer.uid())),
            Self::Tcp(_) => Ok(None),
        }
    }

    /// Returns the process id of the client in the PID namespace of this process, if the system knows it; 0 if the
    /// client is not in that namespace.
    pub(crate) fn pid(&self) -> Option<i32> {
        match self {
            Self::Unix(stream) => stream.peer_cred().ok()?.pid(),
            Self::Tcp(_) => None,
        }
    }

    pub(super) async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        each!(self, it => it.ready(interest).await)
    }

    pub(super) fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, it => it.poll_read_ready(cx))
    }

    pub(super) fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, it => it.poll_write_ready(cx))
    }

    pub(super) fn try_read(&self, space: &mut [u8]) -> io::Result<usize> {
        each!(self, it => it.try_read(space))
    }

    pub(super) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        each!(self, it => it.try_write(bytes))
    }

    pub(super) fn try_write_vectored(&self, slices: &[io::IoSlice<'_>]) -> io::Result<usize> {
        each!(self, it => it.try_write_vectored(slices))
    }
}
