//! Cuts a stream of bytes into lines of bounded length, at a bounded rate.

use std::borrow::Cow;
use std::time::Duration;

use tokio::time::Instant;

const WINDOW: Duration = Duration::from_secs(1);

/// One line without its end.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// The text; bytes that are not UTF-8 are replaced.
    pub(super) text: Cow<'a, str>,
    /// How many bytes beyond the longest line that is kept were dropped.
    pub(super) cut: usize,
}

/// What has come of a line so far.
#[derive(Debug)]
pub(super) struct Lines {
    max_line: usize,
    kept: Vec<u8>,
    cut: usize,
}

impl Lines {
    /// Keeps `max_line` bytes of each line; the rest of it is dropped and counted.
    pub(super) fn new(max_line: usize) -> Self {
        Self { max_line, kept: Vec::new(), cut: 0 }
    }

    /// Takes bytes as they come and calls `emit` for every line that they complete.
    pub(super) fn push(&mut self, mut bytes: &[u8], mut emit: impl FnMut(Line<'_>)) {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.keep(&bytes[..end]);
            self.emit(&mut emit);
            bytes = &bytes[end + 1..];
        }
        self.keep(bytes);
    }

    /// Returns how many of the bytes that were taken belong to a line that is not complete; 0 once
    /// that line is too long to be kept.
    pub(super) fn pending(&self) -> usize {
        if self.cut == 0 { self.kept.len() } else { 0 }
    }

    /// Calls `emit` for a last line that has no end.
    pub(super) fn finish(&mut self, mut emit: impl FnMut(Line<'_>)) {
        if !self.kept.is_empty() {
            self.emit(&mut emit);
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = (self.max_line - self.kept.len()).min(bytes.len());
        self.kept.extend_from_slice(&bytes[..room]);
        self.cut = self.cut.saturating_add(bytes.len() - room);
    }

    fn emit(&mut self, emit: &mut impl FnMut(Line<'_>)) {
        emit(Line { text: String::from_utf8_lossy(&self.kept), cut: self.cut });
        self.kept.clear();
        self.cut = 0;
    }
}

/// Counts lines in windows of one second.
#[derive(Debug)]
pub(super) struct Rate {
    limit: u32,
    since: Instant,
    taken: u32,
    dropped: u64,
}

impl Rate {
    pub(super) fn new(limit: u32, now: Instant) -> Self {
        Self { limit, since: now, taken: 0, dropped: 0 }
    }

    /// Returns whether one more line may be logged at `now`; if not, it is counted as dropped.
    pub(super) fn admit(&mut self, now: Instant) -> bool {
        if now.duration_since(self.since) >= WINDOW {
            self.since = now;
            self.taken = 0;
        }
        let is_admitted = self.taken < self.limit;
        if is_admitted {
            self.taken += 1;
        } else {
            self.dropped = self.dropped.saturating_add(1);
        }
        is_admitted
    }

    /// Returns how many lines were dropped since the last call.
    pub(super) fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::{Lines, Rate};

    const MAX_LINE: usize = 100;

    /// Pushes `chunks` one after another and returns each line with what was cut from it.
    fn lines_of(chunks: &[&[u8]]) -> Vec<(String, usize)> {
        let mut lines = Lines::new(MAX_LINE);
        let mut found = Vec::new();
        for chunk in chunks {
            lines.push(chunk, |line| found.push((line.text.into_owned(), line.cut)));
        }
        lines.finish(|line| found.push((line.text.into_owned(), line.cut)));
        found
    }

    #[test]
    fn a_line_is_the_same_however_it_is_chunked() {
        let whole = lines_of(&[b"one\n\ntwo\nthree"]);
        let bytes: Vec<&[u8]> = b"one\n\ntwo\nthree".chunks(1).collect();

        assert_eq!(lines_of(&bytes), whole);
        let texts: Vec<_> = whole.iter().map(|(text, _)| text.as_str()).collect();
        assert_eq!(texts, ["one", "", "two", "three"]);
    }

    #[test]
    fn a_long_line_is_cut_and_the_next_is_whole() {
        let long = vec![b'x'; MAX_LINE + 5];

        let found = lines_of(&[&long, b"yy\nnext\n"]);

        assert_eq!(found[0], ("x".repeat(MAX_LINE), 7));
        assert_eq!(found[1], ("next".to_owned(), 0));
    }

    #[test]
    fn bytes_that_are_not_text_are_replaced() {
        assert_eq!(lines_of(&[b"a\xffb\n"]), [("a\u{fffd}b".to_owned(), 0)]);
    }

    #[test]
    fn lines_above_the_rate_are_counted_until_the_window_ends() {
        let start = Instant::now();
        let mut rate = Rate::new(2, start);

        let admitted = (0..5).filter(|_| rate.admit(start)).count();

        assert_eq!((admitted, rate.take_dropped()), (2, 3));
        assert!(rate.admit(start + Duration::from_secs(1)));
        assert_eq!(rate.take_dropped(), 0);
    }
}
