//! Texts from elsewhere, made fit for their place in the output.

use std::fmt::Display;

use crankcase_workers::one_line;
use serde_json::Value;

/// The longest value on one line, in characters.
const LONGEST: usize = 100;

/// The most things that are named one by one.
const MOST_NAMED: usize = 20;

/// Returns the first line of a text, and how many more there are.
pub(crate) fn first_line(text: &str) -> String {
    let mut lines = text.lines();
    let first = one_line(lines.next().unwrap_or_default()).into_owned();
    match lines.count() {
        0 => first,
        1 => format!("{first} (and 1 more line)"),
        more => format!("{first} (and {more} more lines)"),
    }
}

/// Returns a text of several lines, with each line but the first indented.
pub(crate) fn indented(text: &str, indent: usize) -> String {
    let lines: Vec<_> = text.lines().map(one_line).collect();
    lines.join(&format!("\n{:indent$}", ""))
}

/// Returns a value on one line, cut after 100 characters.
pub(crate) fn short(value: &Value) -> String {
    let text = value.to_string();
    let text = one_line(&text);
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.into_owned(),
    }
}

/// Returns the first 20 of some things, each on one line, and how many more there are, if there are more.
pub(crate) fn first_of<T: Display>(all: &[T]) -> (Vec<String>, Option<String>) {
    let first = all.iter().take(MOST_NAMED).map(|it| one_line(&it.to_string()).into_owned());
    let more = match all.len().saturating_sub(MOST_NAMED) {
        0 => None,
        more => Some(format!("and {more} more")),
    };
    (first.collect(), more)
}

#[cfg(test)]
mod tests {
    use super::{first_line, first_of, indented};

    #[test]
    fn lines_of_a_text_are_counted_and_indented() {
        assert_eq!(first_line("a\u{1b}\nb\nc"), "a\\u{1b} (and 2 more lines)");
        assert_eq!(indented("a\nb\u{1b}\n", 2), "a\n  b\\u{1b}");
    }

    #[test]
    fn no_more_than_the_first_of_many_things_are_named() {
        for (count, named, rest) in [
            (0, 0, None),
            (20, 20, None),
            (21, 20, Some("and 1 more")),
            (30, 20, Some("and 10 more")),
        ] {
            let (first, more) = first_of(&vec!["a\u{1b}"; count]);

            assert_eq!((first, more.as_deref()), (vec!["a\\u{1b}".to_owned(); named], rest));
        }
    }
}
