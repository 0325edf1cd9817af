//! The signals that ask this process to end.

use std::fs;
use std::future::pending;
use std::panic::resume_unwind;
use std::time::Duration;

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use crate::calls::calls;

/// How soon after a signal another one is taken for a part of it: some who ask a process and its
/// group ask it twice.
const APART: Duration = Duration::from_millis(250);

/// Tells that SIGINT, SIGTERM or SIGHUP asks the process to end, from when it is made on.
#[derive(Debug)]
pub(crate) struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
    /// None under `nohup`, which has it ignored.
    hangup: Option<Signal>,
}

impl Interrupts {
    pub(crate) fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        let interrupt = listen(SignalKind::interrupt())?;
        let terminate = listen(SignalKind::terminate())?;
        let hangup = (!is_hangup_ignored()).then(|| listen(SignalKind::hangup())).transpose()?;
        // Listened for once, it does not end the process: the write that went too far fails.
        drop(listen(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?);
        Ok(Self { interrupt, terminate, hangup })
    }

    /// Waits for the next signal. Cancel safe.
    pub(crate) async fn next(&mut self) {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = hangup => {}
        }
    }

    /// Does work that blocks its thread; `None` if a signal comes first. The work goes on then, at most
    /// until the process ends, without the types that it calls.
    pub(crate) async fn unless<T: Send + 'static>(
        &mut self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        unless(self.next(), work).await
    }

    /// Does the same after a signal: only another one ends it that comes 250 ms after the call or later.
    pub(crate) async fn unless_later<T: Send + 'static>(
        &mut self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        unless(self.again(), work).await
    }

    /// Waits for another signal, 250 ms after the call or later.
    pub(crate) async fn again(&mut self) {
        let began = Instant::now();
        loop {
            self.next().await;
            if began.elapsed() >= APART {
                return;
            }
        }
    }
}

async fn unless<T: Send + 'static>(
    signal: impl Future<Output = ()>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let work = spawn_blocking(work);
    tokio::select! {
        biased;
        () = signal => {
            calls().end();
            None
        }
        done = work => Some(done.unwrap_or_else(|error| resume_unwind(error.into_panic()))),
    }
}

/// Returns whether this process was started with SIGHUP ignored.
fn is_hangup_ignored() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // The lowest bit is that of signal 1.
    ignored.is_some_and(|mask| mask & 1 != 0)
}
