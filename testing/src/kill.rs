//! Ends engines and workers, and checks how they have ended.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crankcase_engine::{Engine, EngineError, Event, EventKind, Events, Exit, Notice, WorkerState};
use tokio::time::timeout;

use crate::bare::Bare;
use crate::failure::Failure;
use crate::recorder::missed_text;
use crate::subject::{is_bad_stop, line};
use crate::wait::{all_turns, within};

/// Something that runs until it is killed: an engine, or a [`Bare`] worker.
pub trait Running: sealed::Sealed {
    /// What it ends with when it does not end well.
    type Error: Display;

    /// Returns whether it has ended.
    fn has_ended(&self) -> bool;

    /// Waits for its end.
    fn wait(self) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Kills it and waits for its end. Returns what was seen to go wrong meanwhile, which of an engine
    /// is that a worker did not end well, and how it has ended.
    fn kill(self) -> impl Future<Output = (Vec<String>, Result<(), Self::Error>)> + Send;
}

mod sealed {
    use crankcase_engine::Engine;

    use crate::bare::Bare;

    pub trait Sealed {}
    impl Sealed for Engine {}
    impl Sealed for Bare {}
}

impl Running for Engine {
    type Error = EngineError;

    fn has_ended(&self) -> bool {
        let wait = pin!(self.wait());
        !matches!(wait.poll(&mut Context::from_waker(Waker::noop())), Poll::Pending)
    }

    async fn wait(self) -> Result<(), EngineError> {
        Self::wait(&self).await
    }

    async fn kill(self) -> (Vec<String>, Result<(), EngineError>) {
        let events = self.events();
        let stops = Stops::under_way(&self).await;
        Self::kill(&self);
        let wrong = bad_stops(&self, (stops, events)).await;
        (wrong, Self::wait(&self).await)
    }
}

/// Follows an engine that was killed to its end, and returns which workers did not end well.
async fn bad_stops(engine: &Engine, (mut stops, mut events): (Stops, Events)) -> Vec<String> {
    loop {
        let notice = tokio::select! {
            biased;
            notice = events.next() => notice,
            _ = Engine::wait(engine) => events.try_next(),
        };
        match notice {
            Some(Notice::Event(event)) => {
                if event.kind == EventKind::Finished && event.path() == engine.path() {
                    return stops.bad;
                }
                stops.see(&event);
            }
            Some(Notice::Missed(missed)) => {
                stops.bad.push(missed_text(missed));
            }
            None => return stops.bad,
        }
    }
}

/// Sees how workers end that are told to stop.
#[derive(Default)]
struct Stops {
    told: BTreeSet<String>,
    /// Those that have not ended in their grace and without an error.
    bad: Vec<String>,
}

impl Stops {
    /// Returns who is told already in an engine and in those nested in it.
    async fn under_way(engine: &Engine) -> Self {
        let mut stops = Self::default();
        for engine in engine.engines() {
            let nodes = engine.graph().await.into_iter().flat_map(|graph| graph.nodes);
            for node in nodes {
                match node.state {
                    WorkerState::Stopping => {
                        stops.told.insert(node.path);
                    }
                    WorkerState::Aborting | WorkerState::Stuck => {
                        stops.bad.push(format!("{} is {}", node.path, node.state));
                    }
                    _ => {}
                }
            }
        }
        stops
    }

    fn see(&mut self, event: &Event) {
        let was_told = match event.kind {
            EventKind::Stopping => {
                self.told.insert(event.path());
                return;
            }
            EventKind::Aborted | EventKind::Stuck => self.told.contains(&event.path()),
            // What it does before it is told is its own affair.
            EventKind::Ended { .. } => self.told.remove(&event.path()),
            _ => return,
        };
        if was_told && is_bad_stop(&event.kind) {
            self.bad.push(line(event));
        }
    }
}

impl Running for Bare {
    type Error = Exit;

    fn has_ended(&self) -> bool {
        Self::has_ended(self)
    }

    async fn wait(mut self) -> Result<(), Exit> {
        self.outcome().await
    }

    async fn kill(mut self) -> (Vec<String>, Result<(), Exit>) {
        self.stopper().stop();
        (Vec::new(), self.outcome().await)
    }
}

/// Lets everything that can run have its turn, and checks that something has not ended.
///
/// The clock stands still meanwhile. What runs on other threads may end later.
///
/// # Errors
///
/// When it has ended.
pub async fn check_alive<R: Running + Sync>(running: &R) -> Result<(), Failure> {
    all_turns().await;
    if running.has_ended() { Err(Failure::new("it has ended")) } else { Ok(()) }
}

/// Waits until something ends that was told to stop, or that ends by itself, and returns how.
///
/// # Errors
///
/// When it has not ended within this time.
pub async fn check_killed<R: Running>(
    running: R,
    within: Duration,
) -> Result<Result<(), R::Error>, Failure> {
    let ended = timeout(within, running.wait()).await;
    ended.map_err(|_| Failure::new(format!("it has not ended within {within:?}")))
}

/// Kills something and returns how it ended, well or not.
///
/// # Errors
///
/// When it has not ended within this time.
pub async fn check_kill<R: Running>(
    running: R,
    within: Duration,
) -> Result<Result<(), R::Error>, Failure> {
    let killed = timeout(within, running.kill()).await;
    let (_wrong, ended) =
        killed.map_err(|_| Failure::new(format!("it has not ended within {within:?}")))?;
    Ok(ended)
}

/// Ends something that is to end well.
///
/// An engine ends well when all its workers do, and those of engines nested in it: when they are told
/// to stop, or were when this is called, each ends in its grace and without an error. What they did
/// before is not looked at.
///
/// # Errors
///
/// When it ends with an error, or has not ended within ten minutes by the clock; an engine also when
/// a worker does not end well, or is left behind, and when its events come faster than they are read,
/// so that this cannot be said.
pub async fn clean_kill<R: Running>(running: R) -> Result<(), Failure> {
    let (wrong, ended) = within(not_ended, running.kill()).await?;
    let text = match ended {
        Ok(()) if wrong.is_empty() => return Ok(()),
        Ok(()) => "it did not end well".to_owned(),
        Err(error) => format!("it did not end well: {error}"),
    };
    Err(if wrong.is_empty() { Failure::new(text) } else { Failure::with_seen(&text, &wrong) })
}

/// Ends something that is to end with an error, and returns the error.
///
/// # Errors
///
/// When it ends well, or has not ended within ten minutes by the clock.
pub async fn dirty_kill<R: Running>(running: R) -> Result<R::Error, Failure> {
    match within(not_ended, running.kill()).await? {
        (_, Ok(())) => Err(Failure::new("it ended well, but an error was expected")),
        (_, Err(error)) => Ok(error),
    }
}

fn not_ended() -> String {
    "it has not ended".to_owned()
}
