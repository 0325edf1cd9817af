//! Closure workers: one function is the whole worker, and calls `ready` with its outputs when it is
//! up.

use std::convert::Infallible;
use std::fmt;
use std::future::Pending;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::thread::{self, ThreadId};
use std::time::Duration;

use parking_lot::Mutex;
use smallvec::SmallVec;
use tokio::sync::watch;
use tokio::task::{self, AbortHandle};
use tokio::time::sleep;

use super::input::{Given, Inputs};
use super::{Body, Definition, Manifold};
use crate::seen::report::{self, Detail, ReportFn};
use crate::vocabulary::exit::{Exit, Outcome};
use crate::vocabulary::value::{Kind, Value};
use crate::worker::acknowledgement::Acknowledgements;
use crate::worker::context::{Context, Health};
use crate::worker::host::Identity;
use crate::worker::launch::{Blueprint, InputValues, Launch};
use crate::worker::publish::{Changes, Forwarder, Handoff, Passing};
use crate::worker::stop::Stop;
use crate::worker::task::{NEVER_UP, Offered, Steps, TaskState};

/// The outputs of a closure worker: a tuple of up to eight values, each of a different type.
///
/// Each value is `Clone + Send + Sync`, or is a [`Changing`] value.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tuple of outputs",
    label = "expected a tuple of outputs, such as `({Self},)`",
    note = "`offers::<()>()` offers nothing, `offers::<(A,)>()` one output, `offers::<(A, B)>()` two"
)]
pub trait Offers: Sized + Send + 'static {
    /// Whether any of the values is a [`Changing`] value.
    #[doc(hidden)]
    const CHANGES: bool;

    #[doc(hidden)]
    fn kinds() -> SmallVec<[&'static Kind; 1]>;

    #[doc(hidden)]
    fn hand_over(self, handed: &mut Handed<'_>);
}

/// Collects the outputs of a closure worker.
#[doc(hidden)]
#[expect(missing_debug_implementations, reason = "it cannot be reached from outside")]
pub struct Handed<'a> {
    identity: &'a Identity,
    values: SmallVec<[Value; 1]>,
    changes: Changes,
}

/// One output of a closure worker.
pub trait Offer: Send + 'static {
    #[doc(hidden)]
    const CHANGES: bool = false;

    #[doc(hidden)]
    fn kind() -> &'static Kind;

    #[doc(hidden)]
    fn hand_over(self, handed: &mut Handed<'_>);
}

impl<T: Clone + Send + Sync + 'static> Offer for T {
    fn kind() -> &'static Kind {
        Kind::of::<T>()
    }

    fn hand_over(self, handed: &mut Handed<'_>) {
        handed.values.push(Arc::new(self));
    }
}

/// An output of another engine, offered without clones of its values.
pub(crate) struct Passed<T> {
    pub(crate) first: Value,
    pub(crate) passing: Passing,
    pub(crate) values: PhantomData<fn() -> T>,
}

// `Passed` is not `Clone`, so this does not overlap with the impl for plain values.
impl<T: Clone + Send + Sync + 'static> Offer for Passed<T> {
    const CHANGES: bool = true;

    fn kind() -> &'static Kind {
        Kind::of::<T>()
    }

    fn hand_over(self, handed: &mut Handed<'_>) {
        let place = (handed.values.len(), Kind::of::<T>());
        handed.changes.pass_on(handed.identity, place, &self.first, self.passing);
        handed.values.push(self.first);
    }
}

/// An output of a closure worker that changes while the worker runs.
///
/// The output's type is `T`. Each new value that differs from the one before is an input change for
/// users that require it.
pub struct Changing<T> {
    values: watch::Receiver<T>,
    /// For the values of a publisher.
    acknowledgements: Option<Arc<Acknowledgements>>,
}

impl<T> Changing<T> {
    /// Offers the values of a `watch` channel. A [`Publisher`](crate::Publisher) also learns when
    /// the followers read a value.
    pub fn new(receiver: watch::Receiver<T>) -> Self {
        Self { values: receiver, acknowledgements: None }
    }

    /// Offers the values of a publisher.
    pub(super) fn acknowledged(
        values: watch::Receiver<T>,
        acknowledgements: Arc<Acknowledgements>,
    ) -> Self {
        Self { values, acknowledgements: Some(acknowledgements) }
    }
}

impl<T: Clone + PartialEq + Send + Sync + 'static> Changing<T> {
    /// Passes later values to the engine, as the output at a place. Returns the current value.
    pub(super) fn follow(self, identity: &Identity, index: usize, changes: &mut Changes) -> Value {
        changes.follow(identity, index, self.values, self.acknowledgements)
    }
}

impl<T> fmt::Debug for Changing<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Changing")
    }
}

// `Changing` is not `Clone`, so this does not overlap with the impl for plain values.
impl<T: Clone + PartialEq + Send + Sync + 'static> Offer for Changing<T> {
    const CHANGES: bool = true;

    fn kind() -> &'static Kind {
        Kind::of::<T>()
    }

    fn hand_over(self, handed: &mut Handed<'_>) {
        let value = self.follow(handed.identity, handed.values.len(), &mut handed.changes);
        handed.values.push(value);
    }
}

impl Offers for () {
    const CHANGES: bool = false;

    fn kinds() -> SmallVec<[&'static Kind; 1]> {
        SmallVec::new()
    }

    fn hand_over(self, _handed: &mut Handed<'_>) {}
}

macro_rules! offers {
    ($($name:ident $place:tt)+) => {
        impl<$($name: Offer),+> Offers for ($($name,)+) {
            const CHANGES: bool = $($name::CHANGES)||+;

            fn kinds() -> SmallVec<[&'static Kind; 1]> {
                [$($name::kind()),+].into_iter().collect()
            }

            fn hand_over(self, handed: &mut Handed<'_>) {
                $(self.$place.hand_over(handed);)+
            }
        }
    };
}

offers!(A 0);
offers!(A 0 B 1);
offers!(A 0 B 1 C 2);
offers!(A 0 B 1 C 2 D 3);
offers!(A 0 B 1 C 2 D 3 E 4);
offers!(A 0 B 1 C 2 D 3 E 4 F 5);
offers!(A 0 B 1 C 2 D 3 E 4 F 5 G 6);
offers!(A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7);

/// The handle with which a closure or a blocking function reports that it is up.
///
/// A worker that ends without a call of `ready` was never up. A worker that drops this handle and
/// goes on can never come up, and its health says so. The health changes at once if the handle is
/// dropped outside the worker's own task or thread. It changes a second later if a blocking
/// function drops the handle on its own thread and has not returned by then.
#[must_use = "the worker is up when `ready` is called"]
pub struct Up<O> {
    ctx: Context,
    follower: Follower,
    reporter: Option<ReportFn>,
    is_ready: bool,
    offers: PhantomData<fn(O)>,
}

/// Where the worker runs, and how new values of its changing outputs reach the engine.
enum Follower {
    /// The worker's own task polls the changing outputs.
    Task(Handoff, Option<task::Id>),
    /// A separate task polls them, because the worker blocks a thread. The task ends when the place
    /// is emptied, after the function has returned.
    Beside(Arc<Mutex<Option<Forwarder>>>, ThreadId),
}

/// How long a blocking function may take to return after it has dropped its `Up`. Most functions
/// drop it by returning.
const TIME_TO_RETURN: Duration = Duration::from_secs(1);

impl<O: Offers> Up<O> {
    fn new(ctx: Context, follower: Follower) -> Self {
        Self { ctx, follower, reporter: None, is_ready: false, offers: PhantomData }
    }

    /// Sets the asynchronous function that returns the worker's own report. It is used from when
    /// the worker is up.
    ///
    /// The reporter runs in a task of its own. The report names a reporter that does not answer
    /// within the report deadline. Such a reporter is not asked again before it has answered.
    pub fn report<P, F, D>(mut self, reporter: P) -> Self
    where
        P: Fn() -> F + Send + Sync + 'static,
        F: Future<Output = D> + Send + 'static,
        D: Into<Detail>,
    {
        self.reporter = Some(report::reporter(reporter));
        self
    }

    /// Reports that the worker is up, with its outputs.
    ///
    /// Returns the request to stop, which may be set already. A closure awaits [`Stop::wait`]. A
    /// blocking function calls [`Stop::wait_blocking`] or [`Stop::is_stopped`].
    #[must_use = "the worker is done when its function returns: wait for this `Stop` before, or \
                  `drop` it if the worker ends by itself"]
    pub fn ready(mut self, offers: O) -> Stop {
        self.is_ready = true;
        let identity = self.ctx.identity();
        let mut handed = Handed { identity, values: SmallVec::new(), changes: Changes::default() };
        offers.hand_over(&mut handed);
        if let Some(observed) = self.ctx.observed() {
            observed.started();
        }
        let (outputs, reporter) = (handed.values.into_iter().collect(), self.reporter.take());
        let offered = Offered { outputs, reporter };
        // This message comes first, because the loop ignores changes of a worker that it does not
        // know as up.
        identity.host.send(offered.message(self.ctx.stop()));
        let stop = self.ctx.stop().clone();
        match &self.follower {
            Follower::Task(handoff, _) => handoff.set(handed.changes),
            Follower::Beside(place, _) => {
                *place.lock() = handed.changes.spawn(&identity.environment().workers, stop.clone());
            }
        }
        stop
    }

    /// Returns the worker's name, path and other facts about it.
    pub fn context(&self) -> &Context {
        &self.ctx
    }
}

impl<O> Drop for Up<O> {
    fn drop(&mut self) {
        let stop = self.ctx.stop();
        if self.is_ready || stop.is_stopped() {
            return;
        }
        match &self.follower {
            // The task checks this after its current poll. A worker that ends in this poll does not
            // become degraded.
            Follower::Task(_, id) if *id == task::try_id() => stop.set_unready(),
            Follower::Beside(place, id) if *id == thread::current().id() => {
                let (stop, driver) = (stop.clone(), &self.ctx.identity().environment().driver);
                let forwarder = Forwarder::run(driver, async move {
                    sleep(TIME_TO_RETURN).await;
                    if !stop.is_stopped() {
                        Health::of(&stop).degraded(NEVER_UP);
                    }
                });
                *place.lock() = Some(forwarder);
            }
            Follower::Task(..) | Follower::Beside(..) => Health::of(stop).degraded(NEVER_UP),
        }
    }
}

impl<O> fmt::Debug for Up<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Up").field("ctx", &self.ctx).finish()
    }
}

/// The start of a closure worker, which has none: it begins with its run.
type Unstarted = Pending<Result<Infallible, Exit>>;

fn run_unstarted<F>(worker: Infallible, _stop: Stop) -> F {
    match worker {}
}

/// The body of a closure worker's manifold.
pub(super) struct Closure<I, S, O> {
    inputs: I,
    run: S,
    offered: PhantomData<fn(O)>,
}

impl<I, S, F, O> Closure<I, S, O>
where
    I: Inputs + Send + Sync + 'static,
    S: Fn(I::Values, Up<O>) -> F + Send + Sync + 'static,
    F: Future<Output = Outcome> + Send + 'static,
    O: Offers,
{
    pub(super) fn manifold(inputs: I, run: S) -> Manifold {
        Manifold::new(O::kinds(), Self { inputs, run, offered: PhantomData })
    }
}

impl<I, S, F, O> Body for Closure<I, S, O>
where
    I: Inputs + Send + Sync + 'static,
    S: Fn(I::Values, Up<O>) -> F + Send + Sync + 'static,
    F: Future<Output = Outcome> + Send + 'static,
    O: Offers,
{
    type Inputs = I;

    fn inputs(&self) -> &I {
        &self.inputs
    }

    fn launch(definition: Arc<Definition<Self>>, launch: Launch) -> Option<AbortHandle> {
        launch.spawn(definition, run_unstarted)
    }
}

impl<I, S, F, O> Steps<Infallible, Unstarted, F> for Definition<Closure<I, S, O>>
where
    I: Inputs + Send + Sync + 'static,
    S: Fn(I::Values, Up<O>) -> F + Send + Sync + 'static,
    F: Future<Output = Outcome> + Send + 'static,
    O: Offers,
{
    fn begin(
        &self,
        input_values: InputValues,
        ctx: Context,
        handoff: &mut Handoff,
        mut state: Pin<&mut TaskState<Unstarted, F>>,
    ) {
        let mut given = Given::new(input_values, ctx);
        let values = self.body.inputs.take(&mut given);
        if O::CHANGES {
            *handoff = Handoff::new();
        }
        let follower = Follower::Task(handoff.clone(), task::try_id());
        let run = (self.body.run)(values, Up::new(given.into_context(), follower));
        state.set(TaskState::Run { run });
    }

    fn offer(&self, worker: &Infallible, _: &Identity, _: &mut Changes) -> Offered {
        match *worker {}
    }
}

/// The body of a blocking worker's manifold.
pub(super) struct Blocking<I, S, O> {
    inputs: I,
    run: S,
    offered: PhantomData<fn(O)>,
}

impl<I, S, O> Blocking<I, S, O>
where
    I: Inputs + Send + Sync + 'static,
    S: Fn(I::Values, Up<O>) -> Outcome + Send + Sync + 'static,
    O: Offers,
{
    pub(super) fn manifold(inputs: I, run: S) -> Manifold {
        Manifold::new(O::kinds(), Self { inputs, run, offered: PhantomData })
    }
}

impl<I, S, O> Body for Blocking<I, S, O>
where
    I: Inputs + Send + Sync + 'static,
    S: Fn(I::Values, Up<O>) -> Outcome + Send + Sync + 'static,
    O: Offers,
{
    type Inputs = I;

    fn inputs(&self) -> &I {
        &self.inputs
    }

    fn launch(definition: Arc<Definition<Self>>, launch: Launch) -> Option<AbortHandle> {
        launch.spawn_thread(
            Arc::clone(&definition) as Arc<dyn Blueprint>,
            move |input_values, ctx| {
                // The forwarder ends when the function returns, before the worker's end is sent.
                let forwarder = Arc::new(Mutex::new(None));
                let mut given = Given::new(input_values, ctx);
                let values = definition.body.inputs.take(&mut given);
                let follower = Follower::Beside(Arc::clone(&forwarder), thread::current().id());
                let up = Up::new(given.into_context(), follower);
                let outcome = (definition.body.run)(values, up);
                let forwarder = forwarder.lock().take();
                match forwarder.and_then(|forwarder| forwarder.panicked()) {
                    Some(panicked) => Err(Exit::failed(panicked)),
                    None => outcome,
                }
            },
        )
    }
}
