//! Judges what the engines do by their promises, from their events alone: a naive record that knows
//! nothing of how an engine works.

mod compare;
mod order;
mod rest;
mod seat;
mod status;
mod wave;

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use crankcase_engine::{Event, EventKind, Policy, WrappedInput};

pub(super) use seat::{Need, Phase, Seat};

use rest::{Next, Rest};
use status::Known;

/// What went against a promise; it begins with the promise's number.
pub(super) type Judged = Result<(), String>;

macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err(format!($($message)+));
        }
    };
}
use ensure;

/// What tokio panics with where a runtime has no driver of real input and output.
const NO_IO: &str = "A Tokio 1.x context was found, but IO is disabled";

/// What was seen in the workers' tasks.
#[derive(Clone, Copy)]
pub(super) enum Seen<'a> {
    /// A worker's start is about to be called.
    Begun { path: &'a str, generation: u32, inputs: &'a [WrappedInput<'a>] },
    /// It is while another worker of the same path lives.
    Twice { path: &'a str, other: u32, generation: u32 },
}

#[derive(Default)]
pub(super) struct Judge {
    pub(super) seats: Vec<Seat>,
    index: HashMap<String, usize, foldhash::fast::FixedState>,
    killed: BTreeMap<String, bool>,
    /// The outermost engine was at rest when it was killed.
    pub(super) is_killed_at_rest: bool,
    /// Users whose input has ended by itself, and who must be told at once: user and input.
    owed: Vec<(usize, usize)>,
    /// By which waits are judged, where that was demanded.
    pub(super) policies: HashMap<String, Policy, foldhash::fast::FixedState>,
    /// How many events there were.
    pub(super) count: u64,
    at: Duration,
    /// Where the clock has jumped to last.
    jumped_to: Duration,
    /// Who has no worker, and some who got one at this moment.
    idle: Vec<usize>,
    /// Whose worker has ended, and of whom it is not yet judged what must follow.
    due: Vec<usize>,
    /// Room for what a look at the statuses finds, for inputs, and for a path.
    known: Known,
    declared: Vec<(usize, Need)>,
    joined: String,
}

/// Writes the path of an engine's worker, or the engine's own.
pub(super) fn join(path: &mut String, engine: &str, worker: Option<&str>) {
    path.clear();
    path.push_str(engine);
    if engine.is_empty() || worker.is_some() {
        path.push('/');
    }
    path.push_str(worker.unwrap_or_default());
}

impl Judge {
    /// Returns what is known of a path.
    pub(super) fn seat(&self, path: &str) -> Option<&Seat> {
        self.index.get(path).map(|index| &self.seats[*index])
    }

    fn index_of(&mut self, path: &str) -> usize {
        if let Some(index) = self.index.get(path) {
            return *index;
        }
        let index = self.seats.len();
        let engine = path.rsplit_once('/').map_or("", |(engine, _)| engine);
        let seat = Seat { path: path.to_owned(), engine: engine.to_owned(), ..Seat::default() };
        self.seats.push(seat);
        self.note_idle(index);
        self.index.insert(path.to_owned(), index);
        index
    }

    fn note_idle(&mut self, index: usize) {
        if !std::mem::replace(&mut self.seats[index].is_listed, true) {
            self.idle.push(index);
        }
    }

    fn is_killed(&self, index: usize) -> bool {
        !self.killed.is_empty()
            && self.killed.get(&self.seats[index].engine).is_some_and(|killed| *killed)
    }

    /// Enters an event and judges it.
    pub(super) fn event(&mut self, at: Duration, event: &Event, path: &str) -> Judged {
        if at > self.at {
            // All that an engine does at one moment is done before the clock goes on.
            self.judge_owed()?;
            self.judge_starts()?;
            self.at = at;
        }
        self.count += 1;
        match event.kind {
            EventKind::Killed => {
                self.killed.insert(path.trim_end_matches('/').to_owned(), true);
                return Ok(());
            }
            EventKind::Finished => return self.finished(path.trim_end_matches('/')),
            _ => {}
        }
        let index = self.index_of(path);
        self.worker_event(index, &event.kind)
    }

    fn worker_event(&mut self, index: usize, kind: &EventKind) -> Judged {
        if !matches!(kind, EventKind::Waiting { .. } | EventKind::Spent { .. }) {
            self.judge_next(index)?;
        }
        let seat = &mut self.seats[index];
        seat.turned = self.at;
        match kind {
            EventKind::Installed => {
                seat.is_installed = true;
                seat.is_parked = false;
                // An engine that is nested anew begins to count anew.
                if seat.phase == Phase::Idle {
                    seat.generation = 0;
                }
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
                seat.down(self.count, true);
                self.owed.retain(|(user, _)| *user != index);
            }
            EventKind::Stuck => seat.is_stuck = true,
            EventKind::Ended { end, error, .. } => {
                let path = &seat.path;
                ensure!(
                    error.as_ref().is_none_or(|error| !error.contains(NO_IO)),
                    "{path} asks tokio for real input and output, of which a simulation has none: \
                     put a stub in its place"
                );
                self.ended(index, *end);
            }
            EventKind::Waiting { delay, failures } => {
                return self.waiting(index, *delay, *failures);
            }
            EventKind::Spent { .. } => (seat.rest, seat.next) = (Rest::Spent, Next::Whatever),
            _ => {}
        }
        Ok(())
    }

    /// Enters what was seen in a worker's task, after the events that led to it.
    pub(super) fn seen(&mut self, seen: Seen<'_>) -> Judged {
        match seen {
            Seen::Twice { path, other, generation } => Err(format!(
                "P1: {path} has two workers at once: generation {generation} begins while \
                 generation {other} lives"
            )),
            Seen::Begun { path, generation, inputs } => self.begun(path, generation, inputs),
        }
    }

    /// Enters that the clock has jumped: what was due meanwhile comes now.
    pub(super) fn jumped(&mut self, to: Duration) {
        self.jumped_to = to;
    }
}
