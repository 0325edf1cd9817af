use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

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
/// # async fn main() {
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
///     watcher.handled().await; // the worker has taken it, and asks for more
///     watcher.close();
/// };
/// let (seen, ()) = tokio::join!(worker, test);
/// assert_eq!(seen, ["a", "b"]);
/// # }
/// ```
pub struct FakeWatcher<T> {
    shared: Arc<Shared<T>>,
}

/// A watcher that only says that something may have changed.
pub type FakeNotifyWatcher = FakeWatcher<()>;

/// A watcher that says what has changed, by names.
pub type FakeStringsWatcher = FakeWatcher<Vec<String>>;

struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Notify,
}

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

    /// Says that something may have changed.
    pub fn ping(&self) {
        self.send(());
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
        Self { shared: Arc::new(Shared { state: Mutex::new(state), changed: Notify::new() }) }
    }

    /// Begins to watch.
    pub fn watch(&self) -> Watching<T> {
        let mut state = self.shared.state.lock();
        let id = state.next;
        state.next += 1;
        let queue = Queue { left: state.initial.iter().cloned().collect(), is_idle: false };
        state.watching.insert(id, queue);
        drop(state);
        self.shared.changed.notify_waiters();
        Watching { id, shared: Arc::clone(&self.shared) }
    }

    /// Tells all who watch of a change.
    pub fn send(&self, change: T) {
        for queue in self.shared.state.lock().watching.values_mut() {
            queue.left.push_back(change.clone());
            queue.is_idle = false;
        }
        self.shared.changed.notify_waiters();
    }

    /// Ends the watching: who watches is told what is left, then `None`.
    pub fn close(&self) {
        self.shared.state.lock().is_closed = true;
        self.shared.changed.notify_waiters();
    }

    /// Returns how many watch now.
    pub fn count(&self) -> usize {
        self.shared.state.lock().watching.len()
    }

    /// Waits until so many watch.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn watched_by(&self, count: usize) {
        self.shared.wait_for(|state| (state.watching.len() == count).then_some(())).await;
    }

    /// Waits until all who watch have taken every change and ask for the next one, which means that
    /// they are through with it.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn handled(&self) {
        let all = |state: &mut State<T>| state.watching.values().all(|queue| queue.is_idle);
        self.shared.wait_for(|state| all(state).then_some(())).await;
    }
}

impl<T> Clone for FakeWatcher<T> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<T: Clone + Send> Default for FakeWatcher<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Shared<T> {
    async fn wait_for<R>(&self, mut take: impl FnMut(&mut State<T>) -> Option<R>) -> R {
        loop {
            // Made before the look: what comes after it wakes this.
            let changed = self.changed.notified();
            let taken = take(&mut self.state.lock());
            match taken {
                Some(taken) => return taken,
                None => changed.await,
            }
        }
    }
}

/// One who watches; made by [`FakeWatcher::watch`].
#[must_use = "nobody watches once this is dropped"]
pub struct Watching<T> {
    id: u64,
    shared: Arc<Shared<T>>,
}

impl<T> Watching<T> {
    /// Waits for the next change; `None` when the watcher was closed.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a change that was not returned comes again.
    pub async fn next(&mut self) -> Option<T> {
        let (id, shared) = (self.id, &self.shared);
        shared
            .wait_for(|state| {
                let is_closed = state.is_closed;
                let queue = state.watching.get_mut(&id)?;
                let change = queue.left.pop_front();
                if change.is_none() && !std::mem::replace(&mut queue.is_idle, true) {
                    shared.changed.notify_waiters();
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
        self.shared.state.lock().watching.remove(&self.id);
        self.shared.changed.notify_waiters();
    }
}

impl<T> fmt::Debug for FakeWatcher<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.state.lock();
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
