//! What is told of rules: their tallies, and the health of their worker.

use std::collections::BTreeMap;

use crate::modes::ruling::record::{Dead, Record};
use crate::modes::ruling::{Life, RuleTally, Rules};

/// The most rules in trouble that the health names.
const NAMED: usize = 10;

impl Rules {
    /// Publishes the tallies of the rules, and the health of the worker.
    pub(super) fn tell(&self, lives: &BTreeMap<String, Life>) {
        let tally = |life: &Life| {
            let Record { fired, pending, lost, attempts, dead, .. } = &life.record;
            let given_up = dead.iter().map(|dead| (dead.cause.text(), dead.error.clone()));
            RuleTally {
                is_enabled: life.parameters.is_enabled,
                fired: *fired,
                pending: pending.len(),
                lost: *lost,
                attempts: *attempts,
                given_up: given_up.collect(),
                is_slowed: life.pace.slowed_until().is_some(),
                stands_still: life.stands_still.as_ref().map(|(error, _)| error.clone()),
            }
        };
        let tallies: BTreeMap<_, _> =
            lives.iter().map(|(name, it)| (name.clone(), tally(it))).collect();
        self.tally.send_if_modified(|before| {
            let is_other = *before != tallies;
            *before = tallies;
            is_other
        });
        let told: Vec<_> =
            lives.iter().flat_map(|(name, life)| trouble(name, life)).take(NAMED).collect();
        match told.is_empty() {
            true => self.health.good(),
            false => self.health.degraded(told.join("; ")),
        }
    }
}

/// Returns what is wrong with a rule.
fn trouble(name: &str, life: &Life) -> impl Iterator<Item = String> {
    let still = life.stands_still.as_ref();
    let still = still.map(|(error, _)| format!("rule {name} stands still: {error}"));
    let slowed = life.pace.slowed_until().map(|_| {
        format!("rule {name} acts again and again, as in a loop, and is slowed to once a second")
    });
    let dead = life.record.dead.back().filter(|_| life.record.is_dead);
    let dead = dead.map(|Dead { cause, attempts, error }| {
        let cause = cause.text();
        format!("rule {name} has given up after {attempts} attempts: {cause}: {error}")
    });
    still.into_iter().chain(slowed).chain(dead)
}
