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
    pub(super) async fn asked_to_end(&self) {
        if self.handle.next_end(0).await.is_err() {
            // Nobody will ask any more.
            std::future::pending::<()>().await;
        }
    }

    /// Waits until the process is asked to end once more, at the soonest this long after the call.
    pub(super) fn asked_again(&self, apart: Duration) -> impl Future<Output = ()> + use<> {
        grown_again(self.handle.subscribe(), apart)
    }
}

/// Waits until another signal asks for the end, at the soonest `apart` after the call.
///
/// What comes before belongs to the first: some who ask a process and its group ask it twice. It
/// counts from the call on, not from when it is first waited for.
fn grown_again(
    mut counts: watch::Receiver<SignalCounts>,
    apart: Duration,
) -> impl Future<Output = ()> {
    let began = Instant::now();
    let mut seen = counts.borrow_and_update().ends();
    async move {
        loop {
            match counts.wait_for(|counts| counts.ends() > seen).await {
                Ok(counts) => seen = counts.ends(),
                // Nobody will ask any more.
                Err(_) => std::future::pending().await,
            }
            if began.elapsed() >= apart {
                return;
            }
        }
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

    use super::grown_again;

    const APART: Duration = Duration::from_millis(250);

    #[tokio::test(start_paused = true)]
    async fn what_comes_with_the_first_signal_is_no_second_one() {
        let counts = watch::Sender::new(SignalCounts { terminate: 1, ..SignalCounts::default() });
        let began = Instant::now();
        let asked = grown_again(counts.subscribe(), APART);
        tokio::pin!(asked);

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
                () = &mut asked => {}
                () = soon => {}
            }
        });
        assert!(soon.await.is_err(), "it counted after {:?}", began.elapsed());

        counts.send_modify(|counts| counts.terminate += 1);
        asked.await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_signal_that_comes_before_it_is_waited_for_counts() {
        let counts = watch::Sender::new(SignalCounts { terminate: 1, ..SignalCounts::default() });
        let asked = grown_again(counts.subscribe(), Duration::ZERO);

        counts.send_modify(|counts| counts.terminate += 1);

        timeout(Duration::from_secs(60), asked).await.expect("it does not count");
    }

    #[tokio::test(start_paused = true)]
    async fn a_signal_counts_from_the_grace_on() {
        let counts = watch::Sender::new(SignalCounts { interrupt: 1, ..SignalCounts::default() });
        let asked = grown_again(counts.subscribe(), APART);
        let later = async {
            tokio::time::sleep(APART).await;
            counts.send_modify(|counts| counts.interrupt += 1);
        };

        let ((), ()) = tokio::join!(asked, later);
    }
}
