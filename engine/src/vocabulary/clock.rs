//! The clocks of an engine.

use std::fmt;
use std::time::{Duration, SystemTime};

use serde::{Serialize, Serializer};
use tokio::time::Instant;

/// Nanoseconds since the engine began, plus one: never zero.
pub(crate) type Stamp = u64;

/// Converts a duration since the engine began. Saturates after 584 years.
pub(crate) fn stamp(duration: Duration) -> Stamp {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX - 1) + 1
}

/// A moment by the wall clock, as nanoseconds since 1970 in UTC. Saturates at 1970 and in the year
/// 2554.
///
/// It is a number, because every iteration of the loop stores one with its events. A [`SystemTime`]
/// holds two numbers: to calculate with it and to move it costs several times as much.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wall(u64);

impl Wall {
    /// Reads the wall clock. This happens once for each tree of engines.
    #[expect(clippy::disallowed_methods, reason = "the one place where the wall clock comes in")]
    pub(crate) fn now() -> Self {
        Self::from(SystemTime::now())
    }

    /// Returns the moment of a stamp, for an engine that began at `self`.
    pub(crate) fn at(self, stamp: Stamp) -> Self {
        Self(self.0.saturating_add(stamp.saturating_sub(1)))
    }
}

impl From<SystemTime> for Wall {
    fn from(time: SystemTime) -> Self {
        let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Wall> for Timestamp {
    fn from(wall: Wall) -> Self {
        Self(SystemTime::UNIX_EPOCH + Duration::from_nanos(wall.0))
    }
}

/// A moment in UTC, written as RFC 3339 with milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(pub SystemTime);

impl Timestamp {
    /// Returns the moment as RFC 3339 with microseconds.
    pub fn micros(self) -> impl fmt::Display {
        humantime::format_rfc3339_micros(self.0)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        humantime::format_rfc3339_millis(self.0).fmt(f)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// When an engine began, by both clocks. Wall times are counted from it by tokio's clock, so they
/// stand still while tokio's clock is paused.
pub(crate) struct Clock {
    pub(crate) began: Instant,
    pub(crate) wall: Wall,
}

impl Clock {
    /// Returns a clock that begins now. It agrees with the clock of the engine around, if there is one.
    pub(crate) fn new(around: Option<&Self>) -> Self {
        let began = Instant::now();
        Self { began, wall: around.map_or_else(Wall::now, |around| around.at(began)) }
    }

    fn at(&self, moment: Instant) -> Wall {
        self.wall.at(stamp(moment.saturating_duration_since(self.began)))
    }

    pub(crate) fn now(&self) -> Wall {
        self.at(Instant::now())
    }
}

/// Whether the clock of the current runtime stands still, as a paused one does. A clock that runs
/// moves whenever the system's clock does.
#[expect(clippy::disallowed_types, reason = "the clock to compare with")]
pub(crate) fn is_paused() -> bool {
    let clock = Instant::now();
    let system = std::time::Instant::now();
    while system.elapsed().is_zero() {}
    clock.elapsed().is_zero()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_of_a_nested_engine_agrees_with_the_one_around() {
        let outer = Clock::new(None);
        // As if the system's clock was set in between.
        let outer = Clock { began: outer.began, wall: SystemTime::UNIX_EPOCH.into() };
        let inner = Clock::new(Some(&outer));

        let moment = Instant::now() + Duration::from_secs(7);

        assert_eq!(Timestamp::from(inner.at(moment)), Timestamp::from(outer.at(moment)));
    }

    #[test]
    fn a_stamp_is_the_moment_that_it_stands_for() {
        let second = Duration::from_secs(1);
        let began = SystemTime::UNIX_EPOCH + 1_800_000_000 * second + Duration::from_nanos(7);

        let moments = [Duration::ZERO, second, 3_600 * second]
            .map(|later| (Timestamp::from(Wall::from(began).at(stamp(later))), began + later));

        for (moment, expected) in moments {
            assert_eq!(moment, Timestamp(expected));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_paused_clock_is_known_from_one_that_runs() {
        let before = is_paused();
        tokio::time::resume();

        assert!(before && !is_paused());
    }

    #[test]
    fn a_clock_that_is_far_off_is_as_near_as_can_be() {
        let moment = |time: SystemTime, later| Timestamp::from(Wall::from(time).at(stamp(later))).0;
        let century = Duration::from_secs(100 * 365 * 24 * 3_600);
        let last = SystemTime::UNIX_EPOCH + Duration::from_nanos(u64::MAX);

        assert_eq!(
            moment(SystemTime::UNIX_EPOCH - century, Duration::ZERO),
            SystemTime::UNIX_EPOCH
        );
        assert_eq!(moment(last, century), last);
        assert_eq!(moment(SystemTime::UNIX_EPOCH + 10 * century, Duration::MAX), last);
    }
}
