use std::time::Duration;

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;

/// How soon after a signal another one is taken for a part of it: some who ask a process and its
/// group ask it twice.
const APART: Duration = Duration::from_millis(250);

/// Tells that SIGINT or SIGTERM asks the process to end, from when it is made on.
#[derive(Debug)]
pub(super) struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
}

impl Interrupts {
    pub(super) fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        let interrupt = listen(SignalKind::interrupt())?;
        let terminate = listen(SignalKind::terminate())?;
        Ok(Self { interrupt, terminate })
    }

    /// Waits for the next signal. Cancel safe.
    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }

    /// Waits for another signal, 250 ms after the call or later.
    pub(super) async fn again(&mut self) {
        let began = Instant::now();
        loop {
            self.next().await;
            if began.elapsed() >= APART {
                return;
            }
        }
    }
}
