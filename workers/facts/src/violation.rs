//! Violations: faults in a document, or in the facts after a change.

use std::fmt;

use crankcase_workers::printable;
use serde_json::Value;

use crate::pointer::Pointer;

/// The most violations that are kept; further ones are only counted.
pub(crate) const MOST: usize = 1_000;

/// The most names that are compared with a wrong name to find the nearest one.
const MOST_COMPARED: usize = 1_000;

/// The most names that a help text lists.
const MOST_LISTED: usize = 10;

/// The longest text of a shown value, in characters.
const LONGEST: usize = 200;

/// One fault in a document, or in the facts after a change.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// The place in the given document, such as `/ops/3/2/port`; none if no place there is the cause.
    pub document: Option<Pointer>,
    /// The path of the fact; none if the document itself is at fault.
    pub path: Option<Pointer>,
    /// What is wrong.
    pub message: String,
    /// The value at fault, as JSON; none if it is a secret, or if there is no value.
    pub value: Option<String>,
    /// The expected form, in words.
    pub help: Option<String>,
    /// Whether the value is a secret. Its line in the document is then not shown.
    pub is_secret: bool,
}

impl Violation {
    /// Returns a violation at a place in the document.
    pub(crate) fn of_document(at: &Pointer, message: impl Into<String>) -> Self {
        let (document, path, message) = (Some(at.clone()), None, message.into());
        Self { document, path, message, value: None, help: None, is_secret: false }
    }

    /// Returns a violation of a fact.
    pub(crate) fn of_fact(path: &Pointer, message: impl Into<String>) -> Self {
        let (document, path, message) = (None, Some(path.clone()), message.into());
        Self { document, path, message, value: None, help: None, is_secret: false }
    }

    /// Adds the value at fault.
    pub(crate) fn value(mut self, value: &Value) -> Self {
        self.value = Some(shown(value));
        self
    }

    /// Adds the help text.
    pub(crate) fn help(mut self, help: Option<String>) -> Self {
        self.help = help;
        self
    }

    /// Adds the place in the document, if it is known.
    pub(crate) fn written_at(mut self, document: Option<Pointer>) -> Self {
        self.document = document.or(self.document);
        self
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = self.path.as_ref().or(self.document.as_ref()) {
            write!(f, "{}: ", printable(&path.to_string()))?;
        }
        f.write_str(&printable(&self.message))?;
        match &self.help {
            Some(help) => write!(f, "; {}", printable(help)),
            None => Ok(()),
        }
    }
}

/// All violations of a change. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", Listing(self))]
pub struct Invalid {
    /// The violations; at most 1,000 are kept.
    pub violations: Vec<Violation>,
    /// The number of violations that were not kept.
    pub omitted: usize,
}

/// Collects violations: keeps the first ones, and counts the others.
#[derive(Debug, Default)]
pub(crate) struct Sink {
    pub(crate) violations: Vec<Violation>,
    pub(crate) omitted: usize,
}

impl Sink {
    /// Adds a violation. Builds it only if it is kept.
    pub(crate) fn push(&mut self, violation: impl FnOnce() -> Violation) {
        if self.violations.len() < MOST {
            self.violations.push(violation());
        } else {
            self.omitted += 1;
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.violations.is_empty()
    }
}

impl From<Sink> for Invalid {
    fn from(Sink { violations, omitted }: Sink) -> Self {
        Self { violations, omitted }
    }
}

impl From<Vec<Violation>> for Invalid {
    fn from(violations: Vec<Violation>) -> Self {
        let mut sink = Sink::default();
        violations.into_iter().for_each(|violation| sink.push(|| violation));
        sink.into()
    }
}

impl From<Violation> for Invalid {
    fn from(violation: Violation) -> Self {
        Self { violations: vec![violation], omitted: 0 }
    }
}

struct Listing<'a>(&'a Invalid);

impl fmt::Display for Listing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Invalid { violations, omitted } = self.0;
        for (index, violation) in violations.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{violation}")?;
        }
        match omitted {
            0 => Ok(()),
            more => write!(f, "\nand {more} more"),
        }
    }
}

/// Returns a value as JSON of bounded length.
pub(crate) fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

/// Returns a question with the candidate that is nearest to a wrong name; none if no candidate is near.
pub(crate) fn did_you_mean<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    if name.len() > 64 {
        return None;
    }
    let furthest = (name.chars().count() + 1) / 3;
    let distances = candidates.into_iter().take(MOST_COMPARED);
    let distances = distances.map(|candidate| (strsim::osa_distance(name, candidate), candidate));
    let nearest = distances.filter(|(distance, _)| *distance <= furthest).min()?.1;
    Some(format!("did you mean {nearest:?}?"))
}

/// Returns a help text that lists the first names; none if there are no names.
pub(crate) fn there_are(names: &[&str]) -> Option<String> {
    let listed = names.iter().take(MOST_LISTED).copied().collect::<Vec<_>>().join(", ");
    match names.len() {
        0 => None,
        1..=MOST_LISTED => Some(format!("there are {listed}")),
        more => Some(format!("there are {listed} and {} more", more - MOST_LISTED)),
    }
}
