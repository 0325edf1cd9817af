//! Staged workers: `start` returns the worker, and the worker then runs.

use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;

use smallvec::SmallVec;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::closure::Changing;
use super::input::{Given, Inputs};
use super::publisher::Publisher;
use super::{Body, Definition, Kinds, Manifold};
use crate::seen::report::{self, Detail, ReportFn};
use crate::vocabulary::exit::Exit;
use crate::vocabulary::value::{Kind, Value};
use crate::worker::Worker;
use crate::worker::context::Context;
use crate::worker::host::Identity;
use crate::worker::launch::{InputValues, Launch};
use crate::worker::publish::{Changes, Handoff};
use crate::worker::task::{Offered, Steps, TaskState};

/// A function that starts a worker. Every function or closure that returns such a future is one.
pub trait Start<V, W>: Send + Sync + 'static {
    /// The future of a start.
    type Future: Future<Output = Result<W, Exit>> + Send + 'static;

    /// Begins to start a worker.
    fn start(&self, values: V, ctx: Context) -> Self::Future;
}

impl<S, F, V, W> Start<V, W> for S
where
    S: Fn(V, Context) -> F + Send + Sync + 'static,
    F: Future<Output = Result<W, Exit>> + Send + 'static,
{
    type Future = F;

    fn start(&self, values: V, ctx: Context) -> F {
        self(values, ctx)
    }
}

/// Builds a [`Manifold`] with separate steps to start and to run a worker; made by
/// [`Builder::start`](super::builder::Builder::start).
///
/// Outputs and the reporter are taken from the worker after its start and before its run.
#[must_use = "a builder does nothing until `build`"]
pub struct StagedBuilder<I, S, W> {
    staged: Staged<I, S, W>,
    offers: Kinds,
}

impl<I, S, W> StagedBuilder<I, S, W>
where
    I: Inputs + Send + Sync + 'static,
    S: Start<I::Values, W>,
    W: Worker,
{
    #[inline]
    pub(super) fn new(inputs: I, start: S) -> Self {
        let (outputs, reporter) = (SmallVec::new(), None);
        let staged = Staged { inputs, start, outputs, reporter, worker: PhantomData };
        Self { staged, offers: SmallVec::new() }
    }

    /// Offers a value under the manifold's name. Each output must have a different type.
    ///
    /// The value belongs to one generation. It is cloned for each user, so make it cheap to clone.
    #[inline]
    pub fn output<T>(self, output: impl Fn(&W) -> T + Send + Sync + 'static) -> Self
    where
        T: Clone + Send + Sync + 'static,
    {
        let fixed =
            move |worker: &W, _: &Identity, _: &mut Changes| -> Value { Arc::new(output(worker)) };
        self.offer::<T>(Box::new(fixed))
    }

    /// Offers a value that changes while the worker runs.
    ///
    /// A new value that differs from the one before bounces the users that require it. Users that
    /// follow it see it as the next value. If values come too fast, some are skipped, but never the
    /// last.
    pub fn changing<T>(
        self,
        output: impl Fn(&W) -> watch::Receiver<T> + Send + Sync + 'static,
    ) -> Self
    where
        T: Clone + PartialEq + Send + Sync + 'static,
    {
        let index = self.staged.outputs.len();
        let followed = move |worker: &W, identity: &Identity, changes: &mut Changes| {
            Changing::new(output(worker)).follow(identity, index, changes)
        };
        self.offer::<T>(Box::new(followed))
    }

    /// Offers the values that the worker publishes while it runs, like
    /// [`changing`](Self::changing). The worker learns when the followers read a value; see
    /// [`Publisher`].
    pub fn publishing<T>(
        self,
        publisher: impl Fn(&W) -> &Publisher<T> + Send + Sync + 'static,
    ) -> Self
    where
        T: Clone + PartialEq + Send + Sync + 'static,
    {
        let index = self.staged.outputs.len();
        let followed = move |worker: &W, identity: &Identity, changes: &mut Changes| {
            publisher(worker).changing().follow(identity, index, changes)
        };
        self.offer::<T>(Box::new(followed))
    }

    /// Sets a function that makes the worker's reporter from the worker before `run` takes the
    /// worker. The reporter is an asynchronous function that returns the worker's own report.
    ///
    /// The reporter runs in a task of its own. The report names a reporter that does not answer
    /// within the report deadline. Such a reporter is not asked again before it has answered.
    pub fn report<P, F, D>(mut self, reporter: impl Fn(&W) -> P + Send + Sync + 'static) -> Self
    where
        P: Fn() -> F + Send + Sync + 'static,
        F: Future<Output = D> + Send + 'static,
        D: Into<Detail>,
    {
        self.staged.reporter = Some(Box::new(move |worker| report::reporter(reporter(worker))));
        self
    }

    /// Cannot be called: the inputs come before the start. The compiler says so.
    #[doc(hidden)]
    pub fn inputs<N>(self, _inputs: N) -> Self
    where
        Self: HasNoStart,
    {
        self
    }

    /// Returns the manifold. A builder also converts into it, so that the last step before an
    /// install may leave this out.
    #[inline]
    pub fn build(self) -> Manifold {
        Manifold::new(self.offers, self.staged)
    }

    #[inline]
    fn offer<T: Clone + Send + Sync + 'static>(mut self, output: Output<W>) -> Self {
        self.offers.push(Kind::of::<T>());
        self.staged.outputs.push(output);
        self
    }
}

/// Builds the manifold, so that a builder can be installed without a call of
/// [`build`](StagedBuilder::build).
impl<I, S, W> From<StagedBuilder<I, S, W>> for Manifold
where
    I: Inputs + Send + Sync + 'static,
    S: Start<I::Values, W>,
    W: Worker,
{
    #[inline]
    fn from(builder: StagedBuilder<I, S, W>) -> Self {
        builder.build()
    }
}

/// What a builder lacks once it has its start. No type has this trait: it only gives a message to
/// the compiler.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`inputs` comes before `start`",
    label = "the start is declared already",
    note = "`start` gets the values of the inputs: `Manifold::builder().inputs(NAME).start(|value, \
            _ctx| ..)`"
)]
pub trait HasNoStart {}

impl<I, S, W> fmt::Debug for StagedBuilder<I, S, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StagedBuilder").field("offers", &self.offers).finish()
    }
}

type MakeReporter<W> = Box<dyn Fn(&W) -> ReportFn + Send + Sync>;
type Output<W> = Box<dyn Fn(&W, &Identity, &mut Changes) -> Value + Send + Sync>;

/// The body of a staged worker's manifold. Most have at most one output.
struct Staged<I, S, W> {
    inputs: I,
    start: S,
    outputs: SmallVec<[Output<W>; 1]>,
    reporter: Option<MakeReporter<W>>,
    worker: PhantomData<fn() -> W>,
}

impl<I, S, W> Body for Staged<I, S, W>
where
    I: Inputs + Send + Sync + 'static,
    S: Start<I::Values, W>,
    W: Worker,
{
    type Inputs = I;

    fn inputs(&self) -> &I {
        &self.inputs
    }

    fn launch(definition: Arc<Definition<Self>>, launch: Launch) -> Option<AbortHandle> {
        launch.spawn(definition, W::run)
    }
}

impl<I, S, W, R> Steps<W, S::Future, R> for Definition<Staged<I, S, W>>
where
    I: Inputs + Send + Sync + 'static,
    S: Start<I::Values, W>,
    W: Worker,
{
    fn begin(
        &self,
        input_values: InputValues,
        ctx: Context,
        _handoff: &mut Handoff,
        mut state: Pin<&mut TaskState<S::Future, R>>,
    ) {
        let mut given = Given::new(input_values, ctx);
        let values = self.body.inputs.take(&mut given);
        let start = self.body.start.start(values, given.into_context());
        state.set(TaskState::Start { start });
    }

    fn offer(&self, worker: &W, identity: &Identity, changes: &mut Changes) -> Offered {
        let Staged { outputs, reporter, .. } = &self.body;
        Offered {
            outputs: outputs.iter().map(|output| output(worker, identity, changes)).collect(),
            reporter: reporter.as_ref().map(|make| make(worker)),
        }
    }
}
