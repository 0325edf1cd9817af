//! The files of a manifest as one document, and the maps in it.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use indexmap::IndexMap;

use crate::manifest::bounds::Bounds;
use crate::manifest::kept_manifest::Reading;
use crate::manifest::lines::Source;
use crate::manifest::node::{Data, Map, Node};
use crate::manifest::problem::{Hint, Problems, quoted};
use crate::manifest::source::Pipe;
use crate::manifest::yaml;

/// The keys at the top of a manifest.
const KEYS: &[&str] = &["vars", "plugs", "resources", "rules"];

/// Something that was written under a name in one of the files.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) source: Arc<Source>,
    /// Where the name stands.
    pub(crate) key: Range<usize>,
    pub(crate) node: Node,
}

/// All files of a manifest as one.
#[derive(Debug)]
pub(crate) struct Document {
    /// Whether all of it could be read.
    pub(crate) is_whole: bool,
    /// Whether some of it came from a pipe, and so cannot be read again.
    pub(crate) is_piped: bool,
    pub(crate) vars: IndexMap<String, Written>,
    pub(crate) plugs: IndexMap<String, Written>,
    pub(crate) resources: IndexMap<String, Written>,
    pub(crate) rules: IndexMap<String, Written>,
}

impl Document {
    /// Reads the files, folders and pipes. A pipe has to be named: one in a folder is no manifest.
    pub(crate) fn read(
        paths: &[PathBuf],
        reading: &Reading<'_>,
        bounds: &mut Bounds,
        problems: &mut Problems,
    ) -> Self {
        let empty = IndexMap::new;
        let (vars, plugs, resources, rules) = (empty(), empty(), empty(), empty());
        let files = reading.list(paths, problems);
        let is_whole = problems.count() == 0;
        let mut document = Self { is_whole, is_piped: false, vars, plugs, resources, rules };
        for path in files {
            let is_named = reading.kept().is_none() && paths.contains(&path);
            let pipe = Pipe::at(&path).filter(|_| is_named);
            document.is_piped |= pipe.is_some();
            let source = match pipe {
                Some(pipe) => pipe.read(bounds, problems),
                None => reading.manifest(&path, bounds, problems),
            };
            let parsed = source.and_then(|source| parse(source, bounds, problems));
            let added = parsed.and_then(|(node, source)| document.add(&source, node, problems));
            document.is_whole &= added.is_some();
            if bounds.is_spent() {
                break;
            }
        }
        document
    }

    /// Returns the files that anything was read from.
    pub(crate) fn sources(&self) -> Vec<Arc<Source>> {
        let written = self.vars.values().chain(self.plugs.values()).chain(self.resources.values());
        let written = written.chain(self.rules.values());
        let mut sources: Vec<Arc<Source>> = Vec::new();
        for Written { source, .. } in written {
            // The entries of one file come one after another.
            if !sources.last().is_some_and(|last| Arc::ptr_eq(last, source)) {
                sources.push(Arc::clone(source));
            }
        }
        sources
    }

    /// Adds a file; returns none if not all of it can be read.
    fn add(&mut self, source: &Arc<Source>, node: Node, problems: &mut Problems) -> Option<()> {
        let mut is_whole = Some(());
        for (key, entry) in map(source, node, "a manifest", problems)? {
            let (what, into) = match key.as_str() {
                "vars" => ("variable", &mut self.vars),
                "plugs" => ("plug", &mut self.plugs),
                "resources" => ("resource", &mut self.resources),
                "rules" => ("rule", &mut self.rules),
                _ => {
                    let message = format!("unknown key {} in a manifest", quoted(&key));
                    let hint = problems.nearest(&key, KEYS.iter().copied()).or(listed(KEYS));
                    problems.with_hint(source, entry.key.start, message, hint);
                    continue;
                }
            };
            let Some(map) = map_or_nothing(source, entry.value, &key, problems) else {
                is_whole = None;
                continue;
            };
            into.reserve(map.len());
            for (name, entry) in map {
                if let Some(first) = into.get(&name) {
                    let first = first.source.place(first.key.start);
                    let message = format!("duplicate {what} {}, first in {first}", quoted(&name));
                    problems.with_hint(source, entry.key.start, message, Hint::of(name));
                    continue;
                }
                let source = Arc::clone(source);
                into.insert(name, Written { source, key: entry.key, node: entry.value });
            }
        }
        is_whole
    }
}

fn parse(
    source: Source,
    bounds: &mut Bounds,
    problems: &mut Problems,
) -> Option<(Node, Arc<Source>)> {
    Some((yaml::parse(&source, bounds, problems)?, Arc::new(source)))
}

/// Reads a file of variables.
pub(crate) fn read_vars(
    path: &Path,
    reading: &Reading<'_>,
    bounds: &mut Bounds,
    problems: &mut Problems,
) -> Option<Vec<(String, Written)>> {
    let source = reading.vars(path, bounds, problems)?;
    let (node, source) = parse(source, bounds, problems)?;
    let map = map(&source, node, "a file of variables", problems)?;
    let written = map.into_iter().map(|(name, entry)| {
        (name, Written { source: Arc::clone(&source), key: entry.key, node: entry.value })
    });
    Some(written.collect())
}

/// Takes a map; reports any other value.
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
    match names {
        [name] => format!("there is only {name}"),
        names => format!("there are {}", names.join(", ")),
    }
}
