//! The handle that tells how the resources of a site have fared.

use crate::report::tally::Tally;
use crate::schedule::shared::Schedule;

/// Tells how the resources of a site have fared. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Tallies(Schedule);

impl Tallies {
    /// Returns how they have fared up to now.
    pub fn tally(&self) -> Tally {
        self.0.look(|kept| kept.tally())
    }
}

impl Schedule {
    /// Returns what tells how the resources have fared.
    pub fn tallies(&self) -> Tallies {
        Tallies(self.clone())
    }
}
