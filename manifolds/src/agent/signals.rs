//! The signals that the frame listens for, until the process ends.

use std::time::Duration;

use crankcase_engine::{Stop, Stopper, Worker};
use crankcase_workers::{SignalCounts, SignalHandle, Signals};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::Instant;

use super::AgentError;

/// Listens for signals outside of any engine: a second one must be seen while the engine stops.
pub(super) struct Listening {
    handle: SignalHandle,
    stopper: Stopper,
}

impl Listening {
    pub(super) fn begin(runtime: &Handle) -> Result<Self, AgentError> {
        let _runtime = runtime.enter();
        let signals = Signals::new()?;
        let handle = signals.handle();
        let (stopper, stop) = Stop::pair();
        drop(runtime.spawn(async move {
            if let Err(exit) = signals.run(stop).await {
                tracing::error!(error = %exit, "no signal is seen any more");
            }
        }));
        Ok(Self { handle, stopper })
    }

    pub(super) fn handle(&self) -> SignalHandle {
        self.handle.clone()
    }

    /// Waits until the process was asked to end.
    pub(super) async fn asked_to_end(&self) -> Asked {
        asked_to_end(self.handle.subscribe()).await
    }
}

/// That the process was asked to end, and when.
pub(super) struct Asked {
    counts: watch::Receiver<SignalCounts>,
    /// How often it had been asked by then.
    ends: u64,
    at: Instant,
}

impl Asked {
    /// Waits until the process is asked to end once more, at the soonest `apart` after it was.
    ///
    /// What comes before belongs to the first: some who ask a process and its group ask it twice.
    /// What comes after counts, also if nobody waits for it yet.
    pub(super) async fn again(mut self, apart: Duration) {
        loop {
            self.ends = grown(&mut self.counts, self.ends).await;
            if self.at.elapsed() >= apart {
                return;
            }
        }
    }
}

async fn asked_to_end(mut counts: watch::Receiver<SignalCounts>) -> Asked {
    let ends = grown(&mut counts, 0).await;
    Asked { counts, ends, at: Instant::now() }
}

/// Waits until the process was asked to end more often than `seen` times; returns how often it was.
async fn grown(counts: &mut watch::Receiver<SignalCounts>, seen: u64) -> u64 {
    match counts.wait_for(|counts| counts.ends() > seen).await {
        Ok(counts) => counts.ends(),
        // Nobody will ask any more.
        Err(_) => std::future::pending().await,
    }
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
    use tokio::sync::watch;
    use tokio::time::{Instant, advance, timeout};

    use super::{Asked, asked_to_end};

    const APART: Duration = Duration::from_millis(250);

    /// A process that was asked to end just now, once.
    async fn asked(counts: &watch::Sender<SignalCounts>) -> Asked {
        counts.send_modify(|counts| counts.terminate += 1);
        asked_to_end(counts.subscribe()).await
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_with_the_first_signal_is_no_second_one() {
        let counts = watch::Sender::default();
        let began = Instant::now();
        let again = asked(&counts).await.again(APART);
        tokio::pin!(again);

        let soon = async {
            advance(Duration::from_millis(1)).await;
            counts.send_modify(|counts| counts.terminate += 1);
            advance(Duration::from_millis(100)).await;
            counts.send_modify(|counts| counts.interrupt += 1);
            std::future::pending::<()>().await;
        };
        let soon = timeout(Duration::from_secs(60), async {
            tokio::select! {
                biased;
                () = &mut again => {}
                () = soon => {}
            }
        });
        assert!(soon.await.is_err(), "it counted after {:?}", began.elapsed());

        counts.send_modify(|counts| counts.terminate += 1);
        again.await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_signal_that_comes_before_it_is_waited_for_counts() {
        let counts = watch::Sender::default();
        let asked = asked(&counts).await;
        counts.send_modify(|counts| counts.terminate += 1);

        let again = asked.again(Duration::ZERO);

        timeout(Duration::from_secs(60), again).await.expect("it does not count");
    }

    #[tokio::test(start_paused = true)]
    async fn a_signal_counts_from_the_grace_on() {
        let counts = watch::Sender::default();
        let again = asked(&counts).await.again(APART);
        let later = async {
            tokio::time::sleep(APART).await;
            counts.send_modify(|counts| counts.interrupt += 1);
        };

        let ((), ()) = tokio::join!(again, later);
    }
}
