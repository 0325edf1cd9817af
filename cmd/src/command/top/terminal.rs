//! The terminal that is drawn on, which is left as it was found.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{panic, thread};

use crossterm::cursor::{Hide, Show};
use crossterm::event::{DisableBracketedPaste, EnableBracketedPaste};
use crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen};
use crossterm::{event, queue};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use tokio::sync::mpsc;

use super::keys::{Key, key};

/// How many keys wait to be handled. More are left to the terminal.
const KEYS: usize = 64;

/// What is drawn on.
pub(super) type Canvas = Terminal<CrosstermBackend<BufWriter<Output>>>;

/// Returns the keys that are typed.
pub(super) fn keys() -> io::Result<mpsc::Receiver<Key>> {
    let (tx, rx) = mpsc::channel(KEYS);
    // A thread that ends with the process: nothing else can end its wait for a key.
    let read = move || {
        while let Ok(event) = event::read() {
            if let Some(key) = key(event)
                && tx.blocking_send(key).is_err()
            {
                return;
            }
        }
    };
    thread::Builder::new().spawn(read).map(|_| rx)
}

/// A terminal in raw mode with its other screen. Dropping it, and a panic in any thread, gives back what was there.
#[derive(Debug)]
#[must_use = "dropping it gives the terminal back"]
pub(super) struct Taken {
    found: Arc<Found>,
}

/// How the terminal was found.
#[derive(Debug)]
pub(super) struct Found {
    input: OwnedFd,
    output: File,
    modes: Termios,
    is_given_back: AtomicBool,
}

impl Taken {
    /// Takes a terminal that is read from `input` and drawn on by `output`.
    pub(super) fn new(input: OwnedFd, output: OwnedFd) -> io::Result<Self> {
        let modes = tcgetattr(&input)?;
        let mut raw = modes.clone();
        raw.make_raw();
        let (output, is_given_back) = (File::from(output), AtomicBool::new(false));
        let found = Arc::new(Found { input, output, modes, is_given_back });
        let taken = Self { found: found.clone() };
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            // First, so that what is said of the panic can be read.
            found.give_back();
            before(panic);
        }));
        tcsetattr(&taken.found.input, OptionalActions::Now, &raw)?;
        let mut output = &taken.found.output;
        queue!(output, EnterAlternateScreen, EnableBracketedPaste, Hide)?;
        output.flush()?;
        Ok(taken)
    }

    /// Returns what draws on it.
    pub(super) fn canvas(&self) -> io::Result<Canvas> {
        Terminal::new(CrosstermBackend::new(BufWriter::new(Output(self.found.clone()))))
    }
}

/// Writes on the terminal until it is given back. What is written later is dropped, such as the rest of a drawing that
/// has panicked.
#[derive(Debug)]
pub(super) struct Output(Arc<Found>);

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.is_given_back.load(Ordering::Acquire) {
            true => Ok(bytes.len()),
            false => (&self.0.output).write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        (&self.0.output).flush()
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.found.give_back();
    }
}

impl Found {
    fn give_back(&self) {
        if self.is_given_back.swap(true, Ordering::AcqRel) {
            return;
        }
        let mut output = &self.output;
        // A terminal that is gone needs nothing.
        drop(queue!(output, DisableBracketedPaste, LeaveAlternateScreen, Show));
        drop(output.flush());
        let _gone = tcsetattr(&self.input, OptionalActions::Now, &self.modes);
    }
}

#[cfg(test)]
mod tests;
