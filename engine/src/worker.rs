//! One worker's life, and what it sees of its engine.

pub(crate) mod context;
pub(crate) mod finish;
pub(crate) mod host;
pub(crate) mod judge;
pub(crate) mod latest;
pub(crate) mod launch;
pub(crate) mod message;
pub(crate) mod metrics;
pub(crate) mod observe;
pub(crate) mod publish;
pub(crate) mod stop;
pub(crate) mod task;
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
/// Write `run` as a plain `async fn`. A worker knows neither its name nor the engine: it gets
/// what it needs when it is made, and its end tells the engine what to do next.
///
/// # Guarantees
///
/// - `run` is called at most once, after `start` returned the worker and its outputs were taken.
/// - `stop` is told once when the engine wants the worker to end. From then on the worker has its
///   grace period (30 s by default); after that its future is dropped at its next `.await`.
/// - Two workers of one manifold never run at once.
///
/// # Requirements
///
/// - Return soon after `stop` is told: with `Ok(())`, or with the error that kept it from ending
///   well.
/// - Do not retry, back off or reconnect in `run`: return the error, and the engine starts a fresh
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
