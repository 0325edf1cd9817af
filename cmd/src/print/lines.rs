//! Lines of data, printed while the work goes on.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::Builder;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Serialize;

use super::{Versioned, written};
use crate::global::Format;

/// How many lines wait for whoever reads them.
const WAITING: usize = 10_000;

/// How long whoever reads is waited for at the end.
const PATIENCE: Duration = Duration::from_secs(1);

/// Prints lines from a thread of its own.
#[derive(Debug)]
pub(crate) struct Lines {
    format: Format,
    /// Whether those who print wait for whoever reads; else lines that find no room are counted.
    waits: bool,
    missed: AtomicU64,
    printing: Mutex<Option<Printing>>,
}

#[derive(Debug)]
struct Printing {
    sender: SyncSender<String>,
    /// Closes when all is printed.
    printed: Receiver<()>,
}

/// Says that lines are missing.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Gap {
    Missed { missed: u64 },
}

impl Lines {
    pub(crate) fn new(format: Format, waits: bool) -> Self {
        Self { format, waits, missed: AtomicU64::new(0), printing: Mutex::default() }
    }

    /// Prints a line soon.
    pub(crate) fn print(&self, line: &impl Serialize) {
        let Ok(text) = written(self.format, &Versioned::new(line)) else { return };
        let Some(sender) = self.sender() else { return };
        if self.waits {
            // Nobody can be told when the stream is closed.
            let _is_closed = sender.send(text);
            return;
        }
        let missed = self.missed.swap(0, Ordering::Relaxed);
        let gap =
            (missed > 0).then(|| written(self.format, &Versioned::new(&Gap::Missed { missed })));
        let text = gap.and_then(Result::ok).unwrap_or_default() + &text;
        if sender.try_send(text).is_err() {
            self.missed.fetch_add(missed + 1, Ordering::Relaxed);
        }
    }

    /// Waits until all lines are printed; if those who print do not wait, for 1 s at most.
    pub(crate) fn end(&self) {
        let Some(Printing { sender, printed }) = self.printing.lock().take() else { return };
        drop(sender);
        let _closed = match self.waits {
            true => printed.recv().is_ok(),
            false => printed.recv_timeout(PATIENCE).is_ok(),
        };
    }

    /// Returns what takes lines; begins to print with the first.
    fn sender(&self) -> Option<SyncSender<String>> {
        let mut printing = self.printing.lock();
        if printing.is_none() {
            let (sender, receiver) = sync_channel(WAITING);
            let (printing_on, printed) = sync_channel(0);
            let print = move || {
                print_all(&receiver);
                drop(printing_on);
            };
            drop(Builder::new().name("lines".to_owned()).spawn(print).ok()?);
            *printing = Some(Printing { sender, printed });
        }
        printing.as_ref().map(|printing| printing.sender.clone())
    }
}

/// Prints what comes until nothing more will, or nobody reads.
fn print_all(receiver: &Receiver<String>) {
    while let Ok(text) = receiver.recv() {
        let mut out = anstream::stdout().lock();
        if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err() {
            return;
        }
    }
}
