//! The part of its trace that a failure shows.

use std::collections::HashMap;

use crankcase_engine::EventKind;

use super::seeds;
use super::trace::{Entry, Line, Trace, What};

/// How many lines a failure shows of the end of the trace.
const SHOWN: usize = 60;

/// How many lines it shows of the end after a story.
const SHOWN_AFTER: usize = 20;

/// The most lines of a story, of its beginning and of its end. The beginning matters most.
const STORY: [usize; 2] = [40, 20];

/// How many lines of a story may be alike but for numbers.
const ALIKE: usize = 3;

/// The part of its trace that a failure shows.
pub(super) struct Excerpt {
    /// The story of the worker that has not recovered, if the last lines do not tell it.
    pub(super) story: Vec<String>,
    /// The last lines.
    pub(super) tail: Vec<String>,
}

impl Excerpt {
    /// Returns the excerpt for a failure about these paths: one path, and the paths of what it
    /// uses.
    pub(super) fn of(trace: &Trace, about: &[String]) -> Self {
        let shown = seeds::lines().unwrap_or(SHOWN);
        let story = story(trace, about, trace.kept().saturating_sub(shown));
        let shown = if story.is_empty() { shown } else { seeds::lines().unwrap_or(SHOWN_AFTER) };
        let tail = trace.shown(trace.kept().saturating_sub(shown));
        Self { story, tail: tail.map(|line| line.to_string()).collect() }
    }
}

/// Returns the lines before this one since the first of these paths was last up: those about this
/// path and about the others. Returns nothing if there are none.
///
/// A worker that does not recover is tried again and again, so similar lines are left out.
fn story(trace: &Trace, about: &[String], before: usize) -> Vec<String> {
    let numbers: Vec<_> = about.iter().filter_map(|path| trace.number(path)).collect();
    let Some(subject) = about.first().and_then(|path| trace.number(path)) else {
        return Vec::new();
    };
    let came_up = |entry: &Entry| {
        let is_start = matches!(entry.what, What::Event(EventKind::Started { .. }));
        is_start && entry.about == Some(subject)
    };
    let from = trace.last(came_up).unwrap_or(0);
    let (mut seen, mut lines, mut left_out) = (HashMap::new(), Vec::new(), Vec::new());
    for line in trace.shown(from).take(before.saturating_sub(from)) {
        let about = line.entry.about;
        if about.is_some_and(|about| !numbers.contains(&about)) {
            continue;
        }
        let count = seen.entry(likeness(&line)).or_insert(0);
        *count += 1;
        if *count > ALIKE {
            left_out.push(line);
            continue;
        }
        lines.extend(leave_out(&mut left_out));
        lines.push(line.to_string());
    }
    lines.extend(leave_out(&mut left_out));
    let [begin, end] = STORY;
    if lines.len() > begin + end {
        let cut = begin..lines.len() - end;
        let count = cut.len();
        lines.splice(cut, [format!("             ... {count} more")]);
    }
    lines
}

/// Returns the text that similar lines have in common.
fn likeness(line: &Line<'_>) -> String {
    let said = line.said();
    match line.entry.what {
        // The times are written in various units.
        What::Event(EventKind::Waiting { .. }) => said.split("waits").take(1).collect(),
        _ => said.chars().filter(|character| !character.is_ascii_digit()).collect(),
    }
}

/// Returns the line in place of those that are left out.
fn leave_out(lines: &mut Vec<Line<'_>>) -> Option<String> {
    match &*std::mem::take(lines) {
        [] => None,
        [line] => Some(line.to_string()),
        lines => Some(format!("             ... {} more like these", lines.len())),
    }
}
