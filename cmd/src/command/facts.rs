//! The commands that read and change facts.

mod explain;
mod path;
mod read;
mod schema;
mod show;
mod watch;
mod write;

use clap::Subcommand;

use self::explain::ExplainArgs;
use self::read::{DiffArgs, GetArgs, LogArgs};
use self::schema::SchemaArgs;
use self::watch::WatchArgs;
use self::write::{LoadArgs, PushArgs, RestoreArgs, SetArgs};
use crate::command::runtime;
use crate::global::Global;

/// The subcommands of "facts".
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show the facts at a path
    Get(GetArgs),
    /// Set the fact at a path, or remove it
    Set(SetArgs),
    /// Apply an update: all of its operations, or none
    ///
    /// An update is {version: N, ops: [[OP, PATH, DATA], ...]} with the operations SET, INSERT, DELETE and
    /// TEST, or {version: N, patch: [...]} with the operations of RFC 6902. The version of the update must be
    /// higher than the version of the facts.
    Push(PushArgs),
    /// Replace all facts by a document, or merge a document into them
    ///
    /// A document is {version: N, facts: {...}}.
    Load(LoadArgs),
    /// Show the version of the facts
    Version,
    /// Show the history: each change with its author, time and reason
    Log(LogArgs),
    /// Show the differences between two versions
    Diff(DiffArgs),
    /// Print each change at a path as it happens
    Watch(WatchArgs),
    /// Show which layer sets a fact, which layers it hides, and the last change of each
    Explain(ExplainArgs),
    /// Show, set or remove the schemas that facts have to fit
    Schema(SchemaArgs),
    /// Restore the facts of an earlier version, as a new version
    Restore(RestoreArgs),
}

pub(crate) fn run(global: &Global, command: Command) -> anyhow::Result<u8> {
    match command {
        Command::Get(args) => read::get(global, &args),
        Command::Set(args) => runtime::ask(write::set(global, args)),
        Command::Push(args) => runtime::ask(write::push(global, args)),
        Command::Load(args) => runtime::ask(write::load(global, args)),
        Command::Version => read::version(global),
        Command::Log(args) => read::log(global, &args),
        Command::Diff(args) => read::diff(global, &args),
        Command::Watch(args) => runtime::ask(watch::run(global, args)),
        Command::Explain(args) => explain::run(global, &args),
        Command::Schema(args) => runtime::ask(schema::run(global, args)),
        Command::Restore(args) => runtime::ask(write::restore(global, args)),
    }
}
