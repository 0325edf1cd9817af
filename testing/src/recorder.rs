use std::fmt;

use crankcase_engine::{Engine, Event, EventKind, Events, Notice, WorkerState};

use crate::failure::Failure;

/// Collects an engine's events from the moment it was made.
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
}

impl EventRecorder {
    /// Begins to collect.
    pub fn new(engine: &Engine) -> Self {
        let events = engine.events();
        Self { engine: engine.clone(), events, seen: Vec::new(), is_over: false }
    }

    /// Waits for the next event that is as wanted, and returns it. Those before it count as seen.
    ///
    /// # Errors
    ///
    /// When the engine ends first, or events were missed; the failure lists what was seen.
    pub async fn wait_for(&mut self, is_wanted: impl Fn(&Event) -> bool) -> Result<Event, Failure> {
        loop {
            let event = self.next().await?;
            if is_wanted(&event) {
                return Ok(event);
            }
        }
    }

    /// Waits until a worker, by its path, does what is wanted; see [`wait_for`](Self::wait_for).
    ///
    /// # Errors
    ///
    /// As [`wait_for`](Self::wait_for).
    pub async fn wait_for_kind(
        &mut self,
        path: &str,
        is_wanted: impl Fn(&EventKind) -> bool,
    ) -> Result<Event, Failure> {
        self.wait_for(|event| event.path() == path && is_wanted(&event.kind)).await
    }

    /// Waits until the engine has ended, and collects all that is left.
    ///
    /// # Errors
    ///
    /// When events were missed.
    pub async fn finish(&mut self) -> Result<(), Failure> {
        while !self.is_over {
            self.next().await?;
        }
        Ok(())
    }

    /// Looks through the events that have come, up to the first that is as wanted.
    pub(crate) fn take_now(
        &mut self,
        is_wanted: impl Fn(&Event) -> bool,
    ) -> Result<Option<Event>, Failure> {
        while let Some(notice) = self.events.try_next() {
            match notice {
                Notice::Missed(missed) => {
                    let text = format!("{missed} events were missed");
                    return Err(Failure::with_seen(&text, &self.lines()));
                }
                Notice::Event(event) => {
                    self.seen.push(event.clone());
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

    async fn next(&mut self) -> Result<Event, Failure> {
        let text = "the engine has ended and nothing came that was waited for";
        if self.is_over {
            return Err(Failure::with_seen(text, &self.lines()));
        }
        let event = next(&self.engine, &mut self.events).await;
        let event = event.map_err(|text| Failure::with_seen(&text, &self.lines()))?;
        // An engine that is nested in this one ends before it.
        self.is_over = event.kind == EventKind::Finished && event.path() == self.engine.path();
        self.seen.push(event.clone());
        Ok(event)
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
/// When the engine ends first, or events were missed; the failure lists what was seen.
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
    loop {
        let event = next(engine, events).await.map_err(|text| Failure::with_seen(&text, &seen))?;
        if is_wanted(&event) {
            return Ok(event);
        }
        seen.push(line(&event));
    }
}

/// Waits until a worker, by its name, is in a state that lasts.
///
/// It looks again at each event, so a state that is left at once may be missed: wait for its event
/// instead.
///
/// # Errors
///
/// When the engine ends first; the failure lists the states that the worker was in.
///
/// # Examples
///
/// ```
/// use crankcase_engine::{Exit, Name, WorkerState};
/// use crankcase_testing::{Script, clean_kill, test_engine, wait_for_state};
///
/// const WEB: Name<u32> = Name::new("web");
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let engine = test_engine().build()?;
/// let script = Script::new();
/// script.fail_start(Exit::missing("its licence"));
/// engine.install(WEB, script.manifold(())).await?;
/// wait_for_state(&engine, "web", WorkerState::Missing).await?;
/// clean_kill(engine).await?;
/// # Ok(()) }
/// ```
pub async fn wait_for_state(
    engine: &Engine,
    name: &str,
    wanted: WorkerState,
) -> Result<(), Failure> {
    let mut events = engine.events();
    let mut seen: Vec<String> = Vec::new();
    loop {
        let expected = || format!("{name:?} was never {wanted}: the engine has ended");
        let graph = engine.graph().await.ok_or_else(|| Failure::with_seen(&expected(), &seen))?;
        let node = graph.nodes.iter().find(|node| node.name == name);
        let state = node.map_or(WorkerState::Absent, |node| node.state);
        if state == wanted {
            return Ok(());
        }
        if seen.last().is_none_or(|last| last != state.as_str()) {
            seen.push(state.to_string());
        }
        // How many events were missed does not matter: the state is looked at anew.
        tokio::select! {
            biased;
            _ = events.next() => {}
            _ = engine.wait() => {}
        }
    }
}

/// Returns the next event of an engine that has not ended, or why there is none.
async fn next(engine: &Engine, events: &mut Events) -> Result<Event, String> {
    let notice = tokio::select! {
        biased;
        notice = events.next() => notice,
        _ = engine.wait() => None,
    };
    match notice {
        Some(Notice::Event(event)) => Ok(event),
        Some(Notice::Missed(missed)) => Err(format!("{missed} events were missed")),
        None => Err("the engine has ended and nothing came that was waited for".to_owned()),
    }
}

fn line(event: &Event) -> String {
    format!("{} {}", event.path(), event.kind)
}
