//! The inputs of a manifest beside its files: the values from outside, the host, the facts and the
//! secrets.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use crankcase_resources::front::Secrets;
use minijinja::Value;

use crate::facts::SeenFacts;
use crate::manifest::kept_manifest::Reading;
use crate::manifest::lines::Source;
use crate::manifest::problem::FactProblems;

/// The values from outside, which replace those of a manifest.
#[derive(Clone, Default)]
pub struct Overrides {
    /// Files that hold a map of variables; a later one counts more.
    pub files: Vec<PathBuf>,
    /// Names and values, which count more than the files. A value is a text, and is taken as it is.
    /// For a variable that is written as a boolean it has to be a boolean. A name that is not among
    /// the variables has to be used by an expression.
    pub vars: Vec<(String, String)>,
    /// Names and values of variables that need not be written. They are there only for a manifest
    /// that names them. Only these names may begin with `_`.
    pub built_in: Vec<(String, String)>,
    /// Whether resources are ordered by what is declared alone, without automatic edges.
    pub no_automatic_edges: bool,
    /// Whether every resource is left alone, whatever the manifest and the facts say.
    pub noop: bool,
}

/// Shows the names of the variables and no values, as some of these may be secrets.
impl fmt::Debug for Overrides {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { files, vars, built_in, no_automatic_edges, noop } = self;
        let names = |vars: &[(String, String)]| -> Vec<String> {
            vars.iter().map(|(name, _)| name.clone()).collect()
        };
        f.debug_struct("Overrides")
            .field("files", files)
            .field("vars", &names(vars))
            .field("built_in", &names(built_in))
            .field("no_automatic_edges", no_automatic_edges)
            .field("noop", noop)
            .finish()
    }
}

/// The inputs of a manifest beside its files.
pub(crate) struct Outside<'a> {
    pub(crate) overrides: &'a Overrides,
    pub(crate) host: Value,
    pub(crate) facts: &'a SeenFacts,
    pub(crate) secrets: &'a Secrets,
    /// The treatment of variables that are wrong because of facts. A deferred one is no problem
    /// until it is used.
    pub(crate) fact_problems: FactProblems,
    /// The files that the manifest was read from.
    pub(crate) sources: &'a [Arc<Source>],
    /// Reads the files of variables.
    pub(crate) reading: &'a Reading<'a>,
}

impl<'a> Outside<'a> {
    pub(crate) fn new(
        (overrides, host, facts): (&'a Overrides, Value, &'a SeenFacts),
        (secrets, fact_problems): (&'a Secrets, FactProblems),
        (sources, reading): (&'a [Arc<Source>], &'a Reading<'a>),
    ) -> Self {
        Self { overrides, host, facts, secrets, fact_problems, sources, reading }
    }

    /// Returns whether a name stands in any of the files.
    pub(super) fn names(&self, name: &str) -> bool {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let stands_in = |text: &str| {
            text.match_indices(name).any(|(at, _)| {
                let after = text[at + name.len()..].chars().next();
                !text[..at].chars().next_back().is_some_and(is_part) && !after.is_some_and(is_part)
            })
        };
        !name.is_empty() && self.sources.iter().any(|source| stands_in(source.text()))
    }
}
