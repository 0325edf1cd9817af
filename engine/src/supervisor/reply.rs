//! Replies to callers.

use tokio::sync::oneshot;

use super::applied::ChangeResult;
use crate::vocabulary::wake::wake;

pub(crate) type Reply<T> = oneshot::Sender<T>;

pub(crate) type ChangeReply = Reply<ChangeResult>;

/// Sends an answer. If the caller no longer waits for it, the answer is dropped.
pub(super) fn answer<T>(reply: Reply<T>, value: T) {
    wake(|| drop(reply.send(value)));
}
