//! The content of a notification until it is answered.

use crate::kind::context::Notice;

/// The notices of a source to a target that has not answered them.
#[derive(Debug, Default)]
pub(super) struct Unanswered {
    /// The notice that visits of the target got since its last good one.
    delivered: Option<Notice>,
    /// The notice of what the source has done since the last of these visits began.
    later: Option<Notice>,
}

impl Unanswered {
    /// Adds what the source has done.
    pub(super) fn add(&mut self, notice: &Notice) {
        add(&mut self.later, notice);
    }

    /// Returns the notice for a visit of the target that begins now; none if nothing is known.
    pub(super) fn deliver(&mut self) -> Option<Notice> {
        if let Some(later) = self.later.take() {
            add(&mut self.delivered, &later);
        }
        self.delivered.clone()
    }

    /// Forgets the notice that a visit of the target got, because the visit was good.
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
