use std::collections::VecDeque;
use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher};
use std::mem::discriminant;
use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::{Event, EventKind};
use foldhash::fast::FixedState;

/// How many entries are kept: the last ones.
const KEPT: usize = 4096;
/// How many lines a failure shows.
const SHOWN: usize = 60;

/// What happened in one run of a simulation: the engine's events, the faults that struck, and the
/// notes of workers.
///
/// It counts and compares all that happened, and shows the last lines of it.
#[derive(Debug, Clone)]
pub struct Trace {
    entries: VecDeque<Entry>,
    count: u64,
    digest: u64,
    pub(super) tally: Tally,
}

/// How much happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Tally {
    /// How many workers came up.
    pub starts: u64,
    /// How many workers ended.
    pub ends: u64,
    /// How many waits began: backoffs and bounce delays.
    pub waits: u64,
    /// How many faults struck, control calls, new values and jumps of the clock included.
    pub faults: u64,
    /// How long it took by the paused clock.
    pub lasted: Duration,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.starts += other.starts;
        self.ends += other.ends;
        self.waits += other.waits;
        self.faults += other.faults;
        self.lasted += other.lasted;
    }
}

#[derive(Debug, Clone)]
struct Entry {
    at: Duration,
    what: What,
}

#[derive(Debug, Clone)]
pub(super) enum What {
    Event(Event),
    Fault(Arc<str>, &'static str),
    Note(String),
}

impl Trace {
    pub(super) fn new() -> Self {
        Self { entries: VecDeque::new(), count: 0, digest: 0, tally: Tally::default() }
    }

    /// Enters something about a path.
    pub(super) fn push(&mut self, at: Duration, what: What, path: &str) {
        self.count_in(&what);
        let mut hasher = FixedState::with_seed(self.digest).build_hasher();
        (at, path).hash(&mut hasher);
        match &what {
            What::Event(event) => {
                discriminant(&event.kind).hash(&mut hasher);
                match &event.kind {
                    EventKind::Starting { generation } => generation.hash(&mut hasher),
                    EventKind::Waiting { delay, .. } => delay.hash(&mut hasher),
                    EventKind::Ended { end, error, .. } => (end, error).hash(&mut hasher),
                    EventKind::Health { degraded } => degraded.hash(&mut hasher),
                    _ => {}
                }
            }
            What::Fault(_, text) => text.hash(&mut hasher),
            What::Note(text) => text.hash(&mut hasher),
        }
        self.digest = hasher.finish();
        self.count += 1;
        self.tally.lasted = at;
        if self.entries.len() == KEPT {
            self.entries.pop_front();
        }
        self.entries.push_back(Entry { at, what });
    }

    fn count_in(&mut self, what: &What) {
        let counter = match what {
            What::Fault(..) => &mut self.tally.faults,
            What::Event(event) => match event.kind {
                EventKind::Started { .. } => &mut self.tally.starts,
                EventKind::Ended { .. } => &mut self.tally.ends,
                EventKind::Waiting { .. } => &mut self.tally.waits,
                _ => return,
            },
            What::Note(_) => return,
        };
        *counter += 1;
    }

    /// Returns how many entries there were, those included that are not kept.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns how much happened.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// Returns the entries that are kept, the last 4096, as text: the time since the beginning, and
    /// what happened.
    pub fn lines(&self) -> Vec<String> {
        self.entries.iter().map(Entry::to_string).collect()
    }

    /// Returns the last lines, for a failure.
    pub(super) fn tail(&self) -> Vec<String> {
        let shown = std::env::var("CRANKCASE_SIM_LINES").ok().and_then(|lines| lines.parse().ok());
        let skipped = self.entries.len().saturating_sub(shown.unwrap_or(SHOWN));
        self.entries.iter().skip(skipped).map(Entry::to_string).collect()
    }
}

impl PartialEq for Trace {
    /// Compares all that happened, also what is not kept.
    fn eq(&self, other: &Self) -> bool {
        (self.count, self.digest) == (other.count, other.digest)
    }
}

impl Eq for Trace {}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.entries.iter().try_for_each(|entry| writeln!(f, "{entry}"))
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>10.3} s  ", self.at.as_secs_f64())?;
        match &self.what {
            What::Event(event) => write!(f, "{} {}", event.path(), event.kind),
            What::Fault(path, text) => write!(f, "! {path} {text}"),
            What::Note(text) => write!(f, "# {text}"),
        }
    }
}
