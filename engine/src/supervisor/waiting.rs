//! The callers that wait for the engine to settle, or for workers to be gone.

use super::reply::{ChangeReply, Reply, answer};
use crate::change::ChangeError;
use crate::machine::{Generation, NodeId};
use crate::vocabulary::hash::Map;
use crate::vocabulary::wake::wake;

/// From this number on, callers that have given up are removed.
const SWEPT: usize = 64;

#[derive(Default)]
pub(super) struct Waiting {
    /// With how many messages the loop must have handled before.
    for_rest: Vec<(u64, Reply<()>)>,
    for_end: Map<(NodeId, Generation), Vec<u64>>,
    calls: Map<u64, PendingCall>,
    next_call: u64,
    /// At this number of calls, those that were given up are removed next.
    sweep_at: usize,
}

/// A change that is over once a number of workers is gone.
struct PendingCall {
    left: usize,
    reply: ChangeReply,
}

impl Waiting {
    /// Answers a change once these workers are gone.
    pub(super) fn add(&mut self, workers: &[(NodeId, Generation)], reply: ChangeReply) {
        if workers.is_empty() {
            return answer(reply, Ok(()));
        }
        if self.calls.len() >= self.sweep_at.max(SWEPT) {
            self.sweep();
        }
        let id = self.next_call;
        self.next_call += 1;
        for worker in workers {
            self.for_end.entry(*worker).or_default().push(id);
        }
        self.calls.insert(id, PendingCall { left: workers.len(), reply });
    }

    /// Removes the calls that nobody waits for any more. This is done each time their number has
    /// doubled, so that it costs each call little.
    fn sweep(&mut self) {
        self.calls.retain(|_, call| !call.reply.is_closed());
        for ids in self.for_end.values_mut() {
            ids.retain(|id| self.calls.contains_key(id));
        }
        self.for_end.retain(|_, ids| !ids.is_empty());
        self.sweep_at = 2 * self.calls.len();
    }

    /// Answers the caller once the machine has settled and the loop has handled so many messages.
    pub(super) fn add_for_rest(&mut self, messages: u64, reply: Reply<()>) {
        if self.for_rest.len() >= SWEPT && self.for_rest.len() == self.for_rest.capacity() {
            self.for_rest.retain(|(_, reply)| !reply.is_closed());
        }
        self.for_rest.push((messages, reply));
    }

    /// Answers the callers that wait for the machine to settle, after so many messages.
    pub(super) fn on_rest(&mut self, handled: u64) {
        for (_, reply) in self.for_rest.extract_if(.., |(messages, _)| *messages <= handled) {
            answer(reply, ());
        }
    }

    /// Refuses all waiting callers when the engine is killed: what they wait for may never happen.
    pub(super) fn refuse_all(&mut self) {
        self.for_rest.drain(..).for_each(|(_, reply)| wake(|| drop(reply)));
        self.for_end.clear();
        let calls = std::mem::take(&mut self.calls);
        let calls = calls.into_values().map(|call| call.reply);
        for reply in calls {
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
                answer(call.reply, Ok(()));
            }
        }
    }

    /// Tells the callers that wait for a worker's end that the worker is stuck.
    pub(super) fn on_stuck(&mut self, node: NodeId, generation: Generation, name: &str) {
        for id in self.for_end.remove(&(node, generation)).into_iter().flatten() {
            if let Some(call) = self.calls.remove(&id) {
                let name = name.to_owned();
                answer(call.reply, Err(Box::new(ChangeError::Stuck { name })));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[test]
    fn callers_who_give_up_leave_nothing_behind() {
        let mut waiting = Waiting::default();
        let (reply, mut stays) = oneshot::channel();
        let hung = (NodeId::from_index(0), 1);
        waiting.add(&[hung], reply);

        for _ in 0..10_000 {
            waiting.add(&[hung], oneshot::channel().0);
            waiting.add_for_rest(0, oneshot::channel().0);
        }

        assert!(waiting.calls.len() <= 2 * SWEPT, "{}", waiting.calls.len());
        assert!(waiting.for_end[&hung].len() <= 2 * SWEPT);
        assert!(waiting.for_rest.len() <= 2 * SWEPT, "{}", waiting.for_rest.len());
        waiting.on_gone(hung.0, hung.1);
        assert!(matches!(stays.try_recv(), Ok(Ok(()))));
    }

    #[test]
    fn who_waits_for_rest_waits_for_the_messages_from_before_too() {
        let mut waiting = Waiting::default();
        let (reply, mut rests) = oneshot::channel();
        waiting.add_for_rest(3, reply);

        waiting.on_rest(2);
        let early = rests.try_recv().is_ok();
        waiting.on_rest(3);

        assert!(!early && rests.try_recv().is_ok());
    }
}
