//! A type as a kind.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use crankcase_resources::{
    AttributeError, BoxError, Claimed, Config, Context, Judged, Kind, KnownConfig, Unit,
};
use parking_lot::RwLock;
use serde_json::Value;

use crate::known::{Asking, Known, Shared};
use crate::resource::External;
use crate::settings::Settings;
use crate::type_name::Runner;

/// A type that is a program.
#[derive(Debug, Clone)]
pub(crate) struct ExternalKind(Arc<Inner>);

struct Inner {
    name: String,
    /// What it is for, once it has said so.
    summary: OnceLock<String>,
    runner: Runner,
    shared: Arc<Shared>,
    /// What the type has said of its resources, by their names.
    known: RwLock<HashMap<String, Arc<Known>>>,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("External").field(&self.name).finish()
    }
}

impl ExternalKind {
    pub(crate) fn new(name: &str, runner: Runner, shared: Arc<Shared>) -> Self {
        let (name, summary) = (name.to_owned(), OnceLock::new());
        Self(Arc::new(Inner { name, summary, runner, shared, known: RwLock::default() }))
    }

    pub(crate) fn runner(&self) -> &Runner {
        &self.0.runner
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.0.shared
    }

    pub(crate) fn settings(&self) -> &Arc<Settings> {
        &self.0.shared.settings
    }

    /// Returns how the type works for a resource, which it is asked now if that has failed before.
    pub(crate) async fn known(&self, context: &Context) -> Result<Arc<Known>, BoxError> {
        let Inner { name, runner, shared, known, .. } = &*self.0;
        if context.ledger().is_some() {
            shared.end_leftovers().await;
        }
        let said = known.read().get(context.name()).cloned();
        if let Some(said) = said {
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
        };
        let said = Arc::new(shared.ask(asking).await?);
        known.write().insert(context.name().to_owned(), Arc::clone(&said));
        Ok(said)
    }

    /// Notes what the type has said of a resource.
    pub(crate) fn learn(&self, resource: &str, known: Known) {
        if let Some(summary) = &known.init.summary {
            self.0.summary.get_or_init(|| summary.clone());
        }
        self.0.known.write().insert(resource.to_owned(), Arc::new(known));
    }
}

impl Kind for ExternalKind {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn summary(&self) -> &str {
        self.0.summary.get().map_or(
            match self.0.runner {
                Runner::Program(_) => "an external type: a program of this machine",
                Runner::Container { .. } => "an external type: a container",
            },
            String::as_str,
        )
    }

    fn config_schema(&self) -> Option<Value> {
        let known = self.0.known.read();
        known.values().find_map(|known| known.init.config_schema.clone())
    }

    fn judge(&self, _: &KnownConfig<'_>) -> Judged {
        let mut claimed = Claimed::default();
        claimed.may_make_any = true;
        Judged { claimed, ..Judged::default() }
    }

    fn judge_of(&self, resource: &str, known: &KnownConfig<'_>) -> Judged {
        let said = self.0.known.read().get(resource).cloned();
        let said = said.as_ref().and_then(|said| said.schema.as_ref());
        let config = Value::Object(known.config.clone());
        let errors = said.map(|schema| schema.errors(resource, (&config, known.unknown)));
        Judged { errors: errors.unwrap_or_default(), ..self.judge(known) }
    }

    fn can_reverse(&self) -> bool {
        self.0.known.read().values().any(|known| known.init.calls.reverse.is_some())
    }

    fn make(&self, config: &Config) -> Result<Arc<dyn Unit>, Vec<AttributeError>> {
        Ok(Arc::new(External::new(self.clone(), config.clone())))
    }
}
