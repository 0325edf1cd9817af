//! The facts that the resources and rules of a site read, watch and write on a host.

use std::fmt;
use std::future::pending;
use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use crankcase_facts::{
    Change, Facts, LAYERS, Operation, Pointer, Snapshot, Submission, Tree, effective,
};
use crankcase_resources::BoxError;
use crankcase_resources::run::{FactChanges, World, WorldSnapshot};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;

/// Returns the world of a site's resources. They read the facts that the host sees, and write facts of their own.
/// `open` opens the facts at the first use.
pub fn world<O>(host: Option<String>, open: O) -> Arc<dyn World>
where
    O: Fn() -> Result<Facts, BoxError> + Send + Sync + 'static,
{
    Arc::new(OfFacts { open, host, facts: Mutex::default(), seen: Mutex::default() })
}

struct OfFacts<O> {
    open: O,
    host: Option<String>,
    facts: Mutex<Option<Facts>>,
    seen: Mutex<Option<Arc<Seen>>>,
}

/// The facts at one moment.
#[derive(Debug)]
struct Seen {
    snapshot: Snapshot,
    /// The facts that the host sees.
    facts: Tree,
}

impl<O> fmt::Debug for OfFacts<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OfFacts").finish_non_exhaustive()
    }
}

impl<O: Fn() -> Result<Facts, BoxError>> OfFacts<O> {
    fn facts(&self) -> Result<Facts, BoxError> {
        let mut facts = self.facts.lock();
        match &*facts {
            Some(facts) => Ok(facts.clone()),
            None => Ok(facts.insert((self.open)()?).clone()),
        }
    }
}

#[async_trait]
impl<O: Fn() -> Result<Facts, BoxError> + Send + Sync> World for OfFacts<O> {
    fn snapshot(&self) -> Result<Arc<dyn WorldSnapshot>, BoxError> {
        let snapshot = self.facts()?.current();
        let mut seen = self.seen.lock();
        let last = seen.take().filter(|seen| seen.snapshot == snapshot);
        let last = last.unwrap_or_else(|| {
            let facts = effective(snapshot.facts(), self.host.as_deref());
            Arc::new(Seen { snapshot, facts })
        });
        Ok(seen.insert(last).clone())
    }

    fn watch(&self, path: &str) -> Result<Box<dyn FactChanges>, BoxError> {
        let (facts, path) = (self.facts()?, path.parse()?);
        let layers = Pointer::root().join(LAYERS);
        Ok(Box::new(OfPath { fact: facts.watch(&path), layers: facts.watch(&layers) }))
    }

    async fn changed(&self, revision: u64) {
        let Ok(facts) = self.facts() else { return pending().await };
        let mut facts = facts.follow();
        if facts.wait_for(|facts| facts.revision() != revision).await.is_err() {
            pending::<()>().await;
        }
    }

    #[expect(clippy::disallowed_methods, reason = "the history has the time of the day")]
    async fn set(&self, owner: &str, path: &str, value: Option<Value>) -> Result<(), BoxError> {
        let path: Pointer = path.parse()?;
        let operation = match value {
            Some(value) => Operation::Set(path, value),
            None => Operation::Delete(path),
        };
        let submission = Submission::new(Change::Own(vec![operation]), owner);
        let facts = self.facts()?;
        let set = move || facts.submit(&submission, SystemTime::now());
        tokio::task::spawn_blocking(set).await??;
        Ok(())
    }
}

impl WorldSnapshot for Seen {
    fn revision(&self) -> u64 {
        self.snapshot.revision()
    }

    fn get(&self, path: &str) -> Result<Option<Value>, BoxError> {
        let path: Pointer = path.parse()?;
        Ok(self.facts.at(&path).map(|fact| fact.to_value()))
    }

    fn stored(&self, path: &str) -> Result<Option<Value>, BoxError> {
        let path: Pointer = path.parse()?;
        Ok(self.snapshot.at(&path).map(|fact| fact.to_value()))
    }

    fn shown(&self, path: &str, value: &Value) -> Result<Value, BoxError> {
        let path: Pointer = path.parse()?;
        let tree = Tree::from_value(value.clone()).map_err(|(_, why)| why)?;
        Ok(self.snapshot.schemas().redacted(&path, &tree))
    }

    fn secrets(&self, mut visit: &mut dyn FnMut(&str)) {
        self.snapshot.schemas().secrets(self.snapshot.facts(), &mut visit);
    }
}

/// The changes of a fact: of its own, or of the layers over it.
#[derive(Debug)]
struct OfPath {
    fact: watch::Receiver<Option<Tree>>,
    layers: watch::Receiver<Option<Tree>>,
}

#[async_trait]
impl FactChanges for OfPath {
    async fn changed(&mut self) {
        let changed = tokio::select! {
            biased;
            changed = self.fact.changed() => changed,
            changed = self.layers.changed() => changed,
        };
        if changed.is_err() {
            pending::<()>().await;
        }
    }
}
