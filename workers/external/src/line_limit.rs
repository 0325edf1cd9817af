//! The limit on the lines of a watch.

use std::time::Duration;

use tokio::time::Instant;

/// The most lines that a watch may write at once.
pub(crate) const AT_ONCE: u32 = 10_000;

/// The most lines that a watch may then write in each second.
pub(crate) const A_SECOND: u64 = 1_000;

/// How long a line takes to leak.
const LINE: Duration = Duration::from_nanos(1_000_000_000 / A_SECOND);

/// A leaky bucket for the lines of a watch. It has room for [`AT_ONCE`] lines, and
/// [`A_SECOND`] lines leak in each second. A line is only a signal, and costs at most one look.
///
/// Lines that wait in the pipe together have come at one time, however long it takes to read them.
/// So a busy machine does not hide a flood.
#[derive(Debug)]
pub(crate) struct LineLimit {
    /// When the lines have come that are read now.
    now: Instant,
    /// When the bucket is empty if no other line comes.
    empty_at: Instant,
}

impl LineLimit {
    /// Returns a bucket that is empty at `now`.
    pub(crate) fn new(now: Instant) -> Self {
        Self { now, empty_at: now }
    }

    /// Sets the time at which the next lines have come.
    pub(crate) fn set_now(&mut self, now: Instant) {
        self.now = now;
    }

    /// Adds a line. Returns whether the bucket has room for it.
    pub(crate) fn admit(&mut self) -> bool {
        self.empty_at = self.empty_at.max(self.now) + LINE;
        self.empty_at - self.now <= LINE * AT_ONCE
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::LineLimit;

    const SECOND: Duration = Duration::from_secs(1);

    impl LineLimit {
        /// Adds lines at `now`. Returns whether the bucket has room for all of them.
        fn admit_all(&mut self, lines: usize, now: Instant) -> bool {
            self.set_now(now);
            (0..lines).all(|_| self.admit())
        }
    }

    #[test]
    fn ten_thousand_lines_may_come_at_once_at_any_time() {
        let start = Instant::now();
        for millis in [0, 1, 500, 999, 1_000, 1_001, 3_600_000] {
            let now = start + Duration::from_millis(millis);
            let mut limit = LineLimit::new(start);

            assert!(limit.admit_all(10_000, now), "{millis}");
            assert!(!limit.admit(), "{millis}");
        }
    }

    #[test]
    fn a_full_bucket_has_room_for_a_thousand_lines_after_a_second() {
        let start = Instant::now();
        let mut limit = LineLimit::new(start);
        assert!(limit.admit_all(10_000, start));

        assert!(limit.admit_all(1_000, start + SECOND));
        assert!(!limit.admit());
    }

    #[test]
    fn a_full_bucket_has_room_for_one_line_after_a_millisecond() {
        let start = Instant::now();
        let mut limit = LineLimit::new(start);
        assert!(limit.admit_all(10_000, start));

        assert!(limit.admit_all(1, start + SECOND / 1_000));
        assert!(!limit.admit());
    }

    #[test]
    fn a_thousand_lines_a_second_may_come_for_ever() {
        let mut now = Instant::now();
        let mut limit = LineLimit::new(now);
        assert!(limit.admit_all(10_000, now));

        for second in 1..=1_000 {
            now += SECOND;
            assert!(limit.admit_all(1_000, now), "in second {second}");
        }
    }

    #[test]
    fn one_line_more_in_each_second_is_too_much_at_last() {
        let mut now = Instant::now();
        let mut limit = LineLimit::new(now);
        assert!(limit.admit_all(9_000, now));

        for second in 1..=1_000 {
            now += SECOND;
            assert!(limit.admit_all(1_001, now), "in second {second}");
        }
        assert!(!limit.admit_all(1_001, now + SECOND));
    }
}
