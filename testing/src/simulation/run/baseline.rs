//! The paths that are well in a run without faults, and must be well again when the faults stop.

use std::time::Duration;

use crate::simulation::judge::Seat;

/// The paths that were well without faults, and the way in which each was.
pub(in crate::simulation) type Baseline = Vec<(String, Was)>;

/// What a worker was like without faults.
#[derive(Debug, Clone, Copy)]
pub(in crate::simulation) enum Was {
    /// Up, in the end for so long, and never done.
    Up(Duration),
    /// Done, or up again after it was.
    Done,
}

impl Was {
    /// What is known of a path, if it is well.
    pub(super) fn of(seat: &Seat, at: Duration) -> Option<Self> {
        match seat.up_for(at) {
            Some(up_for) if !seat.was_done => Some(Self::Up(up_for)),
            Some(_) => Some(Self::Done),
            None => seat.is_done().then_some(Self::Done),
        }
    }

    /// Whether a path is as it was.
    pub(super) fn is_now(self, seat: &Seat) -> bool {
        seat.is_up()
            || match self {
                Self::Done => seat.is_done(),
                // One that ran for longer than it was seen to may be done by then.
                Self::Up(up_for) => seat.is_done() && seat.ran >= up_for,
            }
    }
}
