//! A worker whose wakers ask its owner something: whoever wakes it must not hold a lock meanwhile.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Wake, Waker};

use crankcase_engine::{Outcome, Stop, Worker};

/// What is asked whenever the worker is woken, and how often it was.
#[derive(Clone)]
pub(crate) struct Asking {
    ask: Arc<dyn Fn() + Send + Sync>,
    asked: Arc<AtomicU32>,
}

impl Asking {
    pub(crate) fn new(ask: impl Fn() + Send + Sync + 'static) -> Self {
        Self { ask: Arc::new(ask), asked: Arc::default() }
    }

    /// Returns a worker that waits for its stop, and for the loss of an input.
    pub(crate) fn worker(&self) -> Asks {
        Asks(self.clone())
    }

    /// Returns whether it was asked since this was looked at last.
    pub(crate) fn take(&self) -> bool {
        self.asked.swap(0, Ordering::Relaxed) > 0
    }
}

pub(crate) struct Asks(Asking);

impl Worker for Asks {
    async fn run(self, stop: Stop) -> Outcome {
        let (mut lost, mut told) = (pin!(stop.input_lost()), pin!(stop.wait()));
        poll_fn(|cx| {
            let waker = Asker { asking: self.0.clone(), task: cx.waker().clone() };
            let waker = Waker::from(Arc::new(waker));
            let mut cx = Context::from_waker(&waker);
            let _is_lost = lost.as_mut().poll(&mut cx).is_ready();
            told.as_mut().poll(&mut cx)
        })
        .await;
        Ok(())
    }
}

struct Asker {
    asking: Asking,
    task: Waker,
}

impl Wake for Asker {
    fn wake(self: Arc<Self>) {
        (self.asking.ask)();
        self.asking.asked.fetch_add(1, Ordering::Relaxed);
        self.task.wake_by_ref();
    }
}
