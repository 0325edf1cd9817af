//! What a worker must pass before it is started: a check with inputs of its own, put around a
//! manifold.
//!
//! Invariants:
//! 1. The wrapped manifold is given exactly the inputs that it declares, each as it declares it.
//! 2. A pass is dropped after the worker's future, all that lingers of it and what it offered, and
//!    before the worker is gone.

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
    /// Admits each worker by a check on further inputs, before it is started.
    ///
    /// It is how a manifold is wrapped: its inputs, start, outputs, reporter and settings stay as
    /// they are. `admit` is called in the worker's task with the values of `inputs`; with an error
    /// the worker ends by it before its start is called, and what `Ok` holds is kept for as long as
    /// the worker lives, its blocking work included. `admit` should decide at once: say
    /// [`Exit::Missing`] rather than wait, and the next change of one of its inputs asks again.
    ///
    /// A manifold may be admitted several times; the last check that was added is asked first. An
    /// input that the manifold declares itself is shared. If the two declare it differently, the
    /// worker is started and bounced as the stricter of them asks, and a live view then keeps its
    /// first value, because any other one bounces the worker.
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
    /// engine.running(&WEB).await?;
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

/// The manifold around another one.
struct Admission<I, A> {
    inner: Arc<dyn Blueprint>,
    inputs: I,
    admit: A,
    /// The inner manifold's inputs and then those of the check, each once.
    declared: Box<[Declaration]>,
    /// Where the inputs of the check are among them, and how it declares them.
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

/// Returns where an input is among those declared, and adds it if it is new.
fn place(declared: &mut Vec<Declaration>, input: &Declaration) -> usize {
    let is_same = |other: &Declaration| {
        other.name.as_str() == input.name.as_str() && other.kind.id() == input.kind.id()
    };
    if let Some(at) = declared.iter().position(is_same) {
        declared[at].need = stricter(declared[at].need, input.need);
        at
    } else {
        declared.push(input.clone());
        declared.len() - 1
    }
}

/// Returns the need that is met exactly when both are.
fn stricter(one: Need, other: Need) -> Need {
    match (one.bounces() || other.bounces(), one.gates() || other.gates()) {
        (true, true) => Need::Required,
        (true, false) => Need::Optional,
        (false, true) => Need::LiveRequired,
        (false, false) => Need::Live,
    }
}

/// Gives of what was given for all inputs what one declaration asks for.
fn share(
    input_value: &InputValue,
    need: Need,
    kept: &mut Vec<follow::Sender<Option<Value>>>,
) -> InputValue {
    match input_value {
        InputValue::Live(receiver) => InputValue::Live(receiver.clone()),
        fixed if need.bounces() => match fixed {
            InputValue::Value(value) => InputValue::Value(Arc::clone(value)),
            _ => InputValue::Absent,
        },
        fixed => {
            let value =
                if let InputValue::Value(value) = fixed { Some(Arc::clone(value)) } else { None };
            let (sender, receiver) = follow::channel(value);
            // While it lives the view is not closed, which would say that the engine is gone.
            kept.push(sender);
            InputValue::Live(receiver)
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
