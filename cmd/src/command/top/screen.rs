//! Draws the model. Only what is seen is looked at, so that a table of any length is drawn in the same time.

mod footer;

use std::time::SystemTime;

use crankcase_status::picture::Look;
use crankcase_status::wire::Event;
use ratatui::buffer::Buffer;
use ratatui::style::Style;
use tokio::time::Instant;

use super::model::Model;
use super::paint::{Cut, Paint, bold, dim, fit, reversed, wrap};
use super::prompt::Prompt;
use super::question::Of;
use super::row::{Row, shown};
use super::sheet::Sheet;
use super::table::{Order, Tally};
use super::words;

/// The smallest screen that is drawn on, in columns and rows.
const SMALLEST: (usize, usize) = (60, 16);

/// The columns from which on all is said in full.
const FULL: usize = 72;

/// How many lines tell why.
const WHY: usize = 3;

/// How many events are shown.
const EVENTS: usize = 4;

/// The rows above the table, and those below it: two titles, why, the events and the keys.
const ABOVE: usize = 2;
const BELOW: usize = 1 + WHY + 1 + EVENTS + 1;

/// The columns after the path: how wide they are, with the space after them.
const STATE: usize = 12;
const GENERATION: usize = 5;
const FAILURES: usize = 5;
const SINCE: usize = 6;

/// When it is drawn, and how.
#[derive(Debug, Clone, Copy)]
pub(super) struct View {
    pub(super) now: Instant,
    pub(super) wall: SystemTime,
    pub(super) is_colored: bool,
}

/// Returns how many rows of a table or a sheet are on a screen of this height.
pub(super) fn page(model: &Model, height: usize) -> usize {
    // A sheet has no lines of why.
    let why = if model.sheet.is_some() { 1 + WHY } else { 0 };
    (height + why).saturating_sub(ABOVE + BELOW).max(1)
}

/// Whether a screen is too small for all parts.
pub(super) fn is_too_small((width, height): (usize, usize)) -> bool {
    width < SMALLEST.0 || height < SMALLEST.1
}

/// Draws all.
pub(super) fn draw(model: &Model, buffer: &mut Buffer, view: View) {
    let mut paint = Paint::new(buffer, view.is_colored);
    let (width, height) = (paint.width(), paint.height());
    if is_too_small((width, height)) {
        let text = format!("top needs {}x{}; this is {width}x{height}", SMALLEST.0, SMALLEST.1);
        paint.write((0, 0), width, &text, bold());
        paint.write((1, 0), width, "q quits", dim());
        return;
    }
    head(model, &mut paint, view);
    let rows = page(model, height);
    match &model.sheet {
        Some(sheet) => self::sheet(sheet, rows, &mut paint),
        None => table(model, rows, &mut paint, view),
    }
    let lower = height - EVENTS - 2;
    match &model.prompt {
        Some(Prompt::Reason(wish, reason)) => footer::ask(wish, (reason, false), lower, &mut paint),
        Some(Prompt::Confirm(wish, reason)) => footer::ask(wish, (reason, true), lower, &mut paint),
        _ => {
            events(model, lower, &mut paint, view);
            footer::keys(model, &mut paint);
        }
    }
}

/// Draws the line of counts, or that there is no agent.
fn head(model: &Model, paint: &mut Paint<'_>, view: View) {
    if let Some((since, why)) = &model.lost {
        let age = words::age(*since, view.wall);
        let text = format!(" NO AGENT: all below is {age} old. Looking for one: {why}");
        paint.write((0, 0), paint.width(), &text, Style::new());
        paint.style_row(0, paint.alarm());
        return;
    }
    let Tally { all, trouble, off, on_their_way, well } = model.table.tally();
    let mut column = paint.write((0, 0), paint.width(), &format!("{all} workers"), bold());
    for (look, count, word) in [
        (Look::Trouble, trouble, "in trouble"),
        (Look::OnItsWay, on_their_way, "on their way"),
        (Look::Off, off, "off"),
        (Look::Well, well, "well"),
    ] {
        let style = if count > 0 { paint.style(look) } else { dim() };
        let word = if paint.width() < FULL { "" } else { word };
        let text = format!("  {} {count} {word}", look.sign());
        column += paint.write((0, column), paint.width(), &text, style);
    }
    if let Some(waits) = model.waits(view.now) {
        paint.write_right(0, &format!(" no answer for {} s ", waits.as_secs()), paint.alarm());
    } else if model.is_cut {
        paint.write_right(0, " too many: only trouble ", reversed());
    }
}

fn table(model: &Model, rows: usize, paint: &mut Paint<'_>, view: View) {
    let columns = Columns::of(paint.width());
    let order = match model.table.order() {
        Order::Trouble => "worker, trouble first",
        Order::Tree => "worker",
    };
    let cells = ["", order, "state", " gen", "fails", "since", "cause"];
    columns.write(paint, 1, cells, bold());
    let picked = model.table.position();
    // A page is turned when its border is passed.
    let first = (picked / rows * rows).min(model.table.len().saturating_sub(rows));
    for (line, row) in model.table.rows(first, rows).enumerate() {
        draw_row(row, model.table.order(), (ABOVE + line, columns), paint, view);
        if first + line == picked {
            paint.style_row(ABOVE + line, reversed());
        }
    }
    if model.table.len() == 0 {
        let text = match model.table.filter() {
            "" => "waiting for the first report ...".to_owned(),
            filter => format!("no worker has {filter:?} in its path or its state"),
        };
        paint.write((ABOVE, 2), paint.width(), &text, dim());
    }
    let hidden = model.table.len().saturating_sub(first + rows);
    why(model, (ABOVE + rows, hidden), paint, view);
}

fn draw_row(row: &Row, order: Order, at: (usize, Columns), paint: &mut Paint<'_>, view: View) {
    let (line, columns) = at;
    let path = match order {
        Order::Trouble => fit(&row.shown, columns.path - 1, Cut::Start).into_owned(),
        Order::Tree => {
            let mark = if row.is_engine { "/" } else { "" };
            format!("{:indent$}{}{mark}", "", row.name(), indent = 2 * row.depth())
        }
    };
    let since = row.since.map(|since| words::age(since, view.wall)).unwrap_or_default();
    let failures = if row.failures == 0 { String::new() } else { row.failures.to_string() };
    let (generation, failures) = (format!("{:>4}", row.generation), format!("{failures:>5}"));
    let since = format!("{since:>5}");
    let cells = ["", &path, "", &generation, &failures, &since, &row.cause];
    columns.write(paint, line, cells, Style::new());
    let style = paint.style(row.look);
    paint.write((line, 0), 1, row.look.sign(), style);
    paint.write((line, 2 + columns.path), STATE - 1, &row.state, style);
}

/// How wide the columns are that are not always the same.
#[derive(Debug, Clone, Copy)]
struct Columns {
    path: usize,
}

impl Columns {
    fn of(width: usize) -> Self {
        Self { path: width * 3 / 8 }
    }

    fn write(self, paint: &mut Paint<'_>, row: usize, cells: [&str; 7], style: Style) {
        let widths = [2, self.path, STATE, GENERATION, FAILURES + 1, SINCE, paint.width()];
        let mut column = 0;
        for (cell, width) in cells.into_iter().zip(widths) {
            paint.write((row, column), width - 1, cell, style);
            column += width;
        }
    }
}

/// Draws why the picked worker is as it is. `hidden` rows are below those that are seen.
fn why(model: &Model, (row, hidden): (usize, usize), paint: &mut Paint<'_>, view: View) {
    let Some(picked) = model.table.picked() else { return paint.rule(row, "why") };
    paint.rule(row, &format!("why {}", picked.shown));
    if hidden > 0 {
        paint.write_right(row, &format!(" ↓ {hidden} more workers "), dim());
    }
    let explained = model.explained.as_ref().filter(|it| it.path == picked.path);
    let Some(explained) = explained else { return };
    let width = paint.width();
    let lines = match &explained.why {
        Ok(why) => {
            let chain = words::chain(why).map(|chain| fit(&chain, width, Cut::End).into_owned());
            let cause = words::cause(why, view.now - explained.at);
            let left = WHY - usize::from(chain.is_some());
            chain.into_iter().chain(wrap(&cause, width, left)).collect()
        }
        Err(error) => wrap(error, width, WHY),
    };
    for (line, text) in lines.iter().enumerate() {
        paint.write((row + 1 + line, 0), width, text, Style::new());
    }
}

/// Draws a worker's own screen, or a graph.
fn sheet(sheet: &Sheet, rows: usize, paint: &mut Paint<'_>) {
    let of = match sheet.of {
        Of::Report => "",
        Of::Near => "what is near ",
        Of::Engine => "the graph of ",
    };
    paint.rule(1, &format!("{of}{}", shown(&sheet.path)));
    let (first, column) = sheet.first;
    let (width, mut row) = (paint.width(), ABOVE);
    if let Some(error) = &sheet.error {
        paint.write((row, 0), width, error, paint.style(Look::Trouble));
        row += 1;
    } else if sheet.lines.is_empty() {
        paint.write((row, 0), width, "asking ...", dim());
    }
    for line in sheet.lines.iter().skip(first).take(rows + ABOVE - row) {
        let mut skipped = column;
        let mut at = 0;
        for span in &line.spans {
            let count = span.text.chars().count();
            let text: String = span.text.chars().skip(skipped).collect();
            skipped = skipped.saturating_sub(count);
            at += paint.write((row, at), width, &text, paint.style(span.look));
        }
        row += 1;
    }
    let hidden = sheet.lines.len().saturating_sub(first + rows);
    if hidden > 0 {
        paint.write_right(1, &format!(" ↓ {hidden} more lines "), dim());
    }
}

/// Draws the newest events: of the worker that has the screen, or of all.
fn events(model: &Model, row: usize, paint: &mut Paint<'_>, view: View) {
    let of = model.sheet.as_ref().map(|sheet| &sheet.path);
    paint.rule(row, if of.is_some() { "its events" } else { "events" });
    let is_shown = |event: &&Event| of.is_none_or(|path| event.path == *path);
    let newest: Vec<_> = model.events.iter().rev().filter(is_shown).take(EVENTS).collect();
    for (line, event) in newest.into_iter().rev().enumerate() {
        paint.write(
            (row + 1 + line, 0),
            paint.width(),
            &words::event(event, view.wall),
            Style::new(),
        );
    }
}

#[cfg(test)]
mod tests;
