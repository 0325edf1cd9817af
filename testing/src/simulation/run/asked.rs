//! The calls by hand in a run, and their results.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use crankcase_engine::{Applied, Change, ChangeError};
use tokio::time::Instant;

/// The calls by hand, which are undone when the calls end.
#[derive(Default)]
pub(super) struct Asked {
    pub(super) parked: VecDeque<String>,
    /// The manifolds that are taken out or have another input, by their places in the setup. The
    /// next one to be put back comes first.
    pub(super) away: VecDeque<usize>,
    /// The changes of manifolds that the engine may still refuse, in their order.
    pub(super) pending: VecDeque<Pending>,
    /// The number of the last name that was used and at which nothing is installed.
    pub(super) nobodies: u32,
}

/// A change of manifolds that was asked for.
pub(super) struct Pending {
    pub(super) applied: Applied,
    pub(super) at: Instant,
    pub(super) places: Vec<Place>,
}

/// The effect of a change on one manifold.
pub(super) struct Place {
    /// The place of the manifold in the setup.
    pub(super) index: usize,
    /// Whether the manifold is away once the change is made.
    pub(super) goes: bool,
    /// The text for the trace.
    pub(super) text: Cow<'static, str>,
}

/// A change of manifolds that is not yet asked for.
#[derive(Default)]
pub(super) struct Rewiring {
    pub(super) change: Change,
    pub(super) places: Vec<Place>,
}

impl Asked {
    /// Learns which changes were made. An engine refuses a change at the moment of the call.
    pub(super) fn learn(&mut self) {
        let mut cx = Context::from_waker(Waker::noop());
        while let Some(mut pending) = self.pending.pop_front() {
            match Pin::new(&mut pending.applied).poll(&mut cx) {
                Poll::Ready(Err(error)) if !matches!(error, ChangeError::Stuck { .. }) => {}
                Poll::Pending if pending.at == Instant::now() => {
                    return self.pending.push_front(pending);
                }
                // A change that waits for a stuck worker is in force.
                Poll::Ready(_) | Poll::Pending => {
                    pending.places.iter().for_each(|place| self.note(place.index, place.goes));
                }
            }
        }
    }

    fn note(&mut self, index: usize, goes: bool) {
        self.away.retain(|other| *other != index);
        if goes {
            self.away.push_back(index);
        }
    }

    /// Returns whether a manifold may be away.
    pub(super) fn is_away(&self, index: usize) -> bool {
        let places = self.pending.iter().flat_map(|pending| &pending.places);
        self.away.contains(&index) || places.into_iter().any(|place| place.index == index)
    }
}
