//! The bound on looks that watches cause and that come to nothing.

use std::time::Duration;

use tokio::time::Instant;

/// In the long run, one second in this many is spent on looks that come to nothing.
const SHARE: u32 = 10;

/// The least cost of such a look: the users of the state look too.
const LEAST: Duration = Duration::from_millis(10);

/// How much may be spent at once after a rest.
const BURST: Duration = Duration::from_secs(1);

/// Bounds the looks that watches cause and that find nothing to do, so that a file that is written
/// all the time is not read all the time.
///
/// This is the generic cell rate algorithm (ITU-T I.371) with the time that a look takes for cells.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// The time at which everything that was spent will have been earned.
    earned: Option<Instant>,
}

impl Pace {
    /// Counts a look that took so long and came to nothing.
    pub(crate) fn spend(&mut self, took: Duration) {
        let now = Instant::now();
        let from = self.earned.map_or(now, |earned| earned.max(now));
        let earns = took.max(LEAST).saturating_mul(SHARE);
        self.earned = from.checked_add(earns).or(self.earned);
    }

    /// Waits until there may be another look.
    pub(crate) async fn rest(&self) {
        let Some(next) = self.earned.and_then(|earned| earned.checked_sub(BURST * SHARE)) else {
            return;
        };
        // Boxed, as few resources ever rest.
        Box::pin(tokio::time::sleep_until(next)).await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{Instant, advance};

    use super::Pace;

    /// Returns how long there is a rest.
    async fn rest(pace: &Pace) -> Duration {
        let began = Instant::now();
        pace.rest().await;
        began.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_hundred_short_looks_are_free_and_then_ten_a_second() {
        let mut pace = Pace::default();

        for look in 0..100 {
            assert_eq!(rest(&pace).await, Duration::ZERO, "{look}");
            pace.spend(Duration::from_micros(50));
        }
        assert_eq!(rest(&pace).await, Duration::ZERO);
        for _ in 0..3 {
            pace.spend(Duration::ZERO);
            assert_eq!(rest(&pace).await, Duration::from_millis(100));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_look_is_followed_by_a_rest_of_nine_parts() {
        let mut pace = Pace::default();
        for _ in 0..3 {
            pace.spend(Duration::from_secs(1));
            advance(Duration::from_secs(1)).await;
            pace.rest().await;
        }

        pace.spend(Duration::from_secs(7));

        assert_eq!(rest(&pace).await, Duration::from_secs(70));
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_not_used_is_saved_up_for_a_second_only() {
        let mut pace = Pace::default();
        pace.spend(Duration::from_secs(1));
        advance(Duration::from_secs(1_000)).await;

        pace.spend(Duration::from_secs(3));

        assert_eq!(rest(&pace).await, Duration::from_secs(20));
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_without_an_end_is_no_overflow() {
        let mut pace = Pace::default();

        pace.spend(Duration::MAX);

        assert_eq!(rest(&pace).await, Duration::ZERO);
    }
}
