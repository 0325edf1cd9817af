//! What the engine's events say in the log.

use std::collections::VecDeque;
use std::sync::Arc;

use crankcase_engine::{EndKind, Engine, Event, EventKind, Notice, Origin};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use crate::site_origin::ORIGIN;

/// The first fatal error, which is mostly the one that the agent's end says.
#[derive(Debug, Clone, Default)]
pub(super) struct Unsaid(Arc<Mutex<Option<Fatal>>>);

#[derive(Debug)]
struct Fatal {
    worker: String,
    error: String,
}

impl Unsaid {
    /// Says it, unless it is that of this worker, which the agent's end says.
    pub(super) fn say_unless_of(&self, worker: Option<&str>) {
        let fatal = self.0.lock().take();
        if let Some(fatal) = fatal.filter(|fatal| worker != Some(&fatal.worker)) {
            fatal.say();
        }
    }

    fn note(&self, worker: String, error: &str) {
        let next = Fatal { worker, error: error.to_owned() };
        let mut first = self.0.lock();
        match &mut *first {
            None => {
                let worker = &next.worker;
                tracing::warn!(worker, "a worker has failed for good: all are stopped in order");
                *first = Some(next);
            }
            // An engine in which a worker has failed fails with the same error.
            Some(first)
                if is_within(&first.worker, &next.worker) && next.error.contains(&first.error) =>
            {
                *first = next;
            }
            Some(_) => next.say(),
        }
    }
}

/// Returns whether a path is that of a worker in the engine with the other one.
fn is_within(worker: &str, engine: &str) -> bool {
    worker.strip_prefix(engine).is_some_and(|rest| rest.starts_with('/'))
}

impl Fatal {
    fn say(&self) {
        let Self { worker, error } = self;
        tracing::error!(worker, error, "a worker has failed for good");
    }
}

/// Logs an engine's events until there are no more. The task then returns the paths of the workers
/// that were aborted while the engine stopped. A worker is named as `name` says of its path.
pub(super) fn keep(
    runtime: &Handle,
    engine: &Engine,
    name: fn(&str) -> String,
) -> (Unsaid, JoinHandle<Vec<String>>) {
    let fatal = Unsaid::default();
    let (noted, mut events, path) = (fatal.clone(), engine.events(), engine.path().to_owned());
    let logging = runtime.spawn(async move {
        let (mut is_stopping, mut aborted) = (false, Vec::new());
        let mut notes = Notes::default();
        while let Some(notice) = events.next().await {
            match notice {
                Notice::Event(event) => {
                    is_stopping |= event.kind == EventKind::Killed && event.engine() == path;
                    if is_stopping && event.kind == EventKind::Aborted {
                        aborted.push(event.path());
                    }
                    if !notes.have_said(&event) {
                        log(&event, &noted, &name(&event.path()));
                    }
                }
                Notice::Missed(events) => tracing::warn!(events, "too many events to log"),
            }
        }
        aborted
    });
    (fatal, logging)
}

/// How many notes are kept: the end of a worker follows its note at once.
const MAX_NOTES: usize = 64;

/// The last notes of workers with their reasons, until the end of each. A worker that notes why it
/// ends has logged it, with all there is to say.
#[derive(Debug, Default)]
struct Notes(VecDeque<(String, Arc<Origin>)>);

impl Notes {
    /// Takes over an event. Returns whether it is an end whose reason the worker has noted.
    fn have_said(&mut self, event: &Event) -> bool {
        match (&event.kind, &event.origin) {
            (EventKind::Noted { .. }, Some(origin)) => {
                self.0.truncate(MAX_NOTES - 1);
                self.0.push_front((event.path(), Arc::clone(origin)));
                false
            }
            (EventKind::Ended { error, end, .. }, _) => {
                let path = event.path();
                let last = self.0.iter().find(|(worker, _)| *worker == path);
                let is_said = match (end, error, last) {
                    (EndKind::Failed, Some(error), Some((_, origin))) => origin.why == *error,
                    _ => false,
                };
                // They are no notes of the worker that is started next.
                self.0.retain(|(worker, _)| *worker != path);
                is_said
            }
            _ => false,
        }
    }
}

fn log(event: &Event, fatal: &Unsaid, worker: &str) {
    match &event.kind {
        EventKind::Ended { error: Some(reason), end: EndKind::Missing, .. } => {
            tracing::info!(worker, reason, "a worker misses something");
        }
        EventKind::Ended { error: Some(error), end: EndKind::Fatal, .. } => {
            fatal.note(event.path(), error);
        }
        EventKind::Ended { error: Some(error), end, .. } => {
            tracing::warn!(worker, %end, error, "a worker has ended");
        }
        EventKind::Spent { failures } => tracing::error!(worker, failures, "a worker is parked"),
        EventKind::Health { degraded: Some(reason) } => {
            for reason in reason.lines() {
                tracing::warn!(worker, reason, "a worker is degraded");
            }
        }
        EventKind::Health { degraded: None } => tracing::info!(worker, "a worker is well again"),
        // Who notes something logs it as well, with all there is to say.
        EventKind::Noted { text } => tracing::debug!(worker, text, "noted"),
        // The manifold of the site says all of that on one line.
        kind if event.origin.as_ref().is_some_and(|origin| origin.who == ORIGIN) => {
            tracing::debug!(worker, event = %kind, "transition");
        }
        kind => match &event.origin {
            Some(origin) if *kind == EventKind::Killed => {
                let Origin { who, why, .. } = &**origin;
                tracing::info!(worker, reason = why, who, "stopping");
            }
            Some(origin) => tracing::info!(worker, event = %kind, %origin, "asked for"),
            None => tracing::debug!(worker, event = %kind, "transition"),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use crankcase_engine::{Engine, EventKind, Exit, Manifold, Name, Notice, Origin};

    use super::Notes;

    #[tokio::test(start_paused = true)]
    async fn an_end_without_a_note_is_logged_though_one_before_had_the_same_error()
    -> Result<(), Box<dyn Error>> {
        let engine = Engine::builder().build()?;
        let (mut events, starts) = (engine.events(), Arc::new(AtomicU32::new(0)));
        let failing = Manifold::builder().run_with(starts, |starts, (), up| async move {
            if starts.fetch_add(1, Ordering::Relaxed) == 0 {
                up.context().journal().note("stopped", Origin::new("itself", "it broke"));
            }
            Err(Exit::failed("it broke"))
        });
        engine.install(Name::<()>::new("failing"), failing).await?;

        let (mut notes, mut said) = (Notes::default(), Vec::new());
        while said.len() < 2 {
            let Some(Notice::Event(event)) = events.next().await else { break };
            let is_said = notes.have_said(&event);
            if matches!(event.kind, EventKind::Ended { .. }) {
                said.push(is_said);
            }
        }

        assert_eq!(said, [true, false]);
        engine.stop().await?;
        Ok(())
    }
}
