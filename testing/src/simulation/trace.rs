//! The events of one run, to compare runs and to show a failure.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::mem::discriminant;
use std::num::NonZeroU32;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::EventKind;

use super::met::Met;

/// How many entries are kept. These are the last ones.
const KEPT: usize = 4096;

/// The trace of one run of a simulation: the engine's events, the faults that struck, and the notes
/// of workers.
///
/// It counts and compares all entries, and shows the last lines of them.
#[derive(Debug, Clone)]
pub struct Trace {
    entries: VecDeque<Entry>,
    /// The paths that entries are about, by their numbers.
    paths: Vec<About>,
    numbers: HashMap<Arc<str>, Number>,
    count: u64,
    digest: Digest,
    pub(super) tally: Tally,
    /// The paths that were met, once the run is over.
    pub(super) met: Met,
}

/// A digest of all entries that takes few steps. It only has to tell runs apart: nobody tries to
/// give two runs the same one.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Digest(u64);

impl Hasher for Digest {
    fn write(&mut self, bytes: &[u8]) {
        let mut words = bytes.chunks_exact(8);
        for word in &mut words {
            self.write_u64(word.iter().fold(0, |number, byte| (number << 8) | u64::from(*byte)));
        }
        for byte in words.remainder() {
            self.write_u8(*byte);
        }
    }

    fn write_u8(&mut self, number: u8) {
        self.write_u64(number.into());
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        // Odd, so that no two numbers give the same result.
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    fn finish(&self) -> u64 {
        self.0
    }
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
    /// How many previews of a bounce were compared with the users of the worker.
    pub previews: u64,
    /// How long the run took by the paused clock.
    pub lasted: Duration,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.starts += other.starts;
        self.ends += other.ends;
        self.waits += other.waits;
        self.faults += other.faults;
        self.previews += other.previews;
        self.lasted += other.lasted;
    }
}

#[derive(Debug, Clone)]
pub(super) struct Entry {
    /// The time of the entry, in nanoseconds since the beginning: it saturates after 584 years.
    at: u64,
    /// The path that the entry is about; nothing for a note.
    pub(super) about: Option<Number>,
    pub(super) what: What,
}

/// The number of a path in a trace: many entries are about few paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Number(NonZeroU32);

/// A path that something is about.
#[derive(Debug, Clone, Default)]
pub(super) struct About {
    path: Arc<str>,
    /// The path as a digest takes it: few paths are in many entries.
    mark: u64,
}

impl About {
    pub(super) fn new(path: &str) -> Self {
        let mut digest = Digest(0);
        path.hash(&mut digest);
        Self { path: path.into(), mark: digest.finish() }
    }
}

impl Deref for About {
    type Target = str;

    fn deref(&self) -> &str {
        &self.path
    }
}

impl fmt::Display for About {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

#[derive(Debug, Clone)]
pub(super) enum What {
    Event(EventKind),
    Fault(Cow<'static, str>),
    /// It is about to stop, and waits for these users.
    Closing(Vec<Number>),
    Note(String),
}

impl Trace {
    pub(super) fn new() -> Self {
        let digest = Digest(0);
        let (entries, paths, numbers) = (VecDeque::new(), Vec::new(), HashMap::new());
        let (tally, met) = (Tally::default(), Met::default());
        Self { entries, paths, numbers, count: 0, digest, tally, met }
    }

    /// Returns the number of a path.
    pub(super) fn number_of(&mut self, about: &About) -> Number {
        if let Some(number) = self.numbers.get(&about.path) {
            return *number;
        }
        self.paths.push(about.clone());
        let count = u32::try_from(self.paths.len()).ok().and_then(NonZeroU32::new);
        let number = Number(count.expect("a run has fewer paths than that"));
        self.numbers.insert(Arc::clone(&about.path), number);
        number
    }

    /// Enters something about a path, or a note.
    pub(super) fn push(&mut self, at: Duration, about: Option<Number>, what: What) {
        self.count_in(&what);
        let mark = about.map_or(0, |about| self.about(about).mark);
        let hasher = &mut self.digest;
        (at, mark).hash(hasher);
        match &what {
            What::Event(kind) => {
                discriminant(kind).hash(hasher);
                match kind {
                    EventKind::Starting { generation } => generation.hash(hasher),
                    EventKind::Waiting { delay, .. } => delay.hash(hasher),
                    EventKind::Ended { end, error, .. } => (end, error).hash(hasher),
                    EventKind::Health { degraded } => degraded.hash(hasher),
                    _ => {}
                }
            }
            What::Fault(text) => text.hash(hasher),
            What::Closing(users) => users.len().hash(hasher),
            What::Note(text) => text.hash(hasher),
        }
        self.count += 1;
        self.tally.lasted = at;
        if self.entries.len() == KEPT {
            self.entries.pop_front();
        }
        let at = u64::try_from(at.as_nanos()).unwrap_or(u64::MAX);
        self.entries.push_back(Entry { at, about, what });
    }

    fn about(&self, number: Number) -> &About {
        &self.paths[number.0.get() as usize - 1]
    }

    fn count_in(&mut self, what: &What) {
        let counter = match what {
            What::Fault(..) => &mut self.tally.faults,
            What::Event(kind) => match kind {
                EventKind::Started { .. } => &mut self.tally.starts,
                EventKind::Ended { .. } => &mut self.tally.ends,
                EventKind::Waiting { .. } => &mut self.tally.waits,
                _ => return,
            },
            What::Closing(_) | What::Note(_) => return,
        };
        *counter += 1;
    }

    /// Returns how many entries there were, with those that are not kept.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns how much happened.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// Returns the kept entries, the last 4096, as text: the time since the beginning, and the
    /// event.
    pub fn lines(&self) -> Vec<String> {
        self.shown(0).map(|line| line.to_string()).collect()
    }

    /// Returns the kept entries as they are shown, from this one on.
    pub(super) fn shown(&self, first: usize) -> impl Iterator<Item = Line<'_>> {
        self.entries.iter().skip(first).map(|entry| Line { trace: self, entry })
    }

    /// Returns how many entries are kept.
    pub(super) fn kept(&self) -> usize {
        self.entries.len()
    }

    /// Returns the place among the kept entries of the last one with a property.
    pub(super) fn last(&self, holds: impl Fn(&Entry) -> bool) -> Option<usize> {
        self.entries.iter().rposition(holds)
    }

    /// Returns the number of a path, if entries are about it.
    pub(super) fn number(&self, path: &str) -> Option<Number> {
        self.numbers.get(path).copied()
    }
}

impl PartialEq for Trace {
    /// Compares all entries, also those that are not kept.
    fn eq(&self, other: &Self) -> bool {
        (self.count, &self.digest) == (other.count, &other.digest)
    }
}

impl Eq for Trace {}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shown(0).try_for_each(|line| writeln!(f, "{line}"))
    }
}

/// An entry as it is shown.
pub(super) struct Line<'a> {
    trace: &'a Trace,
    pub(super) entry: &'a Entry,
}

impl Line<'_> {
    /// Returns the text of the entry, without the time.
    pub(super) fn said(&self) -> String {
        let Entry { about, what, .. } = self.entry;
        let path = about.map_or("", |about| self.trace.about(about));
        match what {
            What::Event(kind) => format!("{path} {kind}"),
            What::Fault(text) => format!("! {path} {text}"),
            What::Closing(users) => {
                let paths = users.iter().map(|user| &**self.trace.about(*user));
                format!("{path} closing, used by {}", paths.collect::<Vec<_>>().join(", "))
            }
            What::Note(text) => format!("# {text}"),
        }
    }
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = Duration::from_nanos(self.entry.at).as_secs_f64();
        write!(f, "{at:>10.3} s  {}", self.said())
    }
}
