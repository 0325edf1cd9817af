//! Admission: a check around a manifold, with its own inputs, that each worker must pass before it
//! is started.
//!
//! Invariants:
//! 1. The wrapped manifold gets exactly the inputs that it declares, each as it declares it.
//! 2. A pass is dropped after the worker's future, its lingering parts and its outputs, and before
//!    the worker is gone.

use std::sync::Arc;

use tokio::task::AbortHandle;

use super::Manifold;
use super::input::{Declared, Given, Inputs};
use crate::machine::Need;
use crate::vocabulary::exit::Exit;
use crate::vocabulary::follow;
use crate::vocabulary::value::{Kind, Value};
use crate::worker::context::Context;
use crate::worker::launch::{Blueprint, Declaration, InputValue, Launch, Outermost};

impl Manifold {
    /// Adds a check that each worker must pass before it is started. The check has its own inputs.
    ///
    /// Use it to wrap a manifold: its inputs, start, outputs, reporter and settings stay as they
    /// are. `admit` is called in the worker's task with the values of `inputs`. If it returns an
    /// error, the worker ends with that error, and its start is not called. A value in `Ok` is kept
    /// until the worker is gone, so also during its blocking work. `admit` should decide at once:
    /// it should return [`Exit::Missing`] instead of waiting. The next change of one of its inputs
    /// calls it again.
    ///
    /// A manifold may have several checks. The check that was added last is called first. If the
    /// manifold already declares one of the inputs, both share it. If they declare it differently,
    /// the stricter declaration decides when the worker is started and bounced. A live view of such
    /// an input keeps its first value, because each new value bounces the worker.
    ///
    /// # Examples
    ///
    /// ```
    /// use crankcase_engine::{Engine, Exit, Manifold, Name};
    ///
    /// const LICENCE: Name<u32> = Name::new("licence");
    /// const WEB: Name<()> = Name::new("web");
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let web = Manifold::builder().run(|(), up| async move {
    ///     up.ready(()).wait().await;
    ///     Ok(())
    /// });
    /// let licensed = web.admitted(LICENCE, |seats, _ctx| match seats {
    ///     0 => Err(Exit::missing("the licence has no seats")),
    ///     seats => Ok(seats),
    /// });
    /// let engine = Engine::builder().build()?;
    /// engine.install(WEB, licensed).await?;
    /// engine.provide(LICENCE, 0).await?;
    /// engine.settled().await?;
    /// let why = engine.why("web").await.map(|why| why.to_string());
    /// assert_eq!(why.as_deref(), Some("/web misses something: the licence has no seats"));
    /// engine.provide(LICENCE, 5).await?;
    /// engine.running(WEB).await?;
    /// engine.stop().await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn admitted<I, A, P>(self, inputs: I, admit: A) -> Self
    where
        I: Inputs,
        A: Fn(I::Values, &Context) -> Result<P, Exit> + Send + Sync + 'static,
        P: Send + 'static,
    {
        let admission = Admission::new(self.blueprint, inputs.into_owned(), admit);
        Self { blueprint: Arc::new(admission), settings: self.settings }
    }
}

/// A manifold with a check around another manifold.
struct Admission<I, A> {
    inner: Arc<dyn Blueprint>,
    inputs: I,
    admit: A,
    /// The inner manifold's inputs, then those of the check. An input that both declare appears
    /// once.
    declared: Box<[Declaration]>,
    /// For each input of the check: its index in `declared`, and its own need.
    own: Box<[(usize, Need)]>,
}

impl<I: Inputs, A> Admission<I, A> {
    fn new(inner: Arc<dyn Blueprint>, inputs: I, admit: A) -> Self {
        let mut declared = inner.inputs().to_vec();
        let mut own = Declared::default();
        inputs.declare(&mut own);
        let own =
            own.inputs.iter().map(|input| (place(&mut declared, input), input.need)).collect();
        Self { inner, inputs, admit, declared: declared.into_boxed_slice(), own }
    }
}

/// Returns the index of an input in `declared`. Adds the input if it is new.
fn place(declared: &mut Vec<Declaration>, input: &Declaration) -> usize {
    let is_same = |other: &Declaration| {
        let is_whole = other.selection.is_none() && input.selection.is_none();
        is_whole && other.name.as_str() == input.name.as_str() && other.kind.id() == input.kind.id()
    };
    if let Some(at) = declared.iter().position(is_same) {
        declared[at].need = stricter(declared[at].need, input.need);
        at
    } else {
        declared.push(input.clone());
        declared.len() - 1
    }
}

/// Returns the need that is met exactly when both needs are met.
fn stricter(one: Need, other: Need) -> Need {
    // The name of a set is no other input's name, so both needs are sets or neither is.
    match (one.bounces() || other.bounces(), one.gates() || other.gates()) {
        (true, true) => Need::Required,
        (true, false) => Need::Optional,
        (false, true) => Need::LiveRequired,
        (false, false) => one,
    }
}

/// Returns the value of one input in the form that one of its declarations asks for.
fn share(
    input_value: &InputValue,
    need: Need,
    kept: &mut Vec<follow::Sender<Option<Value>>>,
) -> InputValue {
    match input_value {
        InputValue::Live(receiver) => InputValue::live(need, receiver.clone(), None),
        InputValue::Latest(receiver, first) => {
            InputValue::live(need, receiver.clone(), Some(Arc::clone(first)))
        }
        InputValue::Set(followed) => InputValue::Set(followed.clone()),
        fixed if need.bounces() => match fixed {
            InputValue::Value(value) => InputValue::Value(Arc::clone(value)),
            _ => InputValue::Absent,
        },
        fixed => {
            let value =
                if let InputValue::Value(value) = fixed { Some(Arc::clone(value)) } else { None };
            let (sender, receiver) = follow::channel(value.clone());
            // Keep the sender. Without it the live view would report that the engine is gone.
            kept.push(sender);
            InputValue::live(need, receiver, value)
        }
    }
}

impl<I, A, P> Blueprint for Admission<I, A>
where
    I: Inputs + Send + Sync + 'static,
    A: Fn(I::Values, &Context) -> Result<P, Exit> + Send + Sync + 'static,
    P: Send + 'static,
{
    fn inputs(&self) -> &[Declaration] {
        &self.declared
    }

    fn offers(&self) -> &[&'static Kind] {
        self.inner.offers()
    }

    fn launch(self: Arc<Self>, mut launch: Launch) -> Option<AbortHandle> {
        let entry = launch.entry.get_or_insert_default();
        if launch.ctx.identity().environment().wrap.is_some() && entry.outermost.is_none() {
            let present = launch.input_values.iter().map(InputValue::is_present).collect();
            entry.outermost = Some(Outermost { manifold: Arc::clone(&self) as _, present });
        }
        let input_values = std::mem::take(&mut launch.input_values);
        let mut kept = Vec::new();
        let theirs = input_values.iter().zip(self.inner.inputs());
        let theirs =
            theirs.map(|(input_value, input)| share(input_value, input.need, &mut kept)).collect();
        let own =
            self.own.iter().map(|(at, need)| share(&input_values[*at], *need, &mut kept)).collect();
        launch.input_values = theirs;
        let admission = Arc::clone(&self);
        launch.entry.get_or_insert_default().checks.push(Box::new(move |ctx| {
            let values = admission.inputs.take(&mut Given::new(own, ctx.clone()));
            let pass = (admission.admit)(values, ctx)?;
            Ok(Box::new((pass, kept)))
        }));
        Arc::clone(&self.inner).launch(launch)
    }
}
