//! Workers that are closures: they say what they offer, and are up when they hand it over.

use std::convert::Infallible;
use std::fmt;
use std::future::Pending;
use std::marker::PhantomData;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::Blueprint;
use crate::changes::{Changes, Forwarder, Late};
use crate::context::Context;
use crate::exit::{Exit, Outcome};
use crate::input::{Declaration, Given, Inputs};
use crate::shared::Shared;
use crate::stop::Stop;
use crate::task::{Begun, Born, Launch, Steps};
use crate::value::{Kind, Value};

/// What a closure worker offers: a tuple of up to eight values, each of another type.
///
/// A value is a type that is `Clone + Send + Sync`; a [`Changing`] value may stand in its place.
pub trait Offers: Sized + Send + 'static {
    #[doc(hidden)]
    fn kinds() -> Box<[&'static Kind]>;

    #[doc(hidden)]
    fn hand_over(self, handed: &mut Handed);
}

/// Collects what a closure worker hands over.
#[doc(hidden)]
#[expect(missing_debug_implementations, reason = "it cannot be reached from outside")]
pub struct Handed {
    values: Vec<Value>,
    changes: Changes,
}

/// One element of what a closure worker offers.
pub trait Offer: Send + 'static {
    #[doc(hidden)]
    fn kind() -> &'static Kind;

    #[doc(hidden)]
    fn hand_over(self, handed: &mut Handed);
}

impl<T: Clone + Send + Sync + 'static> Offer for T {
    fn kind() -> &'static Kind {
        Kind::of::<T>()
    }

    fn hand_over(self, handed: &mut Handed) {
        handed.values.push(Arc::new(self));
    }
}

/// An output of a closure worker that changes while it runs.
///
/// It offers the values' type, not itself. Every new value that is not equal to the one before is
/// an input change to those who required it.
pub struct Changing<T>(watch::Receiver<T>);

impl<T> Changing<T> {
    /// Offers the values of a watch.
    pub fn new(receiver: watch::Receiver<T>) -> Self {
        Self(receiver)
    }
}

impl<T> fmt::Debug for Changing<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Changing")
    }
}

// `Changing` is not `Clone`, so it is no plain value.
impl<T: Clone + PartialEq + Send + Sync + 'static> Offer for Changing<T> {
    fn kind() -> &'static Kind {
        Kind::of::<T>()
    }

    fn hand_over(self, handed: &mut Handed) {
        let value = handed.changes.follow(handed.values.len(), self.0);
        handed.values.push(value);
    }
}

macro_rules! offers {
    ($($name:ident)*) => {
        impl<$($name: Offer),*> Offers for ($($name,)*) {
            fn kinds() -> Box<[&'static Kind]> {
                Box::new([$($name::kind()),*])
            }

            #[allow(non_snake_case, unused_variables, reason = "the empty tuple uses none")]
            fn hand_over(self, handed: &mut Handed) {
                let ($($name,)*) = self;
                $($name.hand_over(handed);)*
            }
        }
    };
}

offers!();
offers!(A);
offers!(A B);
offers!(A B C);
offers!(A B C D);
offers!(A B C D E);
offers!(A B C D E F);
offers!(A B C D E F G);
offers!(A B C D E F G H);

/// What a closure worker says when it is up.
///
/// A closure that ends without saying so was never up.
#[must_use = "the worker is up when `ready` is called"]
pub struct Up<O> {
    ctx: Context,
    late: Late,
    offers: PhantomData<fn(O)>,
}

impl<O: Offers> Up<O> {
    /// Says that the worker is up, and hands over what it offers.
    ///
    /// Returns the request to stop, which may have been told already.
    pub fn ready(self, offers: O) -> Stop {
        let (born, changes) = bear(&self.ctx, offers);
        self.late.set(changes);
        born.tell(self.ctx.identity());
        self.ctx.stop().clone()
    }

    /// Returns what the closure is told of the worker it is.
    pub fn context(&self) -> &Context {
        &self.ctx
    }
}

impl<O> fmt::Debug for Up<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Up").field("ctx", &self.ctx).finish()
    }
}

fn bear<O: Offers>(ctx: &Context, offers: O) -> (Born, Changes) {
    let changes = Changes::new(ctx.identity().clone());
    let mut handed = Handed { values: Vec::new(), changes };
    offers.hand_over(&mut handed);
    let born = Born { outputs: handed.values.into_iter().collect(), reporter: None };
    if let Some(observed) = ctx.observed() {
        observed.started();
    }
    (born, handed.changes)
}

/// The manifold of a closure worker.
pub(super) struct Closure<I, S, O> {
    declared: Box<[Declaration]>,
    inputs: I,
    run: S,
    offers: Box<[&'static Kind]>,
    offered: PhantomData<fn(O)>,
}

impl<I, S, O: Offers> Closure<I, S, O> {
    pub(super) fn new(declared: Box<[Declaration]>, inputs: I, run: S) -> Self {
        Self { declared, inputs, run, offers: O::kinds(), offered: PhantomData }
    }
}

impl<I, S, F, O> Blueprint for Closure<I, S, O>
where
    I: Inputs + Send + Sync + 'static,
    S: Fn(I::Values, Up<O>) -> F + Send + Sync + 'static,
    F: Future<Output = Outcome> + Send + 'static,
    O: Offers,
{
    fn inputs(&self) -> &[Declaration] {
        &self.declared
    }

    fn offers(&self) -> &[&'static Kind] {
        &self.offers
    }

    fn launch(self: Arc<Self>, launch: Launch, shared: &Shared) -> Option<AbortHandle> {
        let steps = Steps {
            manifold: self,
            begin: |manifold: &Self, mut given: Given, ctx: Context, late: &mut Late| {
                let values = manifold.inputs.take(&mut given);
                *late = Late::new();
                let up = Up { ctx, late: late.clone(), offers: PhantomData };
                Begun::<Pending<Result<Infallible, Exit>>, F>::Run((manifold.run)(values, up))
            },
            bear: |_: &Self, worker: &Infallible, _: &mut Changes| match *worker {},
            run: |worker: Infallible, _: Stop| match worker {},
        };
        launch.spawn(shared, steps)
    }
}

/// What a blocking worker says when it is up.
///
/// A function that ends without saying so was never up.
#[must_use = "the worker is up when `ready` is called"]
pub struct BlockingUp<O> {
    ctx: Context,
    forwarder: Arc<Mutex<Option<Forwarder>>>,
    offers: PhantomData<fn(O)>,
}

impl<O: Offers> BlockingUp<O> {
    /// Says that the worker is up, and hands over what it offers.
    ///
    /// Returns the request to stop, which may have been told already; see
    /// [`Stop::wait_blocking`] and [`Stop::is_stopped`].
    pub fn ready(self, offers: O) -> Stop {
        let (born, changes) = bear(&self.ctx, offers);
        // Told first: a change of a worker that is not known to be up would be lost.
        born.tell(self.ctx.identity());
        *self.forwarder.lock() = changes.spawn(self.ctx.stop().clone());
        self.ctx.stop().clone()
    }

    /// Returns what the function is told of the worker it is.
    pub fn context(&self) -> &Context {
        &self.ctx
    }
}

impl<O> fmt::Debug for BlockingUp<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockingUp").field("ctx", &self.ctx).finish()
    }
}

/// The manifold of a worker that blocks a thread of its own.
pub(super) struct Blocking<I, S, O> {
    declared: Box<[Declaration]>,
    inputs: I,
    run: S,
    offers: Box<[&'static Kind]>,
    offered: PhantomData<fn(O)>,
}

impl<I, S, O: Offers> Blocking<I, S, O> {
    pub(super) fn new(declared: Box<[Declaration]>, inputs: I, run: S) -> Self {
        Self { declared, inputs, run, offers: O::kinds(), offered: PhantomData }
    }
}

impl<I, S, O> Blueprint for Blocking<I, S, O>
where
    I: Inputs + Send + Sync + 'static,
    S: Fn(I::Values, BlockingUp<O>) -> Outcome + Send + Sync + 'static,
    O: Offers,
{
    fn inputs(&self) -> &[Declaration] {
        &self.declared
    }

    fn offers(&self) -> &[&'static Kind] {
        &self.offers
    }

    fn launch(self: Arc<Self>, launch: Launch, _: &Shared) -> Option<AbortHandle> {
        launch.spawn_thread(move |mut given, ctx| {
            // The forwarder ends with the function, before the worker's end is told.
            let forwarder = Arc::new(Mutex::new(None));
            let values = self.inputs.take(&mut given);
            drop(given);
            let up = BlockingUp { ctx, forwarder: Arc::clone(&forwarder), offers: PhantomData };
            let outcome = (self.run)(values, up);
            let forwarder = forwarder.lock().take();
            match forwarder.and_then(|forwarder| forwarder.panicked()) {
                Some(panicked) => Err(Exit::failed(panicked)),
                None => outcome,
            }
        })
    }
}
