//! What the tools answer that change nothing.

use std::time::Duration;

use anyhow::bail;
use crankcase_status::Client;
use crankcase_status::wire::{
    Detail, EngineReport, Event, EventLine, Only, Selection, Subject, WorkerReport, WorkerState,
};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use super::asked::Asked;
use super::tools::Tool;
use crate::exit::{self, ExitError};
use crate::paths::{RESOURCES, worker_path};

/// How many events an answer has at most.
const EVENTS: u64 = 200;

/// How long an answer with events may take, and after how long without one it is taken for whole.
const READ_FOR: Duration = Duration::from_secs(10);
const QUIET: Duration = Duration::from_millis(100);

/// Of how many workers in trouble it is told why.
const EXPLAINED: usize = 20;

/// Answers a tool that changes nothing.
pub(super) async fn look(client: &Client, tool: Tool, mut asked: Asked) -> anyhow::Result<Value> {
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
        Tool::Change(_) => bail!(ExitError::new(exit::USAGE, "a change is no look")),
    }
}

async fn trouble(client: &Client) -> anyhow::Result<Value> {
    let part = Selection { only: Some(Only::Trouble), ..Selection::default() };
    let part = Selection { without_inputs: true, without_details: true, ..part };
    let report = engine(client.report_part(None, &part).await?)?;
    let mut rows = Vec::new();
    collect(&report, &mut rows);
    // Workers that hold others back come before workers that a person holds; workers that are held
    // back are only counted.
    let is_held = |worker: &&WorkerReport| worker.state == WorkerState::HeldBack;
    let held_back = rows.iter().filter(|worker| is_held(worker)).count();
    rows.retain(|worker| !is_held(worker));
    rows.sort_by_key(|worker| matches!(worker.state, WorkerState::Parked | WorkerState::Paused));
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
async fn plan(client: &Client) -> anyhow::Result<Value> {
    let part = Selection { without_inputs: true, without_details: true, ..Selection::default() };
    let report = engine(client.report_part(Some(&worker_path(RESOURCES)), &part).await?)?;
    let (mut not_as_declared, mut more) = (Vec::new(), 0);
    let (mut as_declared, mut held_back, mut parked, mut not_looked_at) = (0, 0, 0, 0);
    for worker in report.workers.values() {
        match worker.state {
            WorkerState::HeldBack => held_back += 1,
            WorkerState::Parked => parked += 1,
            _ if worker.has_trouble() && not_as_declared.len() == EXPLAINED => more += 1,
            _ if worker.has_trouble() => not_as_declared.push(json!({
                "path": worker.path,
                "state": worker.state,
                "why": worker.degraded.as_ref().or(worker.error.as_ref().map(|it| &it.text)),
                "next_try": worker.until,
                // It may be gone by now.
                "last_event": last_change(client, &worker.path).await.ok(),
            })),
            WorkerState::Running => as_declared += 1,
            _ => not_looked_at += 1,
        }
    }
    Ok(json!({"not_as_declared": not_as_declared, "more": more, "held_back": held_back,
        "parked": parked, "not_looked_at": not_looked_at, "as_declared": as_declared}))
}

fn engine(subject: Subject) -> anyhow::Result<EngineReport> {
    let nested = match subject {
        Subject::Engine(report) => return Ok(report),
        Subject::Worker(worker) => worker.report,
        _ => None,
    };
    match nested {
        Some(Detail::Engine(report)) => Ok(*report),
        _ => bail!(ExitError::new(exit::CONFLICT, "the agent reports no engine there")),
    }
}

async fn last_change(client: &Client, path: &str) -> anyhow::Result<Value> {
    match client.report(Some(&worker_path(path))).await? {
        Subject::Worker(worker) => match worker.report {
            Some(Detail::Value(report)) => Ok(report["last_event"].clone()),
            _ => Ok(Value::Null),
        },
        _ => bail!(ExitError::new(exit::USAGE, "this is an engine; name one of its workers")),
    }
}

fn is_note(event: &Event) -> bool {
    event.kind() == "noted"
}

/// Returns the last events, or those from a number on, at most so many.
async fn events(
    client: &Client,
    (since, life): (Option<u64>, Option<&str>),
    most: u64,
    is_meant: impl Fn(&Event) -> bool,
) -> anyhow::Result<Value> {
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
