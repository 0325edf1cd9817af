//! The kinds that a manifest may use, by name, and what they say of configs.

use std::collections::BTreeMap;
use std::sync::Arc;

use crankcase_workers::Secrets;

use crate::base::caught::caught;
use crate::base::error::AttributeError;
use crate::base::text::nearest;
use crate::declare::declaration::Config;
use crate::declare::known::KnownConfig;
use crate::kind::config_report::ConfigReport;
use crate::kind::contract::Kind;
use crate::kind::kind_source::{
    KindRequest, KindSource, MadeKinds, Plug, RequestError, WantedKind,
};

/// The kinds that a manifest may use, by name. Without any at first. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Kinds {
    kinds: Arc<BTreeMap<String, Arc<dyn Kind>>>,
    source: Option<Arc<dyn KindSource>>,
    /// What was offered to kinds of the source.
    plugs: Arc<[Plug]>,
}

impl Kinds {
    /// Adds a kind, in place of one with the same name.
    #[must_use]
    pub fn with(mut self, kind: impl Kind + 'static) -> Self {
        Arc::make_mut(&mut self.kinds).insert(kind.name().to_owned(), Arc::new(kind));
        self
    }

    /// Sets what makes kinds that are not known before a manifest names them. None by default.
    #[must_use]
    pub fn from_source(self, source: Arc<dyn KindSource>) -> Self {
        Self { source: Some(source), ..self }
    }

    /// Returns what makes kinds that are not known before a manifest names them, if there is such.
    pub fn source(&self) -> Option<&dyn KindSource> {
        self.source.as_deref()
    }

    /// Adds the kinds that the source makes for this request, and returns what is wrong. Blocks
    /// meanwhile.
    pub fn make(&mut self, wanted: &KindRequest) -> Vec<(RequestError, String)> {
        self.plugs = wanted.plugs.clone().into();
        let Some(source) = &self.source else { return Vec::new() };
        let MadeKinds { kinds, errors } = source.make(wanted);
        let known = Arc::make_mut(&mut self.kinds);
        known.extend(kinds.into_iter().map(|kind| (kind.name().to_owned(), kind)));
        errors
    }

    /// Adds the kinds of more resources, which are offered the same plugs. Blocks meanwhile.
    pub(crate) fn make_more(&mut self, resources: &[WantedKind]) -> Vec<(RequestError, String)> {
        self.make(&KindRequest::new(resources.to_vec(), self.plugs.to_vec()))
    }

    /// Returns the names in alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.kinds.keys().map(String::as_str)
    }

    /// Returns all kinds, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Arc<dyn Kind>)> {
        self.kinds.iter().map(|(name, kind)| (name.as_str(), kind))
    }

    /// Returns the kind with this name.
    ///
    /// # Errors
    ///
    /// When there is none, with the nearest name.
    pub fn get(&self, name: &str) -> Result<&Arc<dyn Kind>, UnknownKindError> {
        self.kinds.get(name).ok_or_else(|| UnknownKindError {
            name: name.to_owned(),
            hint: nearest(name, self.names()).map_or_else(
                || format!("there are {}", self.names().collect::<Vec<_>>().join(", ")),
                |nearest| format!("did you mean \"{nearest}\"?"),
            ),
        })
    }

    /// Returns what a kind says of a config. If there is no such kind, nothing is known of it. A
    /// panic of the kind becomes an error of the config.
    pub fn judge(&self, kind: &str, known: &KnownConfig<'_>) -> ConfigReport {
        self.judged(kind, |kind| kind.judge(known))
    }

    /// Returns the same of a config whose resource has a name.
    pub(crate) fn judge_of(
        &self,
        (kind, resource): (&str, &str),
        known: &KnownConfig<'_>,
    ) -> ConfigReport {
        self.judged(kind, |kind| kind.judge_of(resource, known))
    }

    /// Adds the secrets in the config of a resource to all secrets, as far as its kind knows them.
    pub fn hide(&self, (kind, resource): (&str, &str), config: &Config, secrets: &Secrets) {
        if let Ok(kind) = self.get(kind) {
            // A panic of the kind is reported when it judges the config.
            let _panicked = caught(|| kind.hide(resource, config, secrets));
        }
    }

    fn judged(&self, kind: &str, judge: impl Fn(&dyn Kind) -> ConfigReport) -> ConfigReport {
        let Ok(kind) = self.get(kind) else { return ConfigReport::default() };
        caught(|| judge(&**kind)).unwrap_or_else(|panicked| {
            let error = AttributeError::new("config", format!("its kind {panicked}"));
            ConfigReport { errors: vec![error], ..ConfigReport::default() }
        })
    }
}

/// A type that is no kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no type \"{name}\"; {hint}")]
pub struct UnknownKindError {
    name: String,
    hint: String,
}
