//! The task that starts, runs and ends the workers of one spec, one after another.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use crankcase_engine::owner;
use crankcase_engine::{Exit, Stop};
use tokio::time::{Instant, Sleep, sleep_until};

use super::verdict::{Ending, Next};
use super::{Rest, Stay};
use crate::child::{ChildSpan, End, caught};
use crate::moment::after;
use crate::runner::body::Body;
use crate::runner::table::Shared;

/// The present stay of a name, in its task. It leaves when this is dropped.
pub(in crate::runner) struct Presence {
    shared: Arc<Shared>,
    stay: Arc<Stay>,
    step: Step,
    /// That of the present worker.
    stop: Option<Stop>,
    /// What the present worker logs stands in.
    span: ChildSpan,
    /// What it waits for; most workers never have any.
    alarm: Option<Pin<Box<Sleep>>>,
}

/// What a stay's task does.
enum Step {
    /// It is about to start a worker.
    Ready,
    /// It is in a start that began then.
    Starting(Instant),
    Running,
    /// It waits for what lingers of a worker that has ended like this.
    Lingering(Box<End>),
    /// It waits for the next start.
    Resting,
    Left,
}

impl Presence {
    pub(in crate::runner) fn new(shared: Arc<Shared>, stay: Arc<Stay>) -> Self {
        Self { shared, stay, step: Step::Ready, stop: None, span: None, alarm: None }
    }

    /// Keeps the stay; ready when it has left, or its task is to be dropped.
    pub(in crate::runner) fn poll(
        &mut self,
        mut body: Pin<&mut dyn Body>,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        if self.stay.signs.is_aborted() {
            return Poll::Ready(());
        }
        loop {
            self.step = match self.step {
                Step::Ready => self.begin(body.as_mut(), cx),
                Step::Starting(since) => ready!(self.start(body.as_mut(), since, cx)),
                Step::Running => ready!(self.run(body.as_mut(), cx)),
                Step::Lingering(_) => ready!(self.linger()),
                Step::Resting => ready!(self.rest(cx)),
                Step::Left => return Poll::Ready(()),
            };
        }
    }

    /// Begins the next worker's start, if there is to be one.
    fn begin(&mut self, body: Pin<&mut dyn Body>, cx: &Context<'_>) -> Step {
        let Some(ctx) = self.stay.next_generation(cx.waker()) else {
            return self.leave(Ending::Well);
        };
        if self.shared.is_input_lost() {
            self.stay.lose_input();
        }
        self.stop = Some(ctx.stop.clone());
        self.span = self.shared.span_of(self.stay.name());
        let (mut body, span) = (body, &self.span);
        let begun = caught(|| {
            let _entered = span.as_ref().map(|span| span.enter());
            body.as_mut().begin(ctx);
        });
        match begun {
            Ok(()) => Step::Starting(Instant::now()),
            Err(exit) => self.bury(body, End::Outcome(Err(exit))),
        }
    }

    /// Goes on with a start, until it has come to its end, or is to stop, or has taken too long.
    fn start(
        &mut self,
        mut body: Pin<&mut dyn Body>,
        since: Instant,
        cx: &mut Context<'_>,
    ) -> Poll<Step> {
        let Some(stop) = &self.stop else { return Poll::Pending };
        if stop.is_stopped() {
            return Poll::Ready(self.bury(body, End::Outcome(Ok(()))));
        }
        let started = caught(|| {
            let _entered = self.span.as_ref().map(|span| span.enter());
            body.as_mut().poll_start(&self.stay, stop, cx)
        });
        let limit = self.stay.policy.start_timeout;
        let exit = match started {
            Ok(Poll::Ready(Ok(()))) => {
                self.alarm = None;
                return Poll::Ready(Step::Running);
            }
            Ok(Poll::Ready(Err(exit))) | Err(exit) => exit,
            Ok(Poll::Pending) => {
                ready!(self.wait_until(|| after(since, limit), cx));
                Exit::failed(format!("its start took longer than {limit:?}"))
            }
        };
        Poll::Ready(self.bury(body, End::Outcome(Err(exit))))
    }

    /// Goes on with a worker's run, until it has ended, or was told to and has had its grace.
    fn run(&mut self, mut body: Pin<&mut dyn Body>, cx: &mut Context<'_>) -> Poll<Step> {
        let ran = caught(|| {
            let _entered = self.span.as_ref().map(|span| span.enter());
            body.as_mut().poll_run(cx)
        });
        let end = match ran {
            Ok(Poll::Ready(outcome)) => End::Outcome(outcome),
            Err(exit) => End::Outcome(Err(exit)),
            Ok(Poll::Pending) => {
                // Not told yet: who tells it wakes this task.
                if !self.stop.as_ref().is_some_and(Stop::is_stopped) {
                    return Poll::Pending;
                }
                let grace = self.stay.policy.grace;
                ready!(self.wait_until(|| after(Instant::now(), grace), cx));
                let worker = self.stay.name();
                tracing::warn!(
                    worker,
                    ?grace,
                    "a worker did not end in time; its future is dropped"
                );
                End::Dropped
            }
        };
        Poll::Ready(self.bury(body, end))
    }

    /// Drops what is left of a worker that has ended.
    fn bury(&mut self, body: Pin<&mut dyn Body>, mut end: End) -> Step {
        self.alarm = None;
        if let Err(exit) = caught(|| body.clear()) {
            end = End::Outcome(Err(exit));
        }
        self.span = None;
        self.stay.withdraw_reporter();
        let stay = Arc::clone(&self.stay);
        match &self.stop {
            Some(stop) => owner::once_gone(stop, move || stay.on_gone()),
            None => stay.on_gone(),
        }
        if self.stay.signs.is_gone() { self.judge(end) } else { Step::Lingering(Box::new(end)) }
    }

    /// Waits until nothing is left of a worker.
    fn linger(&mut self) -> Poll<Step> {
        if !self.stay.signs.is_gone() {
            return Poll::Pending;
        }
        match std::mem::replace(&mut self.step, Step::Resting) {
            Step::Lingering(end) => Poll::Ready(self.judge(*end)),
            step => Poll::Ready(step),
        }
    }

    /// Does what the end of a worker of which nothing is left leads to.
    fn judge(&mut self, end: End) -> Step {
        self.stop = None;
        match self.stay.judge(end, self.shared.random()) {
            Next::Again => Step::Resting,
            Next::Leave(ending) => self.leave(ending),
            Next::Fatal(exit) => {
                let text = caught(|| exit.to_string()).unwrap_or_default();
                self.shared.fail(self.stay.name(), &text, exit);
                self.leave(Ending::Failed(Arc::new(Exit::fatal(text))))
            }
        }
    }

    /// Waits until the next worker may be started.
    fn rest(&mut self, cx: &mut Context<'_>) -> Poll<Step> {
        match self.stay.rest() {
            Rest::Leave => return Poll::Ready(self.leave(Ending::Well)),
            Rest::Start => {}
            Rest::Until(None) => return Poll::Pending,
            Rest::Until(Some(at)) => ready!(self.wait_until(|| at, cx)),
        }
        self.alarm = None;
        Poll::Ready(Step::Ready)
    }

    /// Waits until a moment, which is asked for once.
    fn wait_until(&mut self, at: impl FnOnce() -> Instant, cx: &mut Context<'_>) -> Poll<()> {
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(sleep_until(at())));
        alarm.as_mut().poll(cx)
    }

    fn leave(&mut self, ending: Ending) -> Step {
        // First: it leaves once.
        self.step = Step::Left;
        self.shared.leave(&self.stay, ending);
        Step::Left
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        if matches!(self.step, Step::Left) {
            return;
        }
        self.stay.withdraw_reporter();
        let (shared, stay) = (Arc::clone(&self.shared), Arc::clone(&self.stay));
        let leave = move || shared.leave(&stay, Ending::Dropped);
        match self.stop.take() {
            Some(stop) => owner::once_gone(&stop, leave),
            None => leave(),
        }
    }
}
