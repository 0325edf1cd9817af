//! Writes texts on the screen, escaped and cut to their places.

use std::borrow::Cow;

use crankcase_status::picture::Look;
use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier, Style};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::print::one_line;

/// Writes on a screen. All text goes through it, so that nothing reaches the terminal unescaped.
#[derive(Debug)]
pub(super) struct Paint<'a> {
    buffer: &'a mut Buffer,
    is_colored: bool,
}

/// Where a text is cut if it does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    Start,
    End,
}

impl<'a> Paint<'a> {
    pub(super) fn new(buffer: &'a mut Buffer, is_colored: bool) -> Self {
        buffer.reset();
        Self { buffer, is_colored }
    }

    pub(super) fn width(&self) -> usize {
        self.buffer.area.width.into()
    }

    pub(super) fn height(&self) -> usize {
        self.buffer.area.height.into()
    }

    /// Writes a text at a row and a column, in at most so many columns. Returns how many it has taken.
    pub(super) fn write(
        &mut self,
        (row, column): (usize, usize),
        width: usize,
        text: &str,
        style: Style,
    ) -> usize {
        let width = width.min(self.width().saturating_sub(column));
        if row >= self.height() || width == 0 {
            return 0;
        }
        let text = fit(text, width, Cut::End);
        let (x, y) = (column as u16, row as u16);
        let (end, _) = self.buffer.set_stringn(x, y, &text, width, style);
        usize::from(end) - column
    }

    /// Writes a text in the last columns of a row.
    pub(super) fn write_right(&mut self, row: usize, text: &str, style: Style) {
        let column = self.width().saturating_sub(one_line(text).width());
        self.write((row, column), self.width(), text, style);
    }

    /// Gives a whole row a style.
    pub(super) fn style_row(&mut self, row: usize, style: Style) {
        let area = self.buffer.area;
        if row < self.height() {
            self.buffer
                .set_style(ratatui::layout::Rect { y: row as u16, height: 1, ..area }, style);
        }
    }

    /// Writes a line with a title in it.
    pub(super) fn rule(&mut self, row: usize, title: &str) {
        let width = self.width();
        self.write((row, 0), width, &"─".repeat(width), dim());
        let title = fit(title, width.saturating_sub(6), Cut::End);
        self.write((row, 2), width, &format!(" {title} "), bold());
    }

    /// Returns the style of what looks so.
    pub(super) fn style(&self, look: Look) -> Style {
        let color = match look {
            Look::Plain => return Style::new(),
            Look::Well => Color::Green,
            Look::OnItsWay => Color::Yellow,
            Look::Off => Color::DarkGray,
            Look::Trouble => Color::Red,
        };
        if self.is_colored { Style::new().fg(color) } else { Style::new() }
    }

    /// Returns the style of what must not be overlooked.
    pub(super) fn alarm(&self) -> Style {
        self.style(Look::Trouble).add_modifier(Modifier::BOLD | Modifier::REVERSED)
    }
}

pub(super) fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

pub(super) fn dim() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

pub(super) fn reversed() -> Style {
    Style::new().add_modifier(Modifier::REVERSED)
}

/// Returns a text on one line of at most so many columns.
pub(super) fn fit(text: &str, width: usize, cut: Cut) -> Cow<'_, str> {
    let text = one_line(text);
    if text.width() <= width || width == 0 {
        return text;
    }
    let mut left = width - 1;
    let fits = |character: &char| match left.checked_sub(character.width().unwrap_or(0)) {
        Some(rest) => {
            left = rest;
            true
        }
        None => false,
    };
    match cut {
        Cut::End => {
            let start: String = text.chars().take_while(fits).collect();
            format!("{start}…").into()
        }
        Cut::Start => {
            let end: Vec<char> = text.chars().rev().take_while(fits).collect();
            format!("…{}", end.into_iter().rev().collect::<String>()).into()
        }
    }
}

/// Returns a text in lines of at most so many columns, broken between words where that is possible. The last of
/// `count` lines is cut.
pub(super) fn wrap(text: &str, width: usize, count: usize) -> Vec<String> {
    let text = one_line(text);
    let mut lines = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() && lines.len() + 1 < count && rest.width() > width {
        let mut columns = 0;
        let too_far = rest.char_indices().find(|(_, character)| {
            columns += character.width().unwrap_or(0);
            columns > width
        });
        let end = too_far.map_or(rest.len(), |(at, _)| at);
        let space = rest[..end].rfind(' ').filter(|at| *at > end / 2);
        // A character that is wider than the line stands in it nevertheless.
        let least = rest.chars().next().map_or(0, char::len_utf8);
        let (line, after) = rest.split_at(space.unwrap_or(end.max(least)));
        lines.push(line.to_owned());
        rest = after.trim_start();
    }
    if !rest.is_empty() {
        lines.push(fit(rest, width, Cut::End).into_owned());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::{Cut, fit, wrap};

    #[test]
    fn a_text_that_does_not_fit_is_cut_at_one_end() {
        assert_eq!(fit("resources/www", 13, Cut::Start), "resources/www");
        assert_eq!(fit("resources/www", 6, Cut::Start), "…s/www");
        assert_eq!(fit("resources/www", 6, Cut::End), "resou…");
        assert_eq!(fit("日本語", 5, Cut::End), "日本…");
        assert_eq!(fit("a\u{1b}[2J", 20, Cut::End), "a\\u{1b}[2J");
    }

    #[test]
    fn a_text_is_broken_between_words_and_the_last_line_is_cut() {
        assert_eq!(wrap("one two three four", 9, 2), ["one two", "three fo…"]);
        assert_eq!(wrap("0123456789", 4, 3), ["0123", "4567", "89"]);
        assert_eq!(wrap("日本", 1, 2).len(), 2);
        assert!(wrap("", 4, 3).is_empty());
    }
}
