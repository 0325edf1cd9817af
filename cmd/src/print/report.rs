//! The report for people: a line for each worker, or the whole of one.

use std::fmt::Display;
use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use crankcase_resources::resource_name;
use crankcase_status::wire::{Detail, EngineReport, Origin, Subject, WorkerReport, WorkerState};

use super::summary::Condition;
use super::{first_line, indented, one_line, summary};
use crate::paths::{RESOURCES, resource_path};

/// How many resources are listed of those that are as declared, and of those that are not.
const LISTED: usize = 40;

/// Writes a report. Of an agent that keeps resources, that is how they are, and which other workers are in
/// trouble.
pub(crate) fn report(subject: &Subject, out: &mut dyn Write) -> io::Result<()> {
    match subject {
        Subject::Engine(engine) => self::engine(engine, out),
        subject => report_all(subject, out),
    }
}

/// Writes a report with all workers.
pub(crate) fn report_all(subject: &Subject, out: &mut dyn Write) -> io::Result<()> {
    match subject {
        Subject::Engine(engine) => whole_engine(engine, out),
        Subject::Worker(worker) => whole(worker, out),
        _ => writeln!(out, "the agent reports what this version does not know"),
    }
}

/// Writes the report of an engine, as [`report`] does.
pub(crate) fn engine(engine: &EngineReport, out: &mut dyn Write) -> io::Result<()> {
    let Some(resources) = summary::resources(engine) else { return whole_engine(engine, out) };
    summary::summary(resources, out)?;
    let (well, amiss): (Vec<_>, Vec<_>) = resources
        .workers
        .iter()
        .partition(|(_, resource)| Condition::of(resource) == Condition::AsDeclared);
    if well.len() + amiss.len() <= LISTED {
        lines(resources, resources.workers.iter(), 1, out)?;
    } else {
        let listed = amiss.len().min(LISTED);
        lines(resources, amiss[..listed].iter().copied(), 1, out)?;
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
    lines(engine, others.into_iter(), 1, out)
}

/// Leaves out of a report the resources that are in none of some conditions.
pub(crate) fn only(mut subject: Subject, conditions: &[Condition]) -> Subject {
    if let Subject::Engine(engine) = &mut subject
        && let Some(resources) = engine.workers.get_mut(RESOURCES)
        && let Some(Detail::Engine(resources)) = &mut resources.report
    {
        resources.workers.retain(|_, resource| conditions.contains(&Condition::of(resource)));
    }
    subject
}

fn whole_engine(engine: &EngineReport, out: &mut dyn Write) -> io::Result<()> {
    if let Some(resources) = summary::resources(engine) {
        summary::summary(resources, out)?;
    }
    let count = engine.workers.len();
    writeln!(out, "{} {}, {count} workers", one_line(&engine.path), word(&engine.state))?;
    workers(engine, 1, out)
}

fn workers(engine: &EngineReport, depth: usize, out: &mut dyn Write) -> io::Result<()> {
    if let Some(error) = &engine.error {
        writeln!(out, "{:indent$}error: {}", "", first_line(error), indent = depth * 2)?;
    }
    lines(engine, engine.workers.iter(), depth, out)
}

/// Writes a line for each of some workers of an engine, and below it those of the engine that it is.
fn lines<'a>(
    engine: &EngineReport,
    workers_of: impl Iterator<Item = (&'a String, &'a WorkerReport)> + Clone,
    depth: usize,
    out: &mut dyn Write,
) -> io::Result<()> {
    let indent = depth * 2;
    let names = workers_of.clone().map(|(name, _)| resource_name(name));
    let width = names.map(|name| name.chars().count()).max().unwrap_or(0);
    for (name, worker) in workers_of {
        write!(out, "{:indent$}{:width$}  ", "", one_line(&resource_name(name)))?;
        let state = match summary::is_of_resources(engine) {
            true => in_color(worker, Condition::of(worker).words()),
            false => colored(worker),
        };
        writeln!(out, "{state}{}{}", parked_by(worker), notes(engine, worker))?;
        if let Some(Detail::Engine(nested)) = &worker.report {
            workers(nested, depth + 1, out)?;
        }
    }
    Ok(())
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
        notes.extend(
            unmet.map(|input| format!("{} is {}", resource_name(&input.name), word(&input.state))),
        );
    }
    notes.extend(worker.blocks_for.map(|seconds| format!("blocks its thread for {seconds:.1} s")));
    let until = worker.until.as_ref();
    if let Some(until) = until.filter(|_| worker.degraded.is_none()) {
        notes.push(format!("until {until}"));
    }
    if engine.left_behind.contains(&worker.path) {
        notes.push("left behind".to_owned());
    }
    if let Some(reason) = &worker.degraded {
        // Of a resource the state says so already.
        let is_said = summary::is_of_resources(engine);
        notes.push(if is_said { reason.clone() } else { format!("degraded: {reason}") });
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

/// Returns whether a worker's last error says nothing of what it does now.
fn is_past(worker: &WorkerReport) -> bool {
    matches!(worker.state, WorkerState::Running | WorkerState::Parked)
}

/// Writes all there is to say of one worker.
fn whole(worker: &WorkerReport, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "{} {}{}",
        one_line(&resource_path(&worker.path)),
        colored(worker),
        parked_by(worker)
    )?;
    let counts = [
        ("generation", worker.generation),
        ("starts", worker.starts),
        ("failures in a row", worker.failures),
    ];
    for (label, count) in counts {
        writeln!(out, "  {label}: {count}")?;
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
        Some(Detail::Engine(engine)) => workers(engine, 1, out),
        Some(Detail::Value(value)) => {
            let text = serde_json::to_string_pretty(value)?;
            text.lines().try_for_each(|line| writeln!(out, "  {}", one_line(line)))
        }
        None => Ok(()),
    }
}

/// Returns a worker's state in its colour.
fn colored(worker: &WorkerReport) -> String {
    in_color(worker, &word(&worker.state))
}

/// Returns a word in the colour that says how well a worker is.
fn in_color(worker: &WorkerReport, word: &str) -> String {
    let color = match worker.state {
        _ if worker.has_trouble() => AnsiColor::Red,
        WorkerState::Running | WorkerState::Done => AnsiColor::Green,
        _ => AnsiColor::Yellow,
    };
    let style = Style::new().fg_color(Some(color.into()));
    format!("{style}{word}{style:#}")
}

/// Returns a state in words; one that only a later version knows may be anything.
fn word(state: impl Display) -> String {
    one_line(&state.to_string().replace('_', " ")).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn a_state_of_a_later_version_is_shown_by_its_word() -> Result<(), Box<dyn std::error::Error>> {
        let worker = json!({"path": "/agent/it", "state": "half_asleep\u{1b}", "generation": 1,
                            "starts": 1, "failures": 0, "is_essential": false});
        let subject = json!({"engine": {"path": "/agent", "state": "dreaming", "is_healthy": true,
                                        "at": "then", "workers": {"it": worker}}});

        let mut text = Vec::new();
        super::report(&serde_json::from_value(subject)?, &mut text)?;

        let text = anstream::adapter::strip_str(std::str::from_utf8(&text)?).to_string();
        assert_eq!(text, "/agent dreaming, 1 workers\n  it  half asleep\\u{1b}\n");
        Ok(())
    }
}
