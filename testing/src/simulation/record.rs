//! What happens in a run, in its order: entered into the trace, and judged at once.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use crankcase_engine::{Events, Notice, Policy};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::judge::{Judge, Judged, Seen, join};
use super::trace::{Trace, What};

/// Writes into the trace of a run; made by [`Setup::notes`](super::Setup::notes).
///
/// Give it to workers, so that the trace of a failure tells what they did.
#[derive(Clone)]
pub struct Notes {
    record: Arc<Mutex<Record>>,
    began: Instant,
    /// Notified when something is found.
    broken: Arc<Notify>,
}

struct Record {
    trace: Trace,
    /// Away while someone looks at it.
    judge: Option<Box<Judge>>,
    /// The engine's events, and the wall clock when it began.
    source: Option<(Events, SystemTime)>,
    /// No fault strikes, not yet or not any more.
    is_calm: bool,
    /// What was found first, and who waits for it.
    found: Option<String>,
    broken: Arc<Notify>,
    /// How many events there may be.
    most_events: u64,
    /// Room for a path.
    path: String,
}

impl Record {
    /// Enters the events that have come.
    fn catch_up(&mut self) {
        let (Some((events, wall)), Some(judge)) = (&mut self.source, &mut self.judge) else {
            return;
        };
        while let Some(notice) = events.try_next() {
            let judged = match notice {
                Notice::Event(event) => {
                    let at = event.at.0.duration_since(*wall).unwrap_or_default();
                    join(&mut self.path, event.engine(), event.worker());
                    let judged = judge.event(at, &event, &self.path);
                    self.trace.push(at, What::Event(event), &self.path);
                    let (count, most) = (judge.count, self.most_events);
                    judged.and_then(|()| within(count, most))
                }
                Notice::Missed(missed) => Err(format!("{missed} events were missed")),
            };
            if let Err(found) = judged {
                self.found.get_or_insert(found);
                self.broken.notify_one();
            }
        }
    }
}

fn within(count: u64, most: u64) -> Judged {
    if count <= most {
        return Ok(());
    }
    Err(format!("there were more than {most} events; is there a wait of zero?"))
}

impl Notes {
    pub(super) fn new() -> Self {
        let broken = Arc::new(Notify::new());
        let record = Record {
            trace: Trace::new(),
            judge: Some(Box::default()),
            source: None,
            is_calm: false,
            found: None,
            broken: Arc::clone(&broken),
            most_events: u64::MAX,
            path: String::new(),
        };
        Self { record: Arc::new(Mutex::new(record)), began: Instant::now(), broken }
    }

    /// Follows an engine, whose wall clock began at this moment.
    pub(super) fn follow(&self, events: Events, wall: SystemTime) {
        self.record.lock().source = Some((events, wall));
    }

    /// Says how many events there may be.
    pub(super) fn allow(&self, most_events: u64) {
        self.record.lock().most_events = most_events;
    }

    /// Waits until something is found that does not hold.
    ///
    /// Cancel safe: what was found is not forgotten.
    pub(super) async fn is_broken(&self) {
        self.broken.notified().await;
    }

    /// Returns whether no fault strikes: they have stopped, or the run has none. What fails by itself,
    /// such as stubs of the simulation's own, should not do so then.
    pub fn is_calm(&self) -> bool {
        self.record.lock().is_calm
    }

    pub(super) fn calm(&self) {
        self.record.lock().is_calm = true;
    }

    /// Writes a line.
    pub fn note(&self, line: impl Into<String>) {
        self.push(What::Note(line.into()), "");
    }

    pub(super) fn fault(&self, path: &Arc<str>, text: &'static str) {
        self.push(What::Fault(Arc::clone(path), text), path);
    }

    /// Enters something after all events that have come before it.
    fn push(&self, what: What, path: &str) {
        let mut record = self.record.lock();
        record.catch_up();
        record.trace.push(self.began.elapsed(), what, path);
    }

    /// Judges what was seen in a worker's task, after the events that have led to it.
    pub(super) fn seen(&self, seen: Seen<'_>) {
        self.enter();
        if let Err(found) = self.with(|judge| judge.seen(seen)) {
            self.record.lock().found.get_or_insert(found);
            self.broken.notify_one();
        }
    }

    /// Enters the events that have come.
    pub(super) fn enter(&self) {
        self.record.lock().catch_up();
    }

    /// Enters the events that have come; returns what was found up to now.
    pub(super) fn catch_up(&self) -> Judged {
        let mut record = self.record.lock();
        record.catch_up();
        match &record.found {
            None => Ok(()),
            Some(found) => Err(found.clone()),
        }
    }

    /// Looks at what is known.
    pub(super) fn look<T>(&self, look: impl FnOnce(&Judge) -> T) -> T {
        self.with(|judge| look(judge))
    }

    /// Takes the judge out meanwhile, so that who looks may write notes. If who looks panics it stays
    /// out: the run is over then, and what is left of it only gives its trace.
    fn with<T>(&self, work: impl FnOnce(&mut Judge) -> T) -> T {
        let taken = self.record.lock().judge.take();
        let mut judge = taken.expect("nobody looks at the judge while another one does");
        let done = work(&mut judge);
        self.record.lock().judge = Some(judge);
        done
    }

    /// Says by which policies waits are judged.
    pub(super) fn judge_waits(&self, policies: Vec<(String, Policy)>) {
        self.with(|judge| judge.policies.extend(policies));
    }

    /// Says that the clock has just jumped.
    pub(super) fn jumped(&self) {
        let to = self.began.elapsed();
        self.enter();
        self.with(|judge| judge.jumped(to));
    }

    /// Says that the engine is at rest, and will be killed next.
    pub(super) fn is_at_rest(&self) {
        self.enter();
        self.with(|judge| judge.is_killed_at_rest = true);
    }

    /// Returns the time since the beginning.
    pub(super) fn elapsed(&self) -> std::time::Duration {
        self.began.elapsed()
    }

    /// Returns all that was written so far.
    pub(super) fn trace(&self) -> Trace {
        self.record.lock().trace.clone()
    }
}

impl fmt::Debug for Notes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notes").finish_non_exhaustive()
    }
}
