//! When the live view is drawn, at most ten times a second.

use std::time::Duration;

use tokio::time::Instant;

/// How soon after a drawing the next one may follow.
const FRAME: Duration = Duration::from_millis(100);

/// How long after a drawing it is drawn again although nothing has happened, because ages have changed.
const AGES: Duration = Duration::from_secs(1);

/// When it is drawn.
#[derive(Debug, Default)]
pub(super) struct Frames {
    drawn: Option<Instant>,
    is_changed: bool,
}

impl Frames {
    /// Takes note that something is to be drawn.
    pub(super) fn change(&mut self) {
        self.is_changed = true;
    }

    /// Returns whether it is to be drawn now, and takes note that it is.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        let is_due = self.next(now) <= now;
        if is_due {
            (self.drawn, self.is_changed) = (Some(now), false);
        }
        is_due
    }

    /// Returns when it is to be drawn next, if nothing happens before.
    pub(super) fn next(&self, now: Instant) -> Instant {
        let after = if self.is_changed { FRAME } else { AGES };
        self.drawn.map_or(now, |drawn| drawn + after)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::Frames;

    #[test]
    fn it_is_drawn_ten_times_a_second_at_most_and_once_if_nothing_happens() {
        let start = Instant::now();
        let milliseconds = |count| start + Duration::from_millis(count);
        let (mut busy, mut idle) = (Frames::default(), Frames::default());

        let drawn = |frames: &mut Frames, is_busy: bool| {
            let moments = (0..2_000).filter(|moment| {
                if is_busy {
                    frames.change();
                }
                frames.take(milliseconds(*moment))
            });
            moments.collect::<Vec<_>>()
        };
        assert_eq!(drawn(&mut busy, true), (0..20).map(|frame| frame * 100).collect::<Vec<_>>());
        assert_eq!(drawn(&mut idle, false), [0, 1_000]);
        assert_eq!(idle.next(milliseconds(1_500)), milliseconds(2_000));
        idle.change();
        assert_eq!(idle.next(milliseconds(1_500)), milliseconds(1_100));
    }
}
