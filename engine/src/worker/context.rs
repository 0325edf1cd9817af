use std::fmt;
use std::sync::Arc;

use tokio::time::Instant;

use super::host::{Environment, Identity};
use super::message::Message;
use super::observe::Observed;
use super::stop::Stop;
use super::stop::cell::Degraded;
use crate::seen::event::{EventKind, Origin};
use crate::seen::log::Record;
use crate::vocabulary::exit::Panicked;
use crate::vocabulary::text;

/// What a start is told of the worker it makes.
#[derive(Clone)]
pub struct Context {
    /// Of a worker of an engine.
    stop: Stop,
    observed: Option<Arc<Observed>>,
}

impl Context {
    pub(crate) fn new(stop: Stop) -> Self {
        Self { stop, observed: None }
    }

    /// Has the worker's start be seen.
    pub(crate) fn observe(&mut self) -> Option<Arc<Observed>> {
        self.observed = Observed::new(self.identity());
        self.observed.clone()
    }

    pub(crate) fn observed(&self) -> Option<&Observed> {
        self.observed.as_deref()
    }

    /// Returns the name that the manifold is installed under.
    pub fn name(&self) -> &str {
        self.identity().name.as_str()
    }

    /// Returns the path of the worker's engine; that of the outermost is empty.
    pub fn engine(&self) -> &str {
        &self.identity().environment().path
    }

    /// Returns the path of the worker: its engine's path and its name.
    pub fn path(&self) -> String {
        self.identity().path()
    }

    /// Returns how many workers the name has had, this one included.
    pub fn generation(&self) -> u32 {
        let Identity { starts, .. } = self.identity();
        *starts
    }

    /// Returns a seed for what the worker does at random: another one for each engine, name and
    /// generation, and the same again with the same seed of the engine.
    pub fn seed(&self) -> u64 {
        self.identity().seed()
    }

    /// Returns the worker's view of the request to stop.
    ///
    /// A start needs not look at it: when the worker is to stop before its start has ended, the
    /// start's future is dropped.
    pub fn stop(&self) -> &Stop {
        &self.stop
    }

    /// Returns the handle through which the worker says how well it runs.
    pub fn health(&self) -> Health {
        Health::of(&self.stop)
    }

    /// Returns the handle through which the worker says what it does.
    pub fn journal(&self) -> Journal {
        Journal { stop: self.stop.clone() }
    }

    /// Runs short blocking work on a thread for such work; see [`Stop::blocking`].
    ///
    /// # Errors
    ///
    /// When the work panics.
    ///
    /// # Cancel safety
    ///
    /// Cancelling stops waiting for the work, not the work.
    pub async fn blocking<T, F>(&self, work: F) -> Result<T, Panicked>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.stop.blocking(work).await
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

/// Says how well a running worker does its work.
///
/// A worker is in good health until it says otherwise. Being degraded changes nothing but what is
/// reported; a new generation begins in good health. Of what is said faster than the engine takes
/// it, the last counts, and nothing piles up.
#[derive(Clone)]
pub struct Health {
    stop: Stop,
}

impl Health {
    pub(crate) fn of(stop: &Stop) -> Self {
        Self { stop: stop.clone() }
    }

    /// Reports that the worker runs but does not do all it should, and why. The reason is cut after
    /// 64 KiB.
    pub fn degraded(&self, reason: impl Into<String>) {
        self.send(Some(Degraded { reason: text::cut(reason.into()), next_try: None }));
    }

    /// Reports that the worker runs but does not do all it should, why, and when it tries again. The
    /// reason is cut after 64 KiB.
    ///
    /// Another moment for the same reason is no event.
    pub fn degraded_until(&self, next_try: Instant, reason: impl Into<String>) {
        let reason = text::cut(reason.into());
        self.send(Some(Degraded { reason, next_try: Some(next_try) }));
    }

    /// Reports that all is well again.
    pub fn good(&self) {
        self.send(None);
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

/// Enters what a worker does of its own among the events, such as a repair.
///
/// It changes nothing, and costs nothing while nobody follows the events.
#[derive(Clone)]
pub struct Journal {
    stop: Stop,
}

impl Journal {
    /// Notes what the worker has done, at whose wish and why; each text is cut after 64 KiB.
    ///
    /// A note does not wait for the engine: it may stand before what the engine notes of the same
    /// moment.
    pub fn note(&self, text: impl Into<String>, origin: Origin) {
        let identity = self.stop.identity();
        let Environment { log, clock, path, .. } = identity.environment();
        if !log.is_followed() {
            return;
        }
        let kind = EventKind::Noted { text: text::cut(text.into()) };
        let mut records = Vec::new();
        Record::push(&mut records, kind, Some(&Arc::new(origin.cut())), Some(&identity.name));
        log.push(clock.now(), path, &mut records);
    }
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Journal")
    }
}
