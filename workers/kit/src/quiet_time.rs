//! How long something that changes is left alone before anybody acts on it.

use std::time::Duration;

use tokio::time::Instant;

use crate::file_watch::Writing;
use crate::moment::until;

/// How many times the quiet time something may go on changing before it is acted on anyway.
const PATIENCE: u32 = 20;

/// How long a file is waited for that somebody has written to and not closed.
const OPEN: Duration = Duration::from_secs(5);

/// The longest quiet time.
const LONGEST: Duration = Duration::from_secs(60);

/// The time for which something must have been left alone after a change, before anybody acts on it.
///
/// Editors and other tools write a file in several steps, and what is there in between must not be taken for the new
/// content. The time is over when nothing has changed for as long as it says, or after 20 times that if something
/// changes all the time. A file that somebody has written to and not closed is waited for as well, for at most 5 s.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use std::time::Duration;
///
/// use crankcase_workers::{QuietTime, Writing};
/// use tokio::time::Instant;
///
/// let mut quiet_time = QuietTime::new(Duration::from_millis(500));
/// let began = Instant::now();
/// quiet_time.note(Writing::Closed);
/// quiet_time.over().await;
/// assert_eq!(began.elapsed().as_millis(), 500);
/// # }
/// ```
#[derive(Debug)]
pub struct QuietTime {
    quiet: Duration,
    /// The changes since the time was over last.
    changes: Option<Changes>,
}

#[derive(Debug, Clone, Copy)]
struct Changes {
    first: Instant,
    last: Instant,
    /// Since when a file is open that somebody has written to.
    open_since: Option<Instant>,
}

impl QuietTime {
    /// Returns a quiet time before any change, of at most 60 s.
    pub fn new(quiet: Duration) -> Self {
        Self { quiet: quiet.min(LONGEST), changes: None }
    }

    /// Notes that something has changed now, and whether a file of it is being written.
    pub fn note(&mut self, writing: Writing) {
        let now = Instant::now();
        let nothing = Changes { first: now, last: now, open_since: None };
        let changes = self.changes.get_or_insert(nothing);
        changes.last = now;
        changes.open_since = match writing {
            Writing::Open => changes.open_since.or(Some(now)),
            Writing::Closed => None,
        };
    }

    /// Returns whether something has changed and the time is not over.
    pub fn is_running(&self) -> bool {
        self.changes.is_some()
    }

    /// Waits until the time after a change is over; for ever if nothing changes.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the time goes on.
    pub async fn over(&mut self) {
        until(self.changes.map(|changes| changes.over_at(self.quiet))).await;
        self.changes = None;
    }
}

impl Changes {
    fn over_at(self, quiet: Duration) -> Instant {
        let Self { first, last, open_since } = self;
        let rested = (last + quiet).min(first + quiet * PATIENCE);
        open_since.map_or(rested, |since| rested.max(since + OPEN))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{Instant, advance, timeout};

    use super::QuietTime;
    use crate::file_watch::Writing;

    const QUIET: Duration = Duration::from_millis(500);

    /// Returns when the time is over, in milliseconds from now.
    async fn over(quiet_time: &mut QuietTime) -> u128 {
        let began = Instant::now();
        quiet_time.over().await;
        began.elapsed().as_millis()
    }

    #[tokio::test(start_paused = true)]
    async fn each_change_begins_the_time_anew() {
        let mut quiet_time = QuietTime::new(QUIET);

        quiet_time.note(Writing::Closed);
        advance(Duration::from_millis(400)).await;
        quiet_time.note(Writing::Closed);

        assert!(quiet_time.is_running());
        assert_eq!(over(&mut quiet_time).await, 500);
        assert!(!quiet_time.is_running());
    }

    #[tokio::test(start_paused = true)]
    async fn what_never_rests_is_waited_for_20_times() {
        let mut quiet_time = QuietTime::new(QUIET);

        for _ in 0..24 {
            quiet_time.note(Writing::Closed);
            advance(Duration::from_millis(400)).await;
        }
        quiet_time.note(Writing::Closed);

        assert_eq!(over(&mut quiet_time).await, 400);
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_that_stays_open_is_waited_for_5_s() {
        let mut quiet_time = QuietTime::new(QUIET);

        quiet_time.note(Writing::Open);
        advance(Duration::from_secs(3)).await;
        quiet_time.note(Writing::Open);

        assert_eq!(over(&mut quiet_time).await, 2000);
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_that_is_closed_is_waited_for_as_any_other() {
        let mut quiet_time = QuietTime::new(QUIET);

        quiet_time.note(Writing::Open);
        advance(Duration::from_secs(3)).await;
        quiet_time.note(Writing::Closed);

        assert_eq!(over(&mut quiet_time).await, 500);
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_that_is_dropped_does_not_begin_the_time_anew() {
        let mut quiet_time = QuietTime::new(QUIET);
        quiet_time.note(Writing::Closed);

        let is_over = timeout(Duration::from_millis(300), quiet_time.over()).await.is_ok();

        assert!(!is_over);
        assert_eq!(over(&mut quiet_time).await, 200);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_over_without_a_change() {
        let mut quiet_time = QuietTime::new(QUIET);

        assert!(timeout(Duration::from_secs(3600), quiet_time.over()).await.is_err());
    }
}
