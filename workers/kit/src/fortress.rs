//! Many guests, or one guard alone.
//!
//! Invariants:
//! 1. No guest is let in while it is locked down.
//! 2. A lockdown is over only when no guest is left, and none was let in since it began.
//! 3. One that has ended is locked, and stays so.
//! 4. Whoever waits is woken by every change that could let it go on, and while nothing is locked.

use std::fmt;
use std::sync::Arc;

use crankcase_engine::{Outcome, Stop, WithCauses, Worker};
use thiserror::Error;
use tokio::sync::watch;

/// Lets many guests in, or locks down for one guard.
///
/// A guest's [`visit`](Guest::visit) is let in while the fortress is open, any number at once. The
/// guard's [`lockdown`](Guard::lockdown) lets no new one in, and is over when all have left: from
/// then on the guard is alone until it unlocks. It is for work that must not be interrupted by, say,
/// a migration, and for the migration that must not be disturbed.
///
/// It is locked at first, so that nobody gets in before a guard has had its say. It is cheap to
/// clone, and its clones are one fortress.
///
/// It is a worker too: when its worker ends, in whatever way, all who wait are told
/// [`FortressError::Ended`], and it is locked for ever. A fortress whose worker never runs does not
/// end.
///
/// # Examples
///
/// ```
/// use crankcase_workers::Fortress;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let fortress = Fortress::new();
/// let (guard, guest) = (fortress.guard(), fortress.guest());
/// assert!(guest.try_visit().is_none());
///
/// guard.unlock();
/// let visit = guest.visit().await?;
/// let leave = async {
///     visit.asked_to_leave().await;
///     drop(visit);
/// };
/// let (locked, ()) = tokio::join!(guard.lockdown(), leave);
/// locked?; // alone
/// assert!(guest.try_visit().is_none());
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Fortress {
    shared: Arc<Shared>,
}

/// How a fortress is.
///
/// It differs after every lockdown, so that one who sees only now and then sees that there was one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FortressState {
    /// Whether guests are let in.
    pub is_open: bool,
    /// How many lockdowns of an open fortress there were.
    pub lockdowns: u64,
}

struct Shared {
    inner: watch::Sender<Inner>,
    /// What is shown outside.
    shown: watch::Sender<FortressState>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Inner {
    state: FortressState,
    guests: usize,
    has_ended: bool,
}

/// Why nobody is let in, or nobody alone.
#[derive(Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FortressError {
    /// The fortress' worker has ended.
    #[error("the fortress has ended")]
    Ended,
    /// Another guard has unlocked the fortress before all guests had left: begin anew.
    #[error("the fortress was unlocked before all guests had left")]
    Unlocked,
}

impl fmt::Debug for FortressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&WithCauses(self), f)
    }
}

impl Fortress {
    /// Returns a fortress that is locked and empty.
    pub fn new() -> Self {
        let (shown, inner) = (watch::Sender::default(), watch::Sender::default());
        Self { shared: Arc::new(Shared { shown, inner }) }
    }

    /// Returns the handle of those who visit.
    pub fn guest(&self) -> Guest {
        Guest { fortress: self.clone() }
    }

    /// Returns the handle of the one who locks and unlocks.
    pub fn guard(&self) -> Guard {
        Guard { fortress: self.clone() }
    }

    /// Follows how it is.
    pub fn state(&self) -> watch::Receiver<FortressState> {
        self.shared.shown.subscribe()
    }

    /// Returns how many guests are in it.
    pub fn guests(&self) -> usize {
        self.shared.inner.borrow().guests
    }

    /// Changes what is inside, and wakes those who wait if anything has changed.
    fn change(&self, change: impl FnOnce(&mut Inner) -> bool) -> bool {
        let mut is_new = false;
        let has_changed = self.shared.inner.send_if_modified(|inner| {
            let before = inner.state;
            let has_changed = change(inner);
            is_new = inner.state != before;
            has_changed
        });
        if is_new {
            self.show();
        }
        has_changed
    }

    /// Shows how it is. That is looked at by whoever is the next to show it, so that what is shown
    /// last is how it is.
    fn show(&self) {
        self.shared.shown.send_if_modified(|shown| {
            let state = self.shared.inner.borrow().state;
            std::mem::replace(shown, state) != state
        });
    }

    /// Lets a guest in if it is open.
    fn admit(&self) -> Option<Visit> {
        let admitted = self.change(|inner| {
            inner.guests += usize::from(inner.state.is_open);
            inner.state.is_open
        });
        admitted.then(|| Visit { fortress: self.clone() })
    }
}

impl Default for Fortress {
    fn default() -> Self {
        Self::new()
    }
}

impl Worker for Fortress {
    async fn run(self, stop: Stop) -> Outcome {
        let end = End(self);
        stop.wait().await;
        drop(end);
        Ok(())
    }
}

/// Ends the fortress with its worker.
struct End(Fortress);

impl Drop for End {
    fn drop(&mut self) {
        self.0.change(|inner| {
            inner.has_ended = true;
            inner.state.is_open = false;
            true
        });
    }
}

impl fmt::Debug for Fortress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = *self.shared.inner.borrow();
        f.debug_struct("Fortress")
            .field("is_open", &inner.state.is_open)
            .field("guests", &inner.guests)
            .field("has_ended", &inner.has_ended)
            .finish()
    }
}

/// Visits a [`Fortress`]. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Guest {
    fortress: Fortress,
}

impl Guest {
    /// Waits until the fortress is open, and goes in.
    ///
    /// # Errors
    ///
    /// When the fortress ends.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a visit that is not returned does not happen.
    pub async fn visit(&self) -> Result<Visit, FortressError> {
        let mut inner = self.fortress.shared.inner.subscribe();
        loop {
            if let Some(visit) = self.fortress.admit() {
                return Ok(visit);
            }
            if inner.borrow_and_update().has_ended {
                return Err(FortressError::Ended);
            }
            let may = inner.wait_for(|inner| inner.state.is_open || inner.has_ended);
            // It cannot be closed: this has a hold on its sender.
            drop(may.await);
        }
    }

    /// Goes in if the fortress is open.
    pub fn try_visit(&self) -> Option<Visit> {
        self.fortress.admit()
    }
}

/// A guest in a [`Fortress`]; dropping it leaves.
#[must_use = "the visit is over when this is dropped"]
pub struct Visit {
    fortress: Fortress,
}

impl Visit {
    /// Waits until a guard wants to lock down, or the fortress has ended.
    ///
    /// A guest need not ask: a lockdown waits for it.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn asked_to_leave(&self) {
        let mut inner = self.fortress.shared.inner.subscribe();
        drop(inner.wait_for(|inner| !inner.state.is_open).await);
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.fortress.change(|inner| {
            inner.guests -= 1;
            // Only the last one is waited for.
            inner.guests == 0
        });
    }
}

impl fmt::Debug for Visit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Visit").field(&self.fortress).finish()
    }
}

/// Locks and unlocks a [`Fortress`]. Cheap to clone; dropping it changes nothing.
#[derive(Debug, Clone)]
pub struct Guard {
    fortress: Fortress,
}

impl Guard {
    /// Lets guests in; a later call changes nothing, and neither does one after the fortress' end.
    pub fn unlock(&self) {
        self.fortress
            .change(|inner| !inner.has_ended && !std::mem::replace(&mut inner.state.is_open, true));
    }

    /// Lets no guest in any more, and waits until those inside have left.
    ///
    /// It locks when it is called, and its future only waits. It waits for as long as it takes: a
    /// guest that waits for the guard, or that is the guard, waits for ever.
    ///
    /// # Errors
    ///
    /// When another guard unlocks the fortress while this waits, or the fortress ends.
    ///
    /// # Cancel safety
    ///
    /// Cancelling stops waiting; the fortress stays locked.
    pub fn lockdown(&self) -> impl Future<Output = Result<(), FortressError>> + Send + use<> {
        let mut inner = self.fortress.shared.inner.subscribe();
        let mut lockdown = 0;
        self.fortress.change(|inner| {
            let was_open = std::mem::replace(&mut inner.state.is_open, false);
            inner.state.lockdowns += u64::from(was_open);
            lockdown = inner.state.lockdowns;
            was_open
        });
        async move {
            let is_broken =
                |inner: &Inner| inner.state.is_open || inner.state.lockdowns != lockdown;
            let is_over = |inner: &Inner| is_broken(inner) || inner.guests == 0 || inner.has_ended;
            // It is closed if nobody has a hold on the fortress any more, and so nobody is in it.
            match inner.wait_for(is_over).await.map(|inner| *inner) {
                Ok(inner) if !inner.has_ended && is_broken(&inner) => Err(FortressError::Unlocked),
                Ok(inner) if !inner.has_ended => Ok(()),
                Ok(_) | Err(_) => Err(FortressError::Ended),
            }
        }
    }
}
