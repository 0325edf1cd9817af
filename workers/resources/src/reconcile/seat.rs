use std::sync::Arc;

use tokio::sync::Notify;

use crate::action::Action;
use crate::context::Notice;
use crate::observer::Happened;
use crate::reconcile::board::{Blocker, Board, Ended, Entries, Told};
use crate::reconcile::state::State;

/// The place of one worker at the board of its site. Its resource is at work from the start.
///
/// When another worker of the resource has taken a place, this one is of no effect any more.
#[derive(Debug)]
pub(super) struct Seat {
    board: Board,
    name: String,
    worker: u64,
    wake: Arc<Notify>,
}

impl Seat {
    pub(super) fn new(board: Board, name: String) -> Self {
        let (worker, wake) = board.step(|entries| entries.seat(&name));
        Self { board, name, worker, wake }
    }

    fn step<T>(&self, step: impl FnOnce(&mut Entries, &str) -> T) -> Option<T> {
        self.board.step(|entries| {
            entries.is_kept_by(&self.name, self.worker).then(|| step(entries, &self.name))
        })
    }

    /// Says that the resource has a reason to look.
    pub(super) fn begin(&self) {
        self.step(Entries::begin);
    }

    /// Returns what the resource was notified of and has not answered. All news count as seen.
    pub(super) fn look(&self) -> Option<Told> {
        self.step(Entries::look).flatten()
    }

    /// Says that what the notifications meant is done.
    pub(super) fn answer(&self, told: &Told) {
        self.step(|entries, name| entries.answer(name, told));
    }

    /// Returns what keeps the resource from acting. If there is nothing, the resource is at work. A
    /// worker that keeps it no more is kept from acting by the resource itself.
    pub(super) fn blocker(&self) -> Option<Blocker> {
        let blocker = self.step(|entries, name| {
            let blocker = entries.blocker(name);
            if blocker.is_none() {
                entries.begin(name);
            }
            blocker
        });
        blocker.unwrap_or_else(|| Some(Blocker { name: self.name.as_str().into(), failed: None }))
    }

    /// Returns the names of those that the resource notifies.
    pub(super) fn notified(&self) -> Vec<Arc<str>> {
        self.step(Entries::notified).unwrap_or_default()
    }

    /// Notifies them, for these attributes of the resource have changed by these actions.
    pub(super) fn tell(&self, attributes: &[String], actions: &Arc<[Action]>) {
        let notice = Notice::new(&self.name, attributes.to_vec(), Arc::clone(actions));
        self.step(|entries, _| entries.tell(&notice));
    }

    /// Counts a change of the resource, which may be a repair.
    pub(super) fn note_change(&self, is_repaired: bool) {
        self.step(|entries, name| entries.note_change(name, is_repaired));
    }

    /// Keeps an event as the last one of the resource.
    pub(super) fn note_event(&self, happened: Happened) {
        self.step(|entries, name| entries.note_event(name, happened));
    }

    /// Offers a new state to those that depend on the resource.
    pub(super) fn publish(&self, state: State) {
        self.step(|entries, name| entries.publish(name, state));
    }

    /// Says how a look has ended.
    pub(super) fn end(&self, ended: Ended) {
        self.step(|entries, name| entries.end(name, ended));
    }

    /// Has the resource wait for what keeps it from acting, which it returns; if nothing does any
    /// more, the resource is woken.
    pub(super) fn hold(&self) -> Option<Blocker> {
        self.step(Entries::hold).flatten()
    }

    /// Has the resources that this one depends on look again; returns whether there are any.
    pub(super) fn ask(&self) -> bool {
        self.step(Entries::ask).unwrap_or(false)
    }

    /// Waits for news. Cancel safe.
    pub(super) async fn news(&self) {
        self.wake.notified().await;
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.step(Entries::leave);
    }
}
