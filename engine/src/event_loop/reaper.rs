//! Drops what users made, outside the loop.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::mpsc;

use crate::exit::BoxError;
use crate::finish::Finish;
use crate::manifold::Manifold;
use crate::value::Outputs;

/// Something whose drop is foreign code.
#[expect(dead_code, reason = "the fields are only held to be dropped")]
enum Remains {
    Outputs(Outputs),
    Manifold(Manifold),
    Finish(Finish),
    Fatal(Arc<BoxError>),
}

/// A task that drops what it is sent. A drop that panics is caught; one that blocks holds up other
/// drops, and nothing else.
pub(super) struct Reaper {
    sender: mpsc::UnboundedSender<Remains>,
}

impl Reaper {
    pub(super) fn new(runtime: &Handle) -> Self {
        let (sender, mut remains) = mpsc::unbounded_channel();
        runtime.spawn(async move {
            while let Some(remains) = remains.recv().await {
                if catch_unwind(AssertUnwindSafe(|| drop::<Remains>(remains))).is_err() {
                    tracing::warn!("a value panicked while it was dropped");
                }
            }
        });
        Self { sender }
    }

    pub(super) fn take(&self, outputs: Outputs) {
        if !matches!(outputs, Outputs::None) {
            self.send(Remains::Outputs(outputs));
        }
    }

    pub(super) fn take_manifold(&self, manifold: Option<Manifold>) {
        if let Some(manifold) = manifold {
            self.send(Remains::Manifold(manifold));
        }
    }

    pub(super) fn take_finish(&self, finish: Finish) {
        self.send(Remains::Finish(finish));
    }

    pub(super) fn take_fatal(&self, error: Option<Arc<BoxError>>) {
        if let Some(error) = error {
            self.send(Remains::Fatal(error));
        }
    }

    /// Without a runtime there is no task any more, and what is sent is dropped here.
    fn send(&self, remains: Remains) {
        drop(self.sender.send(remains));
    }
}
