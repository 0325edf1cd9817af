//! The signals that ask a process to end or to reload.

use std::fmt;

use crankcase_engine::{Outcome, Stop, WithCauses, Worker};
use thiserror::Error;
use tokio::signal::unix;
use tokio::sync::watch;
use tokio::time::Instant;

/// A signal that [`Signals`] listens for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Signal {
    /// SIGINT: a person asks the process to end.
    Interrupt,
    /// SIGTERM: a supervisor asks the process to end.
    Terminate,
    /// SIGHUP: the process is asked to read its configuration again.
    Hangup,
}

/// How often each signal has come since [`Signals::new`].
///
/// The kernel keeps one pending signal of a kind, so signals that come faster than they are taken
/// count once. A count is never taken back; a first and a second interrupt are told apart by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct SignalCounts {
    /// How often SIGINT came.
    pub interrupt: u64,
    /// How often SIGTERM came.
    pub terminate: u64,
    /// How often SIGHUP came.
    pub hangup: u64,
    /// When SIGINT or SIGTERM came first.
    pub first_end: Option<Instant>,
    /// When SIGINT or SIGTERM came last.
    pub last_end: Option<Instant>,
}

impl SignalCounts {
    /// Returns how often `signal` came.
    pub fn of(self, signal: Signal) -> u64 {
        match signal {
            Signal::Interrupt => self.interrupt,
            Signal::Terminate => self.terminate,
            Signal::Hangup => self.hangup,
        }
    }

    /// Returns how often the process was asked to end: SIGINT and SIGTERM together.
    pub fn ends(self) -> u64 {
        self.interrupt.saturating_add(self.terminate)
    }

    fn add(&mut self, signal: Signal) {
        if signal != Signal::Hangup {
            self.last_end = Some(Instant::now());
            self.first_end = self.first_end.or(self.last_end);
        }
        let count = match signal {
            Signal::Interrupt => &mut self.interrupt,
            Signal::Terminate => &mut self.terminate,
            Signal::Hangup => &mut self.hangup,
        };
        *count = count.saturating_add(1);
    }
}

/// Why signals cannot be listened for.
#[derive(Error)]
#[non_exhaustive]
pub enum SignalError {
    /// The handler of a signal could not be installed; no listener exists.
    #[error("cannot install the handler of {signal:?}")]
    Install {
        /// The signal.
        signal: Signal,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The worker has ended, so no signal will be published any more.
    #[error("the signal worker has ended")]
    Ended,
}

impl fmt::Debug for SignalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&WithCauses(self), f)
    }
}

/// A worker that listens for SIGINT, SIGTERM and SIGHUP and publishes how often each came.
///
/// From [`Signals::new`] on, these signals no longer end the process, also after the worker has
/// ended: the handlers stay installed as long as the process lives.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use crankcase_workers::{Signal, Signals};
///
/// let signals = Signals::new()?;
/// let handle = signals.handle();
/// assert_eq!(handle.counts().of(Signal::Hangup), 0);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "the handlers are installed, but nothing is published until the worker runs"]
pub struct Signals {
    interrupt: unix::Signal,
    terminate: unix::Signal,
    hangup: unix::Signal,
    counts: watch::Sender<SignalCounts>,
}

impl Signals {
    /// Installs the handlers and returns the worker.
    ///
    /// Signals that come from now on are counted when the worker runs.
    ///
    /// # Errors
    ///
    /// Returns an error if a handler cannot be installed.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime with its I/O driver enabled.
    pub fn new() -> Result<Self, SignalError> {
        let listen = |signal, kind| {
            unix::signal(kind).map_err(|source| SignalError::Install { signal, source })
        };
        Ok(Self {
            interrupt: listen(Signal::Interrupt, unix::SignalKind::interrupt())?,
            terminate: listen(Signal::Terminate, unix::SignalKind::terminate())?,
            hangup: listen(Signal::Hangup, unix::SignalKind::hangup())?,
            counts: watch::Sender::default(),
        })
    }

    /// Returns a handle to what the worker publishes.
    pub fn handle(&self) -> SignalHandle {
        SignalHandle { counts: self.counts.subscribe() }
    }

    /// Waits for the next signal; `None` if the runtime's signal driver is gone.
    async fn next(&mut self) -> Option<Signal> {
        tokio::select! {
            biased;
            come = self.interrupt.recv() => come.map(|()| Signal::Interrupt),
            come = self.terminate.recv() => come.map(|()| Signal::Terminate),
            come = self.hangup.recv() => come.map(|()| Signal::Hangup),
        }
    }
}

impl Worker for Signals {
    async fn run(mut self, stop: Stop) -> Outcome {
        loop {
            let signal = tokio::select! {
                biased;
                () = stop.wait() => return Ok(()),
                signal = self.next() => signal,
            };
            let Some(signal) = signal else { return Err(SignalError::Ended.into()) };
            // Who reads the log finds it counted, and no log holds it up.
            self.counts.send_modify(|counts| counts.add(signal));
            tracing::info!(?signal, "signal received");
        }
    }
}

/// A view of the signals that a [`Signals`] worker publishes. Cheap to clone.
#[derive(Debug, Clone)]
pub struct SignalHandle {
    counts: watch::Receiver<SignalCounts>,
}

/// Follows counts of one's own: in a test or a simulation, signals that nobody sends to the process.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use crankcase_workers::{Signal, SignalCounts, SignalHandle};
/// use tokio::sync::watch;
///
/// let (counts, receiver) = watch::channel(SignalCounts::default());
/// let signals = SignalHandle::from(receiver);
/// counts.send_modify(|counts| counts.hangup += 1);
/// assert_eq!(signals.next(Signal::Hangup, 0).await?, 1);
/// # Ok(())
/// # }
/// ```
impl From<watch::Receiver<SignalCounts>> for SignalHandle {
    fn from(counts: watch::Receiver<SignalCounts>) -> Self {
        Self { counts }
    }
}

impl SignalHandle {
    /// Returns how often each signal has come so far.
    pub fn counts(&self) -> SignalCounts {
        *self.counts.borrow()
    }

    /// Returns a watch on the counts, to follow every signal.
    pub fn subscribe(&self) -> watch::Receiver<SignalCounts> {
        self.counts.clone()
    }

    /// Waits until `signal` has come more often than `seen` times, and returns how often it has.
    ///
    /// With `seen` 0 it waits for the first, then with its result for the next; a signal that came
    /// before the call is not missed.
    ///
    /// # Errors
    ///
    /// Returns [`SignalError::Ended`] once the worker has ended and no such signal came.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn next(&self, signal: Signal, seen: u64) -> Result<u64, SignalError> {
        self.wait(|counts| counts.of(signal), seen).await
    }

    /// Waits until the process was asked to end more often than `seen` times, by SIGINT or SIGTERM,
    /// and returns how often it was.
    ///
    /// # Errors
    ///
    /// Returns [`SignalError::Ended`] once the worker has ended and no such signal came.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn next_end(&self, seen: u64) -> Result<u64, SignalError> {
        self.wait(SignalCounts::ends, seen).await
    }

    async fn wait(
        &self,
        count: impl Fn(SignalCounts) -> u64,
        seen: u64,
    ) -> Result<u64, SignalError> {
        let mut counts = self.counts.clone();
        let reached = counts.wait_for(|counts| count(*counts) > seen).await;
        reached.map(|counts| count(*counts)).map_err(|_| SignalError::Ended)
    }
}
