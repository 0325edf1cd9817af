//! The signals that the frame listens for, until the process ends.

use std::time::Duration;

use crankcase_engine::{Stop, Stopper, Worker};
use crankcase_workers::{SignalCounts, SignalHandle, Signals};
use rustix::process::Signal;
use tokio::runtime::Handle;
use tokio::signal::unix::{self, SignalKind};

use super::AgentError;

/// Listens for signals outside of any engine: a second one must be seen while the engine stops.
pub(super) struct Listening {
    handle: SignalHandle,
    apart: Duration,
    stopper: Stopper,
}

impl Listening {
    /// Begins to listen, in a task of this runtime, unless the caller listens already. A second
    /// signal counts if it comes `apart` after the first or later.
    pub(super) fn begin(
        runtime: &Handle,
        given: Option<SignalHandle>,
        apart: Duration,
    ) -> Result<Self, AgentError> {
        let _runtime = runtime.enter();
        // Listened for once, it does not end the process: the write that went too far fails.
        if let Err(error) = unix::signal(SignalKind::from_raw(Signal::XFSZ.as_raw())) {
            tracing::warn!(%error, "cannot listen for SIGXFSZ");
        }
        let (stopper, stop) = Stop::pair();
        if let Some(handle) = given {
            return Ok(Self { handle, apart, stopper });
        }
        let signals = Signals::new()?;
        let handle = signals.handle();
        drop(runtime.spawn(async move {
            if let Err(exit) = signals.run(stop).await {
                tracing::error!(error = %exit, "no signal is seen any more");
            }
        }));
        Ok(Self { handle, apart, stopper })
    }

    pub(super) fn handle(&self) -> SignalHandle {
        self.handle.clone()
    }

    /// Waits until the process was asked to end. Returns the name of the signal.
    pub(super) async fn asked_to_end(&self) -> &'static str {
        self.until(|counts| counts.ends() > 0).await;
        if self.handle.counts().interrupt > 0 { "SIGINT" } else { "SIGTERM" }
    }

    /// Waits until the process was asked to end once more.
    pub(super) async fn asked_again(&self) {
        self.until(|counts| is_asked_again(counts, self.apart)).await;
    }

    async fn until(&self, is_reached: impl Fn(&SignalCounts) -> bool) {
        if self.handle.subscribe().wait_for(is_reached).await.is_err() {
            // Nobody will ask any more.
            std::future::pending::<()>().await;
        }
    }
}

/// Returns whether a second signal has come, which whoever asks twice at once has not meant: some ask
/// a process and its group. It is told by when the signals came, not by when they are heard of.
fn is_asked_again(counts: &SignalCounts, apart: Duration) -> bool {
    let between = counts.first_end.zip(counts.last_end);
    counts.ends() > 1 && between.is_some_and(|(first, last)| last - first >= apart)
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.stopper.stop();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crankcase_workers::SignalCounts;
    use tokio::time::Instant;

    use super::is_asked_again;

    #[tokio::test(start_paused = true)]
    async fn a_second_signal_counts_from_the_grace_on() {
        let (apart, first) = (Duration::from_millis(250), Instant::now());
        let asked = |times, after| {
            let (first_end, last_end) = (Some(first), Some(first + Duration::from_millis(after)));
            let mut counts = SignalCounts::default();
            (counts.terminate, counts.first_end, counts.last_end) = (times, first_end, last_end);
            is_asked_again(&counts, apart)
        };

        assert!(!is_asked_again(&SignalCounts::default(), Duration::ZERO));
        assert!(!asked(1, 0) && !asked(2, 1) && !asked(3, 249));
        assert!(asked(2, 250) && asked(3, 60_000));
    }
}
