//! How often one kind of question is asked, so that it does not keep the agent busy.

use std::time::Duration;

use tokio::time::Instant;

/// How long after an answer nothing of the kind is asked: so an agent is asked a few times a second at most.
const GAP: Duration = Duration::from_millis(300);

/// How many times longer than an answer took nothing of the kind is asked: so an agent with very many workers is
/// not kept busy with answers.
const REST: u32 = 4;

/// How often one kind of question is asked.
#[derive(Debug, Default)]
pub(super) struct Pace {
    asked: Option<Instant>,
    not_before: Option<Instant>,
}

impl Pace {
    /// Returns whether the question may be asked now.
    pub(super) fn is_ready(&self, now: Instant) -> bool {
        self.asked.is_none() && self.not_before.is_none_or(|not_before| now >= not_before)
    }

    /// Returns whether an answer is waited for.
    pub(super) fn is_asked(&self) -> bool {
        self.asked.is_some()
    }

    pub(super) fn ask(&mut self, now: Instant) {
        self.asked = Some(now);
    }

    /// Takes note that the answer has come.
    pub(super) fn answered(&mut self, now: Instant) {
        let took = self.asked.take().map_or(Duration::ZERO, |asked| now - asked);
        self.not_before = Some(now + GAP.max(took * REST));
    }

    /// Returns when the question may be asked, if that is yet to come.
    pub(super) fn due(&self, now: Instant) -> Option<Instant> {
        self.not_before.filter(|not_before| self.asked.is_none() && *not_before > now)
    }

    /// Returns for how long an answer has been waited for.
    pub(super) fn waits(&self, now: Instant) -> Duration {
        self.asked.map_or(Duration::ZERO, |asked| now - asked)
    }
}
