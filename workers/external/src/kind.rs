//! A type as a kind.

use std::sync::Arc;

use crankcase_resources::{AttributeError, Claimed, Config, Judged, Kind, KnownConfig, Unit};
use serde_json::Value;

use crate::external_type::ExternalType;
use crate::resource::External;
use crate::type_name::Runner;

/// A type as a kind.
#[derive(Debug, Clone)]
pub(crate) struct ExternalKind(pub(crate) Arc<ExternalType>);

impl Kind for ExternalKind {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn summary(&self) -> &str {
        self.0.summary().unwrap_or(match self.0.runner {
            Runner::Program(_) => "an external type: a program of this machine",
            Runner::Container { .. } => "an external type: a container",
        })
    }

    fn config_schema(&self) -> Option<Value> {
        self.0.first(|known| known.init.config_schema.clone())
    }

    fn judge(&self, _: &KnownConfig<'_>) -> Judged {
        let mut claimed = Claimed::default();
        claimed.may_make_any = true;
        Judged { claimed, ..Judged::default() }
    }

    fn judge_of(&self, resource: &str, known: &KnownConfig<'_>) -> Judged {
        let said = self.0.known(resource);
        let said = said.as_ref().and_then(|said| said.schema.as_ref());
        let config = Value::Object(known.config.clone());
        let errors = said.map(|schema| schema.errors(resource, (&config, known.unknown)));
        Judged { errors: errors.unwrap_or_default(), ..self.judge(known) }
    }

    fn can_reverse(&self) -> bool {
        self.0.first(|known| known.init.calls.reverse.clone()).is_some()
    }

    fn make(&self, config: &Config) -> Result<Arc<dyn Unit>, Vec<AttributeError>> {
        Ok(Arc::new(External::new(Arc::clone(&self.0), config.clone())))
    }
}
