use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use serde::{Serialize, Serializer};
use tokio::sync::Notify;

use crate::exit::EndKind;
use crate::name::Text;
use crate::value::short_name;

/// A moment in UTC; it is written as RFC 3339 with milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(pub SystemTime);

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        humantime::format_rfc3339_millis(self.0).fmt(f)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// For how many events room is made at once.
const AT_ONCE: usize = 4096;

/// Who asked for something, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Origin {
    /// Who asked.
    pub who: String,
    /// Why.
    pub why: String,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.who, self.why)
    }
}

/// One transition in an engine or in one that is nested in it.
#[derive(Debug, Clone)]
pub struct Event {
    /// Counts the events of an engine and those nested in it that anyone followed, from 0, without
    /// gaps.
    pub sequence: u64,
    /// When it happened.
    pub at: Timestamp,
    /// What happened.
    pub kind: EventKind,
    /// Who asked for it, if it was asked for.
    pub origin: Option<Arc<Origin>>,
    engine: Arc<str>,
    name: Option<Text>,
}

impl Event {
    /// Returns an event that has no sequence number yet.
    pub(crate) fn new(at: SystemTime, engine: Arc<str>, kind: EventKind) -> Self {
        Self { sequence: 0, at: Timestamp(at), kind, origin: None, engine, name: None }
    }

    pub(crate) fn about(self, name: Option<&Text>, origin: Option<&Arc<Origin>>) -> Self {
        Self { name: name.cloned(), origin: origin.cloned(), ..self }
    }

    /// Returns the path of the worker, or of the engine, that it is about.
    pub fn path(&self) -> String {
        match &self.name {
            Some(name) => format!("{}/{}", self.engine, name.as_str()),
            None if self.engine.is_empty() => "/".to_owned(),
            None => self.engine.to_string(),
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.at, self.path(), self.kind)?;
        match &self.origin {
            Some(origin) => write!(f, " ({origin})"),
            None => Ok(()),
        }
    }
}

impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;
        let mut fields = serializer.serialize_struct("Event", 5)?;
        fields.serialize_field("sequence", &self.sequence)?;
        fields.serialize_field("at", &self.at)?;
        fields.serialize_field("path", &self.path())?;
        fields.serialize_field("event", &self.kind)?;
        fields.serialize_field("origin", &self.origin)?;
        fields.end()
    }
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum EventKind {
    /// A manifold was installed.
    Installed,
    /// A manifold was replaced by another.
    Replaced,
    /// A manifold is being taken out.
    Uninstalled,
    /// A manifold and its worker are gone.
    Removed,
    /// A bounce was asked for.
    Bounced,
    /// A manifold was parked by hand.
    Parked,
    /// A manifold was unparked.
    Unparked,
    /// A worker is being started.
    Starting {
        /// Which worker of its name it is.
        generation: u32,
    },
    /// A worker is up.
    Started {
        /// Which worker of its name it is.
        generation: u32,
    },
    /// A running worker has published a new value.
    Changed {
        /// The type of the output; it is shown without the paths of modules.
        #[serde(serialize_with = "short")]
        output: &'static str,
    },
    /// A worker was told that an input has ended by itself.
    InputLost,
    /// A worker was told to stop.
    Stopping,
    /// A worker did not stop in its grace, or its start took too long; its future is being dropped.
    Aborted,
    /// A worker outlived both graces, or never yields.
    Stuck,
    /// A worker has ended.
    Ended {
        /// How.
        end: EndKind,
        /// Why, if there is anything to say.
        error: Option<String>,
        /// Whether it panicked.
        is_panic: bool,
    },
    /// A worker waits before it is started again.
    Waiting {
        /// For how long.
        #[serde(serialize_with = "seconds")]
        delay: Duration,
        /// How many times in a row it has failed.
        failures: u32,
    },
    /// A worker failed more often than its intensity allows, and stays stopped.
    Spent {
        /// How many times in a row it has failed.
        failures: u32,
    },
    /// A worker says that it does not do all it should, or that it does so again.
    Health {
        /// Why it is degraded; `None` when all is well again.
        degraded: Option<String>,
    },
    /// A worker says what it has done; the event's origin says at whose wish.
    Noted {
        /// What it has done.
        text: String,
    },
    /// The engine begins to stop.
    Killed,
    /// The engine has ended.
    Finished,
}

fn short<S: Serializer>(output: &&'static str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&short_name(output))
}

fn seconds<S: Serializer>(delay: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(delay.as_secs_f64())
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Installed => f.write_str("installed"),
            Self::Replaced => f.write_str("replaced"),
            Self::Uninstalled => f.write_str("uninstalled"),
            Self::Removed => f.write_str("removed"),
            Self::Bounced => f.write_str("bounced"),
            Self::Parked => f.write_str("parked"),
            Self::Unparked => f.write_str("unparked"),
            Self::Starting { generation } => write!(f, "starting, generation {generation}"),
            Self::Started { generation } => write!(f, "started, generation {generation}"),
            Self::Changed { output } => write!(f, "changed its {}", short_name(output)),
            Self::InputLost => f.write_str("lost an input"),
            Self::Stopping => f.write_str("stopping"),
            Self::Aborted => f.write_str("did not end in time, is dropped"),
            Self::Stuck => f.write_str("is stuck"),
            Self::Ended { end, error: Some(error), .. } => write!(f, "ended, {end}: {error}"),
            Self::Ended { end, error: None, .. } => write!(f, "ended, {end}"),
            Self::Waiting { delay, failures } => {
                let delay = humantime::format_duration(Duration::from_millis(
                    u64::try_from(delay.as_millis()).unwrap_or(u64::MAX),
                ));
                write!(f, "waits {delay}")?;
                match failures {
                    0 => Ok(()),
                    1 => f.write_str(" after a failure"),
                    _ => write!(f, " after {failures} failures in a row"),
                }
            }
            Self::Spent { failures } => write!(f, "parked after {failures} failures in a row"),
            Self::Health { degraded: Some(reason) } => write!(f, "degraded: {reason}"),
            Self::Health { degraded: None } => f.write_str("in good health"),
            Self::Noted { text } => f.write_str(text),
            Self::Killed => f.write_str("killed"),
            Self::Finished => f.write_str("finished"),
        }
    }
}

/// What a subscriber gets.
#[derive(Debug, Clone)]
pub enum Notice {
    /// The next event.
    Event(Event),
    /// The subscriber was too slow, and missed this many events.
    Missed(u64),
}

/// Follows the events of an engine and of those nested in it.
///
/// A slow subscriber holds up nobody: it misses the oldest events, and is told how many.
#[derive(Debug)]
pub struct Events {
    log: Arc<Log>,
    /// The sequence number of the event that comes next.
    next: u64,
}

impl Events {
    /// Returns the next event if there is one already.
    pub fn try_next(&mut self) -> Option<Notice> {
        match self.log.ring.lock().get(&mut self.next) {
            Found::Notice(notice) => Some(notice),
            Found::End | Found::Nothing => None,
        }
    }

    /// Waits for the next event; `None` when the engine has ended and all its events were given.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: no event is lost.
    pub async fn next(&mut self) -> Option<Notice> {
        loop {
            let log = Arc::clone(&self.log);
            let pushed = log.pushed.notified();
            match log.ring.lock().get(&mut self.next) {
                Found::Notice(notice) => return Some(notice),
                Found::End => return None,
                Found::Nothing => {}
            }
            pushed.await;
        }
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.log.followers.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The events of a tree of engines: a ring of the newest, shared by all who follow them.
#[derive(Debug)]
pub(crate) struct Log {
    ring: Mutex<Ring>,
    /// Events are numbered as they enter the ring.
    pushed: Notify,
    followers: AtomicUsize,
}

#[derive(Debug)]
struct Ring {
    events: VecDeque<Event>,
    capacity: usize,
    /// The sequence number of the event that comes next.
    next: u64,
    is_closed: bool,
}

/// What a subscriber finds.
enum Found {
    Notice(Notice),
    Nothing,
    End,
}

impl Ring {
    fn get(&self, next: &mut u64) -> Found {
        let first = self.next - self.events.len() as u64;
        if *next < first {
            let missed = first - *next;
            *next = first;
            return Found::Notice(Notice::Missed(missed));
        }
        let event = usize::try_from(*next - first).ok().and_then(|index| self.events.get(index));
        match event {
            Some(event) => {
                *next += 1;
                Found::Notice(Notice::Event(event.clone()))
            }
            None if self.is_closed => Found::End,
            None => Found::Nothing,
        }
    }
}

impl Log {
    pub(crate) fn new(capacity: usize) -> Self {
        let ring = Ring { events: VecDeque::new(), capacity, next: 0, is_closed: false };
        Self { ring: Mutex::new(ring), pushed: Notify::new(), followers: AtomicUsize::new(0) }
    }

    pub(crate) fn subscribe(self: &Arc<Self>) -> Events {
        self.followers.fetch_add(1, Ordering::Relaxed);
        Events { log: Arc::clone(self), next: self.ring.lock().next }
    }

    /// Whether anyone follows the events. Who comes later misses what was not kept for nobody.
    pub(crate) fn is_followed(&self) -> bool {
        self.followers.load(Ordering::Relaxed) > 0
    }

    /// Enters events, the oldest first.
    pub(crate) fn push(&self, events: &mut Vec<Event>) {
        if events.is_empty() {
            return;
        }
        let mut ring = self.ring.lock();
        if ring.events.capacity() == 0 {
            let capacity = ring.capacity.min(AT_ONCE);
            ring.events.reserve_exact(capacity);
        }
        for mut event in events.drain(..) {
            event.sequence = ring.next;
            ring.next += 1;
            if ring.events.len() == ring.capacity {
                ring.events.pop_front();
            }
            ring.events.push_back(event);
        }
        drop(ring);
        self.pushed.notify_waiters();
    }

    /// Says that no more events will come.
    pub(crate) fn close(&self) {
        self.ring.lock().is_closed = true;
        self.pushed.notify_waiters();
    }
}
