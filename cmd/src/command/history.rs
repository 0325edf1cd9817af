//! The command `history`: shows what was changed, repaired and failed, and when.

use std::io::{self, Write};
use std::time::{Duration, SystemTime};

use anyhow::bail;
use crankcase_history::{History, Query, Recorded, Run};
use serde::Serialize;

use crate::global::Global;
use crate::observing::{history_file, now};
use crate::paths::resource_of;
use crate::{exit, print};

/// How many runs or events people are shown.
const SHOWN: usize = 100;

/// What of the record is shown.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The number of a run, or a resource: its name, or its path such as /agent/resources/www [default:
    /// the runs]
    #[arg(value_name = "RUN|PATH")]
    subject: Option<String>,
    /// Only what is not older: a duration such as 2h, or a time such as 2026-11-24 or
    /// 2026-11-24T08:00:00Z
    #[arg(long, value_name = "TIME", value_parser = since)]
    since: Option<Since>,
    /// Show all, and not only the last 100
    #[arg(long)]
    all: bool,
}

/// From when on.
#[derive(Debug, Clone, Copy)]
enum Since {
    Ago(Duration),
    At(SystemTime),
}

fn since(text: &str) -> Result<Since, String> {
    let ago = humantime::parse_duration(text).map(Since::Ago);
    let at = |text: &str| humantime::parse_rfc3339_weak(text).map(Since::At);
    let ago = ago.or_else(|_| at(text)).or_else(|_| at(&format!("{text}T00:00:00Z")));
    ago.map_err(|_| {
        "expected a duration such as 2h, or a time such as 2026-11-24T08:00:00Z".to_owned()
    })
}

/// The runs that are on record.
#[derive(Debug, Default, Serialize)]
struct Runs {
    runs: Vec<Run>,
}

/// What has happened in a run, or to a resource.
#[derive(Debug, Serialize)]
struct Events {
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<Run>,
    events: Vec<Recorded>,
}

pub(crate) fn run(global: &Global, args: &Args) -> anyhow::Result<u8> {
    let since = args.since.map(|since| match since {
        Since::Ago(ago) => now().checked_sub(ago).unwrap_or(SystemTime::UNIX_EPOCH),
        Since::At(at) => at,
    });
    let last = (!args.all).then_some(SHOWN);
    let query = Query { since, last, ..Query::default() };
    let history = History::open(&history_file(global.state_dir()?.path()))?;
    match &args.subject {
        None => {
            let runs = history.map(|history| history.runs(&query)).transpose()?;
            print::data(global.output, &Runs { runs: runs.unwrap_or_default() }, write_runs)?;
        }
        Some(subject) => {
            let events = events(history.as_ref(), subject, query)?;
            print::data(global.output, &events, write_events)?;
        }
    }
    Ok(exit::DONE)
}

fn events(history: Option<&History>, subject: &str, query: Query) -> anyhow::Result<Events> {
    let Ok(number) = subject.parse() else {
        let query = Query { resource: Some(resource_of(subject)), ..query };
        let events = history.map(|history| history.events(&query)).transpose()?;
        return Ok(Events { run: None, events: events.unwrap_or_default() });
    };
    let of = |run, last| Query { run, last, ..Query::default() };
    let runs = |query| history.map(|history| history.runs(&query)).transpose();
    let Some(run) = runs(of(Some(number), None))?.unwrap_or_default().pop() else {
        let last = runs(of(None, Some(1)))?.unwrap_or_default().pop();
        let last = last.map_or_else(String::new, |last| format!("; the last is {}", last.run));
        bail!("there is no run {number} on record{last}");
    };
    let query = Query { run: Some(number), ..query };
    let events = history.map(|history| history.events(&query)).transpose()?;
    Ok(Events { run: Some(run), events: events.unwrap_or_default() })
}

fn write_runs(Runs { runs }: &Runs, out: &mut print::Out<'_>) -> io::Result<()> {
    if runs.is_empty() {
        return writeln!(out, "nothing is on record");
    }
    runs.iter().try_for_each(|run| write_run(run, out))
}

fn write_run(run: &Run, out: &mut print::Out<'_>) -> io::Result<()> {
    let Run { run: number, mode, site, began, outcome, counts, .. } = run;
    let counts: Vec<_> = counts.iter().map(|(event, count)| format!("{count} {event}")).collect();
    let counts = if counts.is_empty() { "nothing to do".to_owned() } else { counts.join(", ") };
    let outcome = outcome.as_deref().unwrap_or("not ended");
    let site = print::one_line(site);
    writeln!(out, "{number:>5}  {began}  {mode:<5}  {outcome}: {counts}  ({site})")
}

fn write_events(Events { run, events }: &Events, out: &mut print::Out<'_>) -> io::Result<()> {
    run.iter().try_for_each(|run| write_run(run, out))?;
    if events.is_empty() && run.is_none() {
        return writeln!(out, "nothing is on record");
    }
    for Recorded { run: number, at, event, .. } in events {
        match run {
            Some(_) => write!(out, "{at}  ")?,
            None => write!(out, "{number:>5}  {at}  ")?,
        }
        write!(out, "{} {}", event.event, print::one_line(&event.resource))?;
        let what = [Some(&event.differences), event.error.as_ref()];
        for text in what.into_iter().flatten().filter(|text| !text.is_empty()) {
            write!(out, ": {}", print::one_line(text))?;
        }
        if !event.actions.is_empty() {
            write!(out, "; by {}", print::one_line(&event.actions.join(", ")))?;
        }
        writeln!(out, "; {}, {} ms", event.why, event.took_ms)?;
    }
    Ok(())
}
