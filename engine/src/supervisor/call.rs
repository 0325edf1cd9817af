//! Calls from outside the loop.

use std::fmt;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::job::Job;
use super::reply::Reply;
use super::snapshot::Snapshot;
use crate::change::{ChangeError, Ops, Preview};
use crate::machine::{Generation, NodeId};
use crate::seen::event::Origin;
use crate::seen::graph::Graph;
use crate::seen::why::WhyStep;
use crate::vocabulary::follow;
use crate::vocabulary::name::Text;
use crate::vocabulary::settings::HandedBy;
use crate::vocabulary::value::{Kind, Value};
use crate::worker::awaits::Waiting;
use crate::worker::host::Host;
use crate::worker::message::Message;

/// A call from outside the loop.
pub(crate) enum Call {
    Kill(Option<Arc<Origin>>),
    /// The last handle that counts was dropped.
    Disowned,
    Change(Box<Job>),
    Ask(Box<Question>),
}

/// A call that changes nothing.
pub(crate) enum Question {
    Preview(Ops, Reply<Result<Preview, ChangeError>>),
    Follow(Text, &'static Kind, Reply<Result<Followed, ChangeError>>),
    /// Like `Follow`, for a worker that waits until there is a value.
    Await(Text, &'static Kind, (NodeId, Generation), Reply<Result<Awaited, ChangeError>>),
    Settled(Reply<()>),
    /// Answered only by the loop's task, to show that it gets its turn.
    Turn(Reply<()>),
    /// Asks for the path of a worker if this generation of it is live.
    Live(NodeId, Generation, Reply<Option<String>>),
    Snapshot(Reply<Snapshot>),
    Why(String, Reply<Chain>),
    Graph(Reply<Graph>),
}

/// The part of a chain to a root cause that lies in one engine.
pub(crate) struct Chain {
    pub(crate) steps: Vec<WhyStep>,
    /// The worker in another engine that hands over what the last step misses. The chain continues
    /// there.
    pub(crate) handed_by: Option<HandedBy>,
}

/// A followed name, with the pin that keeps the name.
pub(crate) struct Followed {
    pub(crate) receiver: follow::Receiver<Option<Value>>,
    pub(crate) pinned: Pinned,
}

/// A followed name that a worker waits for.
pub(crate) struct Awaited {
    pub(crate) followed: Followed,
    /// Closed if the worker need not wait.
    pub(crate) refused: oneshot::Receiver<ChangeError>,
    pub(crate) waiting: Waiting,
}

/// Keeps a name while a follower outside the loop needs it.
pub(crate) struct Pinned {
    pub(crate) host: Arc<dyn Host>,
    pub(crate) node: NodeId,
}

impl Drop for Pinned {
    fn drop(&mut self) {
        self.host.send(Message::Unpin(self.node));
    }
}

impl fmt::Debug for Pinned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pinned")
    }
}
