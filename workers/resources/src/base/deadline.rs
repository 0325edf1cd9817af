//! The time limit of a look or an action, told by the same stop as the end of the run.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use crankcase_engine::{Stop, Stopper};
use tokio::time::Instant;

/// The time that a look or an action may take. Work that takes longer is told to stop, by the same
/// stop that tells it of the end of the run.
#[derive(Debug)]
pub(crate) struct Deadline<'a> {
    run: &'a Stop,
    began: Instant,
    /// The limit, and the stop that the work gets instead of the run's; none without a limit.
    limited: Option<(Duration, Stopper, Stop)>,
}

impl<'a> Deadline<'a> {
    pub(crate) fn new(limit: Option<Duration>, run: &'a Stop) -> Self {
        let limited = limit.map(|limit| {
            let (stopper, stop) = Stop::pair();
            (limit, stopper, stop)
        });
        Self { run, began: Instant::now(), limited }
    }

    /// Returns when the time is over; none without a limit.
    pub(crate) fn at(&self) -> Option<Instant> {
        self.limited.as_ref().and_then(|(limit, ..)| self.began.checked_add(*limit))
    }

    /// Returns the stop that the work gets.
    pub(crate) fn stop(&self) -> &Stop {
        self.limited.as_ref().map_or(self.run, |(_, _, stop)| stop)
    }

    /// Does the work to its end. Tells it to stop when the run ends, or when its time is over. Also
    /// returns whether its time was over.
    pub(crate) async fn tell<F: Future>(&self, doing: F) -> (F::Output, bool) {
        let Some((limit, stopper, _)) = &self.limited else { return (doing.await, false) };
        let mut doing = pin!(doing);
        let is_late = tokio::select! {
            biased;
            done = &mut doing => return (done, false),
            () = self.run.wait() => false,
            () = tokio::time::sleep(*limit) => true,
        };
        stopper.stop();
        (doing.await, is_late)
    }
}

/// Says that something took too long, and what it said when it was told to stop.
pub(crate) fn too_late(limit: Option<Duration>, said: &str) -> String {
    let limit = humantime::format_duration(limit.unwrap_or_default());
    format!("it took longer than its timeout of {limit} and was told to stop: {said}")
}
