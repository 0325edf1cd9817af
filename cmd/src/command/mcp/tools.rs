//! The tools.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crankcase_resources::resource_name;
use crankcase_status::Client;
use crankcase_status::wire::{
    Act, ControlRequest, Detail, EngineReport, Event, EventLine, Only, Selection, Subject,
    WorkerReport, WorkerState,
};
use rmcp::model::{JsonObject, Tool as Described, ToolAnnotations};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use super::answer::Refusal;
use super::asked::Asked;
use super::consent::Wish;
use crate::command::control::user;
use crate::paths::{RESOURCES, worker_path};

/// How many events an answer has at most.
const EVENTS: u64 = 200;

/// How many of the workers that a change would bounce are named.
const NAMED: usize = 20;

/// How long an answer with events may take, and after how long without one it is taken for whole.
const READ_FOR: Duration = Duration::from_secs(10);
const QUIET: Duration = Duration::from_millis(100);

/// Of how many workers in trouble it is told why.
const EXPLAINED: usize = 20;

/// What an assistant can call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tool {
    Trouble,
    Report,
    Why,
    Graph,
    Events,
    Changes,
    Boot,
    Plan,
    Change(Act),
}

impl Tool {
    /// Returns the tools, with the changes that are allowed.
    pub(super) fn all(allowed: &BTreeSet<Act>) -> impl Iterator<Item = Self> {
        let looks = [
            Self::Trouble,
            Self::Report,
            Self::Why,
            Self::Graph,
            Self::Events,
            Self::Changes,
            Self::Boot,
            Self::Plan,
        ];
        looks.into_iter().chain(allowed.iter().copied().map(Self::Change))
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Trouble => "trouble",
            Self::Report => "report",
            Self::Why => "why",
            Self::Graph => "graph",
            Self::Events => "events",
            Self::Changes => "changes",
            Self::Boot => "boot",
            Self::Plan => "plan",
            Self::Change(act) => act.as_str(),
        }
    }

    /// Returns what it is for, and its arguments: the name of each, its type and whether it is required.
    fn words(self) -> (&'static str, &'static [(&'static str, &'static str, bool)]) {
        const PATH: (&str, &str, bool) = ("path", "string", true);
        const REASON: (&str, &str, bool) = ("reason", "string", true);
        match self {
            Self::Trouble => (
                "What is degraded, failed or parked, with the chain to the root cause of the first 20; what is well is a number.",
                &[],
            ),
            Self::Report => (
                "All of one worker, such as resources/www: its state, inputs, starts, last error and last change. Without a path the workers of the agent itself, in short.",
                &[("path", "string", false)],
            ),
            Self::Why => ("The chain from a worker to the root cause.", &[PATH]),
            Self::Graph => (
                "What a worker needs, at any distance, and what needs it within `steps` edges (0 to 5, by default 1).",
                &[PATH, ("steps", "integer", false)],
            ),
            Self::Events => (
                "What has happened: the last `most` events (0 to 200, by default 50), or those from the number `since` on. Numbers are of one `life` of the agent: with it, those of another one are refused.",
                &[
                    ("since", "integer", false),
                    ("life", "string", false),
                    ("most", "integer", false),
                ],
            ),
            Self::Changes => (
                "What the agent has changed or repaired lately. With the path of a resource, its last event in full, with the diff.",
                &[("path", "string", false)],
            ),
            Self::Boot => (
                "How long it took until all that is essential was up, the critical path, and what is not up.",
                &[],
            ),
            Self::Plan => (
                "What is still to be done of the manifests that the agent runs: the resources that were not as declared when it looked last, with what differed, why it has not mended them, and when it tries again. Nothing is run for it.",
                &[],
            ),
            Self::Change(Act::Bounce) => (
                "Stop a worker and start it again, with what depends on it. The person is asked first.",
                &[PATH, REASON],
            ),
            Self::Change(Act::Park) => {
                ("Stop a worker and keep it stopped. The person is asked first.", &[PATH, REASON])
            }
            Self::Change(Act::Unpark) => {
                ("Let a parked worker start again. The person is asked first.", &[PATH, REASON])
            }
        }
    }

    pub(super) fn described(self) -> Described {
        let (description, arguments) = self.words();
        let properties: JsonObject = arguments
            .iter()
            .map(|(name, kind, _)| ((*name).to_owned(), json!({"type": kind})))
            .collect();
        let required: Vec<_> = arguments.iter().filter(|it| it.2).map(|it| it.0).collect();
        let mut schema = JsonObject::new();
        schema.insert("type".to_owned(), "object".into());
        schema.insert("properties".to_owned(), properties.into());
        schema.insert("required".to_owned(), required.into());
        schema.insert("additionalProperties".to_owned(), false.into());
        let reads = !matches!(self, Self::Change(_));
        let stops = matches!(self, Self::Change(Act::Bounce | Act::Park));
        let annotations = ToolAnnotations::new()
            .read_only(reads)
            .destructive(stops)
            .idempotent(self != Self::Change(Act::Bounce))
            .open_world(false);
        Described::new(self.name(), description, Arc::new(schema)).with_annotations(annotations)
    }
}

/// Answers a tool that changes nothing.
pub(super) async fn look(client: &Client, tool: Tool, mut asked: Asked) -> Result<Value, Refusal> {
    match tool {
        Tool::Trouble => {
            asked.finish()?;
            trouble(client).await
        }
        Tool::Report => {
            let path = asked.text("path")?;
            asked.finish()?;
            let mut part = Selection { depth: Some(0), ..Selection::default() };
            (part.without_inputs, part.without_details) = (path.is_none(), path.is_none());
            let path = path.map(|path| worker_path(&path));
            Ok(json!(client.report_part(path.as_deref(), &part).await?))
        }
        Tool::Why => {
            let path = asked.required("path")?;
            asked.finish()?;
            Ok(json!(client.why(&worker_path(&path)).await?))
        }
        Tool::Graph => {
            let (path, steps) = (asked.required("path")?, asked.number("steps", 5)?);
            asked.finish()?;
            let limits = (steps.unwrap_or(1), 20);
            Ok(json!(client.graph_near(&worker_path(&path), limits).await?))
        }
        Tool::Events => {
            let life = asked.text("life")?;
            let (since, most) =
                (asked.number("since", i64::MAX as u64)?, asked.number("most", EVENTS)?);
            asked.finish()?;
            events(client, (since, life.as_deref()), most.unwrap_or(50), |_| true).await
        }
        Tool::Changes => {
            let path = asked.text("path")?;
            asked.finish()?;
            match path {
                Some(path) => last_change(client, &path).await,
                None => events(client, (None, None), 50, is_note).await,
            }
        }
        Tool::Boot => {
            asked.finish()?;
            let mut boot = client.boot().await?;
            // Those that count are on the critical path.
            boot.workers.sort_by_key(|step| std::cmp::Reverse(step.took()));
            boot.workers.truncate(20);
            Ok(json!(boot))
        }
        Tool::Plan => {
            asked.finish()?;
            plan(client).await
        }
        Tool::Change(_) => Err(Refusal::usage("a change is no look")),
    }
}

async fn trouble(client: &Client) -> Result<Value, Refusal> {
    let part = Selection { only: Some(Only::Trouble), ..Selection::default() };
    let part = Selection { without_inputs: true, without_details: true, ..part };
    let report = engine(client.report_part(None, &part).await?)?;
    let mut rows = Vec::new();
    collect(&report, &mut rows);
    // What holds others back comes before what was parked; those held back are a number.
    let is_held = |worker: &&WorkerReport| worker.state == WorkerState::HeldBack;
    let held_back = rows.iter().filter(|worker| is_held(worker)).count();
    rows.retain(|worker| !is_held(worker));
    rows.sort_by_key(|worker| worker.state == WorkerState::Parked);
    let mut troubles = Vec::new();
    for (at, worker) in rows.iter().enumerate() {
        let why = if at < EXPLAINED { client.why(&worker.path).await.ok() } else { None };
        troubles.push(json!({
            "path": worker.path,
            "state": worker.state,
            "why": why.map(|why| why.text),
        }));
    }
    let counts = client.counts(None).await?;
    Ok(json!({"in_trouble": troubles, "held_back": held_back, "counts": counts}))
}

/// Collects the workers that are in trouble themselves.
fn collect<'a>(report: &'a EngineReport, rows: &mut Vec<&'a WorkerReport>) {
    for worker in report.workers.values() {
        match &worker.report {
            Some(Detail::Engine(nested)) => collect(nested, rows),
            _ => rows.push(worker),
        }
    }
}

/// Returns what the agent has found not as declared when it looked last, and has not mended.
async fn plan(client: &Client) -> Result<Value, Refusal> {
    let part = Selection { without_inputs: true, without_details: true, ..Selection::default() };
    let report = engine(client.report_part(Some(&worker_path(RESOURCES)), &part).await?)?;
    let (mut not_as_declared, mut more) = (Vec::new(), 0);
    let (mut as_declared, mut held_back, mut not_looked_at) = (0, 0, 0);
    for worker in report.workers.values() {
        match worker.state {
            WorkerState::HeldBack => held_back += 1,
            _ if worker.has_trouble() && not_as_declared.len() == EXPLAINED => more += 1,
            _ if worker.has_trouble() => not_as_declared.push(json!({
                "path": worker.path,
                "state": worker.state,
                "why": worker.degraded,
                "next_try": worker.until,
                "last_event": last_change(client, &worker.path).await?,
            })),
            WorkerState::Running => as_declared += 1,
            _ => not_looked_at += 1,
        }
    }
    Ok(json!({"not_as_declared": not_as_declared, "more": more, "held_back": held_back,
        "not_looked_at": not_looked_at, "as_declared": as_declared}))
}

fn engine(subject: Subject) -> Result<EngineReport, Refusal> {
    let nested = match subject {
        Subject::Engine(report) => return Ok(report),
        Subject::Worker(worker) => worker.report,
        _ => None,
    };
    match nested {
        Some(Detail::Engine(report)) => Ok(*report),
        _ => Err(Refusal::conflict("the agent reports no engine there")),
    }
}

async fn last_change(client: &Client, path: &str) -> Result<Value, Refusal> {
    match client.report(Some(&worker_path(path))).await? {
        Subject::Worker(worker) => match worker.report {
            Some(Detail::Value(report)) => Ok(report["last_event"].clone()),
            _ => Ok(Value::Null),
        },
        _ => Err(Refusal::usage("this is an engine; name one of its workers")),
    }
}

fn is_note(event: &Event) -> bool {
    event.event.get("type").is_some_and(|kind| kind == "noted")
}

/// Returns the last events, or those from a number on, at most so many.
async fn events(
    client: &Client,
    (since, life): (Option<u64>, Option<&str>),
    most: u64,
    is_meant: impl Fn(&Event) -> bool,
) -> Result<Value, Refusal> {
    let mut follower = client.events_since(since.unwrap_or(0), life).await?;
    let part = Selection { without_inputs: true, without_details: true, ..Selection::default() };
    // After the stream was opened: if the agent ends now, the stream ends too.
    let newest = engine(client.report_part(None, &part).await?)?.last_event();
    let (mut found, mut missed, mut at) = (Vec::new(), 0, None);
    let until = Instant::now() + READ_FOR;
    loop {
        // What the report knows is on its way; after that only what has come already.
        let is_due = at < newest && since <= newest;
        let wait = if is_due { until } else { (Instant::now() + QUIET).min(until) };
        match timeout_at(wait, follower.next()).await {
            Ok(line) => match line? {
                Some(EventLine::Event(event)) => {
                    at = Some(event.sequence);
                    if is_meant(&event) {
                        found.push(event);
                    }
                }
                Some(EventLine::Missed { missed: more }) => missed += more,
                None => break,
            },
            Err(_) => break,
        }
    }
    let left_out = found.len().saturating_sub(usize::try_from(most).unwrap_or(usize::MAX));
    // From a number on the first ones are given, so that the next call can go on; else the last ones.
    match since {
        Some(_) => found.truncate(found.len() - left_out),
        None => drop(found.drain(..left_out)),
    }
    let life = follower.life();
    Ok(json!({"life": life, "events": found, "left_out": left_out, "no_longer_kept": missed}))
}

/// Returns what the person is asked before a change.
pub(super) async fn question(client: &Client, wish: &Wish) -> Result<String, Refusal> {
    let Wish { act, path, why } = wish;
    let (act, path) = (*act, worker_path(path));
    let state = client.why(&path).await?;
    let path = state.why.steps.first().map_or(path, |step| step.path.clone());
    let all = (i64::MAX as u64, i64::MAX as u64);
    let near = client.graph_near(&path, all).await?;
    let others = near.bounced(act, &path);
    let inside = client.counts(Some(&path)).await.map_or(0, |counts| counts.total);
    let what = match act {
        Act::Bounce => "stop and start again",
        Act::Park => "stop, and keep stopped,",
        Act::Unpark => "let start again",
    };
    let first = others.iter().take(NAMED).map(|node| resource_name(&node.name));
    let first: Vec<_> = first.collect();
    let others = match others.len() {
        0 => "no other worker is stopped or bounced by that".to_owned(),
        count if count <= NAMED => format!("that stops or bounces also {}", first.join(", ")),
        count => {
            let more = count - NAMED;
            format!("that stops or bounces also {} and {more} more", first.join(", "))
        }
    };
    let inside = if inside == 0 { String::new() } else { format!(" with {inside} workers in it") };
    // The facts come first: the reason is the assistant's words, and may say anything.
    let text = format!(
        "{what} {path}{inside}? {others}. Now: {}. The assistant's reason, in its words: {why:?}",
        state.text
    );
    Ok(crate::print::one_line(&text).into_owned())
}

/// Carries out a change that the person has agreed to.
pub(super) async fn change(client: &Client, wish: Wish) -> Result<Value, Refusal> {
    let Wish { act, path, why } = wish;
    let request = ControlRequest { path: worker_path(&path), who: user(), why };
    Ok(json!(client.control(act, &request).await?))
}
