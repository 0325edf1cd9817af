//! A kind that writes down what is done to it, and fails where it is told to.
use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use crankcase_resources::dynamic::{Config, Found, Kind, Stale, Unit};
use crankcase_resources::{
    Action, AttributeError, BoxError, Context, Declaration, Kinds, Unfinished,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::support::declare;

/// Returns a probe as the only kind, and what happens to it.
pub(crate) fn probes() -> (Kinds, Arc<Journal>) {
    let probe = Probe::default();
    let journal = Arc::clone(&probe.journal);
    (Kinds::default().with(probe), journal)
}

/// Returns a declaration of a probe that fails in a way.
pub(crate) fn probe(name: &str, fault: &str) -> Declaration {
    declare(name, "probe", json!({"name": name, "fault": fault}))
}

/// Everything that happens to the probes of one test.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    events: Mutex<Vec<Event>>,
    applied: Mutex<BTreeSet<String>>,
    /// Told whenever an action begins.
    pub(crate) began: Notify,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    Began(String),
    Ended(String),
    ShutDown(String),
    Refreshed(String),
    Closed(String),
}

impl Journal {
    pub(crate) fn events(&self) -> Vec<Event> {
        self.events.lock().clone()
    }

    pub(crate) fn note(&self, event: Event) {
        self.events.lock().push(event);
    }
}

/// The kind `probe`: `name`, and `fault`, where it fails.
#[derive(Debug, Default)]
pub(crate) struct Probe {
    pub(crate) journal: Arc<Journal>,
}

impl Kind for Probe {
    fn name(&self) -> &'static str {
        "probe"
    }

    fn summary(&self) -> &'static str {
        "writes down what is done to it"
    }

    fn make(&self, config: &Config) -> Result<Arc<dyn Unit>, Vec<AttributeError>> {
        let text = |name: &str| config.get(name).and_then(Value::as_str).unwrap_or_default();
        let probed = Probed {
            name: text("name").to_owned(),
            fault: text("fault").to_owned(),
            journal: Arc::clone(&self.journal),
        };
        probed.panic_at("make");
        Ok(Arc::new(probed))
    }

    fn stops_first(&self) -> bool {
        true
    }
}

#[derive(Debug)]
struct Probed {
    name: String,
    fault: String,
    journal: Arc<Journal>,
}

impl Probed {
    fn panic_at(&self, place: &str) {
        assert!(self.fault != format!("panic in {place}"), "bang");
    }

    fn has(&self, fault: &str) -> bool {
        self.fault == fault
    }

    async fn make(&self, context: &Context) -> Result<(), Unfinished> {
        context.log("begins");
        self.journal.note(Event::Began(self.name.clone()));
        self.journal.began.notify_one();
        tokio::task::yield_now().await;
        self.panic_at("action");
        if self.has("fails") {
            return Err("out of luck".into());
        }
        if self.has("waits") {
            context.stop().wait().await;
            return Err(Unfinished::Interrupted);
        }
        if self.has("ends when told") {
            context.stop().wait().await;
        }
        tokio::task::yield_now().await;
        if !self.has("lies") {
            self.journal.applied.lock().insert(self.name.clone());
        }
        self.journal.note(Event::Ended(self.name.clone()));
        Ok(())
    }

    async fn shut_down(&self, context: &Context) -> Result<(), Unfinished> {
        self.journal.note(Event::ShutDown(self.name.clone()));
        self.journal.began.notify_one();
        if self.fault.ends_with("and waits") {
            context.stop().wait().await;
        }
        if self.fault.ends_with("and fails") { Err("it hangs".into()) } else { Ok(()) }
    }
}

#[async_trait]
impl Unit for Probed {
    async fn open(&self, _: &Context) -> Result<(), BoxError> {
        self.panic_at("open");
        Ok(())
    }

    async fn check(&self, _: &Context) -> Result<Found, BoxError> {
        self.panic_at("check");
        if self.has("cannot look") {
            return Err("it is dark".into());
        }
        if self.has("valid") || self.journal.applied.lock().contains(&self.name) {
            return Ok(Found::Valid(json!({"name": self.name})));
        }
        let mut amiss = Stale::new(None).differs("made", false, true);
        amiss = amiss.action(Action::new("make")).action(Action::new("polish"));
        if let Some(name) = self.fault.strip_prefix("foresees ") {
            amiss = amiss.after(json!({"name": name, "other": 1}));
        }
        if self.fault.starts_with("stops first") {
            amiss = amiss.shutdown(Action::new("stop"));
        }
        Ok(Found::Stale(amiss))
    }

    async fn act(&self, action: &Action, context: &Context) -> Result<(), Unfinished> {
        match action.name.as_str() {
            "make" => self.make(context).await,
            "stop" => self.shut_down(context).await,
            "refresh" => {
                self.journal.note(Event::Refreshed(self.name.clone()));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn refresh(&self, _: &[Action], _: &Context) -> Option<Action> {
        self.panic_at("refresh");
        Some(Action::new("refresh"))
    }

    async fn close(&self, _: &Context) {
        self.journal.note(Event::Closed(self.name.clone()));
        self.panic_at("close");
    }
}
