//! Notices those who have fallen silent.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::{ConfigError, Exit, Outcome, Stop, Worker};
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::moment::until;

/// The shortest and the longest interval. In a shorter one a hold-up of this process, which nobody is
/// to blame for, cannot be told from silence.
const LIMITS: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(24 * 60 * 60);

/// How many times in an interval it looks how late it is itself: a hold-up of more than two of these
/// parts makes it late by more than one, wherever it begins.
const TICKS: u32 = 4;

/// How a [`Heartbeat`] judges.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeartbeatConfig {
    /// How long after its last beat a member counts as silent. 100 ms to 24 h.
    pub within: Duration,
}

crankcase_engine::setters! {
    HeartbeatConfig {
        within: Duration,
    }
    optional {}
}

impl HeartbeatConfig {
    /// Returns a configuration with this interval.
    pub fn new(within: Duration) -> Self {
        Self { within }
    }

    /// Checks every field.
    ///
    /// # Errors
    ///
    /// Returns an error that names the first field that cannot be used.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if LIMITS.contains(&self.within) {
            return Ok(());
        }
        let value = format!("{:?}", self.within);
        Err(ConfigError::new("within", value, "between 100 ms and 24 h"))
    }
}

/// Who beats, and who has missed a beat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
#[non_exhaustive]
pub struct HeartbeatStatus {
    /// How many members there are.
    pub members: usize,
    /// How many times a member fell silent.
    pub missed: u64,
    /// Which one was the last to.
    pub last_missed: Option<String>,
}

/// A worker that ends with a bounce when one of its members falls silent.
///
/// A member joins with a name and beats; one that does not for longer than
/// [`within`](HeartbeatConfig::within) has fallen silent. In an engine those who are to be watched
/// have the heartbeat as an input: its bounce stops them, those that hang after their grace, and
/// starts them again.
///
/// # Guarantees
///
/// - A member counts from when it joins, or from when the heartbeat begins to run if that is later,
///   and no more when its [`Beat`] is dropped. Without a member nothing is missed.
/// - The interval is on the monotonic clock, which stands still while the machine is suspended. After
///   a hold-up of this process (SIGSTOP, a runtime that is not polled) of more than half an interval
///   every member has one more interval: who could not run is not silent. One of at most a quarter
///   counts like any other time, and one between the two like either.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use crankcase_engine::{Exit, Stop, Worker};
/// use crankcase_workers::{Heartbeat, HeartbeatConfig};
///
/// let heartbeat = Heartbeat::new(HeartbeatConfig::new(Duration::from_secs(30)))?;
/// let beat = heartbeat.pulse().join("poller");
/// beat.beat();
/// let (_stopper, stop) = Stop::pair();
/// // No further beat comes.
/// assert!(matches!(heartbeat.run(stop).await, Err(Exit::Bounce)));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "nobody is noticed until it runs"]
pub struct Heartbeat {
    within: Duration,
    pulse: Pulse,
}

impl Heartbeat {
    /// Returns the worker.
    ///
    /// # Errors
    ///
    /// Returns an error if the configuration is invalid.
    pub fn new(config: HeartbeatConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        let shared = Shared {
            members: Mutex::default(),
            joined: Notify::new(),
            status: watch::Sender::default(),
        };
        Ok(Self { within: config.within, pulse: Pulse { shared: Arc::new(shared) } })
    }

    /// Goes on counting where an earlier worker has ended.
    pub fn counting_on(self, before: &HeartbeatStatus) -> Self {
        self.pulse.shared.status.send_modify(|status| {
            status.missed = before.missed;
            status.last_missed.clone_from(&before.last_missed);
        });
        self
    }

    /// Returns the handle by which members join.
    pub fn pulse(&self) -> Pulse {
        self.pulse.clone()
    }

    /// Returns a view of who beats and who has missed a beat.
    pub fn status(&self) -> watch::Receiver<HeartbeatStatus> {
        self.pulse.shared.status.subscribe()
    }

    /// Returns the name of a member that is silent at `now`.
    fn silent(&self, now: Instant) -> Option<String> {
        let members = self.pulse.shared.members.lock();
        let is_silent = |member: &&Arc<Member>| *member.last.lock() + self.within <= now;
        members.all.values().find(is_silent).map(|member| member.name.clone())
    }

    /// Returns when the first member will be silent if none beats.
    fn deadline(&self) -> Option<Instant> {
        let members = self.pulse.shared.members.lock();
        members.all.values().map(|member| *member.last.lock() + self.within).min()
    }

    /// Takes it that every member has beaten at `now`.
    fn forgive(&self, now: Instant) {
        for member in self.pulse.shared.members.lock().all.values() {
            let mut last = member.last.lock();
            // It may have beaten since.
            *last = now.max(*last);
        }
    }

    fn miss(&self, name: String) {
        tracing::warn!(member = name, within = ?self.within, "no beat in time");
        self.pulse.shared.status.send_modify(|status| {
            status.missed = status.missed.saturating_add(1);
            status.last_missed = Some(name);
        });
    }
}

impl Worker for Heartbeat {
    async fn run(self, stop: Stop) -> Outcome {
        let tick = self.within / TICKS;
        let mut now = Instant::now();
        // Nobody watched before.
        self.forgive(now);
        loop {
            let due = self.deadline().map(|deadline| deadline.min(now + tick));
            tokio::select! {
                biased;
                () = stop.wait() => return Ok(()),
                () = until(due) => {}
                // Also after a hold-up, before the time is seen.
                () = self.pulse.shared.joined.notified() => {}
            }
            now = Instant::now();
            let late = due.map_or(Duration::ZERO, |due| now.saturating_duration_since(due));
            if late > tick {
                tracing::warn!(?late, "held up: all have one more interval for their beat");
                self.forgive(now);
            } else if let Some(name) = self.silent(now) {
                self.miss(name);
                return Err(Exit::Bounce);
            }
        }
    }
}

struct Shared {
    members: Mutex<Members>,
    /// Wakes the worker when there is a first member.
    joined: Notify,
    status: watch::Sender<HeartbeatStatus>,
}

impl Shared {
    /// Says how many members there are. They are counted by whoever is the next to say it, so that
    /// what is said last is how it is.
    fn count(&self) {
        self.status.send_modify(|status| status.members = self.members.lock().all.len());
    }
}

#[derive(Default)]
struct Members {
    next_id: u64,
    all: BTreeMap<u64, Arc<Member>>,
}

struct Member {
    name: String,
    last: Mutex<Instant>,
}

/// The handle by which members join a [`Heartbeat`]. Cheap to clone.
#[derive(Clone)]
pub struct Pulse {
    shared: Arc<Shared>,
}

impl Pulse {
    /// Joins; the first beat is now.
    ///
    /// The name is what the log and the status say of a member that falls silent.
    pub fn join(&self, name: &str) -> Beat {
        let member = Arc::new(Member { name: name.to_owned(), last: Mutex::new(Instant::now()) });
        let id = {
            let mut members = self.shared.members.lock();
            let id = members.next_id;
            members.next_id += 1;
            members.all.insert(id, Arc::clone(&member));
            id
        };
        self.shared.count();
        self.shared.joined.notify_one();
        Beat { id, member, shared: Arc::clone(&self.shared) }
    }
}

impl fmt::Debug for Pulse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pulse").field("status", &*self.shared.status.borrow()).finish()
    }
}

/// A member's own handle; dropping it leaves the [`Heartbeat`].
#[must_use = "dropping it leaves the heartbeat"]
pub struct Beat {
    id: u64,
    member: Arc<Member>,
    shared: Arc<Shared>,
}

impl Beat {
    /// Says that the member is alive. It takes a lock of its own for an instant, and wakes nobody.
    pub fn beat(&self) {
        *self.member.last.lock() = Instant::now();
    }
}

impl fmt::Debug for Beat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Beat").field("name", &self.member.name).finish_non_exhaustive()
    }
}

impl Drop for Beat {
    fn drop(&mut self) {
        self.shared.members.lock().all.remove(&self.id);
        self.shared.count();
    }
}
