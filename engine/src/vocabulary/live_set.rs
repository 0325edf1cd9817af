//! The values of a family's members, for the workers that follow them.
//!
//! Invariants:
//! 1. A new version is set before waiters are notified.
//! 2. No user code runs under the lock: values are shared pointers, and a replaced value is returned
//!    to the caller.
//! 3. The loop never waits long for the lock: a reader takes at most [`PAGE`] values at a time.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Bound;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::live::EngineGone;
use super::value::{Value, downcast};
use super::wake::wake;

/// How many values a reader takes under the lock at a time.
const PAGE: usize = 256;

/// The values of all members that offer one, by member.
#[derive(Default)]
pub(crate) struct Members {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    values: BTreeMap<Arc<str>, Value>,
    /// Counts the changes.
    version: u64,
    is_closed: bool,
}

impl Members {
    /// Sets the value of a member, or takes it away, and returns the value before.
    pub(crate) fn put(&self, member: &str, value: Option<Value>) -> Option<Value> {
        let mut state = self.state.lock();
        let before = match value {
            Some(value) => match state.values.get_mut(member) {
                Some(place) => Some(std::mem::replace(place, value)),
                None => state.values.insert(member.into(), value),
            },
            // Without a value now and before, nothing changes.
            None => Some(state.values.remove(member)?),
        };
        state.version += 1;
        drop(state);
        wake(|| self.changed.notify_waiters());
        before
    }

    fn page(&self, after: Option<&Arc<str>>) -> Vec<(Arc<str>, Value)> {
        let start = after.map_or(Bound::Unbounded, |last| Bound::Excluded(Arc::clone(last)));
        let state = self.state.lock();
        let page = state.values.range::<Arc<str>, _>((start, Bound::Unbounded)).take(PAGE);
        page.map(|(member, value)| (Arc::clone(member), Arc::clone(value))).collect()
    }
}

/// The loop's side of a set. When it is dropped, no other change will come.
pub(crate) struct SetSender {
    pub(crate) members: Arc<Members>,
}

impl Drop for SetSender {
    fn drop(&mut self) {
        self.members.state.lock().is_closed = true;
        wake(|| self.members.changed.notify_waiters());
    }
}

/// Follows the values of all members of a family; made by
/// [`Family::live`](crate::Family::live).
///
/// A member is in the set while a worker offers its value. A `LiveSet` keeps no worker and no
/// engine alive. All clones see the same values, but each knows by itself which change it has seen.
pub struct LiveSet<T> {
    members: Arc<Members>,
    seen: u64,
    value: PhantomData<fn() -> T>,
}

impl<T: Clone + 'static> LiveSet<T> {
    pub(crate) fn new(members: Arc<Members>) -> Self {
        Self { members, seen: 0, value: PhantomData }
    }

    /// Returns the value of one member. Costs the logarithm of the set's size.
    pub fn get(&self, member: &str) -> Option<T> {
        let value = self.members.state.lock().values.get(member).cloned()?;
        Some(downcast::<T>(&value).clone())
    }

    /// Returns all members with their values.
    ///
    /// It takes them page by page, so a member that comes or goes meanwhile may be in it or not.
    pub fn all(&self) -> BTreeMap<String, T> {
        self.pages()
            .map(|(member, value)| (member.as_ref().into(), downcast::<T>(&value).clone()))
            .collect()
    }

    /// Returns all members, sorted, page by page as [`all`](Self::all).
    pub fn members(&self) -> Vec<String> {
        self.pages().map(|(member, _)| member.as_ref().into()).collect()
    }

    /// Returns how many members there are.
    pub fn len(&self) -> usize {
        self.members.state.lock().values.len()
    }

    /// Whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Waits for a change that this handle has not seen: a member comes, goes or has a new value.
    /// Counts all changes up to now as seen. The first call returns at once if the set was ever
    /// changed.
    ///
    /// # Errors
    ///
    /// When the engine is gone and its last change was seen. Every later call then fails at once.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn changed(&mut self) -> Result<(), EngineGone> {
        loop {
            // Made before the check, so that a change after the check wakes it.
            let changed = self.members.changed.notified();
            {
                let state = self.members.state.lock();
                if state.version != self.seen {
                    self.seen = state.version;
                    return Ok(());
                }
                if state.is_closed {
                    return Err(EngineGone);
                }
            }
            changed.await;
        }
    }

    fn pages(&self) -> impl Iterator<Item = (Arc<str>, Value)> {
        let mut page = self.members.page(None).into_iter();
        std::iter::from_fn(move || {
            let next = page.next()?;
            if page.len() == 0 {
                page = self.members.page(Some(&next.0)).into_iter();
            }
            Some(next)
        })
    }
}

impl<T> Clone for LiveSet<T> {
    fn clone(&self) -> Self {
        Self { members: Arc::clone(&self.members), seen: self.seen, value: PhantomData }
    }
}

impl<T> fmt::Debug for LiveSet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let members = self.members.state.lock().values.len();
        f.debug_struct("LiveSet").field("members", &members).finish_non_exhaustive()
    }
}
