//! The paths that are well in a run without faults, and must be well again when the faults stop.

use std::time::Duration;

use crate::simulation::judge::Seat;

/// The paths that were well without faults, each with the way in which it was well.
pub(in crate::simulation) type Baseline = Vec<(String, Was)>;

/// The state of a worker without faults.
#[derive(Debug, Clone, Copy)]
pub(in crate::simulation) enum Was {
    /// Up at the end, for this long, and never done.
    Up(Duration),
    /// Done, or up again after it was done.
    Done,
}

impl Was {
    /// Returns the state of a path, if it is well.
    pub(super) fn of(seat: &Seat, at: Duration) -> Option<Self> {
        match seat.up_for(at) {
            Some(up_for) if !seat.was_done => Some(Self::Up(up_for)),
            Some(_) => Some(Self::Done),
            None => seat.is_done().then_some(Self::Done),
        }
    }

    /// Returns whether a path is as it was.
    pub(super) fn is_now(self, seat: &Seat) -> bool {
        seat.is_up()
            || match self {
                Self::Done => seat.is_done(),
                // A worker that has run for longer than without faults may be done by then.
                Self::Up(up_for) => seat.is_done() && seat.ran >= up_for,
            }
    }
}
