//! Files that hold values without expressions, with the place of each value.

use std::fmt;
use std::path::{Path, PathBuf};

use crankcase_resources::dynamic::Shape;
use crankcase_resources::front::Secrets;
use crankcase_workers::{pointer_segment, read_pointer_segment};
use serde_json::Value;

use crate::manifest::bounds::Bounds;
use crate::manifest::lines::Source;
use crate::manifest::node::{Data, Entry, Map, Node};
use crate::manifest::problem::{Hint, ManifestError, Problems, quoted};
use crate::manifest::source::{self, Pipe};
use crate::manifest::yaml;

/// A value that was read from files, with the place of each of its parts.
///
/// # Examples
///
/// ```
/// use crankcase_manifest::{DataError, DataFiles};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// let file = folder.path().join("facts.yaml");
/// std::fs::write(&file, "racks:\n  0: {hosts: {}}\n")?;
/// let files = DataFiles::read(&[file])?;
/// assert_eq!(files.value(), &serde_json::json!({"racks": {"0": {"hosts": {}}}}));
/// let error = files.refuse([DataError::new("/racks/0", "there is no such rack")], 0, &Default::default());
/// assert!(error.to_string().contains("facts.yaml:2:3: there is no such rack"));
/// # Ok(()) }
/// ```
pub struct DataFiles {
    documents: Vec<(Source, Node)>,
    value: Value,
}

/// Shows the names of the value, and no other part of it.
impl fmt::Debug for DataFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("DataFiles");
        shown.field("value", &Shape::of(&self.value)).finish_non_exhaustive()
    }
}

/// A problem with a value that was read from files.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DataError {
    /// The part of the value that is wrong: a JSON pointer. If that part is missing, the nearest part above it is
    /// shown. None if the problem has no place in the value.
    pub pointer: Option<String>,
    /// What is wrong.
    pub message: String,
    /// The value at fault, as JSON. Default none.
    pub value: Option<String>,
    /// The expected form, in words. Default none.
    pub help: Option<String>,
    /// Whether the line may hold a secret, and so is not shown. Default false.
    pub is_secret: bool,
}

impl DataError {
    /// Returns a problem at a JSON pointer.
    pub fn new(pointer: &str, message: &str) -> Self {
        let (pointer, message) = (Some(pointer.to_owned()), message.to_owned());
        Self { pointer, message, value: None, help: None, is_secret: false }
    }
}

impl DataFiles {
    /// Reads files, folders and pipes as one value. `-` is standard input. In a folder it reads the files `*.yaml`,
    /// `*.yml` and `*.json`, in the order of their names.
    ///
    /// The maps of the files are merged, and no value may be in two files. The bounds are those of a
    /// [manifest](crate::Manifest::load).
    ///
    /// # Errors
    ///
    /// When the files are wrong. The error has all problems, with their places.
    pub fn read(paths: &[PathBuf]) -> Result<Self, ManifestError> {
        let (mut problems, mut bounds) = (Problems::default(), Bounds::new());
        let mut sources = Vec::new();
        for path in source::list(paths, &mut problems) {
            sources.extend(match Pipe::at(&path).filter(|_| paths.contains(&path)) {
                Some(pipe) => pipe.read(&mut bounds, &mut problems),
                None => source::read(&path, &mut bounds, &mut problems),
            });
        }
        Self::parsed(sources, bounds, problems)
    }

    /// Reads a text in YAML or JSON. Messages call the text `name`.
    ///
    /// # Errors
    ///
    /// When the text is wrong. The error has all problems, with their places.
    pub fn of_text(name: &Path, text: &str) -> Result<Self, ManifestError> {
        let source = Source::new(name.to_owned(), text.to_owned());
        Self::parsed(vec![source], Bounds::new(), Problems::default())
    }

    fn parsed(
        sources: Vec<Source>,
        mut bounds: Bounds,
        mut problems: Problems,
    ) -> Result<Self, ManifestError> {
        let mut documents: Vec<(Source, Node)> = Vec::new();
        for source in sources {
            if let Some(node) = yaml::parse(&source, &mut bounds, &mut problems) {
                documents.push((source, node));
            }
        }
        let mut merged: Option<Node> = None;
        for (index, (source, node)) in documents.iter().enumerate() {
            match &mut merged {
                None => merged = Some(node.clone()),
                Some(merged) => {
                    let before = &documents[..index];
                    merge(
                        merged,
                        node,
                        &mut Merging { source, before, problems: &mut problems },
                        "",
                    );
                }
            }
        }
        problems.finish(&Secrets::default())?;
        let value = merged.map_or(Value::Null, |node| json(&node));
        Ok(Self { documents, value })
    }

    /// Returns the value.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// Returns the problems as one error, with places in the files and without secrets. `omitted` is the number of
    /// problems that are not in `errors`.
    pub fn refuse(
        &self,
        errors: impl IntoIterator<Item = DataError>,
        omitted: usize,
        secrets: &Secrets,
    ) -> ManifestError {
        let mut problems = Problems::default();
        for DataError { pointer, message, value, help, is_secret } in errors {
            let hint = Hint { value, help, suggestion: None };
            match pointer.and_then(|pointer| place(&self.documents, &pointer)) {
                Some((source, offset)) if is_secret => {
                    problems.without_line(source, offset, message, hint);
                }
                Some((source, offset)) => problems.with_hint(source, offset, message, hint),
                None => problems.note_with_hint(message, hint),
            }
        }
        problems.omit(omitted);
        if problems.count() == 0 {
            problems.note("it is refused");
        }
        let refused = problems.finish(secrets);
        refused.expect_err("there is a problem")
    }
}

/// The file that is merged, the files before it, and the problems so far.
struct Merging<'a> {
    source: &'a Source,
    before: &'a [(Source, Node)],
    problems: &'a mut Problems,
}

/// Merges the value of a later file into the values of the files before it.
fn merge(into: &mut Node, from: &Node, merging: &mut Merging<'_>, pointer: &str) {
    let (Data::Map(into), Data::Map(from)) = (&mut into.data, &from.data) else {
        let message = "a file that is read with others holds a map";
        return merging.problems.at(merging.source, from.span.start, message);
    };
    for (name, Entry { key, value }) in from {
        let pointer = format!("{pointer}/{}", pointer_segment(name));
        match into.get_mut(name) {
            None => {
                drop(into.insert(name.clone(), Entry { key: key.clone(), value: value.clone() }));
            }
            Some(entry) if is_map(&entry.value) && is_map(value) => {
                merge(&mut entry.value, value, merging, &pointer);
            }
            Some(_) => {
                let first = place(merging.before, &pointer);
                let first = first
                    .map_or_else(String::new, |(source, offset)| source.place(offset).to_string());
                let message = format!("duplicate key {}, first in {first}", quoted(name));
                merging.problems.with_hint(merging.source, key.start, message, Hint::of(name));
            }
        }
    }
}

fn is_map(node: &Node) -> bool {
    matches!(node.data, Data::Map(_))
}

/// Returns the place of a value, in the document that has the longest part of its path.
fn place<'a>(documents: &'a [(Source, Node)], pointer: &str) -> Option<(&'a Source, usize)> {
    let places = documents.iter().map(|(source, node)| {
        let (depth, offset) = offset_of(node, pointer);
        (depth, source, offset)
    });
    // The first of equally long parts counts.
    let best = places.rev().max_by_key(|(depth, ..)| *depth);
    best.map(|(_, source, offset)| (source, offset))
}

/// Returns how many segments of a pointer a document has, and the offset of the value at the last of these.
fn offset_of(node: &Node, pointer: &str) -> (usize, usize) {
    let (mut depth, mut offset, mut node) = (0, node.span.start, node);
    for segment in pointer.split('/').skip(1).filter(|segment| !segment.is_empty()) {
        let Ok(segment) = read_pointer_segment(segment) else { break };
        let next = match &node.data {
            Data::Map(map) => map.get(&*segment).map(|entry| (entry.key.start, &entry.value)),
            Data::List(items) => {
                let item = segment.parse().ok().and_then(|index: usize| items.get(index));
                item.map(|item| (item.span.start, item))
            }
            _ => None,
        };
        let Some(next) = next else { break };
        (offset, node) = next;
        depth += 1;
    }
    (depth, offset)
}

fn json(node: &Node) -> Value {
    match &node.data {
        Data::Null => Value::Null,
        Data::Bool(value) => Value::Bool(*value),
        Data::Number(number) => Value::Number(number.clone()),
        Data::String(text) => Value::String(text.clone()),
        Data::List(items) => items.iter().map(json).collect(),
        Data::Map(map) => object(map),
    }
}

fn object(map: &Map) -> Value {
    map.iter().map(|(name, entry)| (name.clone(), json(&entry.value))).collect()
}
