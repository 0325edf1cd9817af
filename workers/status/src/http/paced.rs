//! A stream whose other side has to take what it is sent.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use super::stream::Stream;

/// A stream that fails when nothing of what it writes is taken for too long.
#[derive(Debug)]
pub(super) struct Paced {
    stream: Arc<Stream>,
    limit: Duration,
    /// Runs while a write waits.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl Paced {
    pub(super) fn new(stream: Arc<Stream>, limit: Duration) -> Self {
        Self { stream, limit, deadline: None }
    }

    fn pace(
        &mut self,
        cx: &mut Context<'_>,
        write: impl Fn(&Stream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        let written = when_ready(&self.stream, Stream::poll_write_ready, cx, write);
        if written.is_ready() {
            self.deadline = None;
            return written;
        }
        let limit = self.limit;
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep(limit)));
        deadline.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

/// Reads from a stream or writes to it once it is ready for that.
fn when_ready(
    stream: &Stream,
    poll_ready: impl Fn(&Stream, &mut Context<'_>) -> Poll<io::Result<()>>,
    cx: &mut Context<'_>,
    mut attempt: impl FnMut(&Stream) -> io::Result<usize>,
) -> Poll<io::Result<usize>> {
    loop {
        ready!(poll_ready(stream, cx))?;
        match attempt(stream) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            done => return Poll::Ready(done),
        }
    }
}

impl AsyncRead for Paced {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let space = buffer.initialize_unfilled();
        let read =
            when_ready(&self.stream, Stream::poll_read_ready, cx, |stream| stream.try_read(space));
        read.map_ok(|length| buffer.advance(length))
    }
}

impl AsyncWrite for Paced {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.pace(cx, |stream| stream.try_write(bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.pace(cx, |stream| stream.try_write_vectored(slices))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A socket keeps nothing back.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A connection carries one request, and its stream is closed with it.
        Poll::Ready(Ok(()))
    }
}
