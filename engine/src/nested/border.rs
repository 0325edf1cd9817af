//! Passes one value from one engine of a tree into another.
//!
//! A border has two workers. The *source* is in the engine of the manifold that offers the value,
//! and depends on it. The *sink* offers the value in the other engine, under the name that is used
//! there. Both run on the engine's runtime, and neither clones the value. So a border works even if
//! workers block all threads of their runtime.
//!
//! The two come and go together. A new value restarts neither: the sink follows the values in the
//! source's engine, and publishes each in its own.
//!
//! Invariants:
//! 1. The sink offers values only while the source holds their worker.
//! 2. A source ends after every sink that offers its value, and a sink ends after all its users. So
//!    when the engines stop workers, users stop before what they use, even across the border.
//! 3. When the source's value is lost, the sink ends by itself, and its users learn of it at once.
//! 4. The sink is asked to bounce only if it has looked at the border since the last change. One
//!    change asks once.
//! 5. The other engine is never called under the lock, because a call may take a whole turn of its
//!    loop.

use std::future::pending;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::engine::Engine;
use crate::manifolds::Manifold;
use crate::manifolds::closure::{Passed, Up};
use crate::manifolds::input::named::{HeldInput, Selected};
use crate::vocabulary::exit::{Exit, Outcome};
use crate::vocabulary::follow;
use crate::vocabulary::name::{Name, Text};
use crate::vocabulary::policy::LONG;
use crate::vocabulary::value::{Kind, Value};
use crate::worker::publish::Passing;

/// The direction in which a value passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// Into the nested engine.
    In,
    /// Out of the nested engine.
    Out,
}

/// A border with its type erased.
pub(super) trait Crossing: Send + Sync {
    fn direction(&self) -> Direction;

    fn source_text(&self) -> &Text;

    fn sink_text(&self) -> &Text;

    fn sink_kind(&self) -> &'static Kind;

    /// Sets the engine that holds the sink from now on. The sink has no worker there yet.
    fn lead_to(&self, engine: Engine);

    /// Returns the manifold of the source, which hands the value over.
    fn source(self: Arc<Self>) -> Manifold;

    /// Returns the manifold of the sink, which offers the value while the names in `needs` are up.
    fn sink(self: Arc<Self>, needs: Vec<Name<()>>) -> Manifold;
}

/// The state that the two workers of a border share.
pub(super) struct Border<T> {
    /// The value in the source's engine.
    source: Selected<T>,
    /// The value's name in the sink's engine.
    sink: Name<T>,
    direction: Direction,
    state: Mutex<BorderState>,
    /// Notifies that the value was lost, or that a sink has stopped offering it.
    changed: Notify,
}

struct BorderState {
    /// The values that pass, while the source has them.
    passing: Option<Passing>,
    /// The current engine of the sink.
    engine: Option<Engine>,
    /// Whether the sink has looked at the current value, or has seen that there is none.
    has_looked: bool,
    /// How often the value was lost because its worker ended by itself. This is a count, because a
    /// sink that looks after the value is back must still see the loss.
    losses: u64,
    /// The number of sinks that offer a value. A sink that was replaced may not have ended yet.
    offering: usize,
}

impl<T: Clone + Send + Sync + 'static> Border<T> {
    pub(super) fn new(source: Selected<T>, sink: Name<T>, direction: Direction) -> Arc<Self> {
        let state =
            BorderState { passing: None, engine: None, has_looked: false, losses: 0, offering: 0 };
        Arc::new(Self { source, sink, direction, state: Mutex::new(state), changed: Notify::new() })
    }

    fn missing(&self) -> Exit {
        let whose = match self.direction {
            Direction::In => "outer",
            Direction::Out => "nested",
        };
        Exit::missing(format!("{:?} of the {whose} engine", self.source.name().as_str()))
    }

    /// Returns the values for a sink that will offer them.
    fn look(self: &Arc<Self>) -> Result<(Passing, Offering<T>), Exit> {
        let mut state = self.state.lock();
        state.has_looked = true;
        let passing = state.passing.clone().ok_or_else(|| self.missing())?;
        state.offering += 1;
        let losses = state.losses;
        Ok((passing, Offering { border: Arc::clone(self), losses }))
    }

    /// Begins or ends to pass values. Bounces the sink if it has looked since the last time.
    fn set(&self, passing: Option<Passing>) {
        let mut state = self.state.lock();
        if passing.is_none() && state.passing.is_none() {
            return;
        }
        let why = if passing.is_some() { "it has come" } else { "it is going" };
        let before = std::mem::replace(&mut state.passing, passing);
        let has_looked = std::mem::take(&mut state.has_looked);
        let engine = if has_looked { state.engine.clone() } else { None };
        drop(state);
        drop(before);
        if let Some(engine) = engine {
            // Nobody waits for this answer: the source waits until no sink offers the value.
            drop(engine.asked_by(self.source.name().as_str(), why).bounce(self.sink.clone()));
        }
    }

    /// Ends to pass values because their worker has ended by itself.
    fn lose(&self) {
        let mut state = self.state.lock();
        state.losses += 1;
        let before = state.passing.take();
        drop(state);
        drop(before);
        self.changed.notify_waiters();
    }

    async fn wait_until(&self, is_so: impl Fn(&BorderState) -> bool) {
        loop {
            let changed = self.changed.notified();
            if is_so(&self.state.lock()) {
                return;
            }
            changed.await;
        }
    }
}

/// A sink that offers a value. Dropped when the sink's worker ends, after all users of the value.
struct Offering<T> {
    border: Arc<Border<T>>,
    /// The number of losses when the sink looked.
    losses: u64,
}

impl<T> Drop for Offering<T> {
    fn drop(&mut self) {
        self.border.state.lock().offering -= 1;
        self.border.changed.notify_waiters();
    }
}

impl<T: Clone + Send + Sync + 'static> Crossing for Border<T> {
    fn direction(&self) -> Direction {
        self.direction
    }

    fn source_text(&self) -> &Text {
        self.source.name()
    }

    fn sink_text(&self) -> &Text {
        self.sink.text()
    }

    fn sink_kind(&self) -> &'static Kind {
        Kind::of::<T>()
    }

    fn lead_to(&self, engine: Engine) {
        let mut state = self.state.lock();
        let before = state.engine.replace(engine);
        state.has_looked = false;
        drop(state);
        drop(before);
    }

    fn source(self: Arc<Self>) -> Manifold {
        let run = |border: Arc<Self>, receiver, up: Up<()>| async move {
            let held = Held::new(&border, receiver);
            let stop = up.ready(());
            // Users may learn of the loss even while they stop.
            let passing_on = async {
                stop.only_input_lost().await;
                border.lose();
                pending().await
            };
            let holding = async {
                stop.wait().await;
                held.take_back().await;
                Ok(())
            };
            tokio::select! {
                biased;
                outcome = passing_on => outcome,
                outcome = holding => outcome,
            }
        };
        let source = Manifold::builder().inputs(HeldInput(self.source.clone())).offers::<()>();
        // The users that the source waits for have their own graces.
        source.run_with(self, run).grace(LONG).beside_engine()
    }

    fn sink(self: Arc<Self>, needs: Vec<Name<()>>) -> Manifold {
        let run = |border: Arc<Self>, _: Vec<()>, up: Up<(Passed<T>,)>| async move {
            let (mut passing, offering) = border.look()?;
            let workers = &up.context().identity().environment().workers;
            let first = passing.first(workers).await.ok_or_else(|| border.missing())?;
            // The selection may have taken a while.
            if border.state.lock().losses != offering.losses {
                return Err(border.missing());
            }
            let stop = up.ready((Passed { first, passing, values: PhantomData },));
            tokio::select! {
                biased;
                () = stop.wait() => Outcome::Ok(()),
                () = border.wait_until(|state| state.losses != offering.losses) => {
                    Err(border.missing())
                }
            }
        };
        let sink = Manifold::builder().inputs(needs).offers::<(Passed<T>,)>();
        sink.run_with(self, run).bounce_delay(Duration::ZERO).beside_engine()
    }
}

/// The values that a source hands over. Dropping this takes them back without waiting.
struct Held<'a, T: Clone + Send + Sync + 'static> {
    border: &'a Border<T>,
}

impl<'a, T: Clone + Send + Sync + 'static> Held<'a, T> {
    fn new(border: &'a Border<T>, receiver: follow::Receiver<Option<Value>>) -> Self {
        let selection = border.source.selection();
        border.set(Some(Passing { receiver, selection }));
        Self { border }
    }

    /// Takes the values back, and waits until no sink offers them.
    async fn take_back(&self) {
        self.border.set(None);
        self.border.wait_until(|state| state.offering == 0).await;
    }
}

impl<T: Clone + Send + Sync + 'static> Drop for Held<'_, T> {
    fn drop(&mut self) {
        self.border.set(None);
    }
}
