//! Completion of the command line by a shell.

use std::ffi::OsStr;
use std::path::PathBuf;

use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use crankcase_facts::{Facts, Pointer, Sqlite};
use crankcase_status::StateDir;

use crate::facts_store::file;

/// Completes the paths of facts.
pub(crate) fn fact_path() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| candidates(current).unwrap_or_default())
}

/// Returns the paths of facts that begin with `current`, each completed by one segment.
fn candidates(current: &OsStr) -> Option<Vec<CompletionCandidate>> {
    let current = current.to_str()?;
    let (above, _) = current.rsplit_once('/').unwrap_or(("", current));
    let above: Pointer = above.parse().ok()?;
    let facts = Facts::open(Box::new(Sqlite::find(&file(&state_folder()?)).ok()??)).ok()?;
    let found = facts.current().at(&above)?;
    let paths = found.names().map(|name| {
        let path = above.join(name);
        let has_more = found.at(&Pointer::root().join(name)).is_some_and(|it| it.is_map());
        if has_more { format!("{path}/") } else { path.to_string() }
    });
    // A shell inserts a path without quotes. So a path with a character that is special to shells is left out.
    let paths = paths.filter(|path| path.starts_with(current) && path.chars().all(is_plain));
    Some(paths.map(CompletionCandidate::new).collect())
}

/// Returns whether a character has no special meaning to a shell.
fn is_plain(character: char) -> bool {
    character.is_alphanumeric() || "._:@~+/-".contains(character)
}

/// Returns the state folder that the command line names, or the user's.
fn state_folder() -> Option<PathBuf> {
    let mut arguments = std::env::args_os();
    while let Some(argument) = arguments.next() {
        if argument == "--state-dir" {
            return arguments.next().map(PathBuf::from);
        }
        if let Some(path) = argument.to_str().and_then(|it| it.strip_prefix("--state-dir=")) {
            return Some(path.into());
        }
    }
    StateDir::of_user().ok().map(|state_dir| state_dir.path().to_owned())
}
