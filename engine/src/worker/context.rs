//! What a worker learns from its engine and tells it: its name and path, its health, its notes.

use std::fmt;
use std::sync::Arc;

use tokio::time::Instant;

use super::awaits::Waiting;
use super::host::Identity;
use super::message::{Message, Note};
use super::observe::Observed;
use super::stop::Stop;
use super::stop::cell::{Degraded, WaitsFor};
use crate::seen::event::Origin;
use crate::seen::report::{self, Detail};
use crate::vocabulary::exit::Panicked;
use crate::vocabulary::text;

/// What a start learns about the worker that it makes.
#[derive(Clone)]
pub struct Context {
    /// Belongs to a worker of an engine, so it has an identity.
    stop: Stop,
    observed: Option<Arc<Observed>>,
}

impl Context {
    pub(crate) fn new(stop: Stop) -> Self {
        Self { stop, observed: None }
    }

    /// Begins to observe the worker, if there is a span or metrics to observe it with.
    pub(crate) fn observe(&mut self) -> Option<Arc<Observed>> {
        self.observed = Observed::new(self.identity());
        self.observed.clone()
    }

    pub(crate) fn observed(&self) -> Option<&Observed> {
        self.observed.as_deref()
    }

    /// Returns the name under which the manifold is installed.
    pub fn name(&self) -> &str {
        self.identity().name.as_str()
    }

    /// Returns the path of the worker's engine. The path of an outermost engine without a name is
    /// empty.
    pub fn engine(&self) -> &str {
        &self.identity().environment().path
    }

    /// Returns the path of the worker: its engine's path and its name.
    pub fn path(&self) -> String {
        self.identity().path()
    }

    /// Returns the generation: the number of this worker among all that the name has had. The first
    /// is 1.
    pub fn generation(&self) -> u32 {
        let Identity { starts, .. } = self.identity();
        *starts
    }

    /// Returns the caller of the last bounce or unpark of the worker, and its reason. `None` if there
    /// was no such call since the previous start, or if the call did not
    /// [name its caller](crate::Engine::asked_by).
    pub fn asked_by(&self) -> Option<&Origin> {
        self.identity().asked_by.as_deref()
    }

    /// Returns a seed for the worker's random choices. It differs for each engine, name and
    /// generation. It is the same again if the engine has the same seed.
    pub fn seed(&self) -> u64 {
        self.identity().seed()
    }

    /// Returns the worker's view of the request to stop.
    ///
    /// A start need not check it: if the worker is told to stop during the start, the start's
    /// future is dropped.
    pub fn stop(&self) -> &Stop {
        &self.stop
    }

    /// Returns the handle with which the worker reports its health.
    pub fn health(&self) -> Health {
        Health::of(&self.stop)
    }

    /// Returns the handle with which the worker adds notes to the events.
    pub fn journal(&self) -> Journal {
        Journal { stop: self.stop.clone() }
    }

    /// Sets the asynchronous function that returns the worker's own report, from now on, also before the
    /// worker is up. A reporter that was set before is not asked any more.
    ///
    /// The reporter runs in a task of its own. The report names a reporter that does not answer
    /// within the report deadline. Such a reporter is not asked again before it has answered.
    pub fn report<P, F, D>(&self, reporter: P)
    where
        P: Fn() -> F + Send + Sync + 'static,
        F: Future<Output = D> + Send + 'static,
        D: Into<Detail>,
    {
        self.stop.set_drops();
        let Identity { host, node, generation, .. } = self.stop.identity();
        let (node, generation) = (*node, *generation);
        let reporter = report::reporter(reporter);
        host.send(Message::Reports { node, generation, reporter });
    }

    /// Runs short blocking work on a thread of tokio's blocking pool; see [`Stop::blocking`].
    ///
    /// # Errors
    ///
    /// If the work panics.
    ///
    /// # Cancel safety
    ///
    /// Cancelling ends the wait. The work goes on.
    pub async fn blocking<T, F>(&self, work: F) -> Result<T, Panicked>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.stop.blocking(work).await
    }

    /// Awaits a future, and says meanwhile what the worker waits for: [`Engine::why`] shows it.
    ///
    /// Use it for what a start waits for and the engine cannot know: a gate, a lock, an answer from
    /// elsewhere. The text completes "waits for", and is cut after 64 KiB. An output of the same
    /// engine is better declared as an input; one that is awaited through the engine's own handle
    /// shows by itself.
    ///
    /// # Cancel safety
    ///
    /// As that of the future.
    ///
    /// # Examples
    ///
    /// ```
    /// use crankcase_engine::{Engine, Manifold, Name};
    /// use tokio::sync::watch;
    ///
    /// const WEB: Name<()> = Name::new("web");
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (gate, opened) = watch::channel(false);
    /// let web = Manifold::builder().run(move |(), up| {
    ///     let mut opened = opened.clone();
    ///     async move {
    ///         let opened = opened.wait_for(|is_open| *is_open);
    ///         up.context().awaiting("the gate \"upgraded\"", opened).await.map(drop)?;
    ///         up.ready(()).wait().await;
    ///         Ok(())
    ///     }
    /// });
    /// let engine = Engine::builder().build()?;
    /// engine.install(WEB, web).await?;
    /// # tokio::task::yield_now().await;
    /// let why = engine.why("web").await.ok_or("there is no engine")?.to_string();
    /// let waits = "/web is starting (0.0 s of at most 300.0 s), and waits for the gate \"upgraded\"";
    /// assert_eq!(why, waits);
    /// gate.send_replace(true);
    /// engine.running(WEB).await?;
    /// engine.stop().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// [`Engine::why`]: crate::Engine::why
    pub async fn awaiting<F: Future>(&self, what: impl Into<String>, future: F) -> F::Output {
        let _waiting = Waiting::begin(self.identity(), text::cut(what.into()));
        future.await
    }

    pub(crate) fn identity(&self) -> &Identity {
        self.stop.identity()
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("path", &self.path())
            .field("generation", &self.generation())
            .field("stop", &self.stop)
            .finish()
    }
}

/// Reports how well a running worker does its work.
///
/// A new generation begins in good health. Being degraded only changes reports and events. If the
/// worker reports faster than the engine reads, only the last report counts, and nothing
/// accumulates.
#[derive(Clone)]
pub struct Health {
    stop: Stop,
}

impl Health {
    pub(crate) fn of(stop: &Stop) -> Self {
        Self { stop: stop.clone() }
    }

    /// Reports that the worker is degraded, and why. The reason is cut after 64 KiB.
    pub fn degraded(&self, reason: impl Into<String>) {
        let reason = text::cut(reason.into());
        self.send(Some(Degraded::new(reason)));
    }

    /// Reports that the worker leaves its work alone because a person has asked for that, and why. The
    /// reason is cut after 64 KiB.
    ///
    /// Reports show it as [paused](crate::WorkerState::Paused), also if it is not up yet. Its outputs
    /// stay, and so do its dependents.
    pub fn paused(&self, reason: impl Into<String>) {
        let reason = text::cut(reason.into());
        self.send(Some(Degraded { is_paused: true, ..Degraded::new(reason) }));
    }

    /// Reports that the worker is degraded, why, and when it tries again. The reason is cut after
    /// 64 KiB.
    ///
    /// A new time for the same reason makes no new event.
    pub fn degraded_until(&self, next_try: Instant, reason: impl Into<String>) {
        let reason = text::cut(reason.into());
        self.send(Some(Degraded { next_try: Some(next_try), ..Degraded::new(reason) }));
    }

    /// Like [`degraded_until`](Self::degraded_until), because an attempt of the worker has failed. The
    /// report counts the failed attempts until the worker is in good health again, and each is an event.
    pub fn attempt_failed(&self, next_try: Instant, reason: impl Into<String>) {
        let reason = text::cut(reason.into());
        let next_try = Some(next_try);
        self.send(Some(Degraded { next_try, attempts: 1, ..Degraded::new(reason) }));
    }

    /// Reports that the worker is degraded because another worker of its engine is not well, such as
    /// one whose work has to come first. The reason is cut after 64 KiB.
    ///
    /// Reports show it as [held back](crate::WorkerState::HeldBack), and its chain to the root cause
    /// goes on with that other worker. `by` is the other worker's name.
    pub fn held_back(&self, by: &str, reason: impl Into<String>) {
        self.send_waits_for(WaitsFor { name: by.to_owned(), is_held_back: true }, reason.into());
    }

    /// Reports that the worker is degraded because it waits until another worker of its engine has
    /// done something. The reason is cut after 64 KiB.
    ///
    /// Unlike [`held_back`](Self::held_back), this says nothing of how well that other worker is.
    /// Reports and graphs name it, and the worker's chain to the root cause goes on with it.
    /// `other` is its name.
    pub fn waits_for(&self, other: &str, reason: impl Into<String>) {
        self.send_waits_for(
            WaitsFor { name: other.to_owned(), is_held_back: false },
            reason.into(),
        );
    }

    /// Reports that the worker is in good health again.
    pub fn good(&self) {
        self.send(None);
    }

    fn send_waits_for(&self, other: WaitsFor, reason: String) {
        let (reason, waits_for) = (text::cut(reason), Some(other));
        self.send(Some(Degraded { waits_for, ..Degraded::new(reason) }));
    }

    fn send(&self, degraded: Option<Degraded>) {
        if self.stop.put_health(degraded) {
            let Identity { host, node, generation, .. } = self.stop.identity();
            host.send(Message::Health { node: *node, generation: *generation });
        }
    }
}

impl fmt::Debug for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Health")
    }
}

/// Adds notes of a worker to the events, for example about a repair.
///
/// Has no effect on the engine, and costs almost nothing while nobody follows the events.
#[derive(Clone)]
pub struct Journal {
    stop: Stop,
}

impl Journal {
    /// Notes what the worker has done, who asked for it and why. Each text is cut after 64 KiB.
    ///
    /// A note that comes after the worker's end is an event too, as long as the engine runs.
    pub fn note(&self, text: impl Into<String>, origin: Origin) {
        let Identity { host, node, name, .. } = self.stop.identity();
        if !host.environment().log.is_followed() {
            return;
        }
        let (text, origin) = (text::cut(text.into()), Origin::new(origin.who, origin.why));
        let (node, name) = (*node, name.clone());
        host.send(Message::Noted(Box::new(Note { node, name, text, origin })));
    }
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Journal")
    }
}
