//! Waves with a single cause, watched from rest to rest.

use std::collections::BTreeSet;

use super::{Checked, World, ensure};
use crate::machine::{Machine, NodeId, Trial};

/// What one bounce has done since it was asked for, at rest.
#[derive(Debug, Clone, Default, Hash)]
pub(in super::super) struct Wave {
    /// Nothing else has been a cause since.
    is_pure: bool,
    preview: BTreeSet<usize>,
    stopped: BTreeSet<usize>,
    started: BTreeSet<usize>,
    pub(super) delays: u32,
}

impl Wave {
    pub(super) fn spoil(&mut self) {
        self.is_pure = false;
    }

    pub(super) fn stopped(&mut self, place: usize) {
        if self.is_pure {
            self.stopped.insert(place);
        }
    }

    pub(super) fn started(&mut self, place: usize) -> Checked {
        if self.is_pure {
            let is_new = self.started.insert(place);
            ensure!(is_new, "P4: {place} started twice in one wave");
        }
        Ok(())
    }
}

impl World {
    /// Begins to watch a wave, if nothing else is under way.
    pub(super) fn expect_wave(&mut self, place: usize, change: impl FnOnce(&mut Machine, NodeId)) {
        self.wave = Wave::default();
        if self.is_killed || !self.is_at_rest() || !self.machine.is_settled() {
            return;
        }
        let Some(id) = self.seats[place].id else { return };
        let Trial { bounced, stopped } = self.machine.try_out(|machine| change(machine, id));
        self.wave.is_pure = true;
        let preview = bounced.iter().chain(&stopped);
        self.wave.preview = preview.map(|id| self.places[id.index()]).collect();
    }

    /// Judges a wave that has come to rest.
    pub(super) fn check_wave(&mut self) -> Checked {
        let wave = std::mem::take(&mut self.wave);
        if !wave.is_pure {
            return Ok(());
        }
        ensure!(
            wave.stopped == wave.preview,
            "P7: the preview says {:?}, stopped were {:?}",
            wave.preview,
            wave.stopped
        );
        self.tally.waves += u64::from(wave.stopped.len() > 1);
        ensure!(wave.delays <= 1, "P4: {} delays in a wave of one root", wave.delays);
        Ok(())
    }
}
