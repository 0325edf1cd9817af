//! The builders of manifolds.

use std::fmt;
use std::marker::PhantomData;

use super::Manifold;
use super::closure::{Blocking, Closure, Offers, Up};
use super::input::Inputs;
use super::staged::{StagedBuilder, Start};
use crate::vocabulary::exit::{Exit, Outcome};
use crate::worker::Worker;
use crate::worker::context::Context;

/// Builds a [`Manifold`]: first its inputs, then its start, then its outputs.
#[must_use = "a builder does nothing until `build` or `run`"]
pub struct Builder<I> {
    inputs: I,
}

impl Manifold {
    /// Returns a builder for a manifold without inputs.
    pub fn builder() -> Builder<()> {
        Builder::new()
    }
}

impl Builder<()> {
    pub(super) fn new() -> Self {
        Self { inputs: () }
    }

    /// Declares the inputs. `start` gets their values, and can use no other worker's output.
    pub fn inputs<I: Inputs>(self, inputs: I) -> Builder<I::Owned> {
        Builder { inputs: inputs.into_owned() }
    }
}

impl<I: Inputs + Send + Sync + 'static> Builder<I> {
    /// Starts a worker with the inputs' values.
    ///
    /// `start` is called once for each generation. It should return soon. Its future is dropped
    /// when the worker is told to stop. The worker fails when the start timeout is over.
    ///
    /// `start` owns what it uses. If it borrows a config, the compiler says E0521 or E0373, and its
    /// advice `move` does not help: give the config to [`start_with`](Self::start_with) instead.
    pub fn start<S, F, W>(self, start: S) -> StagedBuilder<I, impl Start<I::Values, W>, W>
    where
        S: Fn(I::Values, Context) -> F + Send + Sync + 'static, // or `start_with` a config
        F: Future<Output = Result<W, Exit>> + Send + 'static,   // `Ok(worker)`, or an error
        W: Worker,
    {
        StagedBuilder::new(self.inputs, start)
    }

    /// Starts a worker with the inputs' values and a clone of the config for each generation.
    pub fn start_with<C, S, F, W>(
        self,
        config: C,
        start: S,
    ) -> StagedBuilder<I, impl Start<I::Values, W>, W>
    where
        C: Clone + Send + Sync + 'static,
        S: Fn(C, I::Values, Context) -> F + Send + Sync + 'static,
        F: Future<Output = Result<W, Exit>> + Send + 'static, // `Ok(worker)`, or an error
        W: Worker,
    {
        self.start(move |values, ctx| start(config.clone(), values, ctx))
    }

    /// Starts a worker with a function that blocks, on a thread of tokio's blocking pool.
    ///
    /// The function cannot be stopped from outside. A stop during the function waits for its end,
    /// with the usual steps: request to stop, grace, report as stuck. The function can check
    /// [`Context::stop`].
    pub fn start_blocking<S, W>(self, start: S) -> StagedBuilder<I, impl Start<I::Values, W>, W>
    where
        S: Fn(I::Values, &Context) -> Result<W, Exit> + Send + Sync + 'static,
        W: Worker,
    {
        let start = std::sync::Arc::new(start);
        self.start(move |values, ctx| {
            let start = std::sync::Arc::clone(&start);
            async move {
                let stop = ctx.stop().clone();
                stop.blocking(move || start(values, &ctx)).await?
            }
        })
    }

    /// Declares the outputs of a closure worker: a tuple of values; see [`Offers`].
    pub fn offers<O>(self) -> OfferingBuilder<I, O>
    where
        Self: Offering<O>,
    {
        OfferingBuilder { inputs: self.inputs, offers: PhantomData }
    }

    /// Makes a worker from a closure that offers nothing; see [`OfferingBuilder::run`].
    ///
    /// The closure owns what it uses. If it borrows a config, the compiler says E0521 or E0373, and
    /// its advice `move` does not help: give the config to [`run_with`](Self::run_with) instead.
    pub fn run<S, F>(self, run: S) -> Manifold
    where
        S: Fn(I::Values, Up<()>) -> F + Send + Sync + 'static, // or `run_with` a config
        F: Future<Output = Outcome> + Send + 'static,
    {
        self.offers::<()>().run(run)
    }

    /// Makes a worker that offers nothing from a closure that gets a clone of the config for each
    /// generation; see [`OfferingBuilder::run_with`].
    pub fn run_with<C, S, F>(self, config: C, run: S) -> Manifold
    where
        C: Clone + Send + Sync + 'static,
        S: Fn(C, I::Values, Up<()>) -> F + Send + Sync + 'static,
        F: Future<Output = Outcome> + Send + 'static,
    {
        self.offers::<()>().run_with(config, run)
    }

    /// Makes a worker from a blocking function that has a thread of its own; see
    /// [`OfferingBuilder::run_blocking`].
    pub fn run_blocking<S>(self, run: S) -> Manifold
    where
        S: Fn(I::Values, Up<()>) -> Outcome + Send + Sync + 'static,
    {
        self.offers::<()>().run_blocking(run)
    }
}

impl<I> fmt::Debug for Builder<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Builder")
    }
}

/// Says that the outputs `O` are [`Offers`].
///
/// With a plain bound `O: Offers`, the compiler advises a tuple around the builder instead of one
/// around the output.
#[doc(hidden)]
pub trait Offering<O> {}

impl<I, O: Offers> Offering<O> for Builder<I> {}

/// Builds a [`Manifold`] from a closure; made by [`Builder::offers`].
#[must_use = "a builder does nothing until `run`"]
pub struct OfferingBuilder<I, O> {
    inputs: I,
    offers: PhantomData<fn() -> O>,
}

impl<I: Inputs + Send + Sync + 'static, O: Offers> OfferingBuilder<I, O> {
    /// Makes a worker from a closure.
    ///
    /// The worker is up when it calls [`Up::ready`] with its outputs. The call returns its
    /// [`Stop`](crate::Stop). The start and the run are one future. So a stop before `ready` does
    /// not drop the future at once: the engine waits for the worker's end as usual.
    ///
    /// The closure owns what it uses; see [`run_with`](Self::run_with) for a config.
    ///
    /// # Examples
    ///
    /// ```
    /// use crankcase_engine::Manifold;
    ///
    /// #[derive(Clone)]
    /// struct Port(u16);
    ///
    /// let hello = Manifold::builder().offers::<(Port,)>().run(|(), up| async move {
    ///     let stop = up.ready((Port(80),));
    ///     stop.wait().await;
    ///     Ok(())
    /// });
    /// ```
    pub fn run<S, F>(self, run: S) -> Manifold
    where
        S: Fn(I::Values, Up<O>) -> F + Send + Sync + 'static, // or `run_with` a config
        F: Future<Output = Outcome> + Send + 'static,
    {
        Closure::manifold(self.inputs, run)
    }

    /// Makes a worker from a closure that gets a clone of the config for each generation.
    pub fn run_with<C, S, F>(self, config: C, run: S) -> Manifold
    where
        C: Clone + Send + Sync + 'static,
        S: Fn(C, I::Values, Up<O>) -> F + Send + Sync + 'static,
        F: Future<Output = Outcome> + Send + 'static,
    {
        self.run(move |values, up| run(config.clone(), values, up))
    }

    /// Makes a worker from a function that blocks for long, on a thread of its own.
    ///
    /// The function must check its [`Stop`](crate::Stop), because nothing can end it from outside.
    /// A worker that outlives its grace is reported as stuck, and is not started again before the
    /// function has returned.
    pub fn run_blocking<S>(self, run: S) -> Manifold
    where
        S: Fn(I::Values, Up<O>) -> Outcome + Send + Sync + 'static,
    {
        Blocking::manifold(self.inputs, run)
    }
}

impl<I, O> fmt::Debug for OfferingBuilder<I, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OfferingBuilder")
    }
}
