//! The wakers of the futures that wait for a flag of a worker's cell.

use std::mem;
use std::num::NonZeroU32;
use std::task::Waker;

use slab::Slab;

use crate::vocabulary::wake::wake;

/// The waiting futures. Usually there is one, the worker itself, which needs no allocation.
#[derive(Default)]
pub(super) struct Waiters {
    first: Option<Waker>,
    others: Option<Box<Slab<Waker>>>,
}

/// The place of one waiting future. It is kept until it is removed, even after its waker was taken.
///
/// 1 is the first place. Each larger number is a place among the others.
#[derive(Clone, Copy)]
pub(super) struct Place(NonZeroU32);

impl Place {
    const FIRST: Self = Self(NonZeroU32::MIN);

    fn other(at: usize) -> Self {
        let above = u32::try_from(at + 1).expect("fewer wait for one worker than that");
        Self(NonZeroU32::MIN.saturating_add(above))
    }

    /// Returns the index among the others. `None` for the first place.
    fn among_others(self) -> Option<usize> {
        (self.0.get() as usize).checked_sub(2)
    }
}

/// Wakers that were taken and must be woken.
#[must_use = "who waits is to be woken"]
pub(super) struct Woken {
    first: Option<Waker>,
    others: Vec<Waker>,
}

impl Waiters {
    pub(super) fn add(&mut self, waker: Waker) -> Place {
        if self.first.is_none() {
            self.first = Some(waker);
            return Place::FIRST;
        }
        Place::other(self.others.get_or_insert_default().insert(waker))
    }

    /// Whether this waker is at this place.
    pub(super) fn is_in(&self, place: Place, waker: &Waker) -> bool {
        let present = match place.among_others() {
            None => self.first.as_ref(),
            Some(at) => self.others.as_ref().and_then(|others| others.get(at)),
        };
        present.is_some_and(|present| present.will_wake(waker))
    }

    /// Sets the waker of a place, and returns the waker before it.
    pub(super) fn put(&mut self, place: Place, waker: Waker) -> Option<Waker> {
        match place.among_others() {
            None => self.first.replace(waker),
            Some(at) => {
                let present = self.others.as_mut()?.get_mut(at)?;
                Some(mem::replace(present, waker))
            }
        }
    }

    /// Frees the place for the next waiter, and returns its waker.
    pub(super) fn remove(&mut self, place: Place) -> Option<Waker> {
        match place.among_others() {
            None => self.first.take(),
            Some(at) => self.others.as_mut()?.try_remove(at),
        }
    }

    /// Takes all wakers and keeps their places. A future that is woken by a flag that it does not
    /// wait for puts its waker there again.
    pub(super) fn take(&mut self) -> Woken {
        let take = |waker: &mut Waker| mem::replace(waker, Waker::noop().clone());
        let take_others = |others: &mut Box<Slab<Waker>>| {
            others.iter_mut().map(|(_, waker)| take(waker)).collect()
        };
        Woken {
            first: self.first.as_mut().map(take),
            others: self.others.as_mut().map_or_else(Vec::new, take_others),
        }
    }

    /// Returns the number of places in use.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.others.as_ref().map_or(0, |others| others.len())
    }
}

impl Woken {
    /// Wakes all of them, even if some panic.
    pub(super) fn wake(self) {
        for waker in self.first.into_iter().chain(self.others) {
            wake(|| waker.wake());
        }
    }
}
