//! The plugs of a manifest: what it offers to the types that are made for it.

use std::path::{Path, PathBuf};

use crankcase_resources::front::Plug;
use indexmap::IndexMap;

use crate::manifest::document::{Written, map};
use crate::manifest::node::{Data, Node};
use crate::manifest::problem::{Problems, quoted};
use crate::manifest::resource::Decoder;
use crate::manifest::source::{bad_name, is_name};

/// The keys of a plug.
const KEYS: &[&str] = &["path", "read_only", "resource_names", "resource_types"];

/// Decodes the plugs, whose texts have been evaluated.
pub(crate) fn decode(written: &IndexMap<String, Written>, problems: &mut Problems) -> Vec<Plug> {
    let mut plugs = Vec::new();
    for (name, Written { source, key, node }) in written {
        let mut decoder = Decoder { source, problems };
        if !is_name(name) && !decoder.is_unevaluated(name) {
            decoder.wrong(key, bad_name("name of a plug", name), name);
        }
        let what = format!("plug {}", quoted(name));
        let Some(map) = map(source, node.clone(), &what, decoder.problems) else { continue };
        let mut plug = Plug::new(name, PathBuf::new());
        let has_path = map.contains_key("path");
        for (key, entry) in map {
            match key.as_str() {
                "path" => {
                    let path = path(&mut decoder, &entry.value);
                    plug.path = absolute(path, &source.folder());
                }
                "read_only" => plug.is_read_only = decoder.boolean(&entry.value, &key),
                "resource_names" | "resource_types" => {
                    let what = format!("{} is a list of regular expressions", quoted(&key));
                    let patterns = decoder.names(entry.value, (&what, "a regular expression"));
                    let patterns = patterns.into_iter().map(|(_, pattern)| pattern).collect();
                    match key.as_str() {
                        "resource_names" => plug.resource_names = patterns,
                        _ => plug.resource_types = patterns,
                    }
                }
                _ => decoder.unknown(&entry.key, &key, &what, KEYS),
            }
        }
        if !has_path {
            decoder.at(key, format!("{what} has no \"path\""));
        }
        plugs.push(plug);
    }
    plugs
}

fn path<'a>(decoder: &mut Decoder<'_>, node: &'a Node) -> &'a str {
    match &node.data {
        Data::String(path) if !path.is_empty() => path,
        _ => {
            decoder.at(&node.span, "the path of a plug is a text that is not empty".to_owned());
            ""
        }
    }
}

/// Returns a path that may begin with the home of the agent's user, or at the folder of its manifest.
fn absolute(path: &str, folder: &Path) -> PathBuf {
    let home = std::env::home_dir().filter(|home| home.is_absolute());
    match (path.strip_prefix('~'), home) {
        (Some(""), Some(home)) => home,
        (Some(rest), Some(home)) if rest.starts_with('/') => {
            home.join(rest.trim_start_matches('/'))
        }
        _ => folder.join(path),
    }
}
