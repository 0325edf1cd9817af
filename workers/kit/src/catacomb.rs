//! A worker that owns other workers.
//!
//! Invariants:
//! 1. A child is in the table from before its task is spawned until it is gone, and only then.
//! 2. No code of a child's runs under the table's lock.
//! 3. The catacomb ends only with an empty table, or after both graces; it takes nothing once the
//!    first is over.
//! 4. What is left when it ends keeps its worker from counting as ended.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::{Outcome, Stop, Worker};
use thiserror::Error;
use tokio::runtime::Handle;
use tokio::time::timeout;

pub use self::report::{CatacombChild, CatacombReport};

use self::table::Shared;
use crate::child::{self, End};
use crate::left_behind::LeftBehind;

mod report;
mod table;

/// How a [`Catacomb`] stops its children.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CatacombConfig {
    /// How long the children have together, from when they are told to stop until their futures are
    /// dropped. Default 20 s, which leaves room in the 30 s that an engine gives the catacomb.
    pub grace: Duration,
    /// How long they are waited for after that before they are left behind. Default 1 s.
    pub abort_grace: Duration,
}

crankcase_engine::setters! {
    CatacombConfig {
        grace: Duration,
        abort_grace: Duration,
    }
    optional {}
}

impl Default for CatacombConfig {
    fn default() -> Self {
        Self { grace: Duration::from_secs(20), abort_grace: Duration::from_secs(1) }
    }
}

/// A worker that owns child workers: when one fails, all are stopped, and it ends with that error.
///
/// It is for the parts of one worker that make no sense without each other, such as the connections
/// of a server. Parts that can be restarted alone belong in a [`Runner`](crate::Runner), and what
/// others depend on in an engine.
///
/// Children are given to its [`handle`](Self::handle), before it runs or while it does. They begin
/// at once. What a child ends with says what happens:
///
/// | a child's end | the catacomb |
/// | --- | --- |
/// | `Ok(())` | forgets it |
/// | an [`Exit`](crankcase_engine::Exit) | stops all children and ends with that exit, unless another was first |
/// | a panic | as failed, with a [`Panicked`](crankcase_engine::Panicked) |
///
/// Without children it runs on until it is told to stop, or [killed](CatacombHandle::kill).
///
/// # Guarantees
///
/// - A child that is added belongs to it in any case. One that comes while it stops is told to stop
///   at once, and is awaited like all others; one that comes when `grace` is over, or after the end,
///   is dropped without having run, and who adds it is told [`CatacombEnded`].
/// - The first error wins; the later ones are logged.
/// - When an input of its own worker is lost, its children are told.
/// - It ends after all its children: told, then dropped when `grace` is over. A child that ends
///   neither way is named in the log and, if there is no other error, in a [`LeftBehind`].
/// - When it is dropped, so are its children. An engine does not take it for ended before they are
///   gone: from when it runs on, or from the beginning if it was made by [`new_for`](Self::new_for).
/// - What a child logs stands in a span `child` with its `name`, at level debug, in the span in which
///   the catacomb was made.
/// - A child costs one task and one small entry, and leaves nothing behind when it has ended.
///
/// # Examples
///
/// ```
/// use crankcase_engine::{Outcome, Stop, Worker};
/// use crankcase_workers::{Catacomb, CatacombConfig};
///
/// /// A worker with two parts.
/// struct Server {
///     catacomb: Catacomb,
/// }
///
/// impl Server {
///     /// Of a manifold's start, which has the worker's stop in its context.
///     fn new(stop: &Stop) -> Result<Self, crankcase_workers::CatacombEnded> {
///         let catacomb = Catacomb::new_for(stop, CatacombConfig::default());
///         let children = catacomb.handle();
///         children.spawn("listener", {
///             let children = children.clone();
///             async move |_stop: Stop| {
///                 // A child may add others.
///                 children.spawn("connection", async move |stop: Stop| {
///                     stop.wait().await;
///                     Ok(())
///                 })?;
///                 Err("the port is gone".into())
///             }
///         })?;
///         Ok(Self { catacomb })
///     }
/// }
///
/// impl Worker for Server {
///     async fn run(self, stop: Stop) -> Outcome {
///         self.catacomb.run(stop).await
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (_stopper, stop) = Stop::pair();
/// let ended = Server::new(&stop)?.run(stop).await;
/// assert_eq!(ended.unwrap_err().to_string(), "the port is gone");
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "its children are stopped when it is dropped"]
pub struct Catacomb {
    owned: Owned,
    config: CatacombConfig,
}

impl Catacomb {
    /// Returns a catacomb without children.
    ///
    /// It is for a worker that makes it when it runs. One that is made in a start, and given children
    /// there, is made by [`new_for`](Self::new_for).
    pub fn new(config: CatacombConfig) -> Self {
        Self { owned: Owned { shared: Arc::new(Shared::new()) }, config }
    }

    /// Returns a catacomb without children for the worker that has this `stop`.
    ///
    /// When it is dropped before it runs, as in a start that is stopped half way, the worker does not
    /// count as ended before the children are gone: an engine starts no other meanwhile.
    pub fn new_for(stop: &Stop, config: CatacombConfig) -> Self {
        let catacomb = Self::new(config);
        catacomb.owned.shared.linger(stop.linger());
        catacomb
    }

    /// Returns the handle that adds children. It may be given to them.
    pub fn handle(&self) -> CatacombHandle {
        CatacombHandle { shared: Arc::clone(&self.owned.shared) }
    }
}

impl Worker for Catacomb {
    async fn run(self, stop: Stop) -> Outcome {
        let Self { owned, config } = self;
        let shared = &owned.shared;
        shared.linger(stop.linger());
        let life = async {
            tokio::select! {
                biased;
                () = stop.wait() => shared.kill(),
                () = shared.killed() => {}
            }
            shared.tell_all();
            if timeout(config.grace, shared.emptied()).await.is_err() {
                shared.abort_all();
                // What is left then is seen below.
                drop(timeout(config.abort_grace, shared.emptied()).await);
            }
        };
        child::passing_on_loss(life, &stop, || shared.lose_input()).await;
        let (error, left) = shared.end();
        if !left.is_empty() {
            let left = LeftBehind::new(left);
            tracing::error!(names = ?left.names(), "children of a catacomb were left behind");
            return Err(error.unwrap_or_else(|| left.into()));
        }
        error.map_or(Ok(()), Err)
    }
}

/// The catacomb's own hold on its children: they end with it, also when it is dropped.
struct Owned {
    shared: Arc<Shared>,
}

impl Drop for Owned {
    fn drop(&mut self) {
        self.shared.tell_all();
        self.shared.abort_all();
        drop(self.shared.end());
    }
}

impl fmt::Debug for Owned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shared.fmt(f)
    }
}

/// The catacomb has ended, or has had its grace, and takes no child any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the catacomb has ended")]
pub struct CatacombEnded;

/// Adds children to a [`Catacomb`]. Cheap to clone; dropping it stops nothing.
#[derive(Clone)]
pub struct CatacombHandle {
    shared: Arc<Shared>,
}

impl CatacombHandle {
    /// Takes a worker and runs it in a task on the present runtime.
    ///
    /// The name is what logs and reports call it; it needs not be unique.
    ///
    /// # Errors
    ///
    /// When the catacomb has ended, or has had its grace. The worker was taken all the same, and
    /// dropped without having run.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn add(&self, name: &str, worker: impl Worker) -> Result<(), CatacombEnded> {
        let runtime = Handle::current();
        let Some((id, stop)) = self.shared.admit(name) else { return Err(CatacombEnded) };
        let (shared, span) = (Arc::clone(&self.shared), self.shared.span_of(name));
        // Not under the lock: a runtime that is being shut down drops the worker at once.
        let ended = move |end: End| shared.on_ended(id, end);
        let task = child::spawn(&runtime, worker, stop, span, ended);
        self.shared.set_task(id, task);
        Ok(())
    }

    /// Runs a function as a child; it is a worker without a type of its own.
    ///
    /// # Errors
    ///
    /// As [`add`](Self::add).
    ///
    /// # Panics
    ///
    /// As [`add`](Self::add).
    pub fn spawn<T, F>(&self, name: &str, task: T) -> Result<(), CatacombEnded>
    where
        T: FnOnce(Stop) -> F + Send + 'static,
        F: Future<Output = Outcome> + Send + 'static,
    {
        self.add(name, Task(task))
    }

    /// Begins to stop the catacomb; a later call changes nothing.
    ///
    /// It ends well, unless a child ends with an error.
    pub fn kill(&self) {
        self.shared.kill();
    }

    /// Returns whether the catacomb stops or has ended, so that a child that is added is told to
    /// stop at once or not run at all.
    pub fn is_stopping(&self) -> bool {
        self.shared.is_stopping()
    }

    /// Returns how many children there are.
    pub fn count(&self) -> usize {
        self.shared.count()
    }

    /// Returns what the children are doing, the oldest first.
    pub fn report(&self) -> CatacombReport {
        self.shared.report()
    }
}

impl fmt::Debug for CatacombHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shared.fmt(f)
    }
}

/// A function as a worker.
struct Task<T>(T);

impl<T, F> Worker for Task<T>
where
    T: FnOnce(Stop) -> F + Send + 'static,
    F: Future<Output = Outcome> + Send + 'static,
{
    fn run(self, stop: Stop) -> impl Future<Output = Outcome> + Send {
        (self.0)(stop)
    }
}
