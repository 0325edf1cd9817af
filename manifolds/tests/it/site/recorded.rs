//! The records of a kept site, byte by byte.
//!
//! `recorded.json` holds the events that an observer sees, the last event of each resource, the
//! reason of each degraded resource, and the tally. With `UPDATE_GOLDEN`, the test writes it anew.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use crankcase_engine::{Backoff, Detail};
use crankcase_resources::dynamic::{Found, Stale, Unit};
use crankcase_resources::report::{EventKind, LastEvent};
use crankcase_resources::{Action, BoxError, Context, Unfinished, Watch};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::mpsc;

use crate::site::double::with_kind;
use crate::site::machine::{Machine, TestResult};
use crate::site::seen::Seen;

/// The time of each event.
const AT: &str = "2027-01-01T00:00:00.000Z";

/// The lamps of each site of the test. Some sites have one more.
const SITE: &str = "resources:
  lamp: {type: lamp, notify: [bell], tags: [hall]}
  bell: {type: lamp}
  fuse: {type: lamp}
  behind: {type: lamp, dependencies: [fuse]}
  new: {type: lamp}
  dark: {type: lamp}
  left: {type: lamp, meta: {noop: true}}
  read: {type: lamp, readonly: true}
";

type Signals = mpsc::Sender<Result<(), BoxError>>;

/// The lamps of a hall, by their names.
#[derive(Debug, Default)]
struct Hall {
    lit: Mutex<BTreeSet<String>>,
    /// The lamps that cannot be switched on.
    broken: Mutex<BTreeSet<String>>,
    /// The sender of each lamp's signals. A signal causes a look at the lamp.
    signals: Mutex<BTreeMap<String, Signals>>,
}

impl Hall {
    fn new(lit: &[&str]) -> Self {
        let lit = lit.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        Self { lit: lit.into(), ..Self::default() }
    }

    /// Switches a lamp off, as somebody else would.
    fn switch_off(&self, name: &str) -> TestResult {
        self.lit.lock().remove(name);
        let signals = self.signals.lock().get(name).cloned();
        Ok(signals.ok_or("nobody watches it")?.try_send(Ok(()))?)
    }
}

/// Any lamp of a hall: it is to be on.
#[derive(Debug)]
struct Lamp(Arc<Hall>);

#[async_trait]
impl Unit for Lamp {
    async fn check(&self, context: &Context) -> Result<Found, BoxError> {
        if context.name() == "dark" {
            return Err("nobody can see it".into());
        }
        if self.0.lit.lock().contains(context.name()) {
            return Ok(Found::Valid(json!({"on": true})));
        }
        let amiss = Stale::new(None).differs("on", false, true);
        Ok(Found::Stale(amiss.action(Action::new("switch_on").with("watts", 40))))
    }

    async fn act(&self, action: &Action, context: &Context) -> Result<(), Unfinished> {
        context.log("click");
        let name = context.name();
        if self.0.broken.lock().contains(name) {
            return Err("the fuse has blown".into());
        }
        if action.name == "switch_on" {
            self.0.lit.lock().insert(name.to_owned());
        }
        Ok(())
    }

    fn refresh(&self, _: &[Action], _: &Context) -> Option<Action> {
        Some(Action::new("ring"))
    }

    async fn watch(&self, context: &Context) -> Result<Watch, BoxError> {
        let (sender, signals) = mpsc::channel(8);
        self.0.signals.lock().insert(context.name().to_owned(), sender);
        Ok(Watch::never().signals(signals))
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_written_of_a_kept_site_is_as_before() -> TestResult {
    let hall = Arc::new(Hall::new(&["lamp", "bell", "fuse", "behind", "gone", "last"]));
    let (seen, observer) = Seen::pair();
    // No failed resource is tried again before the test ends.
    let day = Duration::from_secs(24 * 60 * 60);
    let backoff = Backoff::default().initial(day).max(day).jitter(0.0);
    let kinds = with_kind("lamp", Lamp(Arc::clone(&hall)));
    let site = format!("{SITE}  gone: {{type: lamp}}\n");
    let folder = tempfile::tempdir()?;
    let machine = Machine::observed(folder, &site, (backoff, kinds), observer).await?;
    for name in ["lamp", "bell", "behind", "gone", "new"] {
        machine.running(name).await?;
    }
    for name in ["dark", "left", "read"] {
        machine.degraded(name).await?;
    }

    hall.switch_off("lamp")?;
    seen.first("bell", EventKind::Refreshed).await?;
    hall.broken.lock().insert("fuse".to_owned());
    hall.switch_off("fuse")?;
    machine.degraded("fuse").await?;
    hall.switch_off("behind")?;
    machine.degraded_by("behind", "held back").await?;
    machine.swap(SITE).await?;
    seen.first("gone", EventKind::Released).await?;
    // When the next site is there, all of this one is on record.
    machine.swap(&format!("{SITE}  last: {{type: lamp}}\n")).await?;
    machine.running("last").await?;

    let written = written(&machine, &seen).await?;
    machine.stop().await?;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/site/recorded.json");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, &written)?;
    }
    assert_eq!(written, fs::read_to_string(&path)?, "UPDATE_GOLDEN=1 writes it anew");
    Ok(())
}

/// Returns all records of a site. The wall clock is not paused, so each instant becomes the same
/// one.
async fn written(machine: &Machine, seen: &Seen) -> TestResult<String> {
    let mut events = seen.events();
    // Resources are kept at the same time: only the order of each one's own events is certain.
    events.sort_by(|one, other| one.resource.cmp(&other.resource));
    let mut tally = machine.tally().await?;
    for fared in tally.resources.values_mut() {
        fared.last_change.iter_mut().for_each(set);
        // The number of looks at a resource depends on which of them is faster.
        (fared.looks, fared.failures) = (0, 0);
    }
    let mut last_events = BTreeMap::<String, LastEvent>::new();
    let mut degraded = BTreeMap::<String, String>::new();
    for (name, worker) in machine.resources().await?.report().await.workers {
        if let Some(Detail::Value(own)) = &worker.report
            && let Some(event) = own.get("last_event")
        {
            let mut event: LastEvent = serde_json::from_value(event.clone())?;
            set(&mut event.at);
            last_events.insert(name.clone(), event);
        }
        degraded.extend(worker.degraded.map(|why| (name, why)));
    }
    let written = json!({
        "events": events, "last_events": last_events, "degraded": degraded, "tally": tally,
    });
    Ok(serde_json::to_string_pretty(&written)? + "\n")
}

/// Sets an instant to [`AT`], which has the same form.
fn set(at: &mut String) {
    assert_eq!((at.len(), &at[10..11], &at[23..]), (AT.len(), "T", "Z"), "{at}");
    AT.clone_into(at);
}
