//! The output of a job, of which the beginning and the end are kept.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;

use rustix::io::Errno;
use tokio::io::{AsyncRead, AsyncReadExt};

/// How often to read what is left in a pipe; a command that was left behind may write for ever.
const LAST_READS: usize = 16;

const BUFFER: usize = 64 * 1024;

/// How much of a line is told while the command runs, in bytes.
const LINE: usize = 8 * 1024;

/// What is told of each line of an output while the command runs.
pub type Told<'a> = &'a (dyn Fn(&str) + Send + Sync);

/// Why an output is not read any more.
pub(super) enum Unread {
    /// There is more than this many bytes.
    TooMuch(usize),
    Failed(io::Error),
}

impl From<io::Error> for Unread {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

/// One output of a job: its beginning and its end are kept.
pub(super) struct JobOutput<'a, P> {
    /// None once it has ended.
    pipe: Option<P>,
    /// How much of the beginning and of the end is kept, in bytes.
    kept: (usize, usize),
    /// Whether it is an error that there is more.
    is_limited: bool,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    left_out: u64,
    /// What is told of each line at once.
    told: Option<Told<'a>>,
    /// The line that has not ended yet.
    line: Vec<u8>,
}

impl<'a, P: AsyncRead + AsFd + Unpin> JobOutput<'a, P> {
    pub(super) fn new(pipe: Option<P>, kept: (usize, usize), told: Option<Told<'a>>) -> Self {
        let (head, tail, line) = (Vec::new(), VecDeque::new(), Vec::new());
        Self { pipe, kept, is_limited: false, head, tail, left_out: 0, told, line }
    }

    /// Makes it an error that there is more than is kept.
    pub(super) fn limited(self) -> Self {
        Self { is_limited: true, ..self }
    }

    /// Reads until the pipe ends. Cancel safe.
    ///
    /// # Errors
    ///
    /// When the pipe cannot be read. When there is more than there may be: then it is not read any more.
    pub(super) async fn fill(&mut self) -> Result<(), Unread> {
        let mut buffer = vec![0; BUFFER];
        while let Some(pipe) = &mut self.pipe {
            match pipe.read(&mut buffer).await? {
                0 => {
                    self.pipe = None;
                    self.tell_rest();
                }
                count => self.keep(&buffer[..count]),
            }
            self.within()?;
        }
        Ok(())
    }

    /// Gives the pipe up if there was more than there may be.
    fn within(&mut self) -> Result<(), Unread> {
        if self.is_limited && self.left_out > 0 {
            self.pipe = None;
            return Err(Unread::TooMuch(self.kept.0));
        }
        Ok(())
    }

    /// Reads what is there without waiting for those who still hold the pipe.
    ///
    /// # Errors
    ///
    /// As [`fill`](Self::fill).
    pub(super) fn drain(&mut self) -> Result<(), Unread> {
        let mut buffer = vec![0; BUFFER];
        for _ in 0..LAST_READS {
            let Some(pipe) = &self.pipe else { break };
            // Past tokio, which knows of new bytes only after its next look at the pipe.
            match rustix::io::read(pipe, &mut buffer) {
                Ok(0) | Err(Errno::AGAIN) => break,
                Ok(count) => self.keep(&buffer[..count]),
                Err(Errno::INTR) => {}
                Err(err) => return Err(io::Error::from(err).into()),
            }
        }
        self.tell_rest();
        self.within()
    }

    fn keep(&mut self, bytes: &[u8]) {
        self.tell(bytes);
        let (head, tail) = self.kept;
        let (first, rest) = bytes.split_at(bytes.len().min(head - self.head.len()));
        self.head.extend_from_slice(first);
        self.tail.extend(rest);
        let excess = self.tail.len().saturating_sub(tail);
        self.tail.drain(..excess);
        self.left_out += excess as u64;
    }

    /// Tells the lines that these bytes end. Of a long one the beginning is told.
    fn tell(&mut self, bytes: &[u8]) {
        let Some(told) = self.told else { return };
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let room = LINE - self.line.len();
            let (text, is_end) = match piece.strip_suffix(b"\n") {
                Some(text) => (text, true),
                None => (piece, false),
            };
            self.line.extend_from_slice(&text[..text.len().min(room)]);
            if is_end {
                told(&String::from_utf8_lossy(&self.line));
                self.line.clear();
            }
        }
    }

    /// Tells the last line, which nothing has ended.
    fn tell_rest(&mut self) {
        if !self.line.is_empty() {
            self.tell(b"\n");
        }
    }

    /// Returns how many bytes were not kept.
    pub(super) fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Returns whether all that is kept is UTF-8.
    pub(super) fn is_text(&self) -> bool {
        let (first, second) = self.tail.as_slices();
        std::str::from_utf8(&[&self.head[..], first, second].concat()).is_ok()
    }

    /// Returns the text; what is not UTF-8 is replaced.
    pub(super) fn text(&self) -> String {
        let mut tail: Vec<u8> = self.tail.iter().copied().collect();
        if self.left_out == 0 {
            return String::from_utf8_lossy(&[&self.head[..], &tail].concat()).into_owned();
        }
        // Whole lines, as of a secret that was cut nobody could tell that it is one.
        let end_of_line = |byte: &u8| *byte == b'\n';
        let head = &self.head[..self.head.iter().rposition(end_of_line).map_or(0, |end| end + 1)];
        let end = tail.iter().position(end_of_line).map_or(tail.len(), |end| end + 1);
        let cut = (self.head.len() - head.len()) + tail.drain(..end).count();
        let left_out = self.left_out + cut as u64;
        let (head, tail) = (String::from_utf8_lossy(head), String::from_utf8_lossy(&tail));
        format!("{head}... {left_out} bytes are left out ...\n{tail}")
    }
}
