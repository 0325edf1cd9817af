//! Changing outputs: how the values that a running worker publishes reach the engine.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::{fmt, mem};

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinError};

use super::acknowledgement::{Acknowledgement, Acknowledgements};
use super::host::Identity;
use super::latest::LatestSender;
use super::message::Message;
use super::stop::Stop;
use super::stop::cell::Linger;
use crate::machine::Port;
use crate::vocabulary::exit::Panicked;
use crate::vocabulary::follow;
use crate::vocabulary::selection::Selection;
use crate::vocabulary::spawned::Spawned;
use crate::vocabulary::value::{Kind, Value, downcast};

type Stream = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The changing outputs of one worker. The worker's task polls them together with its `run`.
#[derive(Default)]
pub(crate) struct Changes {
    streams: Vec<Stream>,
    /// Keeps the worker from counting as gone until the streams are dropped, if they run in a
    /// separate task.
    linger: Option<Linger>,
}

impl Changes {
    /// Passes later values to the engine, and returns the current one.
    pub(crate) fn follow<T>(
        &mut self,
        identity: &Identity,
        index: usize,
        mut receiver: watch::Receiver<T>,
        acknowledgements: Option<Arc<Acknowledgements>>,
    ) -> Value
    where
        T: Clone + PartialEq + Send + Sync + 'static,
    {
        let value: Value = Arc::new(receiver.borrow_and_update().clone());
        if acknowledgements.is_some() {
            // Some may wait for this value already. They are taken with a second look at it, after
            // the worker is up.
            receiver.mark_changed();
        }
        let output = Output::new(identity, index, Kind::of::<T>(), &value);
        self.streams.push(Box::pin(forward(output, receiver, acknowledgements)));
        value
    }

    /// Passes later values of another engine to this one.
    pub(crate) fn pass_on(
        &mut self,
        identity: &Identity,
        (index, kind): (usize, &'static Kind),
        first: &Value,
        passing: Passing,
    ) {
        let mut output = Output::new(identity, index, kind, first);
        output.sender.drops_on = (!kind.is_plain()).then(|| identity.environment().workers.clone());
        self.streams.push(Box::pin(pass_on(output, passing)));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) {
        self.streams.retain_mut(|stream| stream.as_mut().poll(cx).is_pending());
    }

    /// Passes the values to the engine in a separate task, for a worker that runs on a thread.
    ///
    /// Tells the worker to stop if cloning or comparing a value panics.
    pub(crate) fn spawn(mut self, runtime: &Handle, stop: Stop) -> Option<Forwarder> {
        if self.is_empty() {
            return None;
        }
        self.linger = Some(stop.dropping());
        let panicked = Arc::new(Mutex::new(None));
        let place = Arc::clone(&panicked);
        let task = runtime.spawn(std::future::poll_fn(move |cx| {
            let polled = catch_unwind(AssertUnwindSafe(|| self.poll(cx)));
            if let Err(payload) = polled {
                *place.lock() = Some(Panicked::from_payload(payload));
                stop.stop_itself();
                return Poll::Ready(());
            }
            if self.is_empty() { Poll::Ready(()) } else { Poll::Pending }
        }));
        Some(Forwarder { task: task.abort_handle(), panicked })
    }
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changes").field("streams", &self.streams.len()).finish()
    }
}

/// One changing output of a worker, on its way to the engine.
struct Output {
    identity: Identity,
    index: usize,
    kind: &'static Kind,
    sender: LatestSender,
}

impl Output {
    fn new(identity: &Identity, index: usize, kind: &'static Kind, first: &Value) -> Self {
        let sender =
            LatestSender { latest: Arc::default(), last: Arc::clone(first), drops_on: None };
        Self { identity: identity.clone(), index, kind, sender }
    }

    fn publish(&mut self, value: Value, same: Vec<Port>, acknowledgements: Vec<Acknowledgement>) {
        if self.sender.put(value, same) || !acknowledgements.is_empty() {
            self.send(acknowledgements);
        }
    }

    /// Has the engine acknowledge the last value, which may still be on its way to it.
    fn acknowledge_last(&self, acknowledgements: Vec<Acknowledgement>) {
        if !acknowledgements.is_empty() {
            self.send(acknowledgements);
        }
    }

    fn send(&self, acknowledgements: Vec<Acknowledgement>) {
        self.identity.host.send(Message::Changed {
            node: self.identity.node,
            generation: self.identity.generation,
            index: self.index,
            latest: Arc::clone(&self.sender.latest),
            acknowledgements,
        });
    }

    /// Keeps the publisher after the last value: the engine may not have taken that value yet.
    async fn rest(&self) {
        loop {
            self.sender.drop_used().await;
        }
    }
}

/// Publishes the values of a `watch` channel.
#[expect(clippy::manual_async_fn, reason = "an `async fn` holds its arguments twice")]
fn forward<T>(
    mut output: Output,
    mut values: watch::Receiver<T>,
    acknowledgements: Option<Arc<Acknowledgements>>,
) -> impl Future<Output = ()> + Send
where
    T: Clone + PartialEq + Send + Sync + 'static,
{
    async move {
        loop {
            tokio::select! {
                biased;
                () = output.sender.drop_used() => continue,
                changed = values.changed() => if changed.is_err() { break },
            }
            let (value, taken) = {
                let value = values.borrow_and_update();
                // While the value is locked, so that it is not older than theirs.
                let taken = acknowledgements.as_deref().map(Acknowledgements::take);
                (value.clone(), taken.unwrap_or_default())
            };
            let last = &output.sender.last;
            if value == *downcast::<T>(last) {
                output.acknowledge_last(taken);
                continue;
            }
            let value: Value = Arc::new(value);
            let selections = &output.identity.environment().selections;
            let same = selections.same_parts((output.identity.node, output.kind), last, &value);
            output.publish(value, same, taken);
        }
        output.rest().await;
    }
}

/// The values of an output in another engine, or a selected part of each.
///
/// They are passed on by a worker on the engine's own runtime. What runs user code, the selections
/// and the drops of values, runs on the workers' runtime.
#[derive(Clone)]
pub(crate) struct Passing {
    pub(crate) receiver: follow::Receiver<Option<Value>>,
    pub(crate) selection: Option<Arc<dyn Selection>>,
}

impl Passing {
    /// Returns the current value, if there is one. A panic of the selection is the caller's.
    pub(crate) async fn first(&mut self, workers: &Handle) -> Option<Value> {
        let value = self.receiver.get()?;
        let Some(selection) = self.selection.clone() else { return Some(value) };
        run_on(workers, async move { selection.part_of(&value) }).await
    }

    /// Returns a new value for an output, and the selected parts in which it does not differ from
    /// the last one. Returns `None` if the workers' runtime is going.
    async fn read(&self, output: &Output, value: Value) -> Option<(Value, Vec<Port>)> {
        let Output { identity, kind, sender, .. } = output;
        let environment = identity.environment();
        if self.selection.is_none() && environment.selections.of(identity.node).is_none() {
            return Some((value, Vec::new()));
        }
        let (identity, kind, last) = (identity.clone(), *kind, Arc::clone(&sender.last));
        let selection = self.selection.clone();
        let reading = async move {
            let value = selection.map_or_else(|| Arc::clone(&value), |part| part.part_of(&value));
            let selections = &identity.environment().selections;
            let same = selections.same_parts((identity.node, kind), &last, &value);
            (value, same)
        };
        run_on(&environment.workers, reading).await
    }
}

/// Runs work on another runtime, and passes on its panic. Returns `None` if that runtime is going.
async fn run_on<T: Send + 'static>(
    runtime: &Handle,
    work: impl Future<Output = T> + Send + 'static,
) -> Option<T> {
    match Spawned::on(runtime, work).over().await.map_err(JoinError::try_into_panic) {
        Ok(result) => Some(result),
        Err(Ok(payload)) => resume_unwind(payload),
        Err(Err(_)) => None,
    }
}

/// Publishes the values of another engine.
async fn pass_on(mut output: Output, mut passing: Passing) {
    loop {
        tokio::select! {
            biased;
            () = output.sender.drop_used() => continue,
            changed = passing.receiver.changed() => if changed.is_err() { break },
        }
        // If there is no value any more, the worker ends by itself.
        let Some(value) = passing.receiver.get() else { continue };
        let Some((value, same)) = passing.read(&output, value).await else { break };
        output.publish(value, same, Vec::new());
    }
    output.rest().await;
}

/// Aborts a forwarding task when it is dropped.
pub(crate) struct Forwarder {
    task: AbortHandle,
    panicked: Arc<Mutex<Option<Panicked>>>,
}

impl Forwarder {
    /// Spawns other work in place of a forwarding task.
    pub(crate) fn run(runtime: &Handle, work: impl Future<Output = ()> + Send + 'static) -> Self {
        Self { task: runtime.spawn(work).abort_handle(), panicked: Arc::default() }
    }

    /// Returns the panic that ended the task, if one did.
    pub(crate) fn panicked(&self) -> Option<Panicked> {
        self.panicked.lock().take()
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The place where a closure worker puts its changing outputs for its task to poll.
#[derive(Clone, Default)]
pub(crate) struct Handoff {
    place: Option<Arc<Mutex<Place>>>,
}

enum Place {
    /// No outputs yet. The waker belongs to the worker's task, which is woken when they come.
    Awaited(Option<Waker>),
    Left(Changes),
    /// The outputs were taken, or none of them changes.
    Empty,
}

impl Handoff {
    pub(crate) fn new() -> Self {
        Self { place: Some(Arc::new(Mutex::new(Place::Awaited(None)))) }
    }

    /// Whether changes may still be put here.
    pub(crate) fn is_awaited(&self) -> bool {
        self.place.is_some()
    }

    /// Puts the changes here and wakes the worker's task, because the caller may be in another
    /// task.
    pub(crate) fn set(&self, changes: Changes) {
        let Some(place) = &self.place else { return };
        let left = if changes.is_empty() { Place::Empty } else { Place::Left(changes) };
        let has_changes = matches!(left, Place::Left(_));
        let before = mem::replace(&mut *place.lock(), left);
        if let Place::Awaited(Some(waker)) = before
            && has_changes
        {
            waker.wake();
        }
    }

    /// Takes the changes. If there are none yet, the task of `cx` is woken when they come.
    pub(crate) fn take(&mut self, cx: &Context<'_>) -> Option<Changes> {
        let place = self.place.as_ref()?;
        // Wakers are foreign code: this one is cloned before the lock, and the old one is dropped
        // after it.
        let waker = cx.waker().clone();
        let before = {
            let mut place = place.lock();
            let is_awaited = matches!(*place, Place::Awaited(_));
            let next = if is_awaited { Place::Awaited(Some(waker)) } else { Place::Empty };
            mem::replace(&mut *place, next)
        };
        let left = match before {
            Place::Awaited(_) => return None,
            Place::Left(changes) => Some(changes),
            Place::Empty => None,
        };
        self.place = None;
        left
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    /// Counts how often it is dropped while the place is locked, and while it is not.
    struct Looks(Handoff, Arc<[AtomicUsize; 2]>);

    impl Wake for Looks {
        fn wake(self: Arc<Self>) {}
    }

    impl Drop for Looks {
        fn drop(&mut self) {
            let is_locked = self.0.place.as_ref().is_some_and(|place| place.is_locked());
            self.1[usize::from(is_locked)].fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn wakers_are_dropped_outside_the_lock() {
        let (handoff, drops) = (Handoff::new(), Arc::<[AtomicUsize; 2]>::default());
        let mut taking = handoff.clone();

        for _ in 0..3 {
            let waker = Waker::from(Arc::new(Looks(handoff.clone(), Arc::clone(&drops))));
            assert!(taking.take(&Context::from_waker(&waker)).is_none());
        }
        handoff.set(Changes::default());

        assert_eq!([0, 1].map(|at: usize| drops[at].load(Ordering::Relaxed)), [3, 0]);
    }
}
