//! How values and errors become text for people.
use std::error::Error;

use crankcase_engine::WithCauses;
use serde_json::Value;

/// How many characters of a value an error shows.
const SHOWN: usize = 60;

/// How many lines an excerpt has.
const EXCERPT: usize = 100;

/// How many names of a circle an error shows.
const MAX_CIRCLE: usize = 20;

/// Returns the first and the last lines of a text that is too long for people, and how many lines
/// are between them.
pub(crate) fn excerpt(lines: &[String]) -> (&[String], usize, &[String]) {
    let left_out = lines.len().saturating_sub(EXCERPT);
    if left_out == 0 {
        return (lines, 0, &[]);
    }
    let (head, rest) = lines.split_at(EXCERPT / 2);
    (head, left_out, &rest[left_out..])
}

/// Returns the value as JSON, cut to what fits into an error: 60 characters.
pub fn shown(value: &Value) -> String {
    cut(&value.to_string())
}

/// Returns a text, cut to what fits into an error.
pub fn cut(text: &str) -> String {
    cut_after(text, SHOWN)
}

/// Returns a text, cut after so many characters.
pub fn cut_after(text: &str, count: usize) -> String {
    match text.char_indices().nth(count) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// Returns the error with its causes on one line.
pub(crate) fn chain(error: &(dyn Error + 'static)) -> String {
    WithCauses(error).to_string()
}

/// Asks for the name that is nearest to another one, if any is near.
pub(crate) fn did_you_mean<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> String {
    let nearest = nearest(name, names);
    nearest.map_or_else(String::new, |nearest| format!("; did you mean \"{nearest}\"?"))
}

/// Returns the candidate that `name` was most likely meant to be, if one is near.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(name, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= candidate.chars().count().div_ceil(3))
        .min()
        .map(|(_, candidate)| candidate)
}

/// Writes the path of a circle, the first name of which is also its last: 20 names at most, and how
/// many more there are.
pub fn circle<S: AsRef<str>>(names: &[S]) -> String {
    let join = |names: &[S]| names.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(" -> ");
    match names {
        [start @ .., last] if start.len() > MAX_CIRCLE => {
            let more = start.len() - MAX_CIRCLE;
            format!("{} -> ({more} more) -> {}", join(&start[..MAX_CIRCLE]), last.as_ref())
        }
        _ => join(names),
    }
}
