//! The events of an engine, collected for a test that waits for them.

use std::fmt;
use std::time::Duration;

use crankcase_engine::{Engine, Event, EventKind, Events, Notice};
use tokio::time::timeout;

use crate::failure::Failure;
use crate::subject::line;
use crate::wait::LIMIT;

/// What is said when nothing can come any more.
const ENDED: &str = "the engine has ended and nothing came that was waited for";

/// Collects an engine's events from the moment it was made.
///
/// It waits for ten minutes by the clock at most, which take no time when that is paused; see
/// [`limit`](Self::limit).
///
/// # Examples
///
/// ```
/// use crankcase_engine::{EventKind, Name};
/// use crankcase_testing::{EventRecorder, Script, clean_kill, test_engine};
///
/// const WEB: Name<u32> = Name::new("web");
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let engine = test_engine().build()?;
/// let mut events = EventRecorder::new(&engine);
/// engine.install(WEB, Script::new().manifold(())).await?;
/// events.wait_for(|event| event.kind == EventKind::Started { generation: 1 }).await?;
/// let lines = ["/web installed", "/web starting, generation 1", "/web started, generation 1"];
/// assert_eq!(events.lines(), lines);
/// clean_kill(engine).await?;
/// # Ok(()) }
/// ```
pub struct EventRecorder {
    engine: Engine,
    events: Events,
    seen: Vec<Event>,
    is_over: bool,
    limit: Duration,
}

impl EventRecorder {
    /// Begins to collect.
    pub fn new(engine: &Engine) -> Self {
        let events = engine.events();
        Self { engine: engine.clone(), events, seen: Vec::new(), is_over: false, limit: LIMIT }
    }

    /// Sets how long each wait may take by the clock. Default 10 min.
    #[must_use]
    pub fn limit(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }

    /// Waits for the next event that is as wanted, and returns it. Those before it count as seen.
    ///
    /// # Errors
    ///
    /// When the engine ends first, events were missed, or nothing wanted comes in time; the failure
    /// lists what was seen.
    pub async fn wait_for(&mut self, is_wanted: impl Fn(&Event) -> bool) -> Result<Event, Failure> {
        let limit = self.limit;
        let came = timeout(limit, self.find(is_wanted)).await.unwrap_or_else(|_| Err(late(limit)));
        came.map_err(|text| Failure::with_seen(&text, &self.lines()))
    }

    /// Waits for an event for as long as it takes; the error does not list what was seen.
    pub(crate) async fn find(
        &mut self,
        is_wanted: impl Fn(&Event) -> bool,
    ) -> Result<Event, String> {
        loop {
            let event = self.next().await?;
            if is_wanted(&event) {
                return Ok(event);
            }
        }
    }

    /// Waits until a worker does what is wanted; see [`wait_for`](Self::wait_for). The path is
    /// written as for [`Engine::find`].
    ///
    /// # Errors
    ///
    /// As [`wait_for`](Self::wait_for).
    pub async fn wait_for_kind(
        &mut self,
        path: &str,
        is_wanted: impl Fn(&EventKind) -> bool,
    ) -> Result<Event, Failure> {
        let path = self.engine.path_of(path);
        self.wait_for(|event| event.path() == path && is_wanted(&event.kind)).await
    }

    /// Waits until the engine has ended, and collects all that is left.
    ///
    /// # Errors
    ///
    /// When events were missed, or it does not end in time; the failure lists what was seen.
    pub async fn finish(&mut self) -> Result<(), Failure> {
        let limit = self.limit;
        let ended = async {
            while !self.is_over {
                self.next().await?;
            }
            Ok(())
        };
        let late = |_| Err(format!("the engine has not ended within {limit:?}"));
        let ended = timeout(limit, ended).await.unwrap_or_else(late);
        ended.map_err(|text| Failure::with_seen(&text, &self.lines()))
    }

    /// Looks through the events that have come, up to the first that is as wanted.
    pub(crate) fn take_now(
        &mut self,
        is_wanted: impl Fn(&Event) -> bool,
    ) -> Result<Option<Event>, Failure> {
        while let Some(notice) = self.events.try_next() {
            match notice {
                Notice::Missed(missed) => {
                    return Err(Failure::with_seen(&missed_text(missed), &self.lines()));
                }
                Notice::Event(event) => {
                    self.enter(&event);
                    if is_wanted(&event) {
                        return Ok(Some(event));
                    }
                }
            }
        }
        Ok(None)
    }

    /// Returns the events seen so far.
    pub fn seen(&self) -> &[Event] {
        &self.seen
    }

    /// Returns the events seen so far as text, without their times.
    pub fn lines(&self) -> Vec<String> {
        self.seen.iter().map(line).collect()
    }

    /// Returns whether the engine has ended and nothing more can come.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Returns all events that have come, also those that were not waited for, as text.
    pub(crate) fn all_lines(&mut self) -> Vec<String> {
        // What was missed is not to be had any more.
        drop(self.take_now(|_| false));
        self.lines()
    }

    async fn next(&mut self) -> Result<Event, String> {
        if self.is_over {
            return Err(ENDED.to_owned());
        }
        let event = next(&self.engine, &mut self.events).await?;
        self.enter(&event);
        Ok(event)
    }

    fn enter(&mut self, event: &Event) {
        // An engine that is nested in this one ends before it.
        self.is_over |= event.kind == EventKind::Finished && event.path() == self.engine.path();
        self.seen.push(event.clone());
    }
}

impl fmt::Debug for EventRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.lines()).finish()
    }
}

/// Waits for the next event that is as wanted, and returns it.
///
/// # Errors
///
/// When the engine ends first, events were missed, or nothing wanted comes within ten minutes by the
/// clock; the failure lists what was seen.
///
/// # Examples
///
/// ```
/// use crankcase_engine::EventKind;
/// use crankcase_testing::{test_engine, wait_for_event};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let engine = test_engine().build()?;
/// let mut events = engine.events();
/// engine.kill();
/// wait_for_event(&engine, &mut events, |event| event.kind == EventKind::Killed).await?;
/// # Ok(()) }
/// ```
pub async fn wait_for_event(
    engine: &Engine,
    events: &mut Events,
    is_wanted: impl Fn(&Event) -> bool,
) -> Result<Event, Failure> {
    let mut seen = Vec::new();
    let wanted = async {
        loop {
            let event = next(engine, events).await?;
            if is_wanted(&event) {
                return Ok(event);
            }
            seen.push(line(&event));
        }
    };
    let came = timeout(LIMIT, wanted).await.unwrap_or_else(|_| Err(late(LIMIT)));
    came.map_err(|text| Failure::with_seen(&text, &seen))
}

/// Returns the next event of an engine that has not ended, or why there is none.
async fn next(engine: &Engine, events: &mut Events) -> Result<Event, String> {
    let notice = tokio::select! {
        biased;
        notice = events.next() => notice,
        // On another thread it may have ended since the look at the events.
        _ = engine.wait() => events.try_next(),
    };
    match notice {
        Some(Notice::Event(event)) => Ok(event),
        Some(Notice::Missed(missed)) => Err(missed_text(missed)),
        None => Err(ENDED.to_owned()),
    }
}

/// Says that the log is shorter than what has happened since the last look.
pub(crate) fn missed_text(missed: u64) -> String {
    let missed = if missed == 1 { "an event was".into() } else { format!("{missed} events were") };
    format!("{missed} missed, which an engine with a larger `event_capacity` keeps")
}

fn late(limit: Duration) -> String {
    format!("nothing came within {limit:?} that was waited for")
}
