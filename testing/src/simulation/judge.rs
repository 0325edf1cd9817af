//! Judges what the engines do by their promises, from their events alone: a naive record that knows
//! nothing of how an engine works.

mod bounced;
mod compare;
mod known;
mod next;
mod order;
mod places;
mod rest;
mod seat;
mod status;
mod wave;

use std::collections::HashMap;
use std::time::Duration;

use crankcase_engine::{EventKind, Policy};

pub(super) use bounced::Bounced;
pub(super) use seat::{Need, Phase, Seat};

use super::trace::About;
use known::Known;
use next::{Next, Rest};
use places::Places;

/// The result of judging: the error names the broken promise, and begins with its number.
pub(super) type Judged = Result<(), String>;

macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err(format!($($message)+));
        }
    };
}
use ensure;

#[derive(Default)]
pub(super) struct Judge {
    pub(super) seats: Vec<Seat>,
    places: Places,
    /// Set if the outermost engine was at rest when it was killed.
    pub(super) is_killed_at_rest: bool,
    /// Pairs of a user and its input. The input has ended by itself, and the user must be told at
    /// once.
    owed: Vec<(usize, usize)>,
    /// The policies by which waits are judged, for the paths for which that was demanded.
    pub(super) policies: HashMap<String, Policy>,
    /// How many events there were.
    pub(super) count: u64,
    at: Duration,
    /// The time to which the clock has last jumped.
    jumped_to: Duration,
    /// The paths that are installed and have no worker. May hold paths that have one again.
    idle: Vec<usize>,
    /// The paths that began to stop after the last event, each with the live users it waits for.
    pub(super) closing: Vec<(usize, Vec<usize>)>,
    /// The paths whose worker has ended, and whose next step is not judged yet.
    due: Vec<usize>,
    /// Space for the statuses that a look finds, and for inputs.
    known: Known,
    declared: Vec<(usize, Need)>,
}

impl Judge {
    /// Returns the seat of a path, if something was ever installed there. A path that others only
    /// name, such as that of an input that is never installed, has a seat too.
    pub(super) fn seat(&self, path: &str) -> Option<&Seat> {
        let seat = self.places.find(path).map(|index| &self.seats[index]);
        seat.filter(|seat| seat.was_installed)
    }

    /// Returns the path of a seat, for the trace.
    pub(super) fn path(&self, index: usize) -> &About {
        &self.seats[index].path
    }

    /// Returns the seat of a name in an engine.
    pub(super) fn index_of(&mut self, engine: &str, name: &str) -> usize {
        let engine = self.places.engine(engine);
        self.index_in(engine, name)
    }

    fn index_in(&mut self, engine: usize, name: &str) -> usize {
        if let Some(index) = self.places.seat(engine, name) {
            return index;
        }
        let index = self.seats.len();
        let path = About::new(&[self.places.path(engine), "/", name].concat());
        let policy = self.policies.get(&*path).cloned().map(Box::new);
        self.seats.push(Seat { path, engine, policy, ..Seat::default() });
        self.places.put(engine, name, index);
        index
    }

    fn note_idle(&mut self, index: usize) {
        if !std::mem::replace(&mut self.seats[index].is_listed, true) {
            self.idle.push(index);
        }
    }

    fn is_killed(&self, index: usize) -> bool {
        self.places.is_killed(self.seats[index].engine)
    }

    /// Enters an event of an engine, or of one of its workers, and judges it.
    pub(super) fn event(
        &mut self,
        at: Duration,
        engine: &str,
        worker: Option<usize>,
        kind: &EventKind,
    ) -> Judged {
        if at > self.at {
            // An engine finishes its work of one moment before the clock goes on.
            self.judge_owed()?;
            self.judge_starts()?;
            self.at = at;
        }
        self.count += 1;
        match (kind, worker) {
            (EventKind::Killed, _) => {
                let engine = self.places.engine(engine);
                self.places.kill(engine);
                Ok(())
            }
            (EventKind::Finished, _) => self.finished(engine),
            (_, Some(index)) => self.worker_event(index, kind),
            (_, None) => Ok(()),
        }
    }

    fn worker_event(&mut self, index: usize, kind: &EventKind) -> Judged {
        let says_what_follows = matches!(
            kind,
            EventKind::Waiting { .. } | EventKind::Spent { .. } | EventKind::Lingering
        );
        if !says_what_follows {
            self.judge_next(index)?;
        }
        let seat = &mut self.seats[index];
        seat.turned = self.at;
        match kind {
            EventKind::Installed => {
                (seat.is_installed, seat.was_installed) = (true, true);
                seat.is_parked = false;
                // A path that is installed again counts its workers from the beginning.
                if seat.phase == Phase::Idle {
                    seat.counted = 0;
                }
                self.note_idle(index);
                self.rewired(index);
            }
            EventKind::Replaced => self.rewired(index),
            EventKind::Uninstalled => {
                (seat.is_installed, seat.is_parked) = (false, false);
                self.rewired(index);
            }
            EventKind::Bounced => self.asked(index),
            EventKind::Parked => {
                seat.is_parked = true;
                self.strike(index);
            }
            EventKind::Unparked => {
                (seat.is_parked, seat.freed) = (false, Some(self.at));
                self.soften(index);
            }
            EventKind::Starting { generation } => return self.starting(index, *generation),
            EventKind::Started { generation } => return self.started(index, *generation),
            EventKind::Changed { output } => self.changed(index, output),
            EventKind::InputLost => self.owed.retain(|(user, _)| *user != index),
            EventKind::Stopping => return self.stopping(index),
            EventKind::Aborted => {
                seat.is_aborted = true;
                seat.down((self.count, self.at), true);
                self.owed.retain(|(user, _)| *user != index);
            }
            EventKind::Stuck => seat.is_stuck = true,
            EventKind::Lingering => self.lingers(index),
            EventKind::Gone => (seat.lingers, seat.is_stuck) = (false, false),
            EventKind::Ended { end, error, .. } => return self.ends(index, *end, error.as_deref()),
            EventKind::Waiting { delay, failures } => {
                return self.waiting(index, *delay, *failures);
            }
            EventKind::Spent { .. } => (seat.rest, seat.next) = (Rest::Spent, Next::Whatever),
            _ => {}
        }
        Ok(())
    }

    /// Enters that the clock has jumped: everything that was due meanwhile comes now.
    pub(super) fn jumped(&mut self, to: Duration) {
        self.jumped_to = to;
    }
}

#[cfg(test)]
mod tests;
