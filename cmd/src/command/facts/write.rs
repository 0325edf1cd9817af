//! The commands that change facts: `facts set`, `push`, `load` and `restore`.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use crankcase_facts::wire::{Committed, Difference, Owned, Refusal};
use crankcase_facts::{
    Change, Degraded, Facts, Load, Operation, Outcome, Pointer, Snapshot, Submission, Update,
};
use crankcase_manifest::DataFiles;
use crankcase_workers::printable_yaml;
use serde::Serialize;

use super::path::path;
use super::show;
use crate::command::control::{check, user};
use crate::completion::fact_path;
use crate::exit::ExitError;
use crate::facts_given::{Given, Refused};
use crate::facts_store::{self as store, Changing, Made};
use crate::global::Global;
use crate::observing::now;
use crate::{exit, print};

/// The largest text, in bytes.
const MAX_TEXT: u64 = 16 * 1024 * 1024;

/// The options of every command that changes facts.
#[derive(Debug, clap::Args)]
pub(crate) struct ChangeArgs {
    /// Show what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Change nothing if a resource of the running agent would be wrong with the new facts
    #[arg(long)]
    strict: bool,
    /// Change nothing unless the facts have this version
    #[arg(long, value_name = "VERSION")]
    expect_version: Option<u64>,
    /// The reason for the change, for the history
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Overwrite the facts that the agent itself has written at this path; may be repeated
    #[arg(long, value_name = "PATH", value_parser = path, add = fact_path())]
    overwrite: Vec<Pointer>,
}

impl ChangeArgs {
    /// Begins the change, or the trial of it.
    pub(super) async fn begin(&self, global: &Global) -> anyhow::Result<Changing> {
        if self.dry_run { Changing::read(global) } else { Changing::begin(global).await }
    }
}

/// The fact to set or remove.
#[derive(Debug, clap::Args)]
pub(crate) struct SetArgs {
    /// The path, such as /mero/globals/n
    #[arg(value_parser = path, add = fact_path())]
    path: Pointer,
    /// The value, as YAML or JSON: 8, true, a text, {a: 1}, [1, 2]
    #[arg(
        required_unless_present_any = ["delete", "file"],
        conflicts_with_all = ["delete", "file"],
        allow_negative_numbers = true
    )]
    value: Option<String>,
    /// Take the value unchanged as a text, not as YAML; for example a key or a password
    #[arg(long, conflicts_with = "delete")]
    text: bool,
    /// Read the value from a file, or - for standard input
    #[arg(long, value_name = "FILE", conflicts_with = "delete")]
    file: Option<PathBuf>,
    /// Remove the fact, with everything below it
    #[arg(long, conflicts_with_all = ["insert", "create_parents"])]
    delete: bool,
    /// Fail if the path has a fact already; in a list, insert the value before the item at the path
    #[arg(long)]
    insert: bool,
    /// Make the missing maps above the path
    #[arg(long)]
    create_parents: bool,
    #[command(flatten)]
    change: ChangeArgs,
}

/// The update to apply.
#[derive(Debug, clap::Args)]
pub(crate) struct PushArgs {
    /// The update, in YAML or JSON: files, folders, or - for standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    change: ChangeArgs,
}

/// The document to load.
#[derive(Debug, clap::Args)]
pub(crate) struct LoadArgs {
    /// The document, in YAML or JSON: files, folders, or - for standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Apply only the differences between the last document and this one, and keep all other facts as they are
    #[arg(long)]
    merge: bool,
    #[command(flatten)]
    change: ChangeArgs,
}

/// The version to restore.
#[derive(Debug, clap::Args)]
pub(crate) struct RestoreArgs {
    /// The version; "facts log" lists the versions
    version: u64,
    #[command(flatten)]
    change: ChangeArgs,
}

/// The result of a change.
#[derive(Debug, Serialize)]
struct Done {
    dry_run: bool,
    /// The version of the facts before the change.
    #[serde(skip)]
    before: u64,
    version: u64,
    revision: u64,
    differences: Vec<Difference>,
    overwritten: Vec<Owned>,
    /// The users of facts that the change degrades, as far as a running agent knows.
    degraded: Vec<Degraded>,
    /// The schema that the change has set or removed, if it is a change of a schema.
    #[serde(skip_serializing_if = "Option::is_none")]
    schema: Option<SchemaDone>,
}

#[derive(Debug, Serialize)]
struct SchemaDone {
    path: String,
    is_set: bool,
}

impl Done {
    fn new(
        dry_run: bool,
        (before, version): (u64, u64),
        (revision, differences): (u64, &[crankcase_facts::Difference]),
        (overwritten, degraded): (Vec<Owned>, Vec<Degraded>),
        current: &Snapshot,
    ) -> Self {
        let differences = differences.iter().map(|it| Difference::of(it, current.schemas()));
        let differences = differences.collect();
        let schema = None;
        Self { dry_run, before, version, revision, differences, overwritten, degraded, schema }
    }
}

pub(super) async fn set(global: &Global, args: SetArgs) -> anyhow::Result<u8> {
    let SetArgs { path, value, text, file, delete, insert, create_parents, change } = args;
    if delete {
        let update = Change::Update(Update::of(vec![Operation::Delete(path)]));
        return submit(global, (change.begin(global).await?, update), change, None).await;
    }
    let name = Path::new("<value>");
    let files = match (value, file) {
        (Some(value), _) if text => DataFiles::of_text(name, &quoted(&value)),
        (Some(value), _) => DataFiles::of_text(name, &value),
        (None, Some(file)) if text => DataFiles::of_text(&file, &quoted(&read_text(&file)?)),
        (None, file) => DataFiles::read(file.as_slice()),
    };
    let changing = change.begin(global).await?;
    let mut given = Given::of(files, &changing.facts().current())?;
    let data = given.files.value().clone();
    let operation = match insert {
        true => Operation::Insert(path, data),
        false => Operation::Set(path, data),
    };
    let mut update = Update::of(vec![operation]);
    update.creates_parents = create_parents;
    // The input is the value of the only operation. A problem with the path is shown at the value too.
    given.within = "/ops/0/2".to_owned();
    submit(global, (changing, Change::Update(update)), change, Some(given)).await
}

/// Returns a text as YAML.
fn quoted(text: &str) -> String {
    printable_yaml(&serde_json::Value::from(text).to_string()).into_owned()
}

/// Reads a text unchanged, from a file or standard input.
fn read_text(file: &Path) -> Result<String, ExitError> {
    let name = file.display();
    let invalid = |text: String| ExitError::new(exit::INVALID, text);
    let mut bytes = Vec::new();
    let most = MAX_TEXT + 1;
    let read = match file.as_os_str() == "-" {
        true => io::stdin().lock().take(most).read_to_end(&mut bytes),
        false => File::open(file).and_then(|opened| opened.take(most).read_to_end(&mut bytes)),
    };
    let read = read.map_err(|error| invalid(format!("cannot read {name}: {error}")))?;
    if read as u64 > MAX_TEXT {
        return Err(invalid(format!("{name} is larger than 16 MiB")));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        invalid(format!("{name} is no text: byte {at} and what follows is not UTF-8"))
    })
}

pub(super) async fn push(global: &Global, args: PushArgs) -> anyhow::Result<u8> {
    let PushArgs { files, change } = args;
    let files = DataFiles::read(&files);
    let changing = change.begin(global).await?;
    let given = Given::of(files, &changing.facts().current())?;
    let update = Update::read(given.files.value()).map_err(|invalid| given.invalid(invalid))?;
    submit(global, (changing, Change::Update(update)), change, Some(given)).await
}

pub(super) async fn load(global: &Global, args: LoadArgs) -> anyhow::Result<u8> {
    let LoadArgs { files, merge, change } = args;
    let files = DataFiles::read(&files);
    let changing = change.begin(global).await?;
    let given = Given::of(files, &changing.facts().current())?;
    let load = Load::read(given.files.value(), merge);
    let load = load.map_err(|invalid| given.invalid(invalid))?;
    submit(global, (changing, Change::Load(load)), change, Some(given)).await
}

pub(super) async fn restore(global: &Global, args: RestoreArgs) -> anyhow::Result<u8> {
    let RestoreArgs { version, change } = args;
    submit(global, (change.begin(global).await?, Change::Restore(version)), change, None).await
}

/// Makes a change that was begun, or a trial of it, and prints the result.
pub(super) async fn submit(
    global: &Global,
    (changing, change): (Changing, Change),
    args: ChangeArgs,
    given: Option<Given>,
) -> anyhow::Result<u8> {
    let ChangeArgs { dry_run, strict, expect_version, reason, overwrite } = args;
    reason.as_deref().map_or(Ok(()), check)?;
    let mut submission = Submission::new(change, &user());
    (submission.why, submission.expect_version) = (reason, expect_version);
    (submission.overwrites, submission.is_trial) = (overwrite, dry_run);
    submission.is_strict = strict;
    let note = |stored: &Snapshot| {
        given.iter().for_each(|given| given.note_secrets(&submission.change, stored));
    };
    let done = match dry_run {
        true => {
            note(&changing.facts().current());
            tried(global, &submission, changing.facts()).await?
        }
        false => made(global, &submission, changing, note).await?,
    };
    let schema = match &submission.change {
        Change::Register(path, schema) => {
            Some(SchemaDone { path: path.to_string(), is_set: schema.is_some() })
        }
        _ => None,
    };
    match done {
        Ok(done) => {
            let done = Done { schema, ..done };
            print::data(global.output, &done, |done, out| write_done(done, global.quiet, out))?;
            Ok(exit::DONE)
        }
        Err(refusal) => Err(match &given {
            Some(given) => given.refuse(refusal),
            None => Refused(refusal).into(),
        }),
    }
}

/// Makes a change. What an agent has made is read from the history.
async fn made(
    global: &Global,
    submission: &Submission,
    changing: Changing,
    note: impl Fn(&Snapshot),
) -> anyhow::Result<Result<Done, Refusal>> {
    let (stored, committed) = match changing.submit(global, submission, note).await? {
        Ok(Made::ByAgent { before, committed }) => (before, committed),
        Ok(Made::Here { before, outcome, current }) => {
            return Ok(Ok(done(false, before, (&outcome, Vec::new()), &current)));
        }
        Err(refusal) => return Ok(Err(refusal)),
    };
    let Committed { revision, overwritten, degraded, .. } = committed;
    let shown = || {
        let facts = store::find(global)?.context("the facts are gone")?;
        let entry = facts.entry(revision)?.context("it is not in the history any more")?;
        // Others may have changed the facts since they were read here.
        let last = facts.entry(revision.saturating_sub(1)).ok().flatten();
        let versions = (last.map_or(stored, |last| last.version), entry.version);
        let of = (revision, &entry.differences[..]);
        anyhow::Ok(Done::new(false, versions, of, (overwritten, degraded), &facts.current()))
    };
    shown().map(Ok).context("the agent has made the change, and it cannot be shown")
}

fn done(
    dry_run: bool,
    before: u64,
    (outcome, degraded): (&Outcome, Vec<Degraded>),
    current: &Snapshot,
) -> Done {
    let overwritten = outcome.overwritten.iter().map(Owned::of).collect();
    let of = (outcome.revision, &outcome.differences[..]);
    Done::new(dry_run, (before, outcome.version), of, (overwritten, degraded), current)
}

/// Returns the result that a change would have, and changes nothing.
async fn tried(
    global: &Global,
    submission: &Submission,
    facts: &Facts,
) -> anyhow::Result<Result<Done, Refusal>> {
    let has_state = global.state_dir().is_ok();
    let answer = if has_state { store::by_agent(global, submission).await? } else { None };
    let degraded = match answer {
        Some(Ok(committed)) => committed.degraded,
        Some(Err(refusal)) => return Ok(Err(refusal)),
        None if submission.is_strict => return Err(store::not_judged()),
        None => Vec::new(),
    };
    let current = facts.current();
    Ok(match facts.submit(submission, now()) {
        Ok(outcome) => Ok(done(true, current.version(), (&outcome, degraded), &current)),
        Err(error) => Err(store::refusal(&error, &facts.current())),
    })
}

fn write_done(done: &Done, is_quiet: bool, out: &mut print::Out<'_>) -> io::Result<()> {
    if is_quiet {
        return Ok(());
    }
    let Done { dry_run, before, version, differences, overwritten, degraded, schema, .. } = done;
    let count = match (schema, differences.len()) {
        (Some(SchemaDone { path, is_set }), _) => {
            let done = if *is_set { "set" } else { "removed" };
            format!("the schema at {} is {done}", print::one_line(path))
        }
        (None, 0) => "nothing changes".to_owned(),
        (None, 1) => "1 change".to_owned(),
        (None, count) => format!("{count} changes"),
    };
    let note = if *dry_run { " (dry run: nothing was changed)" } else { "" };
    writeln!(out, "version {before} -> {version}: {count}{note}")?;
    show::differences(differences, out)?;
    overwritten.iter().try_for_each(|it| {
        let (path, owner) = (print::one_line(&it.path), print::one_line(&it.owner));
        writeln!(out, "  overwritten: {path}, which {owner} had written")
    })?;
    let degrades = if *dry_run { "would degrade" } else { "degrades" };
    let (degraded, more) = print::first_of(degraded);
    degraded.iter().try_for_each(|it| writeln!(out, "  {degrades} {it}"))?;
    more.iter().try_for_each(|more| writeln!(out, "  {more}"))
}
