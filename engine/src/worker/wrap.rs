//! The hook that lets a test observe, delay or end each worker of an engine.

use std::any::Any;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use super::host::Environment;

use crate::vocabulary::exit::Outcome;
use crate::worker::context::Context;

/// Wraps each worker of an engine and of its nested engines. Set it with
/// [`EngineBuilder::wrap`](crate::EngineBuilder::wrap).
///
/// For tests only. It sees each worker from outside, without its type. It can delay or end the
/// worker at every step. A production engine has none.
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
/// engine.running(WEB).await?;
/// assert_eq!(engine.report().await.workers["web"].generation, 2);
/// engine.stop().await?;
/// # Ok(()) }
/// ```
pub trait Wrap: Send + Sync {
    /// Returns the wrapper of one worker. Called in the worker's task, before the worker takes its
    /// input values. If it panics, the worker has panicked.
    fn wrap(&self, ctx: &Context, inputs: &[WrappedInput<'_>]) -> Box<dyn Wrapped>;

    /// Like `wrap`, for a worker of the engine's own that passes a value across the border of a
    /// nested engine. A new value of its inputs never bounces it. Default: calls `wrap`.
    fn wrap_carrier(&self, ctx: &Context, inputs: &[WrappedInput<'_>]) -> Box<dyn Wrapped> {
        self.wrap(ctx, inputs)
    }
}

/// The wrapper of one worker.
///
/// Dropped after the worker's future and before the engine learns of the worker's end. So the
/// worker has not ended while its wrapper exists.
pub trait Wrapped: Send {
    /// Decides whether the worker may go on. Called before each poll of the worker's future.
    ///
    /// - `Ready(None)` lets the worker go on.
    /// - `Ready(Some(outcome))` drops the worker's future and ends the worker with this outcome.
    /// - `Pending` delays the worker: its future is not polled until the task is woken.
    ///
    /// A panic here counts as a panic of the worker. A blocking worker runs on a thread: this is
    /// called once, before it starts, and `Pending` does not delay it.
    fn before(&mut self, point: WrapPoint, cx: &mut TaskContext<'_>) -> Poll<Option<Outcome>>;
}

/// The step that a worker is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WrapPoint {
    /// The start will be called next. For a closure worker: its one function.
    Begin,
    /// The start is running.
    Start,
    /// The worker runs. A closure worker is in this step also before it is up.
    Run,
}

/// One input that a wrapped worker's manifold declares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct WrappedInput<'a> {
    /// The name of the input.
    pub name: &'a str,
    /// `required`, `optional`, `live` or `live required`.
    pub need: &'static str,
    /// The type of the input.
    pub output: &'static str,
    /// Whether the input has a value now. An optional input without a value is passed as `None`.
    pub is_present: bool,
    /// Whether the worker uses a part of the value. A new value bounces it only if that part is
    /// another one.
    pub is_selected: bool,
}

/// Erases the type, as [`Environment`] needs it.
pub(crate) fn erase(wrap: Arc<dyn Wrap>) -> Arc<dyn Any + Send + Sync> {
    Arc::new(wrap)
}

/// Returns the hook around all workers, if there is one.
pub(crate) fn wrap_of(environment: &Environment) -> Option<&dyn Wrap> {
    let wrap = environment.wrap.as_ref()?.downcast_ref::<Arc<dyn Wrap>>()?;
    Some(&**wrap)
}
