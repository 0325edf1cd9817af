//! The report for people: a line for each worker, or the whole of one.

use std::fmt::Display;
use std::io::{self, Write};
use std::time::Duration;

use anstyle::AnsiColor;
use crankcase_resources::front::resource_name;
use crankcase_resources::report::{AskedBy, LastEvent, ResourceTally};
use crankcase_resources::{Done, Event, Tally};
use crankcase_status::wire::{
    AttemptsReport, Counts, Detail, EngineReport, Origin, StartReport, Subject, WaitedFor,
    WorkerReport, WorkerState,
};
use crankcase_workers::one_line;
use serde::Serialize;
use serde_json::{Map, Value};

use super::out::Out;
use super::summary::{self, Condition};
use super::text::{first_line, indented};
use crate::paths::resource_path;

/// How many resources are listed of those that are as declared, and of those that are not.
const LISTED: usize = 40;

/// What is reported.
#[derive(Debug, Serialize)]
pub(crate) struct Reported {
    #[serde(flatten)]
    pub(crate) subject: Subject,
    /// How it has fared, if it is a resource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) resource: Option<ResourceTally>,
    /// How the resources have fared, if it is their engine.
    #[serde(skip)]
    pub(crate) tally: Tally,
}

/// Writes a report. Of an agent that keeps resources, that is how they are, and which other workers are in
/// trouble.
pub(crate) fn report(reported: &Reported, out: &mut Out<'_>) -> io::Result<()> {
    match &reported.subject {
        Subject::Engine(engine) => self::engine(engine, out),
        _ => report_all(reported, out),
    }
}

/// Writes a report with all workers.
pub(crate) fn report_all(reported: &Reported, out: &mut Out<'_>) -> io::Result<()> {
    match &reported.subject {
        Subject::Engine(engine) => whole_engine(engine, out),
        Subject::Worker(worker) => whole(worker, reported, out),
        _ => writeln!(out, "the agent reports what this version does not know"),
    }
}

/// Writes the report of an engine, as [`report`] does.
pub(crate) fn engine(engine: &EngineReport, out: &mut Out<'_>) -> io::Result<()> {
    let Some(resources) = summary::resources(engine) else { return whole_engine(engine, out) };
    let tally = summary::tally(engine);
    summary::summary(resources, &tally, out)?;
    let (well, amiss): (Vec<_>, Vec<_>) = resources
        .workers
        .iter()
        .partition(|(name, it)| Condition::of((name, it), &tally) == Condition::AsDeclared);
    if well.len() + amiss.len() <= LISTED {
        lines((resources, &tally), resources.workers.iter(), 1, out)?;
    } else {
        let listed = amiss.len().min(LISTED);
        lines((resources, &tally), amiss[..listed].iter().copied(), 1, out)?;
        for (rest, how) in [(amiss.len() - listed, "are not"), (well.len(), "are")] {
            if rest > 0 {
                writeln!(out, "  ... {rest} more {how} as declared; --all lists them")?;
            }
        }
    }
    let others = engine.workers.iter().filter(|(_, worker)| worker.has_trouble());
    let others: Vec<_> = others.filter(|(_, worker)| !summary::is_resources(worker)).collect();
    if others.is_empty() {
        return Ok(());
    }
    writeln!(out, "of the agent itself:")?;
    lines((engine, &tally), others.into_iter(), 1, out)
}

fn whole_engine(engine: &EngineReport, out: &mut Out<'_>) -> io::Result<()> {
    let tally = summary::tally(engine);
    if let Some(resources) = summary::resources(engine) {
        summary::summary(resources, &tally, out)?;
    }
    let count = engine.workers.len();
    writeln!(out, "{} {}, {count} workers", one_line(&engine.path), word(&engine.state))?;
    workers((engine, &tally), 1, out)
}

fn workers(
    (engine, tally): (&EngineReport, &Tally),
    depth: usize,
    out: &mut Out<'_>,
) -> io::Result<()> {
    if let Some(error) = &engine.error {
        writeln!(out, "{:indent$}error: {}", "", first_line(error), indent = depth * 2)?;
    }
    lines((engine, tally), engine.workers.iter(), depth, out)?;
    match engine.omitted {
        0 => Ok(()),
        omitted => writeln!(out, "{:indent$}... {omitted} left out", "", indent = depth * 2),
    }
}

/// Writes a line for each of some workers of an engine, and below it those of the engine that it is.
fn lines<'a>(
    (engine, tally): (&EngineReport, &Tally),
    workers_of: impl Iterator<Item = (&'a String, &'a WorkerReport)> + Clone,
    depth: usize,
    out: &mut Out<'_>,
) -> io::Result<()> {
    let indent = depth * 2;
    let names = workers_of.clone().map(|(name, _)| resource_name(name));
    let width = names.map(|name| name.chars().count()).max().unwrap_or(0);
    for (name, worker) in workers_of {
        write!(out, "{:indent$}{:width$}  ", "", one_line(&resource_name(name)))?;
        let is_resource = summary::is_of_resources(engine);
        match is_resource {
            true => out.colored(color(worker), Condition::of((name, worker), tally).words())?,
            false => out.colored(color(worker), word(&worker.state))?,
        }
        let fared = tally.resources.get(&resource_name(name)).filter(|_| is_resource);
        let notes = notes(engine, worker) + &fared.map(repairs).unwrap_or_default();
        writeln!(out, "{}{notes}", parked_by(worker))?;
        if let Some(Detail::Engine(nested)) = &worker.report {
            workers((nested, tally), depth + 1, out)?;
        }
    }
    Ok(())
}

/// Returns how often a resource was repaired, if it was.
fn repairs(fared: &ResourceTally) -> String {
    let last = fared.last_change.as_ref().filter(|_| fared.repairs > 0);
    let times =
        if fared.repairs == 1 { "once".to_owned() } else { format!("{} times", fared.repairs) };
    last.map(|last| format!(", repaired {times}, last changed {last}")).unwrap_or_default()
}

/// Returns who has parked a worker and why, as events say it.
fn parked_by(worker: &WorkerReport) -> String {
    let by = worker.parked_by.as_ref();
    by.map(|Origin { who, why, .. }| format!(" ({}: {})", one_line(who), one_line(why)))
        .unwrap_or_default()
}

/// Returns what is remarkable about a worker.
fn notes(engine: &EngineReport, worker: &WorkerReport) -> String {
    let mut notes = Vec::new();
    if worker.starts > 1 {
        notes.push(format!("started {} times", worker.starts));
    }
    if worker.state == WorkerState::Waiting {
        let unmet = worker.inputs.iter().filter(|input| input.state != WorkerState::Running);
        notes.extend(unmet.map(|input| {
            let how = match reason(engine, &input.name) {
                Some(reason) => format!("degraded: {reason}"),
                None => word(&input.state),
            };
            format!("{} is {how}", resource_name(&input.name))
        }));
    }
    notes.extend(worker.blocks_for.map(|seconds| format!("blocks its thread for {seconds:.1} s")));
    let until = worker.until.as_ref();
    if let Some(until) = until.filter(|_| worker.degraded.is_none()) {
        notes.push(format!("next try {until}"));
    }
    if engine.left_behind.contains(&worker.path) {
        notes.push("left behind".to_owned());
    }
    if let Some(degraded) = &worker.degraded {
        // Of a resource the state says so already.
        let is_said = summary::is_of_resources(engine);
        let cause = worker.waits_for.first().and_then(|name| reason(engine, name));
        let cause = cause.map(|cause| format!(": {cause}")).unwrap_or_default();
        let degraded = format!("{degraded}{cause}");
        notes.push(if is_said { degraded } else { format!("degraded: {degraded}") });
        notes.extend(until.map(|until| format!("next try {until}")));
    }
    if let Some(error) = worker.error.as_ref().filter(|_| !is_past(worker)) {
        notes.push(error.text.clone());
    }
    if let Some(reason) = &worker.reporter {
        notes.push(format!("no report of its own: {reason}"));
    }
    notes.iter().map(|note| format!(", {}", first_line(note))).collect()
}

/// Returns why a worker of an engine is degraded, if it is.
fn reason<'a>(engine: &'a EngineReport, name: &str) -> Option<&'a str> {
    engine.workers.get(name)?.degraded.as_deref()
}

/// Returns whether a worker's last error says nothing of what it does now.
fn is_past(worker: &WorkerReport) -> bool {
    matches!(
        worker.state,
        WorkerState::Running | WorkerState::HeldBack | WorkerState::Paused | WorkerState::Parked
    )
}

/// Writes all there is to say of one worker.
fn whole(
    worker: &WorkerReport,
    Reported { resource: fared, tally, .. }: &Reported,
    out: &mut Out<'_>,
) -> io::Result<()> {
    write!(out, "{} ", one_line(&resource_path(&worker.path)))?;
    out.colored(color(worker), word(&worker.state))?;
    writeln!(out, "{}", parked_by(worker))?;
    fared.iter().try_for_each(|fared| self::fared(fared, out))?;
    // A worker that tries again by itself does not fail: its failed attempts are counted below.
    let failures = Some(worker.failures).filter(|it| *it > 0 || worker.attempts.is_none());
    let counts = [
        ("generation", Some(worker.generation)),
        ("starts", Some(worker.starts)),
        ("failures in a row", failures),
    ];
    for (label, count) in counts {
        count.iter().try_for_each(|count| writeln!(out, "  {label}: {count}"))?;
    }
    let blocks_for = worker.blocks_for.map(|seconds| format!("{seconds:.1} s"));
    let error = worker.error.as_ref();
    let texts = [
        ("blocks its thread for", blocks_for.as_ref()),
        ("degraded", worker.degraded.as_ref()),
        ("started", worker.started.as_ref()),
        ("stopped", worker.stopped.as_ref()),
        ("waits until", worker.until.as_ref()),
        ("last error", error.map(|error| &error.text)),
        ("last error at", error.map(|error| &error.at)),
        ("backtrace", error.and_then(|error| error.backtrace.as_ref())),
        ("no report of its own", worker.reporter.as_ref()),
    ];
    for (label, text) in texts {
        if let Some(text) = text {
            writeln!(out, "  {label}: {}", indented(text, 4))?;
        }
    }
    starts(worker, out)?;
    for input in &worker.inputs {
        let state = word(&input.state);
        writeln!(
            out,
            "  input {} ({}) is {state}",
            one_line(&resource_name(&input.name)),
            input.need
        )?;
    }
    match &worker.report {
        Some(Detail::Engine(engine)) => workers((engine, tally), 1, out),
        Some(Detail::Value(value)) => own_report(value, out),
        None => Ok(()),
    }
}

/// Writes how a resource has fared.
fn fared(fared: &ResourceTally, out: &mut Out<'_>) -> io::Result<()> {
    writeln!(out, "  type: {}", one_line(&fared.kind))?;
    if !fared.tags.is_empty() {
        writeln!(out, "  tags: {}", one_line(&fared.tags.join(", ")))?;
    }
    let ResourceTally { changes, repairs, failures, restarts, looks, .. } = fared;
    writeln!(
        out,
        "  changes: {changes}, repairs: {repairs}, failures: {failures}, restarts: {restarts}, \
         looks: {looks}"
    )?;
    fared.last_change.iter().try_for_each(|at| writeln!(out, "  last change: {at}"))
}

/// Writes the failed attempts of a worker, and its first and its last start.
fn starts(worker: &WorkerReport, out: &mut Out<'_>) -> io::Result<()> {
    if let Some(AttemptsReport { count, first, last, .. }) = &worker.attempts {
        writeln!(out, "  failed attempts: {count}, the first at {first}, the last at {last}")?;
    }
    let first = worker.first_start.iter().map(|start| ("first start", start));
    let last = worker.last_start.iter().map(|start| ("last start", start));
    let mut starts = first.chain(last);
    starts.try_for_each(|(label, start)| writeln!(out, "  {label}: {}", self::start(start)))
}

/// Writes what a worker reports of itself.
fn own_report(value: &Value, out: &mut Out<'_>) -> io::Result<()> {
    let mut value = value.clone();
    let event = value.as_object_mut().and_then(|value| value.remove("last_event"));
    if let Some(event) = event.and_then(|event| serde_json::from_value(event).ok()) {
        last_event(&event, out)?;
    }
    if value.as_object().is_some_and(Map::is_empty) {
        return Ok(());
    }
    let text = serde_json::to_string_pretty(&value)?;
    text.lines().try_for_each(|line| writeln!(out, "  {}", one_line(line)))
}

/// Writes the last event of a resource.
fn last_event(LastEvent { at, event, .. }: &LastEvent, out: &mut Out<'_>) -> io::Result<()> {
    let Event { event: what, changes, done, notified_by, error, why, took_ms, .. } = event;
    write!(out, "  last event: {} at {at}", what.word())?;
    if let Some(pid) = event.pid {
        write!(out, ", pid {pid}")?;
    }
    writeln!(out, ", {took_ms} ms; {}", one_line(why))?;
    if let Some(error) = error {
        writeln!(out, "    {}", indented(error, 4))?;
    }
    for change in changes {
        writeln!(out, "    {}", one_line(&change.to_string()))?;
        for line in change.text.iter().flat_map(|text| text.lines()) {
            writeln!(out, "      {}", one_line(line))?;
        }
    }
    for Done { action, log } in done {
        writeln!(out, "    {}", one_line(&action.to_string()))?;
        for line in log {
            writeln!(out, "      | {}", one_line(line))?;
        }
    }
    if !notified_by.is_empty() {
        writeln!(out, "    notified by {}", one_line(&notified_by.join(", ")))?;
    }
    if let Some(AskedBy { who, why, .. }) = &event.asked_by {
        writeln!(out, "    asked for by {}: {}", one_line(who), one_line(why))?;
    }
    Ok(())
}

/// Returns a start in words.
fn start(start: &StartReport) -> String {
    let StartReport { generation, ready, .. } = start;
    let waited_for = match &start.waited_for {
        WaitedFor::Input(name) => format!(" after {}", one_line(&resource_name(name))),
        WaitedFor::Delay => " after its bounce delay".to_owned(),
        WaitedFor::Backoff => " after its backoff".to_owned(),
        WaitedFor::End => " after the end of its worker before".to_owned(),
        _ => String::new(),
    };
    let queued = start.queued().filter(|queued| queued.as_millis() > 0);
    let queued = queued.map(|queued| format!(", begun {} later", milliseconds(queued)));
    let took = match start.took() {
        Some(took) => format!(", up in {}", milliseconds(took)),
        None => ", not up".to_owned(),
    };
    let queued = queued.unwrap_or_default();
    format!("generation {generation}, ready at {ready}{waited_for}{queued}{took}")
}

fn milliseconds(duration: Duration) -> String {
    format!("{:.1} ms", duration.as_secs_f64() * 1000.0)
}

/// Writes how many workers of an engine are in which state.
pub(crate) fn counts(counts: &Counts, out: &mut Out<'_>) -> io::Result<()> {
    let states = counts.states.iter().map(|(state, count)| format!("{count} {}", word(state)));
    let states = states.collect::<Vec<_>>().join(", ");
    let trouble = match counts.trouble {
        0 => String::new(),
        trouble => format!("; {trouble} in trouble"),
    };
    writeln!(out, "{}: {} workers: {states}{trouble}", one_line(&counts.path), counts.total)?;
    counts.engines.iter().try_for_each(|nested| self::counts(nested, out))
}

/// Returns the colour that says how well a worker is.
fn color(worker: &WorkerReport) -> Option<AnsiColor> {
    Some(match worker.state {
        _ if worker.has_trouble() => AnsiColor::Red,
        WorkerState::Running | WorkerState::Done => AnsiColor::Green,
        _ => AnsiColor::Yellow,
    })
}

/// Returns a state in words; one that only a later version knows may be anything.
fn word(state: impl Display) -> String {
    one_line(&state.to_string().replace('_', " ")).into_owned()
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use crankcase_resources::Tally;
    use serde_json::{Value, json};

    /// Returns the report of a subject for people, without colours.
    fn shown(subject: Value) -> Result<String, Box<dyn Error>> {
        let mut text = Vec::new();
        let subject = serde_json::from_value(subject)?;
        super::report(
            &super::Reported { subject, resource: None, tally: Tally::default() },
            &mut super::Out::to(&mut text),
        )?;
        Ok(anstream::adapter::strip_str(std::str::from_utf8(&text)?).to_string())
    }

    /// Returns the report of a worker, with these fields beside those that each worker has.
    fn worker(name: &str, state: &str, more: Value) -> Value {
        let mut worker = json!({"path": format!("/agent/{name}"), "state": state, "generation": 1,
                                "starts": 1, "failures": 0, "is_essential": false});
        for (field, value) in more.as_object().into_iter().flatten() {
            worker[field] = value.clone();
        }
        worker
    }

    #[test]
    fn a_state_of_a_later_version_is_shown_by_its_word() -> Result<(), Box<dyn Error>> {
        let it = worker("it", "half_asleep\u{1b}", json!({}));
        let subject = json!({"engine": {"path": "/agent", "state": "dreaming", "is_healthy": true,
                                        "at": "then", "workers": {"it": it}}});

        assert_eq!(shown(subject)?, "/agent dreaming, 1 workers\n  it  half asleep\\u{1b}\n");
        Ok(())
    }

    #[test]
    fn who_waits_says_what_is_wrong_with_the_other_one() -> Result<(), Box<dyn Error>> {
        let input = json!({"name": "base", "need": "live", "output": "State", "state": "starting",
                           "was_present": false});
        let held = json!({"degraded": "held back by \"base\"", "waits_for": ["base"]});
        let workers = json!({
            "base": worker("base", "starting", json!({"degraded": "no disk"})),
            "held": worker("held", "held_back", held),
            "late": worker("late", "waiting", json!({"inputs": [input]})),
            "next": worker("next", "backing_off", json!({"until": "noon"})),
        });
        let subject = json!({"engine": {"path": "/agent", "state": "running", "is_healthy": true,
                                        "at": "then", "workers": workers}});

        let expected = "/agent running, 4 workers\n  base  starting, degraded: no disk\n  held  held \
                        back, degraded: held back by \"base\": no disk\n  late  waiting, base is \
                        degraded: no disk\n  next  backing off, next try noon\n";
        assert_eq!(shown(subject)?, expected);
        Ok(())
    }

    #[test]
    fn failed_attempts_stand_beside_no_failures_in_a_row() -> Result<(), Box<dyn Error>> {
        let attempts = json!({"attempts": {"count": 4, "first": "then", "last": "now"}});
        let tries = shown(json!({"worker": worker("it", "running", attempts)}))?;
        let rests = shown(json!({"worker": worker("it", "running", json!({}))}))?;

        let counts = "/agent/it running\n  generation: 1\n  starts: 1\n";
        let failed = "  failed attempts: 4, the first at then, the last at now\n";
        assert_eq!(tries, format!("{counts}{failed}"));
        assert_eq!(rests, format!("{counts}  failures in a row: 0\n"));
        Ok(())
    }
}
