//! A type as a kind.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use crankcase_resources::dynamic::{Config, ConfigReport, Kind, KnownConfig, Unit, path_name};
use crankcase_resources::{AttributeError, Claim, Claimed, PATH};
use crankcase_workers::Secrets;
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

    fn state_secrets(&self, hidden: &BTreeSet<String>) -> Vec<Vec<String>> {
        let pointers = self.0.first(|known| Some(known.init.sensitive.1.clone()));
        let said = pointers.unwrap_or_default();
        let said = said.iter().map(|pointer| keys(pointer));
        said.chain(hidden.iter().map(|name| vec![name.clone()])).collect()
    }

    fn judge(&self, _: &KnownConfig<'_>) -> ConfigReport {
        let mut claimed = Claimed::default();
        claimed.may_make_any = true;
        if let Runner::Program(path) = &self.0.runner {
            claimed.claims.extend(needs(path));
        }
        ConfigReport { claimed, ..ConfigReport::default() }
    }

    fn judge_of(&self, resource: &str, known: &KnownConfig<'_>) -> ConfigReport {
        let mut judged = self.judge(known);
        let Some(said) = self.0.known(resource) else { return judged };
        let plugs = said.mounts.iter().filter_map(|mount| needs(&mount.from));
        judged.claimed.claims.extend(plugs);
        let Some(schema) = &said.schema else { return judged };
        let config = Value::Object(known.config.clone());
        let mut errors = schema.errors(resource, (&config, known.unknown));
        let secrets = Secrets::default();
        self.hide(resource, known.config, &secrets);
        for error in &mut errors {
            error.message = format!("{}{}", secrets.redact(&error.message), said.hint());
        }
        ConfigReport { errors, ..judged }
    }

    fn hide(&self, resource: &str, config: &Config, secrets: &Secrets) {
        if let Some(said) = self.0.known(resource) {
            said.init.hide(config, secrets);
        }
    }

    fn has_secrets(&self, resource: &str, config: &Config) -> bool {
        // Until the type has named the secret values, any value may be secret.
        self.0.known(resource).is_none_or(|said| said.init.has_secrets(config))
    }

    fn can_reverse(&self) -> bool {
        self.0.first(|known| known.init.calls.reverse.clone()).is_some()
    }

    fn make(&self, config: &Config) -> Result<Arc<dyn Unit>, Vec<AttributeError>> {
        Ok(Arc::new(External::new(Arc::clone(&self.0), config.clone())))
    }
}

/// Returns the claim of a resource that is given a file.
fn needs(path: &Path) -> Option<Claim> {
    path_name(path).map(|name| Claim::needs(PATH, name))
}

/// Returns the keys of a JSON pointer.
fn keys(pointer: &str) -> Vec<String> {
    let escaped = pointer.split('/').skip(1);
    escaped.map(|key| key.replace("~1", "/").replace("~0", "~")).collect()
}
