//! A worker together with what it exposes to others.

use std::fmt;

use crankcase_engine::{Outcome, Stop, Worker};

/// A worker that exposes another: it runs `worker`, and has `exposed` for others to see.
///
/// It is for a start that makes a worker together with what it offers, when the worker itself cannot
/// be asked for that. What is exposed lives until the worker's future is gone, so that it may hold
/// what the worker needs.
///
/// # Examples
///
/// ```
/// use crankcase_engine::{Engine, Manifold, Name};
/// use crankcase_workers::{Catacomb, CatacombConfig, CatacombHandle, Owned};
///
/// const SESSIONS: Name<CatacombHandle> = Name::new("sessions");
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let sessions = Manifold::builder()
///     .start(|(), _ctx| async {
///         let catacomb = Catacomb::new(CatacombConfig::default());
///         let handle = catacomb.handle();
///         Ok(Owned::new(catacomb, handle))
///     })
///     .output(|owned| owned.exposed().clone())
///     .build();
/// let engine = Engine::builder().build()?;
/// engine.install(SESSIONS, sessions).await?;
/// assert_eq!(engine.output(SESSIONS).await?.count(), 0);
/// engine.stop().await?;
/// # Ok(()) }
/// ```
#[must_use = "a worker does nothing until it runs"]
pub struct Owned<W, T> {
    // In this order: the worker is dropped before what it may need.
    worker: W,
    exposed: T,
}

impl<W: Worker, T: Send + 'static> Owned<W, T> {
    /// Returns a worker that runs `worker` and exposes `exposed`.
    pub fn new(worker: W, exposed: T) -> Self {
        Self { worker, exposed }
    }

    /// Returns what is exposed.
    pub fn exposed(&self) -> &T {
        &self.exposed
    }

    /// Returns the worker that is run.
    pub fn worker(&self) -> &W {
        &self.worker
    }
}

impl<W: Worker, T: Send + 'static> Worker for Owned<W, T> {
    async fn run(self, stop: Stop) -> Outcome {
        let Self { worker, exposed } = self;
        let outcome = worker.run(stop).await;
        drop(exposed);
        outcome
    }
}

impl<W, T: fmt::Debug> fmt::Debug for Owned<W, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Owned").field("exposed", &self.exposed).finish_non_exhaustive()
    }
}
