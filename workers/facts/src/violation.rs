//! What is wrong with a document or with the facts that it leads to.

use std::fmt;

use crankcase_workers::printable;
use serde_json::Value;

use crate::pointer::Pointer;

/// How many violations are told; those beyond are counted.
pub(crate) const MOST: usize = 1_000;

/// How many names are compared with a wrong one to find the nearest.
const MOST_COMPARED: usize = 1_000;

/// How many names are listed.
const MOST_LISTED: usize = 10;

/// How long a value may be that is shown, in characters.
const LONGEST: usize = 200;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// Where it is in the document that was given, such as `/ops/3/2/port`; none if nothing there is the cause.
    pub document: Option<Pointer>,
    /// The path of the fact; none if it is about the document itself.
    pub path: Option<Pointer>,
    /// What is wrong.
    pub message: String,
    /// The value at fault, as JSON; none if it is a secret, or if nothing is there.
    pub value: Option<String>,
    /// What would be right, in words.
    pub help: Option<String>,
    /// Whether the value is a secret, so that the line that it stands on is not shown.
    pub is_secret: bool,
}

impl Violation {
    /// Returns what is wrong at a place of the document.
    pub(crate) fn of_document(at: &Pointer, message: impl Into<String>) -> Self {
        let (document, path, message) = (Some(at.clone()), None, message.into());
        Self { document, path, message, value: None, help: None, is_secret: false }
    }

    /// Returns what is wrong with a fact.
    pub(crate) fn of_fact(path: &Pointer, message: impl Into<String>) -> Self {
        let (document, path, message) = (None, Some(path.clone()), message.into());
        Self { document, path, message, value: None, help: None, is_secret: false }
    }

    /// Names the value at fault.
    pub(crate) fn value(mut self, value: &Value) -> Self {
        self.value = Some(shown(value));
        self
    }

    /// Says what would be right.
    pub(crate) fn help(mut self, help: Option<String>) -> Self {
        self.help = help;
        self
    }

    /// Says where it is in the document, if that is known.
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

/// Everything that is wrong with a change of the facts. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", Listing(self))]
pub struct Invalid {
    /// What is wrong; at most 1,000 are kept.
    pub violations: Vec<Violation>,
    /// How many more there are.
    pub omitted: usize,
}

/// Collects violations: the first are kept, and those beyond are counted.
#[derive(Debug, Default)]
pub(crate) struct Sink {
    pub(crate) violations: Vec<Violation>,
    omitted: usize,
}

impl Sink {
    /// Adds a violation, which is made only if it is kept.
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

/// Returns the candidate that is nearest to a wrong name, as a question.
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

/// Lists the first names, as a help; none if there are none.
pub(crate) fn there_are(names: &[&str]) -> Option<String> {
    let listed = names.iter().take(MOST_LISTED).copied().collect::<Vec<_>>().join(", ");
    match names.len() {
        0 => None,
        1..=MOST_LISTED => Some(format!("there are {listed}")),
        more => Some(format!("there are {listed} and {} more", more - MOST_LISTED)),
    }
}
