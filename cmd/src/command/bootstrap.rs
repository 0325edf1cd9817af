//! Loads facts, and then keeps the site that uses them.

use std::path::{Path, PathBuf};

use anyhow::bail;
use crankcase_facts::wire::Refusal;
use crankcase_facts::{Change, Document, Facts, FactsError, Load, Pointer, Submission, difference};
use crankcase_status::{Client, ClientError, StateError};

use crate::command::control::user;
use crate::command::{run, runtime, take_over};
use crate::exit::{self, ExitError};
use crate::facts_given::Given;
use crate::facts_store::{self, Begun};
use crate::global::Global;
use crate::observing::now;
use crate::print::first_of;
use crate::site_args::FirstFacts;

/// The facts to load, and the site to keep.
#[derive(Debug, clap::Args)]
#[group(id = "bootstrapped")]
pub(crate) struct Args {
    /// The document of facts, {version: N, facts: {...}}, in YAML or JSON: a file, a folder, or - for standard
    /// input; may be repeated
    #[arg(long = "facts", short = 'f', value_name = "FACTS", required = true)]
    facts: Vec<PathBuf>,
    #[command(flatten)]
    run: run::Args,
}

pub(crate) fn run(global: &Global, args: &Args) -> anyhow::Result<u8> {
    if args.facts.iter().chain(&args.run.site.paths).filter(|it| is_stdin(it)).count() > 1 {
        let text = "standard input (-) can be read only once; give the facts or the site as a file";
        bail!(ExitError::new(exit::USAGE, text));
    }
    let begun = begin(global)?;
    let found = match &begun {
        Some(begun) => begun.facts().clone(),
        // The agent changes them, by the version that they have here.
        None => facts_store::find_or_none(global)?,
    };
    let given = Given::read(&args.facts, &found.current())?;
    // A merge: changes since the last document stay.
    let load = Load::read(given.files.value(), true).map_err(|invalid| given.invalid(invalid))?;
    // The site is read with the new facts before they are stored.
    let trial = found.trial()?;
    facts_store::register(&trial)?;
    let bootstrap = Bootstrap { given, load, expects: found.current().version() };
    let is_first = found.current().version() == 0;
    let asked = match bootstrap.load(&trial)? {
        Loaded::Now { .. } if is_first => FirstFacts::Right,
        // The stored facts may be wrong already: the new facts must not make more resources wrong.
        _ => FirstFacts::NoWorseThan(facts_store::seen_of(&found).current()),
    };
    let begun = match begun {
        Some(begun) => begun,
        None => {
            let tried = run::try_site(global, &args.run, &trial, asked.clone())?;
            if tried != exit::DONE {
                return Ok(tried);
            }
            let code = runtime::ask(bootstrap.update(global, &found))?;
            if code != exit::NO_AGENT {
                return Ok(code);
            }
            // The agent has ended meanwhile. What it has changed since makes the load fail.
            Begun::Held(facts_store::hold(global)?)
        }
    };
    drop(found);
    run::run_with(global, &args.run, (begun, None), (Some(&trial), asked), |facts| {
        bootstrap.load(facts)?.tell();
        Ok(())
    })
}

/// Holds the state folder if there is one; none if an agent holds it and can be asked.
fn begin(global: &Global) -> anyhow::Result<Option<Begun>> {
    match take_over::begin(global) {
        Err(error)
            if matches!(error.downcast_ref::<StateError>(), Some(StateError::Held { .. }))
                && runtime::ask(is_running(global))? == exit::DONE =>
        {
            Ok(None)
        }
        begun => begun.map(Some),
    }
}

fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-" || path.as_os_str() == "/dev/stdin"
}

/// A document of facts to load.
struct Bootstrap {
    given: Given,
    load: Load,
    /// The version of the stored facts when the site was tried. The load is refused if they have another one by then.
    expects: u64,
}

/// The result of the load.
enum Loaded {
    Already {
        version: u64,
    },
    Now {
        before: u64,
        version: u64,
        changes: usize,
    },
    /// The document is not newer than the facts: nothing was changed. `otherwise` has the paths of the facts that
    /// have another value in the document.
    LeftAlone {
        version: u64,
        stored: u64,
        otherwise: Vec<Pointer>,
    },
}

impl Loaded {
    fn tell(&self) {
        match self {
            Self::Already { version } => tracing::info!(version, "the facts are loaded already"),
            Self::Now { before, version, changes } => {
                tracing::info!(before, version, changes, "the facts are loaded");
            }
            Self::LeftAlone { version, stored, otherwise } => {
                let (named, more) = first_of(otherwise);
                let more = more.map_or_else(String::new, |more| format!(" {more}"));
                let otherwise = format!("{}{more}", named.join(", "));
                tracing::warn!(
                    version,
                    stored,
                    otherwise,
                    "the document is not newer than the facts, and is left alone"
                );
            }
        }
    }
}

impl Bootstrap {
    /// Loads the document, unless it is the one that was loaded last, or is not newer than the facts.
    fn load(&self, facts: &Facts) -> anyhow::Result<Loaded> {
        let Load { version, facts: stated, .. } = &self.load;
        let document = Document { version: version.get(), facts: stated.clone() };
        let last = facts.document()?;
        if last.as_ref() == Some(&document) {
            return Ok(Loaded::Already { version: document.version });
        }
        if last.is_some_and(|last| last.version == document.version) {
            let version = document.version;
            let text = format!(
                "version {version} was loaded with other facts; a changed document needs a higher version"
            );
            bail!(ExitError::new(exit::CONFLICT, text));
        }
        let current = facts.current();
        if document.version <= current.version() {
            let (version, stored) = (document.version, current.version());
            let otherwise = difference(current.facts(), &document.facts).into_iter();
            let otherwise = otherwise.filter(|it| it.after.is_some()).map(|it| it.path).collect();
            return Ok(Loaded::LeftAlone { version, stored, otherwise });
        }
        let submission = self.submission();
        self.given.note_secrets(&submission.change, &current);
        let outcome = facts.submit(&submission, now());
        let refuse = |error: FactsError| self.given.refuse(Refusal::of(&error, current.schemas()));
        let outcome = outcome.map_err(refuse)?;
        let (version, changes) = (outcome.version, outcome.differences.len());
        Ok(Loaded::Now { before: current.version(), version, changes })
    }

    fn submission(&self) -> Submission {
        let mut submission = Submission::new(Change::Load(self.load.clone()), &user());
        submission.expect_version = Some(self.expects);
        submission
    }

    /// Sends the facts to the agent that runs.
    async fn update(&self, global: &Global, stored: &Facts) -> anyhow::Result<u8> {
        let loaded = self.load(&stored.trial()?)?;
        if let Loaded::Now { .. } = loaded {
            match facts_store::by_agent(global, &self.submission()).await? {
                Some(Ok(_)) => {}
                Some(Err(refusal)) => return Err(self.given.refuse(refusal)),
                None => return Ok(exit::NO_AGENT),
            }
        }
        loaded.tell();
        tracing::info!("an agent runs already, and keeps its own site with these facts");
        Ok(exit::DONE)
    }
}

/// Returns `DONE` if an agent runs, and `NO_AGENT` if none does.
async fn is_running(global: &Global) -> anyhow::Result<u8> {
    match Client::connect(global.state_dir()?.path()).await {
        Ok(_) => Ok(exit::DONE),
        Err(ClientError::NoAgent { .. }) => Ok(exit::NO_AGENT),
        Err(error) => Err(error.into()),
    }
}
