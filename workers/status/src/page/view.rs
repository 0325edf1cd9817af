//! What the pages are told of the workers.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crankcase_workers::one_line;
use serde::Serialize;

use crate::picture::Look;
use crate::wire::{Detail, EngineReport, Event, WorkerReport};

/// How many events are kept for a page that is opened, and at most sent at once.
const EVENTS: usize = 200;

/// The longest text of an event and of a cause, in characters.
const TEXT: usize = 300;

/// What a page shows of one worker in its lists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Row {
    path: String,
    name: String,
    state: String,
    look: &'static str,
    generation: u32,
    #[serde(skip_serializing_if = "is_none")]
    failures: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_engine: bool,
}

/// What a page shows of one event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct EventRow {
    sequence: u64,
    at: String,
    path: String,
    text: String,
    /// Whether a worker has noted what it did.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_note: bool,
}

/// All that a page needs at first.
#[derive(Debug, Serialize)]
pub(super) struct Whole<'a> {
    agent: &'a str,
    health: &'a Health,
    rows: Vec<&'a Row>,
    events: Vec<&'a EventRow>,
}

/// How the agent is as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Health {
    /// Whether all essential workers run in good health.
    is_healthy: bool,
    /// The error that stops it.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl Health {
    fn of(report: &EngineReport) -> Self {
        Self { is_healthy: report.is_healthy, error: report.error.as_deref().map(short) }
    }
}

/// What has changed.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Change {
    #[serde(skip_serializing_if = "Option::is_none")]
    health: Option<Health>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rows: Vec<Row>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    gone: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    events: Vec<EventRow>,
    /// How many events are not in it, because they are too many.
    #[serde(skip_serializing_if = "is_zero")]
    missed: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_none(count: &u32) -> bool {
    *count == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// What is known of an agent.
#[derive(Debug)]
pub(super) struct View {
    agent: String,
    health: Health,
    rows: BTreeMap<String, Row>,
    events: VecDeque<EventRow>,
    name: fn(&str) -> String,
}

/// The events that were not told yet.
#[derive(Debug, Default)]
pub(super) struct Batch {
    first: Option<u64>,
    /// The workers that were uninstalled.
    uninstalled: BTreeSet<String>,
    events: VecDeque<EventRow>,
    missed: usize,
}

impl Batch {
    pub(super) fn add(&mut self, event: &Event) {
        self.first.get_or_insert(event.sequence);
        if matches!(event.kind(), "uninstalled" | "removed") {
            self.uninstalled.insert(event.path.clone());
        }
        self.events.push_back(EventRow::of(event));
        if self.events.len() > EVENTS {
            self.events.pop_front();
            self.missed += 1;
        }
    }

    /// Returns the number of its first event.
    pub(super) fn first(&self) -> Option<u64> {
        self.first
    }
}

impl EventRow {
    fn of(event: &Event) -> Self {
        let is_note = event.kind() == "noted";
        let Event { sequence, at, path, text, .. } = event;
        let (at, path) = (at.clone(), path.clone());
        Self { sequence: *sequence, at, path, text: short(text), is_note }
    }
}

impl View {
    pub(super) fn new(report: &EngineReport, name: fn(&str) -> String) -> Self {
        let mut rows = Vec::new();
        collect(report, name, &mut rows);
        let rows = rows.into_iter().map(|row| (row.path.clone(), row)).collect();
        let (agent, health) = (report.path.clone(), Health::of(report));
        Self { agent, health, rows, events: VecDeque::new(), name }
    }

    /// Keeps an event of the time before.
    pub(super) fn remember(&mut self, event: &Event) {
        self.push(EventRow::of(event));
    }

    fn push(&mut self, event: EventRow) {
        if self.events.len() == EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }

    pub(super) fn whole(&self) -> Whole<'_> {
        let (rows, events) = (self.rows.values().collect(), self.events.iter().collect());
        Whole { agent: &self.agent, health: &self.health, rows, events }
    }

    /// Takes over what has changed since the first event of a batch, and returns it.
    pub(super) fn update(&mut self, changed: &EngineReport, batch: Batch) -> Change {
        let mut rows = Vec::new();
        collect(changed, self.name, &mut rows);
        let reported: BTreeSet<String> = rows.iter().map(|row| row.path.clone()).collect();
        let is_gone = |path: &String| batch.uninstalled.contains(path) && !reported.contains(path);
        let mut gone: Vec<String> =
            self.rows.keys().filter(|path| is_gone(path)).cloned().collect();
        // What was in an engine goes with it, also if another one has its place now.
        let is_old_engine = |path: &&String| self.rows.get(*path).is_some_and(|row| row.is_engine);
        let is_other = |row: &&Row| {
            let generation = self.rows.get(&row.path).map(|kept| kept.generation);
            let is_same = row.is_engine && generation == Some(row.generation);
            !is_same || batch.uninstalled.contains(&row.path)
        };
        let ended = rows.iter().filter(is_other).map(|row| &row.path).chain(&gone);
        let ended: Vec<String> =
            ended.filter(is_old_engine).map(|path| format!("{path}/")).collect();
        for below in &ended {
            let inner = self.rows.range(below.clone()..).map(|(path, _)| path);
            let inner = inner.take_while(|path| path.starts_with(below));
            gone.extend(inner.filter(|path| !reported.contains(*path)).cloned());
        }
        gone.sort();
        gone.dedup();
        self.rows.retain(|path, _| gone.binary_search(path).is_err());
        rows.retain(|row| self.rows.get(&row.path) != Some(row));
        self.rows.extend(rows.iter().map(|row| (row.path.clone(), row.clone())));
        let Batch { events, missed, .. } = batch;
        events.iter().for_each(|event| self.push(event.clone()));
        let health = Some(Health::of(changed)).filter(|health| *health != self.health);
        self.health = health.clone().unwrap_or_else(|| self.health.clone());
        Change { health, rows, gone, events: events.into(), missed }
    }
}

fn collect(report: &EngineReport, name: fn(&str) -> String, rows: &mut Vec<Row>) {
    for (key, worker) in &report.workers {
        rows.push(row(key, worker, name));
        if let Some(Detail::Engine(nested)) = &worker.report {
            collect(nested, name, rows);
        }
    }
}

fn row(key: &str, worker: &WorkerReport, name: fn(&str) -> String) -> Row {
    let look = match Look::of(&worker.state, worker.degraded.is_some()) {
        Look::Plain | Look::Well => "well",
        Look::OnItsWay => "way",
        Look::Off => "off",
        Look::Trouble => "trouble",
    };
    let error = worker.error.as_ref().filter(|_| look != "well").map(|error| &error.text);
    let parked = worker.parked_by.as_ref().map(|by| format!("parked by {}: {}", by.who, by.why));
    let cause = worker.degraded.as_ref().or(error).or(parked.as_ref());
    let failing = worker.attempts.as_ref().map(|attempts| &attempts.first);
    let since = match &worker.stopped {
        _ if look == "well" => worker.started.as_ref(),
        stopped => failing.or(stopped.as_ref()),
    };
    Row {
        path: worker.path.clone(),
        name: name(key),
        state: worker.state.to_string().replace('_', " "),
        look,
        generation: worker.generation,
        failures: if look == "well" { 0 } else { worker.failures },
        since: since.or(worker.installed.as_ref()).cloned(),
        cause: cause.map(|cause| short(cause)),
        is_engine: matches!(worker.report, Some(Detail::Engine(_))),
    }
}

/// Returns the first line of a text, cut if it is long.
fn short(text: &str) -> String {
    let line = one_line(text.lines().next().unwrap_or_default());
    match line.char_indices().nth(TEXT) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Batch, View};
    use crate::wire::{EngineReport, Event};

    fn worker(path: &str, state: &str) -> Value {
        json!({"path": path, "state": state, "generation": 1, "starts": 1, "failures": 0, "is_essential": true})
    }

    fn report(workers: Value) -> Result<EngineReport, serde_json::Error> {
        serde_json::from_value(
            json!({"path": "/a", "state": "running", "is_healthy": true, "at": "", "workers": workers}),
        )
    }

    fn event(sequence: u64, path: &str, kind: &str) -> Result<Event, serde_json::Error> {
        serde_json::from_value(
            json!({"sequence": sequence, "at": "", "path": path, "event": {"type": kind}, "text": kind}),
        )
    }

    fn engine(workers: &Value) -> Value {
        let mut site = worker("/a/site", "running");
        site["report"] = json!({"path": "/a/site", "state": "running", "is_healthy": true, "at": "", "workers": workers});
        site
    }

    #[test]
    fn only_what_has_changed_is_told() -> Result<(), Box<dyn std::error::Error>> {
        let many: serde_json::Map<_, _> = (0..2000)
            .map(|at| (format!("w{at}"), worker(&format!("/a/w{at}"), "running")))
            .collect();
        let mut view = View::new(&report(many.into())?, str::to_owned);
        let mut batch = Batch::default();
        batch.add(&event(7, "/a/w3", "ended")?);
        let mut changed = worker("/a/w3", "backing_off");
        changed["error"] = json!({"text": "x".repeat(1 << 20), "is_panic": false, "at": ""});

        let part = report(json!({"w3": changed, "w4": worker("/a/w4", "running")}))?;
        let change = serde_json::to_value(view.update(&part, batch))?;

        assert_eq!(change["rows"].as_array().map(Vec::len), Some(1));
        assert_eq!(
            (&change["rows"][0]["state"], &change["events"][0]["sequence"]),
            (&json!("backing off"), &json!(7))
        );
        assert!(change.to_string().len() < 4096, "{change}");
        Ok(())
    }

    #[test]
    fn a_paused_worker_is_off_and_says_by_whom() -> Result<(), Box<dyn std::error::Error>> {
        let mut paused = worker("/a/x", "paused");
        paused["degraded"] = json!("paused by ada: a look");

        let view = View::new(&report(json!({"x": paused}))?, str::to_owned);

        let row = serde_json::to_value(&view.rows["/a/x"])?;
        assert_eq!((&row["state"], &row["look"]), (&json!("paused"), &json!("off")));
        assert_eq!(row["cause"], "paused by ada: a look");
        Ok(())
    }

    #[test]
    fn a_note_of_a_worker_that_is_not_reported_anew_removes_nothing()
    -> Result<(), Box<dyn std::error::Error>> {
        let workers = json!({"x": worker("/a/x", "backing_off")});
        let mut view = View::new(&report(workers)?, str::to_owned);
        let mut batch = Batch::default();
        batch.add(&event(1, "/a/x", "noted")?);

        let change = view.update(&report(json!({}))?, batch);

        assert!(change.gone.is_empty() && view.rows.contains_key("/a/x"), "{change:?}");
        Ok(())
    }

    #[test]
    fn what_is_gone_goes_with_all_that_is_in_it() -> Result<(), Box<dyn std::error::Error>> {
        let inner =
            json!({"x": worker("/a/site/x", "running"), "y": worker("/a/site/y", "running")});
        let workers = json!({"site": engine(&inner), "site2": worker("/a/site2", "running"), "z": worker("/a/z", "running")});
        let mut view = View::new(&report(workers)?, str::to_owned);
        let mut batch = Batch::default();
        batch.add(&event(1, "/a/z", "removed")?);
        batch.add(&event(2, "/a/site", "stopping")?);

        let change = view.update(&report(json!({"site": worker("/a/site", "stopping")}))?, batch);

        assert_eq!(change.gone, ["/a/site/x", "/a/site/y", "/a/z"]);
        let left: Vec<_> = view.rows.keys().map(String::as_str).collect();
        assert_eq!(left, ["/a/site", "/a/site2"]);
        Ok(())
    }

    #[test]
    fn what_was_in_an_engine_goes_when_another_one_has_its_place()
    -> Result<(), Box<dyn std::error::Error>> {
        let inner =
            json!({"x": worker("/a/site/x", "running"), "y": worker("/a/site/y", "running")});
        let workers = json!({"site": engine(&inner)});
        let mut next = engine(&json!({"x": worker("/a/site/x", "starting")}));
        next["generation"] = json!(2);
        for (site, kind) in [
            (next.clone(), "ended"),
            (engine(&json!({"x": worker("/a/site/x", "starting")})), "removed"),
        ] {
            let mut view = View::new(&report(workers.clone())?, str::to_owned);
            let mut batch = Batch::default();
            batch.add(&event(1, "/a/site", kind)?);

            let change = view.update(&report(json!({"site": site}))?, batch);

            assert_eq!(change.gone, ["/a/site/y"], "{kind}");
        }
        Ok(())
    }

    #[test]
    fn the_health_is_that_of_the_agent() -> Result<(), Box<dyn std::error::Error>> {
        let mut view = View::new(&report(json!({}))?, str::to_owned);
        let mut sick = report(json!({}))?;
        sick.is_healthy = false;

        let change = serde_json::to_value(view.update(&sick, Batch::default()))?;
        let again = serde_json::to_value(view.update(&sick, Batch::default()))?;

        assert_eq!((change, again), (json!({"health": {"is_healthy": false}}), json!({})));
        Ok(())
    }

    #[test]
    fn a_burst_of_events_is_bounded() -> Result<(), Box<dyn std::error::Error>> {
        let mut view = View::new(&report(json!({}))?, str::to_owned);
        let mut batch = Batch::default();
        for sequence in 0..1000 {
            batch.add(&event(sequence, "/a/x", "failed")?);
        }

        assert_eq!(batch.first(), Some(0));
        let change = view.update(&report(json!({}))?, batch);

        assert_eq!((change.events.len(), change.missed), (200, 800));
        assert_eq!(view.whole().events.len(), 200);
        Ok(())
    }
}
