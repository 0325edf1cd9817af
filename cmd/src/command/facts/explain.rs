//! The command `facts explain`: shows which layers set a fact, and which they hide.

use std::io::{self, Write};

use crankcase_facts::wire::Entry;
use crankcase_facts::{Pointer, Tree, effective, explain};
use serde::Serialize;
use serde_json::Value;

use super::path::path;
use super::read::no_fact;
use crate::completion::fact_path;
use crate::facts_store as store;
use crate::global::Global;
use crate::{exit, print};

/// The fact to explain.
#[derive(Debug, clap::Args)]
pub(crate) struct ExplainArgs {
    /// The path, such as /ntp/server
    #[arg(value_parser = path, add = fact_path())]
    path: Pointer,
    /// The host whose layers count [default: the host that runs the command]
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
}

/// A fact with its layers, its owner and its schemas.
#[derive(Debug, Serialize)]
struct Explained {
    path: String,
    host: String,
    /// The layers that set the fact, the one that counts most first.
    layers: Vec<Said>,
    /// The part of the agent that owns the fact, if one does.
    owner: Option<String>,
    /// The paths of the schemas that the fact has to fit.
    schemas: Vec<String>,
}

/// A fact in one layer.
#[derive(Debug, Serialize)]
struct Said {
    layer: String,
    /// The path at which the layer stores the value.
    path: String,
    value: Value,
    /// `counts`: the host sees the value. `merged`: the host sees the map, merged with the maps of other layers.
    /// `hidden`: a layer that counts more replaces the value. `hides`: the value is above the path, so the host sees
    /// nothing at the path.
    effect: &'static str,
    /// The last change at that path, if it is on record.
    set: Option<Entry>,
}

pub(super) fn run(global: &Global, args: &ExplainArgs) -> anyhow::Result<u8> {
    let ExplainArgs { path, host } = args;
    let Some(facts) = store::find(global)? else {
        return Err(no_fact(&Tree::default(), path));
    };
    let current = facts.current();
    let host = host.clone().or_else(store::host_name).unwrap_or_default();
    let mut layers = Vec::new();
    let (mut is_hidden, mut is_there) = (false, false);
    for layer in explain(current.facts(), Some(&host), path).into_iter().rev() {
        let Some(said) = layer.facts else { continue };
        let effect = match (is_hidden, said.is_map()) {
            (true, _) => "hidden",
            (false, true) => "merged",
            (false, false) if layer.is_above => "hides",
            (false, false) => "counts",
        };
        is_there |= !layer.is_above;
        is_hidden |= !said.is_map();
        let set = facts.log(Some(&layer.at), 1)?;
        let set = set.first().map(|entry| Entry::of(entry, current.schemas()));
        let value = current.schemas().redacted(&layer.at, &said);
        layers.push(Said { layer: layer.name, path: layer.at.to_string(), value, effect, set });
    }
    if !is_there {
        return Err(no_fact(&effective(current.facts(), Some(&host)), path));
    }
    let owner = current.owned().touching(path).find(|(at, _)| path.is_within(at));
    let schemas = current.schemas().iter().filter(|(at, _)| path.is_within(at));
    let schemas = schemas.map(|(at, _)| at.to_string()).collect();
    let owner = owner.map(|(_, owner)| owner.to_owned());
    let explained = Explained { path: path.to_string(), host, layers, owner, schemas };
    print::data(global.output, &explained, write)?;
    Ok(exit::DONE)
}

fn write(explained: &Explained, out: &mut print::Out<'_>) -> io::Result<()> {
    for Said { layer, path, value, effect, set } in &explained.layers {
        let (layer, path) = (print::one_line(layer), print::one_line(path));
        writeln!(out, "{effect:<6}  {layer}: {}  ({path})", print::short(value))?;
        if let Some(Entry { version, at, who, why, .. }) = set {
            let why =
                why.as_ref().map_or_else(String::new, |why| format!(": {}", print::one_line(why)));
            writeln!(out, "        version {version}, {at}, by {}{why}", print::one_line(who))?;
        }
    }
    if let Some(owner) = &explained.owner {
        writeln!(out, "written by {}, a part of the agent", print::one_line(owner))?;
    }
    match explained.schemas.is_empty() {
        true => Ok(()),
        false => writeln!(out, "judged by the schemas at {}", explained.schemas.join(", ")),
    }
}
