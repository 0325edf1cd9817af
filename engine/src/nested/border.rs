//! One value that passes from one engine of a tree into another.
//!
//! A border has two workers. The *source* stands beside the manifold that offers the value, and
//! depends on it. The *sink* offers the value in the other engine, under the name that is used
//! there.
//!
//! Invariants:
//! 1. The sink offers a value only while the source holds it.
//! 2. A source that is told to stop ends after the sink's worker has, and that after all who use
//!    it: so on the engines' initiative users stop before what they use, across the border too.
//! 3. The sink is bounced only if it has looked at the border since the value changed.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::change::ChangeError;
use crate::engine::{Applied, Engine};
use crate::exit::{Exit, Outcome};
use crate::manifold::{Manifold, Up};
use crate::name::{Name, Text};
use crate::policy::LONG;
use crate::value::Kind;

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
    state: Mutex<State<T>>,
}

struct State<T> {
    /// Shared, so that nothing of the user's is cloned or dropped under the lock.
    value: Option<Arc<T>>,
    /// The engine that the sink is in now.
    engine: Option<Engine>,
    /// Whether the sink has seen the present value, or that there is none.
    has_looked: bool,
}

impl<T: Clone + Send + Sync + 'static> Border<T> {
    pub(super) fn new(source: Name<T>, sink: Name<T>, direction: Direction) -> Arc<Self> {
        let state = State { value: None, engine: None, has_looked: false };
        Arc::new(Self { source, sink, direction, state: Mutex::new(state) })
    }

    fn look(&self) -> Result<Arc<T>, Exit> {
        let mut state = self.state.lock();
        state.has_looked = true;
        state.value.clone().ok_or_else(|| {
            let whose = match self.direction {
                Direction::In => "outer",
                Direction::Out => "nested",
            };
            Exit::missing(format!("{:?} of the {whose} engine", self.source.as_str()))
        })
    }

    /// Changes the value. Returns the sink's engine and its bounce, if it has seen the one before.
    fn set(&self, value: Option<Arc<T>>) -> Option<(Engine, Applied)> {
        let mut state = self.state.lock();
        let before = std::mem::replace(&mut state.value, value);
        let has_looked = std::mem::take(&mut state.has_looked);
        let engine = state.engine.clone();
        drop(state);
        drop(before);
        let engine = engine.filter(|_| has_looked)?;
        let bounced = engine.asked_by(self.source.as_str(), "it changed").bounce(&self.sink);
        Some((engine, bounced))
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
        state.engine = Some(engine);
        state.has_looked = false;
    }

    fn source(self: Arc<Self>) -> Manifold {
        let run = |border: Arc<Self>, value: T, up: Up<()>| async move {
            let held = Held::new(&border, value);
            up.ready(()).wait().await;
            held.let_go().await;
            Ok(())
        };
        let source = Manifold::builder().inputs(self.source.clone()).offers::<()>();
        // What is waited for has graces of its own.
        source.run_with(self, run).grace(LONG)
    }

    fn sink(self: Arc<Self>, needs: Vec<Name<()>>) -> Manifold {
        let run = |border: Arc<Self>, _: Vec<()>, up: Up<(T,)>| async move {
            let value = border.look()?;
            up.ready((T::clone(&value),)).wait().await;
            Outcome::Ok(())
        };
        let sink = Manifold::builder().inputs(needs).offers::<(T,)>();
        sink.run_with(self, run).bounce_delay(Duration::ZERO)
    }
}

/// A value that a source has handed over. Dropping it takes the value back without waiting.
struct Held<'a, T: Clone + Send + Sync + 'static> {
    border: &'a Border<T>,
    is_held: bool,
}

impl<'a, T: Clone + Send + Sync + 'static> Held<'a, T> {
    fn new(border: &'a Border<T>, value: T) -> Self {
        drop(border.set(Some(Arc::new(value))));
        Self { border, is_held: true }
    }

    /// Takes the value back, and waits until nobody uses it.
    async fn let_go(mut self) {
        if let Some((engine, bounced)) = self.border.set(None) {
            let is_stopping = bounced.await == Err(ChangeError::Stopped);
            // A nested engine that ends takes the users with it. An outer one waits for this worker.
            if is_stopping && self.border.direction == Direction::In {
                drop(engine.wait().await);
            }
        }
        self.is_held = false;
    }
}

impl<T: Clone + Send + Sync + 'static> Drop for Held<'_, T> {
    fn drop(&mut self) {
        if self.is_held {
            drop(self.border.set(None));
        }
    }
}
