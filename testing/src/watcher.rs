//! A watcher that reports changes when the test says so.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use crate::failure::Failure;
use crate::signal::Signal;
use crate::wait::within;

/// A watcher that the test drives: it tells those who watch what the test sends.
///
/// It stands in the place of what tells of changes: files, a database, a remote API. Give it to the
/// code under test as it is, or behind the trait that the code asks for; the test keeps a clone.
///
/// # Examples
///
/// ```
/// use crankcase_testing::FakeWatcher;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), crankcase_testing::Failure> {
/// let watcher = FakeWatcher::strings();
/// let mut watching = watcher.watch();
/// let worker = async move {
///     let mut seen = Vec::new();
///     while let Some(changed) = watching.next().await {
///         seen.extend(changed);
///     }
///     seen
/// };
/// let test = async {
///     watcher.send(vec!["a".to_owned(), "b".to_owned()]);
///     watcher.handled().await?; // the worker has taken it, and asks for more
///     watcher.close();
///     Ok(())
/// };
/// let (seen, tested) = tokio::join!(worker, test);
/// assert_eq!(seen, ["a", "b"]);
/// tested
/// # }
/// ```
pub struct FakeWatcher<T> {
    state: Arc<Signal<State<T>>>,
}

/// A watcher that only says that something may have changed.
pub type FakeNotifyWatcher = FakeWatcher<()>;

/// A watcher that says what has changed, by names.
pub type FakeStringsWatcher = FakeWatcher<Vec<String>>;

struct State<T> {
    initial: Vec<T>,
    watching: BTreeMap<u64, Queue<T>>,
    next: u64,
    is_closed: bool,
}

struct Queue<T> {
    left: VecDeque<T>,
    /// Who watches has taken everything and waits for more.
    is_idle: bool,
}

impl FakeWatcher<()> {
    /// Returns a watcher that says that something may have changed.
    pub fn notify() -> Self {
        Self::new()
    }

    /// Says that something may have changed, and returns how many were told.
    pub fn ping(&self) -> usize {
        self.send(())
    }
}

impl FakeWatcher<Vec<String>> {
    /// Returns a watcher that says what has changed, by names.
    pub fn strings() -> Self {
        Self::new()
    }
}

impl<T: Clone + Send> FakeWatcher<T> {
    /// Returns a watcher of any changes.
    pub fn new() -> Self {
        Self::initially(Vec::new())
    }

    /// Returns a watcher that tells each who begins to watch these first, as watchers do that begin
    /// with what there is.
    pub fn initially(changes: Vec<T>) -> Self {
        let state =
            State { initial: changes, watching: BTreeMap::new(), next: 0, is_closed: false };
        Self { state: Arc::new(Signal::new(state)) }
    }

    /// Begins to watch.
    pub fn watch(&self) -> Watching<T> {
        let id = self.state.change(|state| {
            let id = state.next;
            state.next += 1;
            let queue = Queue { left: state.initial.iter().cloned().collect(), is_idle: false };
            state.watching.insert(id, queue);
            id
        });
        Watching { id, state: Arc::clone(&self.state) }
    }

    /// Tells all who watch of a change, and returns how many they are: of a change that is told to
    /// nobody nobody will know.
    pub fn send(&self, change: T) -> usize {
        self.state.change(|state| {
            for queue in state.watching.values_mut() {
                queue.left.push_back(change.clone());
                queue.is_idle = false;
            }
            state.watching.len()
        })
    }

    /// Ends the watching: who watches is told what is left, then `None`.
    pub fn close(&self) {
        self.state.change(|state| state.is_closed = true);
    }

    /// Returns how many watch now.
    pub fn count(&self) -> usize {
        self.state.lock().watching.len()
    }

    /// Waits until so many watch.
    ///
    /// # Errors
    ///
    /// When so many do not watch within ten minutes by the clock.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn watched_by(&self, count: usize) -> Result<(), Failure> {
        let is_so = self.state.wait_for(|state| (state.watching.len() == count).then_some(()));
        within(|| format!("{} watch and not {count}", self.count()), is_so).await
    }

    /// Waits until somebody watches, and all who do have taken every change and ask for the next one,
    /// which means that they are through with it. Once it is closed, nobody need watch.
    ///
    /// # Errors
    ///
    /// When it is not so within ten minutes by the clock: nobody watches, or somebody does not ask.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn handled(&self) -> Result<(), Failure> {
        let all = self.state.wait_for(|state| {
            // Who was told of the end may watch no more.
            let is_anyone = state.is_closed || !state.watching.is_empty();
            (is_anyone && state.watching.values().all(|queue| queue.is_idle)).then_some(())
        });
        within(|| self.not_handled(), all).await
    }

    fn not_handled(&self) -> String {
        let state = self.state.lock();
        match state.watching.len() {
            0 => "nobody has watched".to_owned(),
            all => {
                let busy = state.watching.values().filter(|queue| !queue.is_idle).count();
                format!("{busy} of {all} who watch have not asked for the next change")
            }
        }
    }
}

impl<T> Clone for FakeWatcher<T> {
    fn clone(&self) -> Self {
        Self { state: Arc::clone(&self.state) }
    }
}

impl<T: Clone + Send> Default for FakeWatcher<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// One who watches; made by [`FakeWatcher::watch`].
#[must_use = "nobody watches once this is dropped"]
pub struct Watching<T> {
    id: u64,
    state: Arc<Signal<State<T>>>,
}

impl<T> Watching<T> {
    /// Waits for the next change; `None` when the watcher was closed.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a change that was not returned comes again.
    pub async fn next(&mut self) -> Option<T> {
        let (id, signal) = (self.id, &self.state);
        signal
            .wait_for(|state| {
                let is_closed = state.is_closed;
                let queue = state.watching.get_mut(&id)?;
                let change = queue.left.pop_front();
                if change.is_none() && !std::mem::replace(&mut queue.is_idle, true) {
                    signal.wake();
                }
                match change {
                    Some(change) => Some(Some(change)),
                    None => is_closed.then_some(None),
                }
            })
            .await
    }
}

impl<T> Drop for Watching<T> {
    fn drop(&mut self) {
        self.state.change(|state| state.watching.remove(&self.id));
    }
}

impl<T> fmt::Debug for FakeWatcher<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        f.debug_struct("FakeWatcher")
            .field("watching", &state.watching.len())
            .field("is_closed", &state.is_closed)
            .finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Watching<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watching").field("id", &self.id).finish_non_exhaustive()
    }
}
