//! The command `facts schema`: shows, sets and removes the schemas that facts have to fit.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::anyhow;
use crankcase_facts::{Change, Pointer, Schema, Snapshot, example, skeleton};
use crankcase_manifest::DataFiles;
use serde::Serialize;
use serde_json::{Map, Value};

use super::path::path;
use super::show;
use super::write::{ChangeArgs, submit};
use crate::command::control::user;
use crate::completion::fact_path;
use crate::facts_given::Given;
use crate::facts_store as store;
use crate::global::Global;
use crate::{exit, print};

/// The schema to show, set or remove.
#[derive(Debug, clap::Args)]
pub(crate) struct SchemaArgs {
    /// The path of the facts that the schema is for [default: all schemas]
    #[arg(value_parser = path, add = fact_path())]
    path: Option<Pointer>,
    /// Set the JSON Schema at the path, from a file in YAML or JSON. It replaces an earlier one, and is refused if
    /// the stored facts do not fit it
    #[arg(long, value_name = "FILE", requires = "path", conflicts_with_all = ["remove", "example"])]
    set: Option<PathBuf>,
    /// Remove the schema
    #[arg(long, requires = "path", conflicts_with = "example")]
    remove: bool,
    /// Print a skeleton to fill in: every fact that the schemas name, with an example value
    #[arg(long, conflicts_with = "ChangeArgs")]
    example: bool,
    #[command(flatten)]
    change: ChangeArgs,
}

/// The schemas.
#[derive(Debug, Serialize)]
struct All {
    schemas: Vec<Registered>,
}

/// A schema, with the path of the facts that it is for.
#[derive(Debug, Serialize)]
struct Registered {
    path: String,
    owner: String,
    schema: Value,
}

pub(super) async fn run(global: &Global, args: SchemaArgs) -> anyhow::Result<u8> {
    let SchemaArgs { path, set, remove, example: is_example, change } = args;
    match (path, set) {
        (Some(path), Some(file)) => {
            let files = DataFiles::read(&[file]);
            let changing = change.begin(global).await?;
            let given = Given::of(files, &changing.facts().current())?;
            let schema = Schema::read(&user(), given.files.value().clone());
            let schema = schema.map_err(|invalid| given.invalid(invalid))?;
            // Facts that do not fit the schema are in the store, not in the given file, so no places are shown.
            submit(global, (changing, Change::Register(path, Some(schema))), change, None).await
        }
        (Some(path), None) if remove => {
            let changing = change.begin(global).await?;
            find(&registered(&changing.facts().current()), &path)?;
            submit(global, (changing, Change::Register(path, None)), change, None).await
        }
        (path, _) if is_example => print_skeleton(global, path.as_ref()),
        (path, _) => list(global, path.as_ref()),
    }
}

fn registered(current: &Snapshot) -> Vec<Registered> {
    let schemas = current.schemas().iter().map(|(path, schema)| Registered {
        path: path.to_string(),
        owner: schema.owner.clone(),
        schema: schema.value().clone(),
    });
    schemas.collect()
}

fn find<'a>(all: &'a [Registered], path: &Pointer) -> anyhow::Result<&'a Registered> {
    all.iter().find(|it| it.path == path.to_string()).ok_or_else(|| {
        let paths: Vec<_> = all.iter().map(|it| it.path.as_str()).collect();
        match paths.is_empty() {
            true => anyhow!("there is no schema at {path}; there is none at all"),
            false => {
                anyhow!("there is no schema at {path}; there are some at {}", paths.join(", "))
            }
        }
    })
}

fn list(global: &Global, path: Option<&Pointer>) -> anyhow::Result<u8> {
    let schemas = registered(&store::current(global)?);
    match path {
        Some(path) => {
            let schema = find(&schemas, path)?;
            print::data(global.output, schema, |it, out| show::value(&it.schema, out))?;
        }
        None => print::data(global.output, &All { schemas }, write)?,
    }
    Ok(exit::DONE)
}

fn write(all: &All, out: &mut print::Out<'_>) -> io::Result<()> {
    if all.schemas.is_empty() {
        return writeln!(out, "there is no schema");
    }
    all.schemas.iter().try_for_each(|Registered { path, owner, schema }| {
        let (path, owner) = (print::one_line(path), print::one_line(owner));
        let title = schema["title"]
            .as_str()
            .map_or_else(String::new, |it| format!(": {}", print::one_line(it)));
        writeln!(out, "{path}  by {owner}{title}")
    })
}

/// Prints a skeleton of the facts that the schemas name: of one schema, or of all as a document.
fn print_skeleton(global: &Global, path: Option<&Pointer>) -> anyhow::Result<u8> {
    let current = store::current(global)?;
    let schemas = registered(&current);
    if let Some(path) = path {
        let example = example(&find(&schemas, path)?.schema);
        print::data(global.output, &example, show::value)?;
        return Ok(exit::DONE);
    }
    let mut document = Map::new();
    document.insert("version".to_owned(), (current.version() + 1).into());
    document.insert("facts".to_owned(), skeleton(current.schemas()).to_value());
    print::data(global.output, &Value::Object(document), show::value)?;
    Ok(exit::DONE)
}
