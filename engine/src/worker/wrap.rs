use std::any::Any;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use super::host::Environment;

use crate::vocabulary::exit::Outcome;
use crate::worker::context::Context;

/// Stands around every worker of an engine and of those nested in it; set by
/// [`EngineBuilder::wrap`](crate::EngineBuilder::wrap).
///
/// It is for tests: it sees each worker from outside, without knowing its type, and can hold it up
/// or end it at every step. A production engine has none.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use std::task::{Context as TaskContext, Poll};
/// use crankcase_engine::testing::{Wrap, WrapPoint, Wrapped, WrappedInput};
/// use crankcase_engine::{Context, Engine, Manifold, Name, Outcome};
///
/// const WEB: Name<()> = Name::new("web");
///
/// /// Lets the first start of each worker fail.
/// struct FirstFails;
///
/// struct Fails(bool);
///
/// impl Wrap for FirstFails {
///     fn wrap(&self, ctx: &Context, _inputs: &[WrappedInput<'_>]) -> Box<dyn Wrapped> {
///         Box::new(Fails(ctx.generation() == 1))
///     }
/// }
///
/// impl Wrapped for Fails {
///     fn before(&mut self, _point: WrapPoint, _cx: &mut TaskContext<'_>) -> Poll<Option<Outcome>> {
///         Poll::Ready(self.0.then(|| Err("not yet".into())))
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let engine = Engine::builder().wrap(Arc::new(FirstFails)).build()?;
/// let web = Manifold::builder().run(|(), up| async move {
///     up.ready(()).wait().await;
///     Ok(())
/// });
/// engine.install(WEB, web).await?;
/// engine.running(&WEB).await?;
/// assert_eq!(engine.report().await.workers["web"].generation, 2);
/// engine.stop().await?;
/// # Ok(()) }
/// ```
pub trait Wrap: Send + Sync {
    /// Returns what stands around one worker. It is called in the worker's task, before the values
    /// of its inputs are taken; if it panics, the worker has panicked.
    fn wrap(&self, ctx: &Context, inputs: &[WrappedInput<'_>]) -> Box<dyn Wrapped>;
}

/// Stands around one worker.
///
/// It is dropped after the worker's future and before its end is told, so while it lives the worker
/// does.
pub trait Wrapped: Send {
    /// Says whether the worker may go on: called before each poll of its future.
    ///
    /// - `Ready(None)` lets it go on.
    /// - `Ready(Some(outcome))` drops its future and ends it with this outcome.
    /// - `Pending` holds it up: its future is not polled before the task is woken again.
    ///
    /// A panic is the worker's own. A blocking worker, which has a thread, is asked once and cannot
    /// be held up.
    fn before(&mut self, point: WrapPoint, cx: &mut TaskContext<'_>) -> Poll<Option<Outcome>>;
}

/// How far a worker has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WrapPoint {
    /// Its start is about to be called; for a closure worker, its one function.
    Begin,
    /// Its start is under way.
    Start,
    /// It runs; a closure worker also before it is up.
    Run,
}

/// One input that a wrapped worker's manifold declares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct WrappedInput<'a> {
    /// The name that it refers to.
    pub name: &'a str,
    /// `required`, `optional`, `live` or `live required`.
    pub need: &'static str,
    /// The type that is asked for.
    pub output: &'static str,
    /// Whether there is a value of it now; an optional input without one is given as `None`.
    pub is_present: bool,
}

/// Returns it as an [`Environment`] holds it.
pub(crate) fn erase(wrap: Arc<dyn Wrap>) -> Arc<dyn Any + Send + Sync> {
    Arc::new(wrap)
}

/// Returns what stands around all workers, if anything does.
pub(crate) fn wrap_of(environment: &Environment) -> Option<&dyn Wrap> {
    let wrap = environment.wrap.as_ref()?.downcast_ref::<Arc<dyn Wrap>>()?;
    Some(&**wrap)
}
