//! The commands that show facts, their version, their history and their differences.

use std::cell::RefCell;
use std::io::{self, Write};

use anyhow::anyhow;
use crankcase_facts::wire::{Difference, Entry};
use crankcase_facts::{Facts, Pointer, Snapshot, StoreError, Tree, difference, effective};
use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::path::path;
use super::show;
use crate::completion::fact_path;
use crate::exit::ExitError;
use crate::facts_store as store;
use crate::global::Global;
use crate::{exit, print};

/// The facts to show.
#[derive(Debug, clap::Args)]
pub(crate) struct GetArgs {
    /// The path, such as /mero/globals
    #[arg(default_value = "/", value_parser = path, add = fact_path())]
    path: Pointer,
    /// Show what this host sees: its own layer over the layers of its roles, and these over the site
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
}

/// The part of the history to show.
#[derive(Debug, clap::Args)]
pub(crate) struct LogArgs {
    /// Show only the changes at this path
    #[arg(value_parser = path, add = fact_path())]
    path: Option<Pointer>,
    /// Show at most this many changes, the newest first
    #[arg(long, short = 'n', value_name = "COUNT", default_value = "20")]
    number: usize,
}

/// The versions to compare.
#[derive(Debug, clap::Args)]
pub(crate) struct DiffArgs {
    /// The earlier version
    from: u64,
    /// The later version [default: the current facts]
    to: Option<u64>,
    /// Show only the differences at this path
    #[arg(long, value_name = "PATH", default_value = "/", value_parser = path, add = fact_path())]
    at: Pointer,
}

/// The facts at a path.
#[derive(Debug, Serialize)]
struct Shown {
    path: String,
    version: u64,
    revision: u64,
    value: Value,
}

#[derive(Debug, Serialize)]
struct Versions {
    version: u64,
    revision: u64,
    digest: String,
}

/// The history, newest entry first.
#[derive(Debug, Serialize)]
struct Log<'a> {
    entries: Entries<'a>,
}

/// The entries of the history. Each is read when it is printed, because an entry may be large.
#[derive(Debug)]
struct Entries<'a> {
    facts: Option<&'a Facts>,
    args: &'a LogArgs,
    /// The error of the store, at which the list ends.
    failed: RefCell<Option<StoreError>>,
}

impl Entries<'_> {
    fn each<E>(&self, mut visit: impl FnMut(Entry) -> Result<(), E>) -> Result<(), E> {
        let Some(facts) = self.facts else { return Ok(()) };
        let current = facts.current();
        for entry in facts.history(self.args.path.as_ref()).take(self.args.number) {
            match entry {
                Ok(entry) => visit(Entry::of(&entry, current.schemas()))?,
                Err(error) => {
                    self.failed.replace(Some(error));
                    break;
                }
            }
        }
        Ok(())
    }
}

impl Serialize for Entries<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        self.each(|entry| list.serialize_element(&entry))?;
        list.end()
    }
}

#[derive(Debug, Serialize)]
struct Diff {
    from: u64,
    to: u64,
    differences: Vec<Difference>,
}

/// Returns the error for a path without a fact. It lists the names at the longest part of the path that exists.
pub(super) fn no_fact(facts: &Tree, path: &Pointer) -> anyhow::Error {
    if facts.names().next().is_none() {
        return anyhow!(
            "there is no {path}; no facts are stored; load some with \"facts load\" or \"bootstrap\""
        );
    }
    let mut above = Pointer::root();
    for segment in path.segments() {
        let next = above.join(segment);
        if facts.at(&next).is_none() {
            break;
        }
        above = next;
    }
    let found = facts.at(&above).unwrap_or_default();
    let names: Vec<_> = found.names().take(10).collect();
    match names.is_empty() {
        true => anyhow!("there is no {path}; nothing is in {above}"),
        false => anyhow!("there is no {path}; in {above} there are {}", names.join(", ")),
    }
}

pub(super) fn get(global: &Global, args: &GetArgs) -> anyhow::Result<u8> {
    let current = store::current(global)?;
    let facts = match &args.host {
        None => current.facts().clone(),
        Some(host) => effective(current.facts(), Some(host)),
    };
    let Some(found) = facts.at(&args.path) else { return Err(no_fact(&facts, &args.path)) };
    let value = current.schemas().redacted(&args.path, &found);
    let (version, revision) = (current.version(), current.revision());
    let shown = Shown { path: args.path.to_string(), version, revision, value };
    print::data(global.output, &shown, |shown, out| show::value(&shown.value, out))?;
    Ok(exit::DONE)
}

pub(super) fn version(global: &Global) -> anyhow::Result<u8> {
    let current = store::current(global)?;
    let digest = current.digest().to_string();
    let versions = Versions { version: current.version(), revision: current.revision(), digest };
    print::data(global.output, &versions, |versions, out| writeln!(out, "{}", versions.version))?;
    Ok(exit::DONE)
}

pub(super) fn log(global: &Global, args: &LogArgs) -> anyhow::Result<u8> {
    let facts = store::find(global)?;
    let entries = Entries { facts: facts.as_ref(), args, failed: RefCell::default() };
    let log = Log { entries };
    print::data(global.output, &log, |log, out| {
        let mut is_empty = true;
        log.entries.each(|entry| {
            is_empty = false;
            write_entry(&entry, out)
        })?;
        if is_empty && log.entries.failed.borrow().is_none() {
            writeln!(out, "nothing is on record")?;
        }
        Ok(())
    })?;
    match log.entries.failed.take() {
        None => Ok(exit::DONE),
        Some(error @ StoreError::Entry { .. }) => {
            Err(ExitError::new(exit::INVALID, error.to_string()).into())
        }
        Some(error) => Err(error.into()),
    }
}

pub(super) fn write_entry(entry: &Entry, out: &mut print::Out<'_>) -> io::Result<()> {
    let Entry { version, at, who, why, kind, differences, .. } = entry;
    let who = print::one_line(who);
    let why = why.as_ref().map_or_else(String::new, |why| format!(": {}", print::one_line(why)));
    writeln!(out, "version {version}  {at}  {kind} by {who}{why}")?;
    show::differences(differences, out)
}

pub(super) fn diff(global: &Global, args: &DiffArgs) -> anyhow::Result<u8> {
    let facts = store::find(global)?;
    let current = facts.as_ref().map_or_else(Snapshot::default, Facts::current);
    let at = |version: Option<u64>| match (version, &facts) {
        (Some(version), Some(facts)) => {
            facts.at_version(version).map_err(|error| store::failed(&error))
        }
        (Some(version), None) if version > 0 => {
            Err(store::failed(&crankcase_facts::FactsError::NoVersion(version)))
        }
        _ => Ok(current.facts().clone()),
    };
    let (before, after) = (at(Some(args.from))?, at(args.to)?);
    let differences = match (before.at(&args.at), after.at(&args.at)) {
        (Some(before), Some(after)) => difference(&before, &after),
        (None, None) => Vec::new(),
        (before, after) => {
            vec![crankcase_facts::Difference { path: Pointer::root(), before, after }]
        }
    };
    let differences = differences.into_iter().map(|it| {
        let it = crankcase_facts::Difference { path: it.path.below(&args.at), ..it };
        Difference::of(&it, current.schemas())
    });
    let differences = differences.collect();
    let diff = Diff { from: args.from, to: args.to.unwrap_or(current.version()), differences };
    print::data(global.output, &diff, |diff, out| match diff.differences.is_empty() {
        true => writeln!(out, "nothing differs"),
        false => show::differences(&diff.differences, out),
    })?;
    Ok(exit::DONE)
}
