//! A world for the machine: it plays the driver and all workers, keeps its own naive record of
//! both, and judges every command by the promises. It never looks inside the machine.

mod commands;
mod cycles;
mod events;
mod judge;
mod model;
mod tally;
mod wave;

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

pub(super) use cycles::find_cycle;
pub(super) use tally::Tally;
pub(super) use wave::Wave;

use crate::machine::ends::{End, Left};
use crate::machine::{
    Command, Edge, EndKind, Generation, Machine, Need, NodeId, Port, Rest, Scope, Status, Step,
    Token,
};
use crate::vocabulary::backoff::{Backoff, Intensity};
use crate::vocabulary::policy::Policy;

/// What went against a promise; it begins with the promise's number.
pub(super) type Checked = Result<(), String>;

macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err(format!($($message)+));
        }
    };
}
pub(super) use ensure;

/// How many outputs every worker offers.
pub(super) const PORTS: u32 = 2;

/// One declared input, by the place of the name it leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Arrow {
    pub(super) to: usize,
    pub(super) need: Need,
    pub(super) port: u32,
}

/// Returns an input of the first port.
pub(super) fn arrow(to: usize, need: Need) -> Arrow {
    Arrow { to, need, port: 0 }
}

/// Everything that can happen to the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Event {
    Started(usize),
    /// A worker ends, having run for this long.
    Ended(usize, EndKind, Duration),
    /// A worker ends in the same way, and something of it is left; with a grace of its own or not.
    Lingers(usize, EndKind, Duration, Option<Duration>),
    /// Nothing is left any more of a worker that has ended.
    Gone(usize),
    Changed(usize, u32),
    Fire(usize),
    /// A timer fires that was taken back.
    FireOld(usize, Token),
    /// News of a worker that is long gone arrives.
    EndedOld(usize),
    Install(usize, Arc<[Arrow]>),
    Uninstall(usize),
    Bounce(usize),
    Park(usize),
    Unpark(usize),
    Pin(usize),
    Unpin(usize),
    /// Asks whether changes would make a cycle.
    Check(Arc<[cycles::Change]>),
    BeginGroup,
    EndGroup,
    Kill,
}

/// An input that a worker was started with, or without.
#[derive(Debug, Clone, Copy)]
pub(super) struct Held {
    pub(super) arrow: Arrow,
    /// The generation and the version of the value; none for one that was not there.
    pub(super) value: Option<(Generation, u32)>,
}

#[derive(Debug, Clone)]
pub(super) struct Worker {
    pub(super) generation: Generation,
    pub(super) inputs: Vec<Held>,
    pub(super) is_running: bool,
    /// It is to stop, as the rules have it.
    pub(super) is_marked: bool,
    pub(super) is_root: bool,
    /// The kill marked it, nothing before.
    pub(super) is_swept: bool,
    pub(super) is_obsolete: bool,
    pub(super) is_told: bool,
    pub(super) is_overdue: bool,
    pub(super) must_abort: bool,
    pub(super) is_aborted: bool,
    pub(super) must_stick: bool,
    pub(super) is_stuck: bool,
    /// It has ended, and something of it is left.
    pub(super) has_ended: bool,
    /// How long the graces of what is left are, if it has one of its own.
    pub(super) own_grace: Option<Duration>,
}

/// What the world knows of one name.
#[derive(Debug, Clone, Default)]
pub(super) struct Seat {
    pub(super) id: Option<NodeId>,
    pub(super) arrows: Option<Arc<[Arrow]>>,
    pub(super) worker: Option<Worker>,
    pub(super) rest: Rest,
    /// When a bounce delay or a backoff began, and how long it is.
    pub(super) wait: (Duration, Duration),
    pub(super) is_parked: bool,
    pub(super) pins: u32,
    pub(super) failures: u32,
    pub(super) recent: Vec<Duration>,
    pub(super) versions: [u32; PORTS as usize],
    pub(super) generation: Generation,
    pub(super) token: Option<Token>,
    pub(super) old_token: Option<Token>,
    pub(super) removals: u32,
    pub(super) starts: u64,
    pub(super) causes: u64,
}

#[derive(Debug, Clone)]
pub(super) enum Entry {
    Event(Event),
    Command(Command),
}

impl Entry {
    pub(super) fn line(&self) -> String {
        match self {
            Self::Event(event) => format!("{event:?}"),
            Self::Command(command) => format!("    {command:?}"),
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct World {
    pub(super) machine: Machine,
    pub(super) policy: Arc<Policy>,
    pub(super) seats: Vec<Seat>,
    /// Which seat an id belongs to.
    pub(super) places: Vec<usize>,
    pub(super) statuses: Vec<Status>,
    pub(super) losses: BTreeSet<(usize, Generation)>,
    pub(super) groups: u32,
    /// Someone waits for the changes of every other name.
    pub(super) has_callers: bool,
    pub(super) is_killed: bool,
    pub(super) is_finished: bool,
    pub(super) now: Duration,
    pub(super) wave: Wave,
    pub(super) steps: u64,
    pub(super) tally: Tally,
    pub(super) digest: u64,
    /// The last things that happened, if they are kept.
    pub(super) trace: Option<Vec<Entry>>,
}

/// The policy of every world: all waits differ, so that each can be told by its length.
pub(super) fn policy() -> Policy {
    Policy {
        backoff: Backoff {
            initial: Duration::from_millis(1_000),
            factor: 3.0,
            max: Duration::from_millis(50_000),
            jitter: 0.0,
            reset_after: Duration::from_secs(60),
        },
        bounce_delay: Duration::from_millis(11),
        start_timeout: Duration::from_millis(300_001),
        grace: Duration::from_millis(30_002),
        abort_grace: Duration::from_millis(1_003),
        report_deadline: Duration::from_secs(1),
        max_bounce_delay: None,
        intensity: None,
    }
}

/// As [`policy`], with an intensity that short crash loops exceed.
pub(super) fn strict_policy() -> Policy {
    let intensity = Intensity { failures: 3, within: Duration::from_secs(40) };
    Policy { intensity: Some(intensity), ..policy() }
}

impl World {
    pub(super) fn new(seats: usize, policy: Policy, seed: u64) -> Self {
        let policy = Arc::new(policy);
        Self {
            machine: Machine::new(Arc::clone(&policy), seed),
            policy,
            seats: vec![Seat::default(); seats],
            places: Vec::new(),
            statuses: vec![Status::Down; seats],
            losses: BTreeSet::new(),
            groups: 0,
            has_callers: false,
            is_killed: false,
            is_finished: false,
            now: Duration::ZERO,
            wave: Wave::default(),
            steps: 0,
            tally: Tally::default(),
            digest: 0,
            trace: None,
        }
    }

    /// Tells the machine what happened, lets it do all it wants to, and judges that.
    pub(super) fn apply(&mut self, event: &Event) -> Checked {
        self.apply_to(Scope::All, event)?;
        self.check_idle()
    }

    /// Tells the machine what happened, and lets it do what is within a scope.
    pub(super) fn apply_to(&mut self, scope: Scope, event: &Event) -> Checked {
        self.note(Entry::Event(event.clone()));
        self.steps += 1;
        let was_up = self.up_set();
        self.happen(event)?;
        self.follow(&was_up);
        self.drain(scope)
    }

    /// Lets the machine do all that it has to.
    pub(super) fn settle(&mut self) -> Checked {
        self.drain(Scope::All)?;
        self.check_idle()
    }

    pub(super) fn apply_all(&mut self, events: &[Event]) -> Checked {
        events.iter().try_for_each(|event| self.apply(event))
    }

    fn drain(&mut self, scope: Scope) -> Checked {
        for _ in 0..1_000_000 {
            self.steps += 1;
            match self.machine.step(scope) {
                Step::Idle => return Ok(()),
                Step::Worked => {}
                Step::Command(command) => {
                    self.note(Entry::Command(command));
                    self.tally.count(command);
                    self.digest = digest(self.digest, command);
                    self.obey(command)?;
                }
            }
        }
        Err("P5: the machine never comes to an end of its steps".to_owned())
    }

    fn note(&mut self, entry: Entry) {
        if let Some(trace) = &mut self.trace {
            trace.push(entry);
        }
    }

    /// Has a name be looked at first, if a caller waits for it.
    pub(super) fn hurry(&mut self, place: usize) {
        if let Some(id) =
            self.seats[place].id.filter(|_| self.has_callers && place.is_multiple_of(2))
        {
            self.machine.hurry(id);
        }
    }

    /// Returns a name's id, and makes one if the machine has forgotten it.
    pub(super) fn id(&mut self, place: usize) -> NodeId {
        if let Some(id) = self.seats[place].id {
            return id;
        }
        let id = self.machine.add();
        if self.places.len() <= id.index() {
            self.places.resize(id.index() + 1, usize::MAX);
        }
        self.places[id.index()] = place;
        self.seats[place] =
            Seat { id: Some(id), starts: 0, causes: 0, ..std::mem::take(&mut self.seats[place]) };
        id
    }

    pub(super) fn edges(&mut self, arrows: &[Arrow]) -> Vec<Edge> {
        let edge = |arrow: &Arrow| Edge {
            target: self.id(arrow.to),
            need: arrow.need,
            port: Port(arrow.port),
        };
        arrows.iter().map(edge).collect()
    }

    pub(super) fn worker(&self, place: usize) -> Option<&Worker> {
        self.seats[place].worker.as_ref()
    }

    /// Returns a name's worker, if it has not ended.
    pub(super) fn active(&self, place: usize) -> Option<&Worker> {
        self.worker(place).filter(|worker| !worker.has_ended)
    }

    pub(super) fn is_running(&self, place: usize) -> bool {
        self.active(place).is_some_and(|worker| worker.is_running && !worker.is_stuck)
    }

    pub(super) fn end(&self, kind: EndKind, ran: Duration, left: Left) -> End {
        End { kind, ran, at: self.now, left }
    }
}

fn digest(before: u64, command: Command) -> u64 {
    let mut hasher = DefaultHasher::new();
    before.hash(&mut hasher);
    command.hash(&mut hasher);
    hasher.finish()
}
