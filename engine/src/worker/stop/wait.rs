//! The future that waits for a flag of a worker's cell.

use std::pin::Pin;
use std::task::{Context, Poll};

use super::cell::{Cell, STOPPED};
use super::waiters::Place;

/// Waits until one of `flags` is set.
pub(super) struct Wait<'a> {
    cell: &'a Cell,
    flags: u16,
    place: Option<Place>,
}

impl Cell {
    /// Waits until one of `flags` is set.
    pub(super) fn wait_for(&self, flags: u16) -> Wait<'_> {
        Wait { cell: self, flags, place: None }
    }
}

impl Future for Wait<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { cell, flags, place } = &mut *self;
        if cell.has(*flags) {
            return Poll::Ready(());
        }
        let is_known =
            place.is_some_and(|place| cell.state.lock().waiters.is_in(place, cx.waker()));
        if is_known {
            // From now on, a flag that is set wakes this waker.
            return if cell.has(*flags) { Poll::Ready(()) } else { Poll::Pending };
        }
        let waker = cx.waker().clone();
        let mut state = cell.state.lock();
        if cell.has(*flags) {
            drop(state);
            return Poll::Ready(());
        }
        let before = match place {
            Some(place) => state.waiters.put(*place, waker),
            None => {
                *place = Some(state.waiters.add(waker));
                None
            }
        };
        drop(state);
        drop(before);
        Poll::Pending
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        // A waiter for the stop needs no removal once the stop is set. After a stop, only waiters
        // for a lost input are added. Each of them removes itself unless the input is lost. So the
        // places that remain are at most those that waited when the flags were set.
        let is_over = self.cell.has(STOPPED) && self.cell.has(self.flags);
        if let Some(place) = self.place
            && !is_over
        {
            let waker = self.cell.state.lock().waiters.remove(place);
            drop(waker);
        }
    }
}
