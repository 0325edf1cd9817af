//! Answers questions: calls that change nothing.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::EventLoop;
use super::call::{Awaited, Followed, Pinned, Question};
use super::check::is_offered;
use super::life::Verdict;
use super::reply::answer;
use super::waits::{Wait, What};
use super::walk::Found;
use crate::change::ChangeError;
use crate::machine::{Generation, NodeId};
use crate::vocabulary::name::Text;
use crate::vocabulary::value::Kind;
use crate::vocabulary::wake::wake;
use crate::worker::awaits::Waiting;

impl EventLoop {
    pub(super) fn answer(&mut self, question: Question) {
        match question {
            Question::Preview(mut ops, reply) => {
                let is_killed = self.registry.machine.is_killed();
                let preview = if is_killed {
                    Err(ChangeError::Stopped)
                } else {
                    self.registry.preview(&mut ops)
                };
                self.discard_ops(ops);
                answer(reply, preview);
            }
            Question::Follow(name, kind, reply) => answer(reply, self.follow(&name, kind)),
            Question::Await(name, kind, asker, reply) => {
                let awaited = self.follow_for(asker, &name, kind);
                answer(reply, awaited);
            }
            // A dropped reply tells the caller that the engine is stopping.
            Question::Settled(reply) if self.registry.machine.is_killed() => wake(|| drop(reply)),
            Question::Settled(reply) => {
                let waiting = self.unread.messages.len() + self.shared.inbox.count().0;
                self.jobs.waiting.add_for_rest(self.handled + waiting as u64, reply);
            }
            Question::Turn(reply) => answer(reply, ()),
            Question::Live(node, generation, reply) => {
                let path = self
                    .registry
                    .worker(node, generation)
                    .is_some()
                    .then(|| self.registry.path(node));
                answer(reply, path);
            }
            Question::Snapshot(reply) => {
                let error = self.ending.fatal.as_ref().and_then(|fatal| Verdict::of(fatal).text());
                let snapshot = self.registry.begin_report(error, self.pace.now);
                self.begin_walk(Found::Report(snapshot, reply));
            }
            Question::Why(name, reply) => answer(reply, self.registry.why(&name, self.pace.now)),
            Question::Graph(reply) => {
                self.begin_walk(Found::Graph(self.registry.begin_graph(), reply));
            }
        }
    }

    fn follow(&mut self, name: &Text, kind: &'static Kind) -> Result<Followed, ChangeError> {
        let node = self.registry.intern(name);
        if let Some(manifold) = &self.registry.slots[node].manifold {
            check_offered(name, kind, manifold.blueprint.offers())?;
        }
        self.registry.machine.pin(node);
        let receiver = self.registry.slots[node].follow(kind, None, &self.shared.environment);
        // If nobody waits for the answer any more, the pin is dropped with it.
        let pinned = Pinned { host: Arc::clone(&self.shared) as _, node };
        Ok(Followed { receiver, pinned })
    }
}

impl EventLoop {
    /// Follows a name for a worker that waits for its value.
    fn follow_for(
        &mut self,
        (asker, generation): (NodeId, Generation),
        name: &Text,
        kind: &'static Kind,
    ) -> Result<Awaited, ChangeError> {
        let followed = self.follow(name, kind)?;
        let (refuse, refused) = oneshot::channel();
        let waiting = Waiting::new(Arc::clone(&self.shared) as _, asker);
        let on = followed.pinned.node;
        if self.registry.slots[on].value(kind.id()).is_none() {
            let what = What::Output(on, kind, refuse);
            self.registry.add_wait(asker, Wait { generation, id: waiting.id, what });
        }
        Ok(Awaited { followed, refused, waiting })
    }
}

/// Compares the type that a follower asks for with what the name offers.
fn check_offered(
    name: &Text,
    kind: &'static Kind,
    offers: &[&'static Kind],
) -> Result<(), ChangeError> {
    if is_offered(kind, offers) {
        return Ok(());
    }
    Err(ChangeError::OutputMismatch {
        name: name.as_str().to_owned(),
        asked: kind.name(),
        offered: offers.iter().map(|kind| kind.name()).collect(),
    })
}
