//! Loads facts, and then keeps the site that uses them.

use std::path::PathBuf;

use anyhow::Context;
use crankcase_facts::{Change, Facts, Load, Submission, Tree, wire::Refusal};
use crankcase_status::{Client, ClientError};

use crate::command::control::user;
use crate::command::{run, runtime};
use crate::exit;
use crate::facts_given::Given;
use crate::facts_store::{self, open_for_agent};
use crate::global::Global;
use crate::observing::now;

/// Which facts are loaded, and which site is kept.
#[derive(Debug, clap::Args)]
#[group(id = "bootstrapped")]
pub(crate) struct Args {
    /// The facts, {version: N, facts: {...}}, YAML or JSON: a file, a folder, or - for standard input; may be
    /// given again
    #[arg(long = "facts", short = 'f', value_name = "FACTS", required = true)]
    facts: Vec<PathBuf>,
    #[command(flatten)]
    run: run::Args,
}

pub(crate) fn run(global: &Global, args: &Args) -> anyhow::Result<u8> {
    let given = Given::read(&args.facts, &facts_store::current(global)?)?;
    // What was changed beside the document stays.
    let load = Load::read(given.files.value(), true).map_err(|invalid| given.invalid(invalid))?;
    if runtime::ask(is_running(global))? == exit::DONE {
        return runtime::ask(update(global, load, &given));
    }
    let facts = open_for_agent(global)?;
    if !is_loaded(&facts, &load)? {
        let current = facts.current();
        let change = Change::Load(load);
        given.note_secrets(&change, &current);
        let before = current.version();
        let outcome = facts.submit(&Submission::new(change, &user()), now());
        let outcome =
            outcome.map_err(|error| given.refuse(Refusal::of(&error, current.schemas())))?;
        let changes = outcome.differences.len();
        tracing::info!(before, version = outcome.version, changes, "the facts are loaded");
    }
    run::run_with(global, &args.run, Some(facts))
}

/// Returns whether the facts of a document are loaded already, and says so.
fn is_loaded(facts: &Facts, load: &Load) -> anyhow::Result<bool> {
    let is_same = facts.current().version() == load.version.get();
    let document: Option<Tree> = if is_same { facts.document()? } else { None };
    let is_loaded = document.is_some_and(|document| document == load.facts);
    if is_loaded {
        tracing::info!(version = load.version.get(), "the facts are loaded already");
    }
    Ok(is_loaded)
}

/// Looks whether an agent runs.
async fn is_running(global: &Global) -> anyhow::Result<u8> {
    match Client::connect(global.state_dir()?.path()).await {
        Ok(_) => Ok(exit::DONE),
        Err(ClientError::NoAgent { .. }) => Ok(exit::NO_AGENT),
        Err(error) => Err(error.into()),
    }
}

/// Hands the facts to the agent that runs.
async fn update(global: &Global, load: Load, given: &Given) -> anyhow::Result<u8> {
    let facts = facts_store::find(global)?.context("the agent that runs has no facts")?;
    if is_loaded(&facts, &load)? {
        return Ok(exit::DONE);
    }
    let version = load.version.get();
    let change = Change::Load(load);
    given.note_secrets(&change, &facts.current());
    match facts_store::submit(global, Submission::new(change, &user())).await? {
        Ok(_) => tracing::info!(version, "the facts are loaded by the agent that runs"),
        Err(refusal) => return Err(given.refuse(refusal)),
    }
    Ok(exit::DONE)
}
