//! Drops what users made, outside the loop.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::slot::{Ask, Slot};
use super::walk::{Snapshot, Walk};
use crate::change::{Op, Ops};
use crate::changes::Latest;
use crate::chunks::Chunks;
use crate::detail::Reporter;
use crate::exit::BoxError;
use crate::finish::Finish;
use crate::inbox::Unread;
use crate::manifold::Manifold;
use crate::value::Outputs;
use crate::wake::wake;

/// Something whose drop is foreign code.
#[expect(dead_code, reason = "the fields are only held to be dropped")]
enum Remains {
    Outputs(Outputs),
    Manifold(Manifold),
    Finish(Finish),
    Fatal(Arc<BoxError>),
    /// Boxed: most of what comes here is outputs, and has to be small.
    Ops(Box<Ops>),
    Reporter(Reporter),
    Ask(Arc<Ask>),
    Latest(Arc<Latest>),
    Slots(Chunks<Slot>),
    /// It may have reporters of workers that have ended since.
    Snapshot(Box<Snapshot>),
    Unread(Box<Unread>),
}

/// For how many remains room is made at once.
const AT_ONCE: usize = 256;
/// How many ops are let go in the loop, if no manifold is left in them: there is nothing foreign in
/// them then.
const FEW_OPS: usize = 64;

/// A task that drops what it is sent. A drop that panics is caught; one that blocks holds up other
/// drops, and nothing else.
pub(super) struct Reaper {
    runtime: Handle,
    /// None before there is anything to drop: many nested engines only ever start their workers.
    sender: Option<mpsc::UnboundedSender<Vec<Remains>>>,
    /// What was taken since the last flush.
    taken: Vec<Remains>,
    /// For how many outputs there is to be room: as many as came last time, within bounds.
    expected: usize,
}

impl Reaper {
    pub(super) fn new(runtime: &Handle) -> Self {
        Self { runtime: runtime.clone(), sender: None, taken: Vec::new(), expected: 0 }
    }

    pub(super) fn take(&mut self, outputs: Outputs) {
        if !matches!(outputs, Outputs::None) {
            if self.taken.capacity() == 0 {
                self.taken.reserve_exact(self.expected);
            }
            self.taken.push(Remains::Outputs(outputs));
        }
    }

    pub(super) fn take_manifold(&mut self, manifold: Option<Manifold>) {
        if let Some(manifold) = manifold {
            self.taken.push(Remains::Manifold(manifold));
        }
    }

    pub(super) fn take_ops(&mut self, ops: Ops) {
        // What is installed now is left in none of them.
        if ops.len() > FEW_OPS || ops.iter().any(Op::has_manifold) {
            self.taken.push(Remains::Ops(Box::new(ops)));
        }
    }

    pub(super) fn take_reporter(&mut self, reporter: Option<Reporter>) {
        self.taken.extend(reporter.map(Remains::Reporter));
    }

    /// Takes an ended worker's reporter, and lets go of the answer that it may owe.
    pub(super) fn take_ask(&mut self, ask: Option<Arc<Ask>>) {
        if let Some(ask) = ask {
            ask.give_up();
            self.taken.push(Remains::Ask(ask));
        }
    }

    pub(super) fn take_latest(&mut self, latest: Arc<Latest>) {
        self.taken.push(Remains::Latest(latest));
    }

    pub(super) fn take_slots(&mut self, slots: Chunks<Slot>) {
        self.taken.push(Remains::Slots(slots));
    }

    pub(super) fn take_walks(&mut self, walks: &mut VecDeque<Walk>) {
        for walk in walks.drain(..) {
            let mut snapshot = None;
            wake(|| snapshot = walk.found.into_snapshot());
            self.take_snapshot(snapshot);
        }
    }

    /// Takes what nobody waits for any more.
    pub(super) fn take_snapshot(&mut self, snapshot: Option<Snapshot>) {
        self.taken.extend(snapshot.map(|snapshot| Remains::Snapshot(Box::new(snapshot))));
    }

    pub(super) fn take_unread(&mut self, unread: Unread) {
        if !unread.is_empty() {
            self.taken.push(Remains::Unread(Box::new(unread)));
        }
    }

    pub(super) fn take_finish(&mut self, finish: Finish) {
        self.taken.push(Remains::Finish(finish));
    }

    pub(super) fn take_fatal(&mut self, error: Option<Arc<BoxError>>) {
        if let Some(error) = error {
            self.taken.push(Remains::Fatal(error));
        }
    }

    /// Sends what was taken. Without a runtime there is no task any more, and it is dropped here.
    pub(super) fn flush(&mut self) {
        if !self.taken.is_empty() {
            self.expected = self.taken.len().min(AT_ONCE);
            let sender = self.sender.get_or_insert_with(|| spawn(&self.runtime));
            if let Err(unsent) = sender.send(std::mem::take(&mut self.taken)) {
                let_go(unsent.0);
            }
        }
    }
}

/// Begins the task that drops what it is sent.
fn spawn(runtime: &Handle) -> mpsc::UnboundedSender<Vec<Remains>> {
    let (sender, mut remains) = mpsc::unbounded_channel();
    runtime.spawn(async move {
        while let Some(remains) = remains.recv().await {
            let_go(remains);
        }
    });
    sender
}

/// Drops what is foreign.
fn let_go(remains: Vec<Remains>) {
    for remains in remains {
        if catch_unwind(AssertUnwindSafe(|| drop::<Remains>(remains))).is_err() {
            tracing::warn!("a value panicked while it was dropped");
        }
    }
}
