use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use indexmap::IndexMap;

use crate::manifest::node::{Data, Map, Node};
use crate::manifest::problem::{Problems, quoted};
use crate::manifest::source::{self, Source};
use crate::manifest::yaml;

/// The keys at the top of a manifest.
const KEYS: &[&str] = &["vars", "resources"];

/// Something that was written under a name in one of the files.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) source: Arc<Source>,
    /// Where the name stands.
    pub(crate) key: Range<usize>,
    pub(crate) node: Node,
}

/// All files of a manifest as one.
#[derive(Debug, Default)]
pub(crate) struct Document {
    pub(crate) vars: IndexMap<String, Written>,
    pub(crate) resources: IndexMap<String, Written>,
}

impl Document {
    /// Reads the files and folders.
    pub(crate) fn read(paths: &[PathBuf], problems: &mut Problems) -> Self {
        let mut document = Self::default();
        for path in source::list(paths, problems) {
            let Some(source) = source::read(&path, problems) else { continue };
            let source = Arc::new(source);
            if let Some(node) = yaml::parse(&source, problems) {
                document.add(&source, node, problems);
            }
        }
        document
    }

    fn add(&mut self, source: &Arc<Source>, node: Node, problems: &mut Problems) {
        let Some(map) = map(source, node, "a manifest", problems) else { return };
        for (key, entry) in map {
            let (what, into) = match key.as_str() {
                "vars" => ("variable", &mut self.vars),
                "resources" => ("resource", &mut self.resources),
                _ => {
                    let message = format!("unknown key {} in a manifest", quoted(&key));
                    let nearest = problems.nearest(&key, KEYS.iter().copied());
                    let help = nearest.or_else(|| Some(listed(KEYS)));
                    problems.with_help(source, entry.key.start, message, help);
                    continue;
                }
            };
            let Some(map) = map_or_nothing(source, entry.value, &key, problems) else { continue };
            for (name, entry) in map {
                if let Some(first) = into.get(&name) {
                    let first = first.source.place(first.key.start);
                    let message = format!("duplicate {what} {}, first in {first}", quoted(&name));
                    problems.at(source, entry.key.start, message);
                    continue;
                }
                let source = Arc::clone(source);
                into.insert(name, Written { source, key: entry.key, node: entry.value });
            }
        }
    }
}

/// Reads a file of variables.
pub(crate) fn read_vars(path: &std::path::Path, problems: &mut Problems) -> Vec<(String, Written)> {
    let Some(source) = source::read(path, problems) else { return Vec::new() };
    let source = Arc::new(source);
    let node = yaml::parse(&source, problems);
    let map = node.and_then(|node| map(&source, node, "a file of variables", problems));
    let written = map.unwrap_or_default().into_iter().map(|(name, entry)| {
        (name, Written { source: Arc::clone(&source), key: entry.key, node: entry.value })
    });
    written.collect()
}

/// Takes a map; says if it is none.
pub(crate) fn map(source: &Source, node: Node, what: &str, problems: &mut Problems) -> Option<Map> {
    let description = node.description();
    match node.data {
        Data::Map(map) => Some(map),
        _ => {
            problems.at(
                source,
                node.span.start,
                format_args!("{what} is a map, not {description}"),
            );
            None
        }
    }
}

/// Takes a map, or nothing as an empty one.
pub(crate) fn map_or_nothing(
    source: &Source,
    node: Node,
    key: &str,
    problems: &mut Problems,
) -> Option<Map> {
    if matches!(node.data, Data::Null) {
        return Some(Map::new());
    }
    map(source, node, &quoted(key), problems)
}

/// Lists the right names, as a help.
pub(crate) fn listed(names: &[&str]) -> String {
    format!("there are {}", names.join(", "))
}
