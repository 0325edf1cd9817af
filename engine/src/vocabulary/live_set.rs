//! The values of a family's members, for the workers that follow them.
//!
//! Invariants:
//! 1. A value is set before the followers are told of a change.
//! 2. No user code runs under the lock: values are shared pointers, and a replaced value is returned
//!    to the caller.
//! 3. The loop never waits long for the lock: a reader takes at most [`PAGE`] values at a time.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Bound;
use std::sync::Arc;

use parking_lot::Mutex;

use super::follow;
use super::live::EngineGone;
use super::value::{Value, downcast};

/// How many values a reader takes under the lock at a time.
const PAGE: usize = 256;

/// The values of all members that offer one, by member.
type Values = Arc<Mutex<BTreeMap<Arc<str>, Value>>>;

/// The loop's side of a set. When it is dropped, no other change will come.
pub(crate) struct Members {
    values: Values,
    changes: follow::Sender<()>,
}

impl Members {
    /// Returns a set with these members.
    pub(crate) fn new(members: impl Iterator<Item = (Arc<str>, Value)>) -> Self {
        let values = Arc::new(Mutex::new(members.collect()));
        Self { values, changes: follow::channel(()).0 }
    }

    /// Sets the value of a member, or takes it away, and returns the value before.
    pub(crate) fn put(&self, member: &str, value: Option<Value>) -> Option<Value> {
        let mut values = self.values.lock();
        let before = match value {
            Some(value) => match values.get_mut(member) {
                Some(place) => Some(std::mem::replace(place, value)),
                None => values.insert(member.into(), value),
            },
            // Without a value now and before, nothing changes.
            None => Some(values.remove(member)?),
        };
        drop(values);
        self.changes.send_if_modified(|()| true);
        before
    }

    pub(crate) fn follow(&self) -> Followed {
        Followed { values: Arc::clone(&self.values), changes: self.changes.subscribe() }
    }
}

/// A set, as one follower sees it.
#[derive(Clone)]
pub(crate) struct Followed {
    values: Values,
    changes: follow::Receiver<()>,
}

impl Followed {
    /// Returns an empty set that never changes.
    pub(crate) fn none() -> Self {
        Members::new(std::iter::empty()).follow()
    }

    fn page(&self, after: Option<&Arc<str>>) -> Vec<(Arc<str>, Value)> {
        let start = after.map_or(Bound::Unbounded, |last| Bound::Excluded(Arc::clone(last)));
        let values = self.values.lock();
        let page = values.range::<Arc<str>, _>((start, Bound::Unbounded)).take(PAGE);
        page.map(|(member, value)| (Arc::clone(member), Arc::clone(value))).collect()
    }
}

/// Follows the values of all members of a family; made by
/// [`Family::live`](crate::Family::live).
///
/// A member is in the set while a worker offers its value. A `LiveSet` keeps no worker and no
/// engine alive. All clones see the same values, but each knows by itself which changes it has seen.
pub struct LiveSet<T> {
    followed: Followed,
    value: PhantomData<fn() -> T>,
}

impl<T: Clone + 'static> LiveSet<T> {
    pub(crate) fn new(followed: Followed) -> Self {
        Self { followed, value: PhantomData }
    }

    /// Returns the value of one member. Costs the logarithm of the set's size.
    pub fn get(&self, member: &str) -> Option<T> {
        let value = self.followed.values.lock().get(member).cloned()?;
        Some(downcast::<T>(&value).clone())
    }

    /// Returns all members with their values.
    ///
    /// It takes them page by page, so a member that comes or goes meanwhile may be in it or not.
    pub fn all(&self) -> BTreeMap<String, T> {
        let value = |value: Value| downcast::<T>(&value).clone();
        self.pages().map(|(member, shared)| (member.as_ref().into(), value(shared))).collect()
    }

    /// Returns all members, sorted, page by page as [`all`](Self::all).
    pub fn members(&self) -> Vec<String> {
        self.pages().map(|(member, _)| member.as_ref().into()).collect()
    }

    /// Returns how many members there are.
    pub fn len(&self) -> usize {
        self.followed.values.lock().len()
    }

    /// Whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Waits for a change that this handle has not seen: a member comes, goes or has a new value.
    /// Counts all changes up to now as seen. A worker's first handle has seen those before its
    /// start.
    ///
    /// # Errors
    ///
    /// When the engine is gone and its last change was seen. Every later call then fails at once.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn changed(&mut self) -> Result<(), EngineGone> {
        self.followed.changes.changed().await.map_err(|_| EngineGone)
    }

    fn pages(&self) -> impl Iterator<Item = (Arc<str>, Value)> {
        let mut page = self.followed.page(None).into_iter();
        std::iter::from_fn(move || {
            let next = page.next()?;
            if page.len() == 0 {
                page = self.followed.page(Some(&next.0)).into_iter();
            }
            Some(next)
        })
    }
}

impl<T> Clone for LiveSet<T> {
    fn clone(&self) -> Self {
        Self { followed: self.followed.clone(), value: PhantomData }
    }
}

impl<T> fmt::Debug for LiveSet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let members = self.followed.values.lock().len();
        f.debug_struct("LiveSet").field("members", &members).finish_non_exhaustive()
    }
}
