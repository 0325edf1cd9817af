//! Those who wait for something to come true.

use super::{ChangeReply, Reply};
use crate::change::ChangeError;
use crate::hash::Map;
use crate::machine::{Generation, NodeId};

#[derive(Default)]
pub(super) struct Waiting {
    /// Changes that are applied once the machine is idle.
    pub(super) for_idle: Vec<ChangeReply>,
    pub(super) for_rest: Vec<Reply<()>>,
    for_end: Map<(NodeId, Generation), Vec<u64>>,
    calls: Map<u64, Call>,
    next_call: u64,
}

/// A change that is applied when a number of workers has ended.
struct Call {
    left: usize,
    reply: ChangeReply,
}

impl Waiting {
    /// Answers a change when the workers have ended and what could start was told to.
    pub(super) fn add(&mut self, workers: &[(NodeId, Generation)], reply: ChangeReply) {
        if workers.is_empty() {
            self.for_idle.push(reply);
            return;
        }
        let id = self.next_call;
        self.next_call += 1;
        for worker in workers {
            self.for_end.entry(*worker).or_default().push(id);
        }
        self.calls.insert(id, Call { left: workers.len(), reply });
    }

    /// Answers all that the engine was killed: what they wait for may never come true.
    pub(super) fn give_up(&mut self) {
        self.for_rest.clear();
        self.for_end.clear();
        let calls = std::mem::take(&mut self.calls);
        let calls = calls.into_values().map(|call| call.reply);
        for reply in self.for_idle.drain(..).chain(calls) {
            answer(reply, Err(Box::new(ChangeError::Stopped)));
        }
    }

    pub(super) fn on_gone(&mut self, node: NodeId, generation: Generation) {
        if self.for_end.is_empty() {
            return;
        }
        for id in self.for_end.remove(&(node, generation)).into_iter().flatten() {
            let Some(call) = self.calls.get_mut(&id) else { continue };
            call.left -= 1;
            if call.left == 0
                && let Some(call) = self.calls.remove(&id)
            {
                self.for_idle.push(call.reply);
            }
        }
    }
}

/// Sends an answer. Who does not wait for it any more does not need it.
pub(super) fn answer<T>(reply: Reply<T>, value: T) {
    drop(reply.send(value));
}
