//! The `Worker` trait, and the modules that run one worker and give it access to its engine.

pub(crate) mod acknowledgement;
pub(crate) mod awaits;
pub(crate) mod context;
pub(crate) mod finish;
mod guard;
pub(crate) mod host;
pub(crate) mod judge;
pub(crate) mod latest;
pub(crate) mod launch;
pub(crate) mod message;
pub(crate) mod metrics;
pub(crate) mod observe;
pub(crate) mod publish;
pub(crate) mod reporter;
pub(crate) mod selections;
pub(crate) mod stop;
pub(crate) mod task;
mod thread;
#[cfg_attr(
    not(feature = "testing"),
    expect(unreachable_pub, reason = "only the feature `testing` lets others reach it")
)]
pub(crate) mod wrap;

use std::future::Future;

use crate::vocabulary::exit::Outcome;
use crate::worker::stop::Stop;

/// Something that runs until it is told to stop, or ends by itself with an outcome.
///
/// Write `run` as a plain `async fn`. A worker does not know its name or its engine. It gets what
/// it needs when it is made, and its outcome tells the engine what to do next.
///
/// # Guarantees
///
/// - `run` is called at most once, after `start` returned the worker and the engine took its
///   outputs.
/// - `stop` is set once, when the engine wants the worker to end. From then on the worker has its
///   grace (30 s by default). After the grace its future is dropped at its next `.await`.
/// - Two workers of one manifold never run at the same time.
///
/// # Requirements
///
/// - Return soon after `stop` is set: with `Ok(())`, or with the error that prevented a good end.
/// - Do not retry, back off or reconnect in `run`. Return the error, and the engine starts a new
///   worker with fresh inputs.
/// - Do not block the thread: use [`Stop::blocking`], or a blocking manifold.
///
/// # Examples
///
/// ```
/// use crankcase_engine::{Outcome, Stop, Worker};
///
/// struct Ticker {
///     every: std::time::Duration,
/// }
///
/// impl Worker for Ticker {
///     async fn run(self, stop: Stop) -> Outcome {
///         let mut interval = tokio::time::interval(self.every);
///         loop {
///             tokio::select! {
///                 biased;
///                 () = stop.wait() => return Ok(()),
///                 _ = interval.tick() => { /* the work */ }
///             }
///         }
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a worker",
    label = "this is to be a worker",
    note = "implement `crankcase_engine::Worker` for `{Self}`: one method, `async fn run(self, stop: \
            Stop) -> Outcome`; or make a worker of a closure with `Builder::run`"
)]
pub trait Worker: Send + Sized + 'static {
    /// Runs the worker to its end.
    fn run(self, stop: Stop) -> impl Future<Output = Outcome> + Send;
}
