//! One value that passes from one engine of a tree into another.
//!
//! A border has two workers. The *source* stands beside the manifold that offers the value, and
//! depends on it. The *sink* offers the value in the other engine, under the name that is used
//! there. Both run beside the engine, and neither clones the value: what takes all threads of the
//! workers holds up no border.
//!
//! Invariants:
//! 1. The sink offers a value only while the source holds it.
//! 2. A source ends after every sink that offers its value has, and a sink after all who use it: so
//!    on the engines' initiative users stop before what they use, across the border too.
//! 3. When the source's value is lost the sink ends by itself, and its users are told at once.
//! 4. The sink is asked to bounce only if it had looked at the border when the value changed, and a
//!    change asks once.
//! 5. The other engine is called without the lock: a call may take a whole turn of its loop.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::Notify;

use crate::engine::Engine;
use crate::manifolds::Manifold;
use crate::manifolds::closure::{Passed, Up};
use crate::manifolds::input::SharedInput;
use crate::vocabulary::exit::{Exit, Outcome};
use crate::vocabulary::name::{Name, Text};
use crate::vocabulary::policy::LONG;
use crate::vocabulary::value::Kind;

/// Which way a value passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// Into the nested engine.
    In,
    /// Out of it.
    Out,
}

/// A border, its type erased.
pub(super) trait Crossing: Send + Sync {
    fn direction(&self) -> Direction;

    fn source_text(&self) -> &Text;

    fn sink_text(&self) -> &Text;

    fn sink_kind(&self) -> &'static Kind;

    /// Says which engine the sink is in from now on. It has no worker there yet.
    fn lead_to(&self, engine: Engine);

    /// Returns the manifold of the worker that hands the value over.
    fn source(self: Arc<Self>) -> Manifold;

    /// Returns the manifold of the worker that offers the value while these names are up.
    fn sink(self: Arc<Self>, needs: Vec<Name<()>>) -> Manifold;
}

/// What the two workers of a border share.
pub(super) struct Border<T> {
    /// What the value is called where it comes from.
    source: Name<T>,
    /// What it is called where it goes.
    sink: Name<T>,
    direction: Direction,
    state: Mutex<BorderState<T>>,
    /// Tells that the value was lost, or that no sink offers it any more.
    changed: Notify,
}

struct BorderState<T> {
    /// Shared, so that nothing of the user's is cloned or dropped under the lock.
    value: Option<Arc<T>>,
    /// The engine that the sink is in now.
    engine: Option<Engine>,
    /// Whether the sink has seen the present value, or that there is none.
    has_looked: bool,
    /// How often what offered the value has ended by itself. A count: a sink that looks after the
    /// value is back must see the loss.
    losses: u64,
    /// Sinks that offer a value; one that is replaced may not have ended yet.
    offering: usize,
}

impl<T: Clone + Send + Sync + 'static> Border<T> {
    pub(super) fn new(source: Name<T>, sink: Name<T>, direction: Direction) -> Arc<Self> {
        let state =
            BorderState { value: None, engine: None, has_looked: false, losses: 0, offering: 0 };
        Arc::new(Self { source, sink, direction, state: Mutex::new(state), changed: Notify::new() })
    }

    fn missing(&self) -> Exit {
        let whose = match self.direction {
            Direction::In => "outer",
            Direction::Out => "nested",
        };
        Exit::missing(format!("{:?} of the {whose} engine", self.source.as_str()))
    }

    /// Returns the value for a sink that is going to offer it.
    fn look(self: &Arc<Self>) -> Result<(Arc<T>, Offering<T>), Exit> {
        let mut state = self.state.lock();
        state.has_looked = true;
        let value = state.value.clone().ok_or_else(|| self.missing())?;
        state.offering += 1;
        let losses = state.losses;
        Ok((value, Offering { border: Arc::clone(self), losses }))
    }

    /// Changes the value, and bounces the sink if it has seen the one before, which is returned.
    fn set(&self, value: Option<Arc<T>>) -> Option<Arc<T>> {
        let mut state = self.state.lock();
        if value.is_none() && state.value.is_none() {
            return None;
        }
        let why = if value.is_some() { "it has come" } else { "it is going" };
        let before = std::mem::replace(&mut state.value, value);
        let has_looked = std::mem::take(&mut state.has_looked);
        let engine = if has_looked { state.engine.clone() } else { None };
        drop(state);
        if let Some(engine) = engine {
            // Whoever waits for the sink waits for its end, and not for this answer.
            drop(engine.asked_by(self.source.as_str(), why).bounce(&self.sink));
        }
        before
    }

    /// Takes the value back because what offered it has ended by itself.
    fn lose(&self) -> Option<Arc<T>> {
        let mut state = self.state.lock();
        state.losses += 1;
        let before = state.value.take();
        drop(state);
        self.changed.notify_waiters();
        before
    }

    async fn wait_until(&self, is_so: impl Fn(&BorderState<T>) -> bool) {
        loop {
            let changed = self.changed.notified();
            if is_so(&self.state.lock()) {
                return;
            }
            changed.await;
        }
    }
}

/// A sink that offers a value. It is dropped when the sink's worker ends, after all who use it.
struct Offering<T> {
    border: Arc<Border<T>>,
    /// The losses that there had been when the sink looked.
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
        self.source.text()
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
        let run = |border: Arc<Self>, value: Arc<T>, up: Up<()>| async move {
            let workers = up.context().identity().environment().workers.clone();
            let held = Held::new(&border, value, workers);
            let stop = up.ready(());
            // Who uses the value may be told of its loss while they stop, too.
            let passing_on = async {
                stop.only_input_lost().await;
                held.lose();
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
        let source = Manifold::builder().inputs(SharedInput(self.source.clone())).offers::<()>();
        // What is waited for has graces of its own.
        source.run_with(self, run).grace(LONG).beside_engine()
    }

    fn sink(self: Arc<Self>, needs: Vec<Name<()>>) -> Manifold {
        let run = |border: Arc<Self>, _: Vec<()>, up: Up<(Passed<T>,)>| async move {
            let (value, offering) = border.look()?;
            let stop = up.ready((Passed(value),));
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

/// A value that a source has handed over. Dropping it takes the value back without waiting.
struct Held<'a, T: Clone + Send + Sync + 'static> {
    border: &'a Border<T>,
    /// Where values are dropped, which is foreign code.
    workers: Handle,
}

impl<'a, T: Clone + Send + Sync + 'static> Held<'a, T> {
    fn new(border: &'a Border<T>, value: Arc<T>, workers: Handle) -> Self {
        let held = Self { border, workers };
        held.discard(border.set(Some(value)));
        held
    }

    fn lose(&self) {
        self.discard(self.border.lose());
    }

    /// Takes the value back, and waits until nobody uses it.
    async fn take_back(&self) {
        self.discard(self.border.set(None));
        self.border.wait_until(|state| state.offering == 0).await;
    }

    fn discard(&self, value: Option<Arc<T>>) {
        if value.is_some() {
            drop(self.workers.spawn(async move { drop(value) }));
        }
    }
}

impl<T: Clone + Send + Sync + 'static> Drop for Held<'_, T> {
    fn drop(&mut self) {
        self.discard(self.border.set(None));
    }
}
