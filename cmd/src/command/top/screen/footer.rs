//! The lines at the bottom: what is asked, what was said last, or the keys.

use ratatui::style::Style;

use crate::command::top::model::Model;
use crate::command::top::paint::{Cut, Paint, bold, dim, fit, reversed, wrap};
use crate::command::top::prompt::{Prompt, Wish};
use crate::command::top::row::shown;
use crate::command::top::table::Order;

/// The columns from which on all keys have their full space.
const WIDE: usize = 88;

/// Draws from a row on what a wish would do, and asks for its reason or its confirmation.
pub(super) fn ask(wish: &Wish, (reason, is_last): (&str, bool), row: usize, paint: &mut Paint<'_>) {
    let width = paint.width();
    paint.rule(row, &format!("{} {}", wish.verb(), shown(&wish.path)));
    let lines = wrap(&wish.consequence(), width, 2);
    for (line, text) in lines.iter().enumerate() {
        paint.write((row + 1 + line, 0), width, text, Style::new());
    }
    let cursor = if is_last { "" } else { "_" };
    let reason = fit(reason, width - 9, Cut::Start);
    paint.write((row + 3, 0), width, &format!("reason: {reason}{cursor}"), Style::new());
    let hint = match (is_last, &wish.preview) {
        (false, _) => "Enter goes on   Esc leaves all as it is",
        (true, None) => "Esc leaves all as it is",
        (true, Some(_)) => "y does it   any other key leaves all as it is",
    };
    paint.write((row + 5, 0), width, hint, bold());
}

/// Draws the last line: what was said last, or the keys.
pub(super) fn keys(model: &Model, paint: &mut Paint<'_>) {
    let (row, width) = (paint.height() - 1, paint.width());
    if let Some(Prompt::Filter(filter)) = &model.prompt {
        let text = format!("filter: {filter}_   Enter keeps it   Esc clears it");
        paint.write((row, 0), width, &text, bold());
        return;
    }
    if let Some(message) = &model.message {
        paint.write((row, 0), width, message, bold());
        return;
    }
    let other = match model.table.order() {
        Order::Trouble => ("t", "tree"),
        Order::Tree => ("t", "trouble"),
    };
    let mut keys = match model.sheet {
        Some(_) => vec![("q", "quit"), ("Esc", "back"), ("Enter", "report"), ("g", "graph")],
        None => {
            vec![("q", "quit"), other, ("/", "filter"), ("Enter", "report"), ("g", "graph")]
        }
    };
    if !model.is_read_only {
        // There is no room for both, and only one of them does something.
        let pause = if model.is_paused() { ("r", "resume") } else { ("P", "pause") };
        keys.extend([("b", "bounce"), ("p", "park"), ("u", "unpark"), pause]);
    }
    // On a narrow screen there is less space between them.
    let gap = if width < WIDE { 1 } else { 2 };
    let mut column = 0;
    for (key, word) in keys {
        column += paint.write((row, column), width, key, bold());
        column += 1 + paint.write((row, column + 1), width, word, dim()) + gap;
    }
    if model.sheet.is_none() && !model.table.filter().is_empty() {
        paint.write_right(row, &format!(" filter: {}", model.table.filter()), reversed());
    }
}
