//! The problems of a manifest, and the error that lists them.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use crankcase_resources::front::{Place, Secrets};
use crankcase_workers::is_unprintable;

use crate::manifest::lines::Source;

/// How many problems one error reports at most. Further ones are counted.
const MAX_PROBLEMS: usize = 1_000;
/// How many problems a brief text shows, such as the health of a worker.
const MAX_BRIEF: usize = 20;
/// How many files beside the manifest are named as being at fault.
const MAX_BESIDE: usize = 100;
/// How many pairs of names are compared at most to find nearest right names, per load.
const MAX_COMPARISONS: usize = 50_000;
/// How long a name in a message may be, in characters.
const MAX_QUOTED: usize = 80;
/// The longest name, in bytes, for which a nearest right one is looked for.
const MAX_COMPARED: usize = 64;

/// Everything that is wrong with a manifest.
///
/// Nothing was executed when a caller meets it.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{}", Listing(problems, *omitted))]
pub struct ManifestError {
    problems: Vec<Problem>,
    omitted: usize,
    beside: Vec<PathBuf>,
    is_of_machine: bool,
}

impl ManifestError {
    /// Returns the problems, ordered by place; there is at least one.
    ///
    /// At most 1,000 are kept, and the text says how many more there are.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Returns the first problems, one on each line, and how many more there are.
    pub fn brief(&self) -> String {
        let mut lines: Vec<_> = self.problems.iter().take(MAX_BRIEF).map(Problem::brief).collect();
        match self.problems.len() + self.omitted - lines.len() {
            0 => {}
            more => lines.push(format!("and {more} more problems; check lists them")),
        }
        lines.join("\n")
    }

    /// Returns the files beside the manifest that are missing or wrong, at most 100. Once they have
    /// changed, the same manifest may be valid.
    pub fn beside(&self) -> &[PathBuf] {
        &self.beside
    }

    /// Returns the same without the lines at the places, which may hold secrets.
    #[must_use]
    pub fn without_lines(mut self) -> Self {
        self.problems.iter_mut().for_each(|problem| problem.line = None);
        self
    }

    /// Returns whether the manifest itself is right, and the machine lacks something that its types
    /// need, such as an image or the program that runs it.
    pub fn is_of_machine(&self) -> bool {
        self.is_of_machine
    }

    /// Returns how many more problems there are than were kept.
    pub fn omitted(&self) -> usize {
        self.omitted
    }
}

/// One thing that is wrong with a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// The file with the problem; none if the problem is in no file.
    pub file: Option<PathBuf>,
    /// The place in the file; none if the problem is with the file as a whole.
    pub place: Option<Place>,
    /// What is wrong.
    pub message: String,
    /// The expected form, or other advice.
    pub help: Option<String>,
    /// The line at the place, to be shown under the message.
    pub line: Option<String>,
    /// The value at fault, if it is one: as it was written if it is a text, else as JSON.
    pub value: Option<String>,
    /// A right value that is near the wrong one, if there is one.
    pub suggestion: Option<String>,
}

/// The parts of a problem beside its message.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hint {
    pub(crate) help: Option<String>,
    pub(crate) value: Option<String>,
    pub(crate) suggestion: Option<String>,
}

impl Hint {
    /// Names the value at fault.
    pub(crate) fn of(value: impl Into<String>) -> Self {
        Self { value: Some(value.into()), ..Self::default() }
    }

    /// Adds this help, unless there is one.
    pub(crate) fn or(mut self, help: impl Into<String>) -> Self {
        if self.help.is_none() {
            self.help = Some(help.into());
        }
        self
    }

    /// Sets the text to write in place of the value.
    pub(crate) fn suggest(mut self, suggestion: Option<&str>) -> Self {
        self.suggestion = suggestion.map(str::to_owned);
        self
    }
}

impl Problem {
    /// Returns the problem on one line, without the line that it stands on.
    pub fn brief(&self) -> String {
        let help = self.help.as_ref().map_or_else(String::new, |help| format!("; {help}"));
        format!("{}{help}", AtPlace(self))
    }
}

impl Problem {
    fn redact(&mut self, secrets: &Secrets) {
        if self.line.as_deref().is_some_and(has_escapes) {
            self.line = None;
        }
        let Self { message, help, line, value, suggestion, .. } = self;
        let others = [help, line, value, suggestion].into_iter().flatten();
        for text in [message].into_iter().chain(others) {
            *text = secrets.redact(text).into_owned();
        }
    }
}

/// Returns whether a line of a manifest may hold a quoted text that is written otherwise than it
/// reads: a search for a secret does not find it there.
fn has_escapes(line: &str) -> bool {
    line.contains('\\') || line.contains("''")
}

/// Writes the place and the message.
struct AtPlace<'a>(&'a Problem);

impl fmt::Display for AtPlace<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Problem { file, place, message, .. } = self.0;
        match (place, file) {
            (Some(place), _) => write!(f, "{}: {message}", escaped(&place.to_string())),
            (None, Some(file)) => {
                write!(f, "{}: {message}", escaped(&file.display().to_string()))
            }
            (None, None) => f.write_str(message),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        AtPlace(self).fmt(f)?;
        if let (Some(place), Some(line)) = (&self.place, &self.line) {
            let blank: String = line
                .chars()
                .map(|character| if character == '\t' { '\t' } else { ' ' })
                .chain(std::iter::repeat(' '))
                .take(place.column.saturating_sub(1))
                .collect();
            write!(f, "\n  | {line}\n  | {blank}^")?;
        }
        match &self.help {
            Some(help) => write!(f, "\n  help: {help}"),
            None => Ok(()),
        }
    }
}

struct Listing<'a>(&'a [Problem], usize);

impl fmt::Display for Listing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{problem}")?;
        }
        match self.1 {
            0 => Ok(()),
            omitted => write!(f, "\nand {omitted} more problems"),
        }
    }
}

/// The treatment of problems that are due to facts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FactProblems {
    /// They are reported with all others: the manifest is refused.
    Told,
    /// They are noted, and found again when the resource is kept.
    Deferred,
}

/// Where the problems of one config go.
pub(crate) struct Found<'a> {
    problems: &'a mut Problems,
    /// The attributes whose problems are deferred.
    deferred_attributes: &'a BTreeSet<String>,
    deferred: Problems,
}

impl<'a> Found<'a> {
    /// Returns a value that reports all problems, or defers those of the attributes that follow
    /// from facts.
    pub(crate) fn new(
        problems: &'a mut Problems,
        of_facts: &'a BTreeSet<String>,
        fact_problems: FactProblems,
    ) -> Self {
        static NONE: BTreeSet<String> = BTreeSet::new();
        let deferred_attributes = match fact_problems {
            FactProblems::Told => &NONE,
            FactProblems::Deferred => of_facts,
        };
        Self { problems, deferred_attributes, deferred: Problems::default() }
    }

    /// Returns a value that reports all problems.
    pub(crate) fn all(problems: &'a mut Problems) -> Self {
        static NONE: BTreeSet<String> = BTreeSet::new();
        Self { problems, deferred_attributes: &NONE, deferred: Problems::default() }
    }

    /// Returns the problems that are deferred.
    pub(crate) fn into_deferred(self) -> Vec<Problem> {
        self.deferred.into_vec()
    }

    /// Returns whether the problems of any attribute are deferred.
    pub(crate) fn defers_any(&self) -> bool {
        !self.deferred_attributes.is_empty()
    }

    /// Returns where the problems go that are deferred.
    pub(crate) fn deferred(&mut self) -> &mut Problems {
        &mut self.deferred
    }

    /// Returns where all other problems go.
    pub(crate) fn told(&mut self) -> &mut Problems {
        self.problems
    }

    /// Returns where the problems of an attribute go.
    pub(crate) fn of(&mut self, attribute: &str) -> &mut Problems {
        if self.deferred_attributes.contains(attribute) {
            &mut self.deferred
        } else {
            &mut *self.problems
        }
    }
}

/// Collects problems, so that all are reported at once.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    problems: Vec<Problem>,
    omitted: usize,
    beside: Vec<PathBuf>,
    /// How many of them are of the machine.
    of_machine: usize,
    /// The variables that are set and nowhere written, as long as no expression has used them.
    unused: Vec<String>,
    comparisons: Cell<usize>,
}

impl Problems {
    /// Returns them in the order in which they were noted.
    pub(crate) fn into_vec(self) -> Vec<Problem> {
        self.problems
    }

    /// Notes a problem without a place in a file.
    pub(crate) fn note(&mut self, message: impl fmt::Display) {
        self.push((None, None), message, Hint::default(), None);
    }

    /// Notes a problem without a place in a file, with a hint.
    pub(crate) fn note_with_hint(&mut self, message: impl fmt::Display, hint: Hint) {
        self.push((None, None), message, hint, None);
    }

    /// Notes a variable that some expression has to use.
    pub(crate) fn expect_use(&mut self, variable: &str) {
        self.unused.push(variable.to_owned());
    }

    /// Notes that an expression uses a variable.
    pub(crate) fn used(&mut self, variable: &str) {
        self.unused.retain(|unused| unused != variable);
    }

    /// Counts problems of which only the number is known.
    pub(crate) fn omit(&mut self, count: usize) {
        self.omitted += count;
    }

    /// Notes that an expression uses all variables.
    pub(crate) fn used_all(&mut self) {
        self.unused.clear();
    }

    /// Notes a problem of each variable that nothing has used; `names` are those of all variables.
    pub(crate) fn tell_unused<'a>(&mut self, names: impl Iterator<Item = &'a str> + Clone) {
        for name in std::mem::take(&mut self.unused) {
            let hint = self.nearest(&name, names.clone().filter(|other| *other != name));
            let hint = hint.or(format!("declare it among the \"vars\" of the manifest: {name}:"));
            let message = format!("--var: no manifest has a variable {}", quoted(&name));
            self.note_with_hint(message, hint);
        }
    }

    /// Notes a problem of a file as a whole.
    pub(crate) fn of_file(&mut self, file: &Path, message: impl fmt::Display) {
        self.push((Some(file.to_owned()), None), message, Hint::default(), None);
    }

    /// Notes that a file beside the manifest is at fault.
    pub(crate) fn blame_file(&mut self, path: PathBuf) {
        if self.beside.len() < MAX_BESIDE && !self.beside.contains(&path) {
            self.beside.push(path);
        }
    }

    /// Notes a problem at a byte of a source.
    pub(crate) fn at(&mut self, source: &Source, offset: usize, message: impl fmt::Display) {
        self.with_hint(source, offset, message, Hint::default());
    }

    /// Notes a problem at a byte of a source, with a hint.
    pub(crate) fn with_hint(
        &mut self,
        source: &Source,
        offset: usize,
        message: impl fmt::Display,
        hint: Hint,
    ) {
        if self.only_counts() {
            return;
        }
        // Until the line is read, nobody knows the secrets on it.
        let line = source.line_at(offset).filter(|line| !line.contains("sensitive:"));
        let place = source.place(offset);
        let place = (Some(place.file.clone()), Some(place));
        self.push(place, message, hint, line.map(str::to_owned));
    }

    /// Notes a problem on a line that may hold a secret, so the line is not shown.
    pub(crate) fn without_line(
        &mut self,
        source: &Source,
        offset: usize,
        message: impl fmt::Display,
        hint: Hint,
    ) {
        let place = source.place(offset);
        self.push((Some(place.file.clone()), Some(place)), message, hint, None);
    }

    /// Notes a problem of the machine, which lacks something.
    pub(crate) fn of_machine(
        &mut self,
        source: &Source,
        offset: usize,
        message: impl fmt::Display,
        hint: Hint,
    ) {
        self.of_machine += 1;
        self.with_hint(source, offset, message, hint);
    }

    /// Names a wrong name as the value at fault, and the candidate that is nearest to it.
    pub(crate) fn nearest<'a>(
        &self,
        name: &str,
        candidates: impl IntoIterator<Item = &'a str>,
    ) -> Hint {
        let hint = Hint::of(name);
        if name.len() > MAX_COMPARED || self.is_full() {
            return hint;
        }
        let furthest = (name.chars().count() + 1) / 3;
        let nearest = candidates
            .into_iter()
            .take_while(|_| {
                self.comparisons.set(self.comparisons.get() + 1);
                self.comparisons.get() <= MAX_COMPARISONS
            })
            .filter(|candidate| candidate.len().abs_diff(name.len()) <= furthest * 4)
            .map(|candidate| (strsim::osa_distance(name, candidate), candidate))
            .filter(|(distance, _)| *distance <= furthest)
            .min()
            .map(|(_, candidate)| candidate);
        let help = nearest.map(|nearest| format!("did you mean {}?", quoted(nearest)));
        Hint { help, ..hint.suggest(nearest) }
    }

    /// Ends the collection: an error if there was a problem, without these secrets.
    pub(crate) fn finish(self, secrets: &Secrets) -> Result<(), ManifestError> {
        let is_of_machine = self.of_machine == self.count();
        let Self { mut problems, omitted, beside, .. } = self;
        if problems.is_empty() {
            return Ok(());
        }
        if !secrets.is_empty() {
            problems.iter_mut().for_each(|problem| problem.redact(secrets));
        }
        problems.sort_by_cached_key(|problem| {
            let at = problem.place.as_ref().map(|place| (place.line, place.column));
            (problem.file.clone(), at)
        });
        problems.dedup();
        Err(ManifestError { problems, omitted, beside, is_of_machine })
    }

    /// Counts a problem that there is no room for; returns whether that was so.
    pub(crate) fn only_counts(&mut self) -> bool {
        self.omitted += usize::from(self.is_full());
        self.is_full()
    }

    /// Adds one that was found before.
    pub(crate) fn add(&mut self, problem: Problem) {
        if !self.only_counts() {
            self.problems.push(problem);
        }
    }

    /// Adds the problems that were noted elsewhere.
    pub(crate) fn append(&mut self, others: Self) {
        self.omitted += others.omitted;
        self.of_machine += others.of_machine;
        for path in others.beside {
            self.blame_file(path);
        }
        for problem in others.problems {
            match self.is_full() {
                true => self.omitted += 1,
                false => self.problems.push(problem),
            }
        }
    }

    /// Returns the first one, if there is any.
    pub(crate) fn first(&self) -> Option<&Problem> {
        self.problems.first()
    }

    /// Returns how many problems were noted.
    pub(crate) fn count(&self) -> usize {
        self.problems.len() + self.omitted
    }

    fn is_full(&self) -> bool {
        self.problems.len() >= MAX_PROBLEMS
    }

    fn push(
        &mut self,
        (file, place): (Option<PathBuf>, Option<Place>),
        message: impl fmt::Display,
        hint: Hint,
        line: Option<String>,
    ) {
        if self.only_counts() {
            return;
        }
        let Hint { help, value, suggestion } = hint;
        let (message, help) = (escaped(&message.to_string()), help.as_deref().map(escaped));
        self.problems.push(Problem { file, place, message, help, line, value, suggestion });
    }
}

/// Writes out the characters that would move the cursor, or have a text look otherwise than it is.
pub(crate) fn escaped(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if is_unprintable(character) {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

/// Quotes a name for a message, at a bounded length.
pub(crate) fn quoted(name: &str) -> String {
    let mut characters = name.chars();
    let start: String = characters.by_ref().take(MAX_QUOTED).collect();
    let rest = if characters.next().is_some() { "..." } else { "" };
    format!("\"{}{rest}\"", start.escape_debug())
}
