//! What the log says of changes, of programs and of the output of actions.

use std::time::Duration;

use crate::base::text::{cut_after, excerpt};
use crate::report::flood::Flood;
use crate::report::observer::{Event, EventKind};

/// How many characters the names of actions have at most.
const MAX_NAMES: usize = 200;

/// Logs that a resource was changed: what differed, by which actions, why it was looked at, and how long
/// that took.
pub(crate) fn log_change(flood: &Flood, happened: &Event, took: Duration) {
    let Event { event, resource, differences: what, actions, why, .. } = happened;
    let by = cut_after(&actions.join(", "), MAX_NAMES);
    // Milliseconds, with one digit after the point.
    let took_ms = (took.as_secs_f64() * 10_000.0).round() / 10.0;
    match event {
        _ if !flood.admits() => {}
        EventKind::Repaired => tracing::info!(resource, what, by, why, took_ms, "repaired"),
        EventKind::Refreshed => tracing::info!(resource, by, why, took_ms, "refreshed"),
        _ => tracing::info!(resource, what, by, why, took_ms, "changed"),
    }
}

/// Logs how the program of a resource has ended by itself.
pub(crate) fn log_crash(happened: &Event) {
    let Event { resource, pid, why, .. } = happened;
    tracing::warn!(resource, pid, why, "ended");
}

/// Logs that the program of a resource was started, adopted, reloaded or ended, and why.
pub(crate) fn log_program(happened: &Event) {
    let Event { event, resource, pid, why, .. } = happened;
    match event {
        EventKind::Started => tracing::info!(resource, pid, why, "started"),
        EventKind::Restarted => tracing::info!(resource, pid, why, "restarted"),
        EventKind::Reloaded => tracing::info!(resource, pid, why, "reloaded"),
        EventKind::Adopted => tracing::info!(resource, pid, why, "adopted"),
        _ => tracing::info!(resource, pid, why, "ended"),
    }
}

/// Logs that the program of a resource runs on while the agent ends.
pub(crate) fn log_left(resource: &str, pid: Option<i32>) {
    tracing::info!(resource, pid, "left running for the next agent");
}

/// Logs what actions said, all of it or its beginning and its end: a command that fails for ever must
/// not fill the disk with its output.
pub(crate) fn log(resource: &str, lines: &[String]) {
    let each = |lines: &[String]| {
        for line in lines {
            tracing::info!(resource, line, "an action said");
        }
    };
    let (head, left_out, tail) = excerpt(lines);
    each(head);
    if left_out > 0 {
        tracing::info!(resource, lines = left_out, "an action said more");
    }
    each(tail);
}
