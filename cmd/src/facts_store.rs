//! Where the facts are, and who changes them: the agent that runs, or this process.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use crankcase_engine::Name;
use crankcase_facts::wire::{Answer, Refusal, Request};
use crankcase_facts::{
    Change, Facts, FactsError, Pointer, Schema, Schemas, Snapshot, Sqlite, Submission,
};
use crankcase_manifest::{Host, SiteFacts};
use crankcase_manifolds::facts as manifolds;
use crankcase_resources::{RuleParameters, Tunings};
use crankcase_status::{Client, ClientError, StateDir, StateError};
use tokio::time::{Instant, sleep};

use crate::facts_given::Refused;
use crate::global::Global;
use crate::observing::now;

/// How long a change waits for another one that is made.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often it looks meanwhile. Nobody is told when a lock is released.
const TRY_AGAIN: Duration = Duration::from_millis(20);

/// The name of the facts in the agent.
pub(crate) const FACTS: Name<Snapshot> = Name::new("facts");

/// Opens the facts for an agent, and makes their file if it is not there. Another agent must not run.
pub(crate) fn open_for_agent(global: &Global) -> anyhow::Result<Facts> {
    let state_dir = global.state_dir()?;
    let _lock = state_dir.lock()?;
    open(&state_dir)
}

/// Opens the facts of a state folder that is held, and makes their file if it is not there.
pub(crate) fn open(state_dir: &StateDir) -> anyhow::Result<Facts> {
    let facts = Facts::open(Box::new(Sqlite::open(&file(state_dir.path()))?))?;
    register(&facts)?;
    Ok(facts)
}

/// Opens the facts to read them; those that are not there are none.
pub(crate) fn find_or_none(global: &Global) -> anyhow::Result<Facts> {
    match global.state_dir().ok().map(|_| find(global)).transpose()?.flatten() {
        Some(facts) => Ok(facts),
        None => Ok(Facts::open(Box::new(Sqlite::in_memory()?))?),
    }
}

/// Registers the schemas of the facts that the agent itself uses. Facts that do not fit one stay as they are, and
/// are told.
pub(crate) fn register(facts: &Facts) -> anyhow::Result<()> {
    for (path, schema) in
        [("/agent/resources", Tunings::schema()), ("/rules", RuleParameters::schema())]
    {
        let path: Pointer = path.parse()?;
        let schema = Schema::read("crankcase", schema)?;
        if facts.current().schemas().iter().any(|(at, known)| *at == path && *known == schema) {
            continue;
        }
        let change = Change::Register(path.clone(), Some(schema));
        match facts.submit(&Submission::new(change, "crankcase"), now()) {
            Err(error @ FactsError::Store(_)) => return Err(error.into()),
            Err(error) => {
                tracing::warn!(%path, %error, "the facts of the agent do not fit its schema");
            }
            Ok(_) => {}
        }
    }
    Ok(())
}

/// Returns what expressions see as `facts`; none if there are none, or no state folder is known.
pub(crate) fn seen(global: &Global) -> anyhow::Result<Option<Arc<dyn SiteFacts>>> {
    match global.state_dir() {
        Ok(_) => Ok(find(global)?.map(|facts| seen_of(&facts))),
        Err(_) => Ok(None),
    }
}

/// Returns what expressions see of facts on this host.
pub(crate) fn seen_of(facts: &Facts) -> Arc<dyn SiteFacts> {
    manifolds::seen(facts.clone(), host_name())
}

/// Returns the name of this host, as expressions see it.
pub(crate) fn host_name() -> Option<String> {
    Host::of_machine().read()["name"].as_str().map(str::to_owned)
}

/// Returns the file of the facts in a state folder.
pub(crate) fn file(state: &Path) -> PathBuf {
    state.join("facts.db")
}

/// Opens the facts to read them; none if there are none yet.
pub(crate) fn find(global: &Global) -> anyhow::Result<Option<Facts>> {
    let store = Sqlite::find(&file(global.state_dir()?.path()))?;
    store.map(|store| Ok(Facts::open(Box::new(store))?)).transpose()
}

/// Returns the facts as they are; those of a store that is not there are none.
pub(crate) fn current(global: &Global) -> anyhow::Result<Snapshot> {
    Ok(find(global)?.map_or_else(Snapshot::default, |facts| facts.current()))
}

/// What came of a change: the number under which it is in the history, or why it was refused.
pub(crate) type Changed = Result<u64, Refusal>;

/// Has a change made by the agent; none if none runs.
pub(crate) async fn by_agent(
    global: &Global,
    submission: &Submission,
) -> anyhow::Result<Option<Changed>> {
    let request = Request::of(submission).context("it cannot be sent")?;
    let client = match Client::connect(global.state_dir()?.path()).await {
        Ok(client) => client,
        Err(ClientError::NoAgent { .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    match client.extension(manifolds::TARGET, &request).await? {
        Answer::Committed { revision } => Ok(Some(Ok(revision))),
        Answer::Refused(refusal) => Ok(Some(Err(*refusal))),
        other => anyhow::bail!("the agent answers what is not known here: {other:?}"),
    }
}

/// Has a change made: by the agent if one runs, and else by this process, which is then the only one.
pub(crate) async fn submit(global: &Global, submission: Submission) -> anyhow::Result<Changed> {
    let state_dir = global.state_dir()?;
    let latest = Instant::now() + PATIENCE;
    let lock = loop {
        if let Some(changed) = by_agent(global, &submission).await? {
            return Ok(changed);
        }
        match state_dir.lock() {
            // Another change, or an agent that does not answer yet.
            Err(StateError::Held { .. }) if Instant::now() < latest => sleep(TRY_AGAIN).await,
            lock => break lock?,
        }
    };
    let facts = open(&state_dir)?;
    let outcome = facts.submit(&submission, now());
    drop(lock);
    Ok(outcome.map(|outcome| outcome.revision).map_err(|error| refusal(&error, &facts.current())))
}

/// Returns why a change is refused.
pub(crate) fn refusal(error: &FactsError, current: &Snapshot) -> Refusal {
    Refusal::of(error, current.schemas())
}

/// Returns an error of the store, or of what was asked of it, as one that is printed.
pub(crate) fn failed(error: &FactsError) -> anyhow::Error {
    Refused(Refusal::of(error, &Schemas::default())).into()
}
