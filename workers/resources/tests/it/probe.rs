//! A kind that writes down what is done to it, and fails where it is told to.
use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use crankcase_resources::{
    Action, AttributeError, BoxError, Check, CheckContext, Config, Declaration, Description, Kind,
    Kinds, Resource, Stale, Unfinished,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::support::declare;

/// Returns a probe as the only kind, and what happens to it.
pub(crate) fn probes() -> (Kinds, Arc<Journal>) {
    let probe = Probe::default();
    let journal = Arc::clone(&probe.journal);
    (Kinds::default().with(Arc::new(probe)), journal)
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

    fn validate(&self, config: &Config) -> Result<Arc<dyn Resource>, Vec<AttributeError>> {
        let text = |name: &str| config.get(name).and_then(Value::as_str).unwrap_or_default();
        let probed = Probed {
            name: text("name").to_owned(),
            fault: text("fault").to_owned(),
            journal: Arc::clone(&self.journal),
        };
        probed.panic_at("validate");
        Ok(Arc::new(probed))
    }

    fn stops_first(&self) -> bool {
        true
    }
}

#[derive(Debug, Clone)]
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

    async fn act(self, context: crankcase_resources::ActionContext) -> Result<(), Unfinished> {
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
        self.journal.note(Event::Ended(self.name));
        Ok(())
    }
}

#[async_trait]
impl Resource for Probed {
    async fn open(&self) -> Result<(), BoxError> {
        self.panic_at("open");
        Ok(())
    }

    async fn check(&self, _: &CheckContext) -> Result<Check, BoxError> {
        self.panic_at("check");
        if self.has("cannot look") {
            return Err("it is dark".into());
        }
        if self.has("valid") || self.journal.applied.lock().contains(&self.name) {
            return Ok(Check::Valid(json!({"name": self.name})));
        }
        let probed = self.clone();
        let action =
            Action::new(Description::new("make").changing("made"), |context| probed.act(context));
        let second = Action::new(Description::new("polish"), |_| async { Ok(()) });
        let mut stale = Stale::new(None).differs("made", false, true).action(action).action(second);
        if self.fault.starts_with("stops first") {
            let probed = self.clone();
            stale = stale.shutdown(Action::new(Description::new("stop"), |context| async move {
                probed.journal.note(Event::ShutDown(probed.name.clone()));
                probed.journal.began.notify_one();
                if probed.fault.ends_with("and waits") {
                    context.stop().wait().await;
                }
                if probed.fault.ends_with("and fails") { Err("it hangs".into()) } else { Ok(()) }
            }));
        }
        Ok(Check::Stale(stale))
    }

    fn refresh(&self, _: &[Description]) -> Option<Action> {
        self.panic_at("refresh");
        let probed = self.clone();
        Some(Action::new(Description::new("refresh"), |_| async move {
            probed.journal.note(Event::Refreshed(probed.name));
            Ok(())
        }))
    }

    async fn close(&self) {
        self.journal.note(Event::Closed(self.name.clone()));
        self.panic_at("close");
    }
}
