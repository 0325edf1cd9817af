use std::collections::BTreeMap;
use std::sync::Arc;

use crate::caught::caught;
use crate::error::AttributeError;
use crate::judged::Judged;
use crate::kind::Kind;
use crate::known::KnownConfig;
use crate::text::nearest;

/// The kinds that a manifest may use, by name. Without any at first. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Kinds {
    kinds: Arc<BTreeMap<String, Arc<dyn Kind>>>,
}

impl Kinds {
    /// Adds a kind, in place of one with the same name.
    #[must_use]
    pub fn with(mut self, kind: impl Kind + 'static) -> Self {
        Arc::make_mut(&mut self.kinds).insert(kind.name().to_owned(), Arc::new(kind));
        self
    }

    /// Returns the names in alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.kinds.keys().map(String::as_str)
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

    /// Returns what a kind says of a config, and of one without a kind what is known anyway. That
    /// the kind panicked is an error of the config.
    pub fn judge(&self, kind: &str, known: &KnownConfig<'_>) -> Judged {
        let Ok(kind) = self.get(kind) else { return Judged::default() };
        caught(|| kind.judge(known)).unwrap_or_else(|panicked| {
            let error = AttributeError::new("config", format!("its kind {panicked}"));
            Judged { errors: vec![error], ..Judged::default() }
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
