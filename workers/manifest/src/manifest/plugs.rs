//! What a manifest offers to the types that are made for it.

use std::path::{Path, PathBuf};

use crankcase_resources::Plug;
use indexmap::IndexMap;

use crate::manifest::bounds::Bounds;
use crate::manifest::check;
use crate::manifest::document::{Written, map};
use crate::manifest::expression::{Budget, Names};
use crate::manifest::globals::Globals;
use crate::manifest::node::Node;
use crate::manifest::problem::{Hint, Problems, quoted};
use crate::manifest::resource::Decoder;
use crate::manifest::source::{bad_name, is_name};
use crate::manifest::text::{Texts, Trouble};
use crate::manifest::vars::KnownVars;

/// The keys of a plug.
const KEYS: &[&str] = &["path", "read_only", "resource_names", "resource_types"];

/// Decodes the plugs. What their expressions use has to be known at load.
pub(crate) fn decode(
    written: &IndexMap<String, Written>,
    (vars, globals): (&KnownVars<'_>, &Globals),
    bounds: &mut Bounds,
    problems: &mut Problems,
) -> Vec<Plug> {
    let mut budget = Budget::of_values(bounds.values());
    let mut plugs = Vec::new();
    for (name, Written { source, key, node }) in written {
        if !is_name(name) {
            let message = bad_name("name of a plug", name);
            problems.with_hint(source, key.start, message, Hint::of(name));
        }
        let what = format!("plug {}", quoted(name));
        let Some(map) = map(source, node.clone(), &what, problems) else { continue };
        let mut plug = Plug::new(name, PathBuf::new());
        let has_path = map.contains_key("path");
        let mut decoder = Decoder { source, problems };
        for (key, entry) in map {
            match key.as_str() {
                "path" => {
                    let at = (&entry.value, &mut budget);
                    let path = text(&mut decoder, (vars, globals), at).unwrap_or_default();
                    plug.path = absolute(&path, &source.folder());
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
            problems.at(source, key.start, format!("{what} has no \"path\""));
        }
        plugs.push(plug);
    }
    bounds.made(budget.made(), budget.is_overdrawn());
    plugs
}

/// Evaluates a text.
fn text(
    decoder: &mut Decoder<'_>,
    (vars, globals): (&KnownVars<'_>, &Globals),
    (node, budget): (&Node, &mut Budget),
) -> Option<String> {
    let (source, before) = (decoder.source, decoder.problems.count());
    let used = check::check(source, node, &vars.usable(false, "a plug"), decoder.problems);
    if decoder.problems.count() > before || used.uses_any(vars.wrong) {
        return None;
    }
    let names = Names {
        vars: globals.vars.clone(),
        host: globals.host.clone(),
        sensitive: globals.sensitive.clone(),
        ..Names::default()
    };
    let mut texts = Texts::new(&names, budget);
    let value = texts.node(node);
    let troubles = texts.finish().troubles;
    let is_known = troubles.is_empty();
    for Trouble { span, text, failure } in troubles {
        check::report(source, (&text, &span), failure, decoder.problems);
    }
    match value {
        serde_json::Value::String(path) if is_known && !path.is_empty() => Some(path),
        _ if !is_known => None,
        _ => {
            decoder.at(&node.span, "the path of a plug is a text that is not empty".to_owned());
            None
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
