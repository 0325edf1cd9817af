//! A fact for one worker. It falls back to the last good value if the worker fails with a new one.

use std::future::pending;
use std::time::Duration;

use crankcase_engine::{
    EndKind, Engine, EngineInput, Event, EventKind, Health, Latest, Manifold, Name, Notice,
    Outcome, Stop, Worker,
};
use crankcase_facts::{Pointer, Snapshot, Tree};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// The worker that uses a fact, and when a value counts as bad.
#[derive(Debug, Clone)]
pub struct LastGood {
    /// The facts.
    pub facts: Name<Snapshot>,
    /// The path of the fact.
    pub path: Pointer,
    /// The worker that uses the fact, in the same engine.
    pub user: Name<()>,
    /// After how many failures in a row a new value counts as bad. Default 3, at least 1.
    pub failures: u32,
    /// How long the worker has to run with a value before the value counts as good. Default 1 min.
    pub proven_after: Duration,
}

impl LastGood {
    /// Returns the defaults for a fact and its user.
    pub fn new(facts: Name<Snapshot>, path: Pointer, user: Name<()>) -> Self {
        Self { facts, path, user, failures: 3, proven_after: Duration::from_secs(60) }
    }
}

/// Returns a manifold that offers a fact to a worker, as a changing `Option<Tree>`.
///
/// A value is good once the worker has run with it for [`LastGood::proven_after`]. If the worker fails with a new value
/// [`LastGood::failures`] times in a row, the manifold offers the last good value instead. Its own worker is degraded
/// then: the health has both values, without secrets, and the error. The facts do not change, and the next value is
/// tried again.
pub fn last_good(config: LastGood) -> Manifold {
    let LastGood { facts, path, user, failures, proven_after } = config;
    let at = path.clone();
    let seen = facts.select(move |snapshot| {
        let fact = snapshot.seen(&at);
        let shown = fact.as_ref().map(|fact| snapshot.schemas().redacted(&at, fact));
        Seen { fact, shown, version: snapshot.version() }
    });
    let user = user.as_str().to_owned();
    let settings = Settings { path, user, failures: failures.max(1), proven_after };
    Manifold::builder()
        .inputs((seen.live().required(), EngineInput))
        .start_with(settings, |settings, (newest, engine), ctx| async move {
            let first = newest.get();
            let offered = watch::Sender::new(first.fact.clone());
            let trial = Trial {
                value: first,
                good: None,
                failures: 0,
                proven_at: None,
                has_given_up: false,
            };
            Ok(Guard { settings, newest, engine, offered, trial, health: ctx.health() })
        })
        .changing(|guard| guard.offered.subscribe())
        .build()
}

/// The fact at one moment.
#[derive(Debug, Clone)]
struct Seen {
    fact: Option<Tree>,
    /// The fact without secrets.
    shown: Option<Value>,
    version: u64,
}

/// Compares the fact alone: another version of the facts is no change of this fact.
impl PartialEq for Seen {
    fn eq(&self, other: &Self) -> bool {
        self.fact == other.fact
    }
}

impl Seen {
    fn text(&self) -> String {
        let shown = self.shown.as_ref().map_or_else(|| "nothing".to_owned(), Value::to_string);
        format!("that of version {}, {shown}", self.version)
    }
}

#[derive(Debug, Clone)]
struct Settings {
    path: Pointer,
    user: String,
    failures: u32,
    proven_after: Duration,
}

/// The newest value, and how the user has run with it.
#[derive(Debug)]
struct Trial {
    value: Seen,
    /// The last value that was good.
    good: Option<Seen>,
    /// How many times in a row the user has failed with the value.
    failures: u32,
    /// When the value is good, if the user runs until then.
    proven_at: Option<Instant>,
    /// Whether the manifold offers the last good value instead.
    has_given_up: bool,
}

struct Guard {
    settings: Settings,
    newest: Latest<Seen>,
    engine: Engine,
    offered: watch::Sender<Option<Tree>>,
    trial: Trial,
    health: Health,
}

impl Worker for Guard {
    async fn run(mut self, stop: Stop) -> Outcome {
        let mut events = self.engine.events();
        loop {
            let proven_at = self.trial.proven_at;
            tokio::select! {
                biased;
                () = stop.wait() => return Ok(()),
                changed = self.newest.changed() => match changed {
                    Ok(value) => self.try_value(value),
                    // The engine ends.
                    Err(_) => pending().await,
                },
                notice = events.next() => match notice {
                    Some(Notice::Event(event)) => self.note(&event),
                    // A missed event may have been the end of the user.
                    Some(Notice::Missed(_)) => self.trial.proven_at = None,
                    None => pending().await,
                },
                () = sleep_until(proven_at.unwrap_or_else(Instant::now)), if proven_at.is_some() => {
                    self.trial.proven_at = None;
                    self.trial.failures = 0;
                    if !self.trial.has_given_up {
                        self.trial.good = Some(self.trial.value.clone());
                    }
                }
            }
        }
    }
}

impl Guard {
    fn try_value(&mut self, value: Seen) {
        if value == self.trial.value {
            return;
        }
        self.offered.send_replace(value.fact.clone());
        let good = self.trial.good.take();
        self.trial = Trial { value, good, failures: 0, proven_at: None, has_given_up: false };
        self.health.good();
    }

    fn note(&mut self, event: &Event) {
        // The path of the outermost engine is "/", but its events have an empty path.
        let is_here = event.engine() == self.engine.path().trim_end_matches('/');
        if !is_here || event.worker() != Some(&self.settings.user) {
            return;
        }
        match &event.kind {
            EventKind::Started { .. } => {
                self.trial.proven_at = Some(Instant::now() + self.settings.proven_after);
            }
            EventKind::Ended { end: EndKind::Failed, error, .. } => {
                self.trial.proven_at = None;
                self.trial.failures += 1;
                self.give_up(error.as_deref().unwrap_or("no reason was given"));
            }
            EventKind::Ended { .. } => self.trial.proven_at = None,
            _ => {}
        }
    }

    /// Offers the last good value, if the user has failed often enough with the new one.
    fn give_up(&mut self, error: &str) {
        let Trial { value, good, failures, has_given_up, .. } = &mut self.trial;
        let Some(good) = good.as_ref().filter(|good| *good != value) else { return };
        if *has_given_up || *failures < self.settings.failures {
            return;
        }
        *has_given_up = true;
        let Settings { path, user, .. } = &self.settings;
        self.health.degraded(format!(
            "{user} runs on the last good {path}, {}; {} has failed {failures} times: {error}",
            good.text(),
            value.text(),
        ));
        self.offered.send_replace(good.fact.clone());
    }
}
