//! The screen of one worker, or of its graph.

use crankcase_status::picture::Line;

use super::keys::Key;
use super::question::{Answer, Of};

/// The screen of one worker or of its graph.
#[derive(Debug)]
pub(super) struct Sheet {
    pub(super) path: String,
    pub(super) of: Of,
    pub(super) lines: Vec<Line>,
    /// The first line and the first column that are seen.
    pub(super) first: (usize, usize),
    pub(super) error: Option<String>,
    /// Whether what is shown has changed since it was asked for.
    pub(super) is_stale: bool,
}

impl Sheet {
    pub(super) fn new(of: Of, path: String) -> Self {
        Self { path, of, lines: Vec::new(), first: (0, 0), error: None, is_stale: true }
    }

    /// Whether an event of this path may change what is shown: the worker's own, one of its engine, which has its
    /// inputs and its users, or one in it.
    pub(super) fn is_about(&self, path: &str) -> bool {
        let engine = |path: &str| path.rsplit_once('/').map(|(engine, _)| engine.to_owned());
        let is_inside = path.strip_prefix(&*self.path).is_some_and(|rest| rest.starts_with('/'));
        path == self.path || is_inside || engine(path) == engine(&self.path)
    }

    /// Takes what was asked for.
    pub(super) fn filled(&mut self, answer: Result<Answer, String>) {
        match answer {
            Ok(Answer::Lines(lines)) => {
                self.first.0 = self.first.0.min(lines.len().saturating_sub(1));
                (self.lines, self.error) = (lines, None);
            }
            Ok(_) => {}
            Err(error) => self.error = Some(error),
        }
    }

    /// Takes a key. `page` is how many lines are seen.
    pub(super) fn key(&mut self, key: &Key, page: usize) {
        let (line, column) = &mut self.first;
        let last = self.lines.len().saturating_sub(page);
        match key {
            Key::Up | Key::Character('k') => *line = line.saturating_sub(1),
            Key::Down | Key::Character('j') => *line = (*line + 1).min(last),
            Key::PageUp => *line = line.saturating_sub(page),
            Key::PageDown => *line = (*line + page).min(last),
            Key::Home => (*line, *column) = (0, 0),
            Key::End => *line = last,
            Key::Left => *column = column.saturating_sub(8),
            Key::Right => *column += 8,
            _ => {}
        }
    }
}
