//! How often a rule may change facts and notify resources.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

/// A rule that has done `BURST` things within `WITHIN` may be part of a loop: it does further things `APART`.
const BURST: usize = 10;
const WITHIN: Duration = Duration::from_secs(10);
const APART: Duration = Duration::from_secs(1);

/// What one rule has done lately.
#[derive(Debug, Default)]
pub(crate) struct Pace(Mutex<VecDeque<Instant>>);

impl Pace {
    /// Waits until the rule may do one more thing, and counts it. Cancel safe: what is not done does not count.
    pub(crate) async fn turn(&self) {
        while let Some(at) = self.next() {
            sleep_until(at).await;
        }
    }

    /// Counts one more thing, or returns when the rule may do it.
    fn next(&self) -> Option<Instant> {
        let (mut lately, now) = (self.0.lock(), Instant::now());
        lately.retain(|at| now.duration_since(*at) < WITHIN);
        let next = lately.back().filter(|_| lately.len() >= BURST).map(|last| *last + APART);
        let next = next.filter(|next| *next > now);
        if next.is_none() {
            lately.push_back(now);
        }
        next
    }

    /// Returns until when the rule is slowed, if it does nothing more; none if it is not slowed.
    pub(crate) fn slowed_until(&self) -> Option<Instant> {
        let (lately, now) = (self.0.lock(), Instant::now());
        let ends = *lately.get(lately.len().checked_sub(BURST)?)? + WITHIN;
        (ends > now).then_some(ends)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{Instant, sleep};

    use super::Pace;

    #[tokio::test(start_paused = true)]
    async fn after_ten_in_ten_seconds_there_is_one_a_second() {
        let (pace, began) = (Pace::default(), Instant::now());
        let mut turns = Vec::new();
        for _ in 0..15 {
            pace.turn().await;
            turns.push(began.elapsed().as_secs());
        }
        assert_eq!(turns, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5]);
        assert!(pace.slowed_until().is_some());

        sleep(Duration::from_secs(10)).await;

        assert_eq!(pace.slowed_until(), None);
        let began = Instant::now();
        for _ in 0..10 {
            pace.turn().await;
        }
        assert_eq!(began.elapsed(), Duration::ZERO);
    }
}
