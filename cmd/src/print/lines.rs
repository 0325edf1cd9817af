//! Lines of data, printed while the work goes on.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Builder;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Serialize;

use super::out::to_stdout;
use super::{Versioned, written};
use crate::global::Format;

/// The most bytes of lines of an agent that wait for their reader. Lines beyond that are counted and lost. The lines of
/// an apply take at most as many bytes as its account.
const WAITING: usize = 64 * 1024 * 1024;

/// How long the reader of an agent is waited for at the end.
const PATIENCE: Duration = Duration::from_secs(1);

/// Prints lines from a thread of its own, so that nobody waits for their reader.
#[derive(Debug)]
pub(crate) struct Lines {
    format: Format,
    source: Source,
    /// How many bytes wait to be printed.
    waiting: Arc<AtomicUsize>,
    missed: AtomicUsize,
    printing: Mutex<Option<Printing>>,
}

/// The source of the lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// An apply, which ends when all its lines were read.
    Apply,
    /// An agent, which goes on and ends without a reader.
    Agent,
}

#[derive(Debug)]
struct Printing {
    sender: Sender<String>,
    /// Closes when all is printed.
    printed: Receiver<()>,
}

/// Says that lines are missing.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Gap {
    Missed { missed: usize },
}

impl Lines {
    pub(crate) fn new(format: Format, source: Source) -> Self {
        let (waiting, missed, printing) = Default::default();
        Self { format, source, waiting, missed, printing }
    }

    /// Prints a line soon. Never blocks.
    pub(crate) fn print(&self, line: &impl Serialize) {
        let Ok(text) = written(self.format, &Versioned::new(line)) else { return };
        if self.source == Source::Agent && self.waiting.load(Ordering::Relaxed) >= WAITING {
            self.missed.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let missed = self.missed.swap(0, Ordering::Relaxed);
        if missed > 0 {
            self.send(written(self.format, &Versioned::new(&Gap::Missed { missed })).ok());
        }
        self.send(Some(text));
    }

    fn send(&self, text: Option<String>) {
        if let Some((text, sender)) = text.zip(self.sender()) {
            self.waiting.fetch_add(text.len(), Ordering::Relaxed);
            // Nobody can be told when the stream is closed.
            let _is_closed = sender.send(text);
        }
    }

    /// Waits until all lines of an apply are printed; of an agent for 1 s at most.
    pub(crate) fn end(&self) {
        let Some(Printing { sender, printed }) = self.printing.lock().take() else { return };
        drop(sender);
        let _closed = match self.source {
            Source::Apply => printed.recv().is_ok(),
            Source::Agent => printed.recv_timeout(PATIENCE).is_ok(),
        };
    }

    /// Returns what takes lines; begins to print with the first.
    fn sender(&self) -> Option<Sender<String>> {
        let mut printing = self.printing.lock();
        if printing.is_none() {
            let (sender, receiver) = channel();
            let (printing_on, printed) = channel();
            let waiting = Arc::clone(&self.waiting);
            let print = move || {
                print_all(&receiver, &waiting);
                drop::<Sender<()>>(printing_on);
            };
            drop(Builder::new().name("lines".to_owned()).spawn(print).ok()?);
            *printing = Some(Printing { sender, printed });
        }
        printing.as_ref().map(|printing| printing.sender.clone())
    }
}

/// Prints what comes until nothing more will, or nobody reads.
fn print_all(receiver: &Receiver<String>, waiting: &AtomicUsize) {
    while let Ok(text) = receiver.recv() {
        waiting.fetch_sub(text.len(), Ordering::Relaxed);
        if to_stdout(|out| out.write_all(text.as_bytes())).is_err() {
            return;
        }
    }
}
