//! The runtime that floor and engine run on.

use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

/// Returns a runtime as `CRANKCASE_BENCH_RUNTIME` says: `current-thread`, or by default
/// `multi-thread` with two threads.
pub(crate) fn runtime() -> Runtime {
    let mut builder = match std::env::var("CRANKCASE_BENCH_RUNTIME").as_deref() {
        Ok("current-thread") => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    builder.worker_threads(2).enable_all().build().unwrap()
}

/// Runs a body as a task of a new runtime.
///
/// A body is never the future of `block_on` itself: the thread in `block_on` is not one of the
/// runtime's workers, so that each wake-up from another thread is a system call.
pub(crate) fn in_task<T: Send + 'static>(body: impl Future<Output = T> + Send + 'static) -> T {
    let runtime = runtime();
    runtime.block_on(runtime.spawn(body)).unwrap()
}

/// Runs a body twice as a task of one new runtime, and returns what the second run measured.
pub(crate) fn warm<B>(body: impl Fn() -> B) -> Duration
where
    B: Future<Output = Duration> + Send + 'static,
{
    let runtime = runtime();
    runtime.block_on(runtime.spawn(body())).unwrap();
    runtime.block_on(runtime.spawn(body())).unwrap()
}
