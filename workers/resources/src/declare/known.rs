//! What is known of a resource before anything is looked at.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;

use crate::base::shape::Shape;
use crate::declare::claim::{Claim, PATH};
use crate::declare::declaration::Config;

/// A config as far as it is known while its manifest is loaded.
#[derive(Clone, Copy)]
pub struct KnownConfig<'a> {
    /// The config; attributes that are not known yet are null.
    pub config: &'a Config,
    /// The names of those: they use states of other resources, or are wrong in the manifest.
    pub unknown: &'a BTreeSet<String>,
}

/// Shows the names of the attributes, and no values.
impl fmt::Debug for KnownConfig<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { config, unknown } = self;
        let mut shown = f.debug_struct("KnownConfig");
        shown.field("config", &Shape::of_map(config)).field("unknown", unknown).finish()
    }
}

impl KnownConfig<'_> {
    /// Returns an attribute's text, if it is known and one.
    pub fn text(&self, attribute: &str) -> Option<&str> {
        self.config.get(attribute)?.as_str()
    }

    /// Returns whether an attribute is known as a whole.
    pub fn is_known(&self, attribute: &str) -> bool {
        !self.unknown.contains(attribute)
    }
}

/// What a resource keeps, makes, needs and reads, as far as that is known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Claimed {
    /// What it keeps, makes and needs.
    pub claims: Vec<Claim>,
    /// Whether more becomes known later.
    pub is_open: bool,
    /// The files that it reads. It needs each of them: it comes after those that make it.
    pub reads: Vec<FileRead>,
    /// Whether it may make files that are not named here, such as those that others read.
    pub may_make_any: bool,
    /// Whether it renders texts that are not in its config, such as files: what they use of the
    /// dependencies' states nobody can foresee.
    pub renders_any: bool,
    /// Whether a check may ask for a shutdown-first action, if only some configs of the kind have
    /// one. For a kind that [always may](crate::dynamic::Kind::stops_first) it need not be said.
    pub stops_first: bool,
}

impl Claimed {
    /// Returns the claims of a resource of which nothing is known.
    pub fn unknown() -> Self {
        Self { is_open: true, may_make_any: true, renders_any: true, ..Self::default() }
    }

    /// Returns whether it may make files that none of its claims names. A command that says what it creates is believed.
    pub(crate) fn makes_unnamed(&self) -> bool {
        let names = |claim: &Claim| claim.space == PATH && claim.makes_it_be().is_some();
        self.may_make_any && !self.claims.iter().any(names)
    }

    /// Returns these claims.
    pub fn of(claims: Vec<Claim>) -> Self {
        Self { claims, ..Self::default() }
    }
}

/// A file that a resource reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileRead {
    /// The attribute that names it.
    pub attribute: &'static str,
    /// The file; a relative path begins at the folder of the manifest.
    pub path: PathBuf,
    /// Whether its text is rendered.
    pub is_template: bool,
}
