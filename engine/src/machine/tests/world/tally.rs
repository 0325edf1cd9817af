//! How often the extras things happened: a schedule that reaches nothing proves nothing.

use crate::machine::Command;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in super::super) struct Tally {
    pub(in super::super) starts: u64,
    pub(in super::super) stops: u64,
    pub(in super::super) losses: u64,
    pub(in super::super) aborts: u64,
    pub(in super::super) stuck: u64,
    /// Ends of workers of which something was left.
    pub(in super::super) lingers: u64,
    pub(in super::super) freed: u64,
    pub(in super::super) kills: u64,
    /// Waves of a single cause that were followed from rest to rest and stopped more than one.
    pub(in super::super) waves: u64,
    /// Changes that were refused because of a cycle.
    pub(in super::super) cycles: u64,
    /// Times that the desired set was compared.
    pub(in super::super) rests: u64,
}

impl Tally {
    pub(super) fn count(&mut self, command: Command) {
        let counter = match command {
            Command::Start(..) => &mut self.starts,
            Command::Stop(..) => &mut self.stops,
            Command::Lose(..) => &mut self.losses,
            Command::Abort(..) => &mut self.aborts,
            Command::Stuck(..) => &mut self.stuck,
            Command::Freed(_) => &mut self.freed,
            Command::Finished => &mut self.kills,
            Command::Arm(..) | Command::Removed(_) => return,
        };
        *counter += 1;
    }

    fn all(&mut self) -> [&mut u64; 11] {
        [
            &mut self.starts,
            &mut self.stops,
            &mut self.losses,
            &mut self.aborts,
            &mut self.stuck,
            &mut self.lingers,
            &mut self.freed,
            &mut self.kills,
            &mut self.waves,
            &mut self.cycles,
            &mut self.rests,
        ]
    }

    pub(in super::super) fn add(&mut self, mut other: Self) {
        for (sum, more) in self.all().into_iter().zip(other.all()) {
            *sum += *more;
        }
    }

    pub(in super::super) fn has_all(mut self) -> bool {
        self.all().into_iter().all(|count| *count > 0)
    }
}
