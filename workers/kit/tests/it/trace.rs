//! What tells that it was dropped, and when.

use crankcase_engine::{Outcome, Stop, Worker};
use crankcase_testing::Journal;

/// Writes into a journal when it is dropped.
pub(crate) struct Trace(pub(crate) Journal, pub(crate) &'static str);

impl Drop for Trace {
    fn drop(&mut self) {
        self.0.note(self.1);
    }
}

/// Idles with a trace, which it drops as it ends.
pub(crate) struct Idle(pub(crate) Trace);

impl Worker for Idle {
    async fn run(self, stop: Stop) -> Outcome {
        stop.wait().await;
        let Self(trace) = self;
        drop(trace);
        Ok(())
    }
}
