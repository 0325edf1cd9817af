//! The signals that the frame listens for, until the process ends.

use std::time::Duration;

use crankcase_engine::{Stop, Stopper, Worker};
use crankcase_workers::{SignalCounts, SignalHandle, Signals};
use rustix::process::Signal;
use tokio::runtime::Handle;
use tokio::signal::unix::{self, SignalKind};
use tokio::sync::watch;
use tokio::time::Instant;

use super::AgentError;

/// Listens for signals outside of any engine: a second one must be seen while the engine stops.
pub(super) struct Listening {
    handle: SignalHandle,
    asked: watch::Receiver<Asked>,
    stopper: Stopper,
}

/// How often the process was asked to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Asked {
    Never,
    Once,
    Again,
}

impl Listening {
    /// Begins to listen, in a task of this runtime. A second signal counts if it comes `apart` after
    /// the first or later.
    pub(super) fn begin(runtime: &Handle, apart: Duration) -> Result<Self, AgentError> {
        let _runtime = runtime.enter();
        let signals = Signals::new()?;
        // Listened for once, it does not end the process: the write that went too far fails.
        if let Err(error) = unix::signal(SignalKind::from_raw(Signal::XFSZ.as_raw())) {
            tracing::warn!(%error, "cannot listen for SIGXFSZ");
        }
        let handle = signals.handle();
        let (stopper, stop) = Stop::pair();
        let (tell, asked) = watch::channel(Asked::Never);
        drop(runtime.spawn(count(handle.subscribe(), apart, tell)));
        drop(runtime.spawn(async move {
            if let Err(exit) = signals.run(stop).await {
                tracing::error!(error = %exit, "no signal is seen any more");
            }
        }));
        Ok(Self { handle, asked, stopper })
    }

    pub(super) fn handle(&self) -> SignalHandle {
        self.handle.clone()
    }

    /// Waits until the process was asked to end.
    pub(super) async fn asked_to_end(&self) {
        reached(self.asked.clone(), Asked::Once).await;
    }

    /// Waits until the process was asked to end once more.
    pub(super) async fn asked_again(&self) {
        reached(self.asked.clone(), Asked::Again).await;
    }
}

async fn reached(mut asked: watch::Receiver<Asked>, least: Asked) {
    if asked.wait_for(|asked| *asked >= least).await.is_err() {
        // Nobody will ask any more.
        std::future::pending::<()>().await;
    }
}

/// Tells how often the process was asked to end.
///
/// What comes sooner than `apart` after the first belongs to the first: some who ask a process and
/// its group ask it twice. The moments are those at which the signals are seen here, whoever is late
/// to hear of them.
async fn count(
    mut counts: watch::Receiver<SignalCounts>,
    apart: Duration,
    tell: watch::Sender<Asked>,
) {
    let (mut seen, mut first) = (0, None::<Instant>);
    while let Ok(counts) = counts.wait_for(|counts| counts.ends() > seen).await {
        seen = counts.ends();
        drop(counts);
        match first {
            None => {
                first = Some(Instant::now());
                tell.send_replace(Asked::Once);
            }
            Some(first) if first.elapsed() >= apart => {
                tell.send_replace(Asked::Again);
                return;
            }
            Some(_) => {}
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
    use tokio::task::{JoinSet, yield_now};
    use tokio::time::{advance, timeout};

    use super::{Asked, count, reached};

    const APART: Duration = Duration::from_millis(250);

    struct Asking {
        counts: watch::Sender<SignalCounts>,
        asked: watch::Receiver<Asked>,
        _counting: JoinSet<()>,
    }

    impl Asking {
        fn begin(apart: Duration) -> Self {
            let counts = watch::Sender::default();
            let (tell, asked) = watch::channel(Asked::Never);
            let mut counting = JoinSet::new();
            counting.spawn(count(counts.subscribe(), apart, tell));
            Self { counts, asked, _counting: counting }
        }

        fn ask(&self) {
            self.counts.send_modify(|counts| counts.terminate += 1);
        }

        async fn until(&self, least: Asked) {
            let reached = reached(self.asked.clone(), least);
            timeout(Duration::from_secs(60), reached).await.expect("it does not count");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_with_the_first_signal_is_no_second_one() {
        let asking = Asking::begin(APART);
        asking.ask();
        asking.until(Asked::Once).await;
        asking.ask();
        yield_now().await;
        advance(Duration::from_millis(100)).await;
        asking.counts.send_modify(|counts| counts.interrupt += 1);
        yield_now().await;
        advance(APART).await;
        yield_now().await;
        assert_eq!(*asking.asked.borrow(), Asked::Once);

        asking.ask();

        asking.until(Asked::Again).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_second_signal_counts_though_the_first_was_not_waited_for_yet() {
        let asking = Asking::begin(Duration::ZERO);
        asking.ask();
        yield_now().await;
        asking.ask();

        asking.until(Asked::Once).await;
        asking.until(Asked::Again).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_signal_counts_from_the_grace_on() {
        let asking = Asking::begin(APART);
        asking.ask();
        yield_now().await;
        advance(APART).await;

        asking.ask();

        asking.until(Asked::Again).await;
    }
}
