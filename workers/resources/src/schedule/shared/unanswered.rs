//! What a notification says until it is answered.

use crate::kind::context::Notice;

/// What a source has said to a target that has not answered it.
#[derive(Debug, Default)]
pub(super) struct Unanswered {
    /// What visits of the target were told since its last good one.
    delivered: Option<Notice>,
    /// What the source has done since the last of these visits began.
    later: Option<Notice>,
}

impl Unanswered {
    /// Adds what the source has done.
    pub(super) fn add(&mut self, notice: &Notice) {
        add(&mut self.later, notice);
    }

    /// Returns what a visit of the target is told that begins now; none if nothing is known.
    pub(super) fn deliver(&mut self) -> Option<Notice> {
        if let Some(later) = self.later.take() {
            add(&mut self.delivered, &later);
        }
        self.delivered.clone()
    }

    /// Forgets what a visit of the target was told, because the visit was good.
    pub(super) fn answer(&mut self) {
        self.delivered = None;
    }
}

fn add(said: &mut Option<Notice>, later: &Notice) {
    match said {
        Some(said) => said.add(later),
        None => *said = Some(later.clone()),
    }
}
