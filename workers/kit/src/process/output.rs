//! Logs what a process writes, line by line.

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::Instant;

use super::lines::{Line, Lines, Rate};

const CHUNK: usize = 16 * 1024;

/// One of the two streams of a process.
#[derive(Debug, Clone)]
pub(super) struct Stream {
    pub(super) process: String,
    pub(super) name: &'static str,
    pub(super) lines_per_second: u32,
}

impl Stream {
    /// Logs every line of `source` until it ends.
    ///
    /// It goes on reading when it logs nothing, so that the process never waits for its own log.
    pub(super) async fn log(self, mut source: impl AsyncRead + Unpin) {
        let mut lines = Lines::default();
        let mut rate = Rate::new(self.lines_per_second, Instant::now());
        let mut chunk = vec![0; CHUNK];
        loop {
            match source.read(&mut chunk).await {
                Ok(0) => break,
                Ok(length) => lines.push(&chunk[..length], |line| self.take(line, &mut rate)),
                Err(err) => {
                    let error: &dyn std::error::Error = &err;
                    tracing::warn!(
                        process = self.process,
                        stream = self.name,
                        error,
                        "cannot read output"
                    );
                    break;
                }
            }
        }
        lines.finish(|line| self.take(line, &mut rate));
        self.tell_dropped(&mut rate);
    }

    fn take(&self, line: Line<'_>, rate: &mut Rate) {
        if !rate.admit(Instant::now()) {
            return;
        }
        self.tell_dropped(rate);
        let Line { text, cut } = line;
        let (process, stream, line) = (&*self.process, self.name, &*text);
        if cut == 0 {
            tracing::info!(process, stream, line, "output");
        } else {
            tracing::info!(process, stream, line, cut, "output");
        }
    }

    fn tell_dropped(&self, rate: &mut Rate) {
        let lines = rate.take_dropped();
        if lines > 0 {
            tracing::warn!(process = self.process, stream = self.name, lines, "output dropped");
        }
    }
}
