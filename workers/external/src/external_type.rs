//! A type, and its answers about its resources.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use crankcase_resources::{BoxError, Context};
use parking_lot::RwLock;

use crate::known::{Asking, Known, Shared};
use crate::settings::Settings;
use crate::type_name::Runner;

/// A type that is a program.
pub(crate) struct ExternalType {
    pub(crate) name: String,
    pub(crate) runner: Runner,
    pub(crate) shared: Arc<Shared>,
    /// The summary of the type, once the type has answered.
    summary: OnceLock<String>,
    /// The answers of the type about its resources, by their names.
    known: RwLock<HashMap<String, Arc<Known>>>,
}

impl fmt::Debug for ExternalType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ExternalType").field(&self.name).finish()
    }
}

impl ExternalType {
    pub(crate) fn new(name: &str, runner: Runner, shared: Arc<Shared>) -> Self {
        let (name, summary) = (name.to_owned(), OnceLock::new());
        Self { name, runner, shared, summary, known: RwLock::default() }
    }

    /// Returns the summary of the type.
    pub(crate) fn summary(&self) -> Option<&str> {
        self.summary.get().map(String::as_str)
    }

    pub(crate) fn settings(&self) -> &Arc<Settings> {
        &self.shared.settings
    }

    /// Returns how the type works for a resource. Asks the type now if that has failed before.
    pub(crate) async fn ask(&self, context: &Context) -> Result<Arc<Known>, BoxError> {
        let Self { name, runner, shared, .. } = self;
        if context.ledger().is_some() {
            // Leftovers that this does not end are ended before the next look.
            tokio::select! {
                biased;
                () = shared.end_leftovers() => {}
                () = context.stop().wait() => {}
            }
        }
        if let Some(said) = self.known(context.name()) {
            return Ok(said);
        }
        let asking = Asking {
            resource: context.name(),
            kind: name,
            runner,
            folder: context.folder(),
            dependencies: None,
            ledger: context.ledger(),
            stop: context.stop(),
            // The look that asks has a limit of its own.
            timeout: None,
        };
        Ok(self.learn(context.name(), shared.ask(asking).await?))
    }

    /// Returns the answer of the type about a resource.
    pub(crate) fn known(&self, resource: &str) -> Option<Arc<Known>> {
        self.known.read().get(resource).cloned()
    }

    /// Returns the first such value among its answers about its resources.
    pub(crate) fn first<T>(&self, of: impl Fn(&Known) -> Option<T>) -> Option<T> {
        self.known.read().values().find_map(|known| of(known))
    }

    /// Notes the answer of the type about a resource.
    pub(crate) fn learn(&self, resource: &str, known: Known) -> Arc<Known> {
        if let Some(summary) = &known.init.summary {
            self.summary.get_or_init(|| summary.clone());
        }
        let known = Arc::new(known);
        self.known.write().insert(resource.to_owned(), Arc::clone(&known));
        known
    }
}
