//! The lines that one call of a resource has logged, within bounds and without secrets.

use std::sync::Arc;

use parking_lot::Mutex;

use crankcase_workers::{Secrets, printable};

/// How many bytes of log one call keeps; what comes later is counted and dropped.
///
/// That is room for all that is kept of both outputs of an action, 1 MiB of each, even if no byte was UTF-8 and each
/// became three bytes.
const LIMIT: usize = 7 * 1024 * 1024;

/// What a call has logged. Cheap to clone; clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Log {
    kept: Arc<Mutex<Lines>>,
    /// What is hidden in it.
    secrets: Secrets,
}

#[derive(Debug, Default)]
struct Lines {
    lines: Vec<String>,
    bytes: usize,
    dropped: usize,
}

impl Log {
    pub(crate) fn new(secrets: &Secrets) -> Self {
        Self { kept: Arc::default(), secrets: secrets.clone() }
    }

    pub(crate) fn add(&self, text: &str) {
        let mut kept = self.kept.lock();
        text.lines().for_each(|line| kept.add(&self.secrets.redact(line)));
    }

    /// Returns the log so far.
    pub(crate) fn lines(&self) -> Vec<String> {
        let kept = self.kept.lock();
        let mut lines = kept.lines.clone();
        if kept.dropped > 0 {
            lines.push(format!("... {} more lines were dropped", kept.dropped));
        }
        lines
    }
}

impl Lines {
    /// Counts a line without its escapes: they must not take the room of later lines.
    fn add(&mut self, line: &str) {
        if self.dropped > 0 || self.bytes + line.len() > LIMIT {
            self.dropped += 1;
            return;
        }
        self.bytes += line.len() + 1;
        self.lines.push(printable(line));
    }
}
