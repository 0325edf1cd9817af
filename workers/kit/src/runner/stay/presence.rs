use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use crankcase_engine::{Exit, Outcome, Panicked, Stop};
use tokio::time::sleep;

use super::Stay;
use super::verdict::{Ending, Next};
use crate::child::{ChildSpan, End, caught};
use crate::runner::spec::Body;
use crate::runner::table::Shared;

/// The present stay of a name, in its task. It leaves when this is dropped.
pub(super) struct Presence {
    shared: Arc<Shared>,
    stay: Arc<Stay>,
    /// That of the present worker.
    stop: Option<Stop>,
    has_left: bool,
}

impl Presence {
    pub(super) fn new(shared: Arc<Shared>, stay: Arc<Stay>) -> Self {
        Self { shared, stay, stop: None, has_left: false }
    }

    pub(super) async fn keep(mut self) {
        self.stay.keep_here();
        let ending = loop {
            let Some(end) = self.live().await else { break Ending::Well };
            match self.stay.judge(end, self.shared.random()) {
                Next::Again => {}
                Next::Leave(ending) => break ending,
                Next::Fatal(exit) => {
                    let text = caught(|| exit.to_string()).unwrap_or_default();
                    self.shared.fail(exit);
                    break Ending::Failed(Arc::new(Exit::fatal(text)));
                }
            }
            if !self.stay.rested().await {
                break Ending::Well;
            }
        };
        self.has_left = true;
        self.shared.leave(&self.stay, ending);
    }

    /// Runs one worker until nothing is left of it; nothing if none is to run.
    async fn live(&mut self) -> Option<End> {
        let ctx = self.stay.next_generation()?;
        if self.shared.is_input_lost() {
            self.stay.lose_input();
        }
        let stop = ctx.stop.clone();
        self.stop = Some(stop.clone());
        let policy = &self.stay.policy;
        let span = self.shared.span_of(self.stay.name());
        let launched = caught(|| {
            let _entered = span.as_ref().map(|span| span.enter());
            self.stay.spec.launch(ctx, policy.start_timeout)
        });
        let end = match launched {
            Err(exit) => End::Outcome(Err(exit)),
            Ok(mut body) => {
                let end = tokio::select! {
                    biased;
                    outcome = (Caught { body: &mut body, span: &span }) => End::Outcome(outcome),
                    () = overdue(&stop, policy.grace) => End::Dropped,
                };
                match caught(|| drop(body)) {
                    Ok(()) => end,
                    Err(exit) => End::Outcome(Err(exit)),
                }
            }
        };
        let stay = Arc::clone(&self.stay);
        stop.once_gone(move || stay.on_gone());
        let stay = &self.stay;
        stay.until(|_| stay.is_gone.load(Ordering::Acquire).then_some(())).await;
        self.stop = None;
        Some(end)
    }
}

/// Waits until a worker that was told to stop has had its grace.
async fn overdue(stop: &Stop, grace: Duration) {
    stop.wait().await;
    sleep(grace).await;
}

impl Drop for Presence {
    fn drop(&mut self) {
        if self.has_left {
            return;
        }
        let (shared, stay) = (Arc::clone(&self.shared), Arc::clone(&self.stay));
        let leave = move || shared.leave(&stay, Ending::Dropped);
        match self.stop.take() {
            Some(stop) => stop.once_gone(leave),
            None => leave(),
        }
    }
}

/// Polls a worker's body and makes a failure of its panic.
struct Caught<'a> {
    body: &'a mut Body,
    span: &'a ChildSpan,
}

impl Future for Caught<'_> {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let _entered = self.span.as_ref().map(|span| span.enter());
        match catch_unwind(AssertUnwindSafe(|| self.body.as_mut().poll(cx))) {
            Ok(poll) => poll,
            Err(payload) => Poll::Ready(Err(Exit::failed(Panicked::from_payload(payload)))),
        }
    }
}
