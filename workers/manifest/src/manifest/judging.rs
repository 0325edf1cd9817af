//! The questions of a load to the kinds.

use crankcase_resources::dynamic::{Config, Kind, KnownConfig};
use crankcase_resources::front::{Declared, KindRequest, KindSource, RequestError, Secrets};
use crankcase_resources::{Declaration, Kinds};

/// Knows the kinds of a manifest while it is loaded.
pub(crate) trait Judging {
    /// Returns the names of the kinds that are known from the start.
    fn names(&self) -> Vec<&str>;

    /// Returns the source of other kinds.
    fn source(&self) -> Option<&dyn KindSource>;

    /// Makes these kinds, and returns the problems.
    fn make(&mut self, wanted: &KindRequest) -> Vec<(RequestError, String)>;

    /// Returns a kind, for the attributes that configs and states have.
    fn kind(&self, name: &str) -> Option<&dyn Kind>;

    /// Returns whether resources of a kind have parts that keep facts, or parts of such parts.
    fn parts_keep_facts(&self, kind: &str) -> bool;

    /// Adds the secret values of a config to the secrets.
    fn hide(&self, declaration: &Declaration, config: &Config, secrets: &Secrets);

    /// Judges a config as far as it is known.
    fn declare(&self, declaration: &mut Declaration, known: &KnownConfig<'_>) -> Declared;
}

impl Judging for Kinds {
    fn names(&self) -> Vec<&str> {
        self.names().collect()
    }

    fn source(&self) -> Option<&dyn KindSource> {
        self.source()
    }

    fn make(&mut self, wanted: &KindRequest) -> Vec<(RequestError, String)> {
        self.make(wanted)
    }

    fn kind(&self, name: &str) -> Option<&dyn Kind> {
        self.get(name).ok().map(|kind| &**kind)
    }

    fn parts_keep_facts(&self, kind: &str) -> bool {
        self.parts_keep_facts(kind)
    }

    fn hide(&self, declaration: &Declaration, config: &Config, secrets: &Secrets) {
        self.hide((&declaration.kind, &declaration.name), config, secrets);
    }

    fn declare(&self, declaration: &mut Declaration, known: &KnownConfig<'_>) -> Declared {
        self.declare(declaration, known)
    }
}

/// Kinds that are known already: no others are made.
pub(crate) struct KnownKinds(pub(crate) Kinds);

impl Judging for KnownKinds {
    fn names(&self) -> Vec<&str> {
        self.0.names().collect()
    }

    fn source(&self) -> Option<&dyn KindSource> {
        self.0.source()
    }

    fn make(&mut self, _: &KindRequest) -> Vec<(RequestError, String)> {
        Vec::new()
    }

    fn kind(&self, name: &str) -> Option<&dyn Kind> {
        self.0.get(name).ok().map(|kind| &**kind)
    }

    fn parts_keep_facts(&self, kind: &str) -> bool {
        self.0.parts_keep_facts(kind)
    }

    fn hide(&self, declaration: &Declaration, config: &Config, secrets: &Secrets) {
        Judging::hide(&self.0, declaration, config, secrets);
    }

    fn declare(&self, declaration: &mut Declaration, known: &KnownConfig<'_>) -> Declared {
        self.0.declare(declaration, known)
    }
}

/// Only the names of these kinds are known, so nothing is judged.
impl Judging for &[&str] {
    fn names(&self) -> Vec<&str> {
        self.to_vec()
    }

    fn source(&self) -> Option<&dyn KindSource> {
        None
    }

    fn make(&mut self, _: &KindRequest) -> Vec<(RequestError, String)> {
        Vec::new()
    }

    fn kind(&self, _: &str) -> Option<&dyn Kind> {
        None
    }

    fn parts_keep_facts(&self, _: &str) -> bool {
        false
    }

    fn hide(&self, _: &Declaration, _: &Config, _: &Secrets) {}

    fn declare(&self, _: &mut Declaration, _: &KnownConfig<'_>) -> Declared {
        Declared::default()
    }
}
