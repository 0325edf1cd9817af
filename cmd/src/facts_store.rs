//! Opens the facts and the records of a state folder, and changes facts: through the agent if one
//! runs, and otherwise in this process.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use crankcase_engine::Name;
use crankcase_facts::wire::{Answer, Committed, Refusal, Request};
use crankcase_facts::{Facts, FactsError, Outcome, Schemas, Snapshot, Sqlite, Submission};
use crankcase_kinds::with_facts;
use crankcase_manifest::{Host, SiteFacts};
use crankcase_manifolds::facts as manifolds;
use crankcase_resources::run::World;
use crankcase_resources::state::Records;
use crankcase_state::SqliteStore;
use crankcase_status::{Client, ClientError, StateDir, StateError, StateLock};
use tokio::time::{Instant, sleep};

use crate::exit::{self, ExitError};
use crate::facts_given::Refused;
use crate::global::Global;
use crate::observing::now;
use crate::take_over_file;

/// How long a change waits for another change, or for an agent that does not answer yet.
const PATIENCE: Duration = Duration::from_secs(10);

/// The wait between two attempts. The release of a lock gives no notice, so the command has to poll.
const TRY_AGAIN: Duration = Duration::from_millis(20);

/// The name of the facts in the agent.
pub(crate) const FACTS: Name<Snapshot> = Name::new("facts");

/// A state folder that this process holds, and its facts, which were read after it was locked.
pub(crate) struct Held {
    // First, so that their file is closed before another process can hold the folder.
    pub(crate) facts: Facts,
    pub(crate) lock: StateLock,
}

/// Holds the state folder, and then opens its facts. A command that changes something begins with
/// this call: no other function opens facts to change them. Fails if another process holds the
/// folder. Blocks.
pub(crate) fn hold(global: &Global) -> anyhow::Result<Held> {
    Held::of(lock(&global.state_dir()?)?)
}

/// Takes the lock of a state folder, unless an agent that takes over keeps the folder for itself.
fn lock(state_dir: &StateDir) -> Result<StateLock, StateError> {
    let lock = state_dir.lock()?;
    let path = state_dir.path();
    if take_over_file::is_locked(path) {
        return Err(StateError::Held { path: path.to_owned(), pid: take_over_file::pid(path) });
    }
    Ok(lock)
}

/// Holds the state folder for an agent of a take-over, and waits for this long if another process holds it.
pub(crate) async fn hold_within(global: &Global, patience: Duration) -> anyhow::Result<Held> {
    let state_dir = global.state_dir()?;
    let latest = Instant::now() + patience;
    loop {
        match state_dir.lock() {
            Err(StateError::Held { .. }) if Instant::now() < latest => sleep(TRY_AGAIN).await,
            lock => return Held::of(lock?),
        }
    }
}

/// The state folder of a command that loads a site before it changes something.
pub(crate) enum Begun {
    Held(Held),
    /// There is no folder, so there are no facts. It is made when the site is right: a wrong site
    /// leaves nothing behind.
    Absent(Facts),
}

/// Holds the state folder if there is one. Fails if another process holds it. Blocks.
pub(crate) fn begin(global: &Global) -> anyhow::Result<Begun> {
    Ok(match global.state_dir()?.path().exists() {
        true => Begun::Held(hold(global)?),
        false => Begun::Absent(empty()?),
    })
}

impl Begun {
    /// Returns the facts that the site is loaded with.
    pub(crate) fn facts(&self) -> &Facts {
        match self {
            Self::Held(held) => &held.facts,
            Self::Absent(none) => none,
        }
    }

    /// Makes and holds the folder if there was none. Fails if another process has made it meanwhile,
    /// with facts that the site was not loaded with. Blocks.
    pub(crate) fn hold(self, global: &Global) -> anyhow::Result<Held> {
        let none = match self {
            Self::Held(held) => return Ok(held),
            Self::Absent(none) => none,
        };
        let held = hold(global)?;
        if held.facts.current().version() != none.current().version() {
            let text = format!(
                "another process has made the state folder {} meanwhile, and facts in it; run the command again",
                held.state().display()
            );
            return Err(ExitError::new(exit::CONFLICT, text).into());
        }
        Ok(held)
    }
}

impl Held {
    /// Opens the facts. The first change makes their file.
    fn of(lock: StateLock) -> anyhow::Result<Self> {
        let facts = Facts::open(Box::new(Sqlite::open(&file(lock.state_dir().path()))?))?;
        host_name().iter().for_each(|host| facts.seen_by(host));
        register(&facts)?;
        Ok(Self { facts, lock })
    }

    /// Opens what is on record of the resources. It is called once, as nobody else may use the
    /// records. Blocks.
    pub(crate) fn records(&self) -> anyhow::Result<Records> {
        Ok(Records::open(Arc::new(SqliteStore::open(self.state())?))?)
    }

    /// Returns the path of the folder.
    pub(crate) fn state(&self) -> &Path {
        self.lock.state_dir().path()
    }
}

/// Opens the facts to read them. Without a file or a state folder, returns empty facts in memory.
pub(crate) fn find_or_none(global: &Global) -> anyhow::Result<Facts> {
    match global.state_dir().ok().map(|_| find(global)).transpose()?.flatten() {
        Some(facts) => Ok(facts),
        None => empty(),
    }
}

/// Returns empty facts in memory, with the schemas that the first change of a new file stores.
fn empty() -> anyhow::Result<Facts> {
    let facts = Facts::open(Box::new(Sqlite::in_memory()?))?;
    register(&facts)?;
    Ok(facts)
}

/// Registers the schemas of the agent's parameters, and those of the built-in kinds.
pub(crate) fn register(facts: &Facts) -> anyhow::Result<()> {
    Ok(manifolds::register(facts, &with_facts(), now())?)
}

/// Returns the `facts` of expressions on this host.
pub(crate) fn seen_of(facts: &Facts) -> Arc<dyn SiteFacts> {
    manifolds::seen(facts.clone(), host_name())
}

/// Returns the world of resources that read these facts, and write their own.
pub(crate) fn world_of(facts: Facts) -> Arc<dyn World> {
    manifolds::world(host_name(), move || Ok(facts.clone()))
}

/// Returns the name of this host: `host.name` in expressions.
pub(crate) fn host_name() -> Option<String> {
    Host::of_machine().read()["name"].as_str().map(str::to_owned)
}

/// Returns the file of the facts in a state folder.
pub(crate) fn file(state: &Path) -> PathBuf {
    state.join("facts.db")
}

/// Opens the facts to read them. Returns none if there is no store yet.
pub(crate) fn find(global: &Global) -> anyhow::Result<Option<Facts>> {
    let store = Sqlite::find(&file(global.state_dir()?.path()))?;
    store.map(|store| Ok(Facts::open(Box::new(store))?)).transpose()
}

/// Returns the current facts. They are empty if there is no store yet.
pub(crate) fn current(global: &Global) -> anyhow::Result<Snapshot> {
    Ok(find(global)?.map_or_else(empty, Ok)?.current())
}

/// The result of a change: its revision in the history, or the refusal.
pub(crate) type Changed = Result<Committed, Refusal>;

/// Returns the agent of the state folder, if one runs.
pub(crate) async fn agent(global: &Global) -> anyhow::Result<Option<Client>> {
    match Client::connect(global.state_dir()?.path()).await {
        Ok(client) => Ok(Some(client)),
        Err(ClientError::NoAgent { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Sends a change, or a trial of it, to the agent. Returns none if no agent runs.
pub(crate) async fn by_agent(
    global: &Global,
    submission: &Submission,
) -> anyhow::Result<Option<Changed>> {
    let Some(client) = agent(global).await? else { return Ok(None) };
    let request = Request::of(submission).context("it cannot be sent")?;
    match client.extension(manifolds::TARGET, &request).await? {
        Answer::Committed(committed) => Ok(Some(Ok(committed))),
        Answer::Refused(refusal) => Ok(Some(Err(*refusal))),
        other => anyhow::bail!("the agent answers what is not known here: {other:?}"),
    }
}

/// A change that was made by an agent, or in this process with its outcome and the facts after it.
pub(crate) enum Made {
    ByAgent { before: u64, committed: Committed },
    Here { before: u64, outcome: Outcome, current: Snapshot },
}

/// The facts that a command is about to change.
pub(crate) enum Changing {
    /// They are only read: an agent makes the change, there is no state folder yet, or it is a trial.
    Read(Facts),
    /// This process holds the state folder, so nobody else changes them meanwhile.
    Held(Held),
}

impl Changing {
    /// Reads the facts for a trial, which holds nothing. Blocks.
    pub(crate) fn read(global: &Global) -> anyhow::Result<Self> {
        Ok(Self::Read(find_or_none(global)?))
    }

    /// Begins a change: reads the facts if an agent runs, and otherwise holds the state folder first.
    /// A folder that does not exist is not made before the change.
    pub(crate) async fn begin(global: &Global) -> anyhow::Result<Self> {
        match global.state_dir()?.path().exists() {
            true => Self::enter(global).await,
            false => Ok(Self::Read(empty()?)),
        }
    }

    /// Waits until an agent runs, or this process holds the state folder.
    async fn enter(global: &Global) -> anyhow::Result<Self> {
        let state_dir = global.state_dir()?;
        let latest = Instant::now() + PATIENCE;
        loop {
            if agent(global).await?.is_some() {
                return Self::read(global);
            }
            match lock(&state_dir) {
                // Another change is being made, or an agent does not answer yet.
                Err(StateError::Held { .. }) if Instant::now() < latest => sleep(TRY_AGAIN).await,
                lock => return Ok(Self::Held(Held::of(lock?)?)),
            }
        }
    }

    /// Returns the facts.
    pub(crate) fn facts(&self) -> &Facts {
        match self {
            Self::Read(facts) => facts,
            Self::Held(held) => &held.facts,
        }
    }

    /// Makes the change: through the agent if one runs, and otherwise in this process. Before that,
    /// `note` gets the facts that the change is made on, as far as they are known.
    pub(crate) async fn submit(
        self,
        global: &Global,
        submission: &Submission,
        note: impl Fn(&Snapshot),
    ) -> anyhow::Result<Result<Made, Refusal>> {
        let mut changing = self;
        let held = loop {
            let stored = changing.facts().current();
            note(&stored);
            if let Self::Held(held) = changing {
                break held;
            }
            if let Some(changed) = by_agent(global, submission).await? {
                let before = stored.version();
                return Ok(changed.map(|committed| Made::ByAgent { before, committed }));
            }
            // There was no agent, or it has ended meanwhile.
            changing = Self::enter(global).await?;
        };
        if submission.is_strict {
            return Err(not_judged());
        }
        let before = held.facts.current().version();
        let outcome = held.facts.submit(submission, now());
        let current = held.facts.current();
        Ok(match outcome {
            Ok(outcome) => Ok(Made::Here { before, outcome, current }),
            Err(error) => Err(refusal(&error, &current)),
        })
    }
}

/// Returns the error for a strict change without an agent.
pub(crate) fn not_judged() -> anyhow::Error {
    let text =
        "no agent runs, and only an agent knows which resources facts degrade; leave --strict out";
    ExitError::new(exit::NO_AGENT, text).into()
}

/// Returns the refusal for an error of a change.
pub(crate) fn refusal(error: &FactsError, current: &Snapshot) -> Refusal {
    Refusal::of(error, current.schemas())
}

/// Returns the error to print when facts cannot be read.
pub(crate) fn failed(error: &FactsError) -> anyhow::Error {
    Refused(Refusal::of(error, &Schemas::default())).into()
}
