//! Which manifests a command reads, and what is set over their variables.

use std::io;
use std::path::PathBuf;

use crankcase_kinds::builtin;
use crankcase_manifest::{Host, Overrides, SiteFiles};
use crankcase_resources::{Site, UnknownTagError};
use serde::{Deserialize, Serialize};

use crate::plan_file::IsSavedPlan;

/// Manifests and variables.
#[derive(Debug, Clone, clap::Args, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SiteArgs {
    /// Manifests, read as one: files, folders (their *.yaml, *.yml and *.json), pipes, or - for standard
    /// input. Relative paths in a pipe start at the working directory
    #[arg(required = true, value_name = "SITE")]
    pub(crate) paths: Vec<PathBuf>,
    /// Set a variable that is declared, as a text, or as true or false if it is declared as one;
    /// counts more than the files
    #[arg(long = "var", value_name = "NAME=VALUE", value_parser = variable)]
    pub(crate) vars: Vec<(String, String)>,
    /// Set the variables of a file that holds a map; a later one counts more
    #[arg(long = "var-file", value_name = "FILE")]
    pub(crate) var_files: Vec<PathBuf>,
    /// Order resources only as declared, without the automatic edges from what they make and need
    #[arg(long)]
    #[serde(default)]
    pub(crate) no_automatic_edges: bool,
}

impl SiteArgs {
    /// Returns what the site is loaded from.
    pub(crate) fn files(&self) -> SiteFiles {
        let overrides = Overrides {
            files: self.var_files.clone(),
            vars: self.vars.clone(),
            no_automatic_edges: self.no_automatic_edges,
        };
        SiteFiles {
            paths: self.paths.clone(),
            overrides,
            kinds: builtin(),
            host: Host::of_machine(),
        }
    }

    /// Returns the same with paths that hold in every folder.
    pub(crate) fn absolute(&self) -> io::Result<Self> {
        let absolute = |paths: &[PathBuf]| -> io::Result<Vec<PathBuf>> {
            paths.iter().map(std::path::absolute).collect()
        };
        Ok(Self {
            // Standard input is in no folder.
            paths: if self.paths.iter().any(|path| path == "-") {
                self.paths.clone()
            } else {
                absolute(&self.paths)?
            },
            vars: self.vars.clone(),
            var_files: absolute(&self.var_files)?,
            no_automatic_edges: self.no_automatic_edges,
        })
    }

    /// Returns whether variables are set from outside.
    pub(crate) fn sets_vars(&self) -> bool {
        !self.vars.is_empty() || !self.var_files.is_empty()
    }

    /// Loads the site; nothing is executed.
    pub(crate) fn load(&self) -> anyhow::Result<Site> {
        self.files().load().map_err(|error| match IsSavedPlan::among(error.problems()) {
            // Its keys are those of no manifest, and to say so of each would hide what it is.
            Some(plan) => plan.into(),
            None => error.into(),
        })
    }
}

/// Which resources of a site are meant.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct Tags {
    /// Only the resources with this tag, and all that they depend on; may be given again
    #[arg(long = "tag", value_name = "TAG")]
    pub(crate) tags: Vec<String>,
}

impl Tags {
    /// Returns the resources that are meant: all, if no tag is named.
    pub(crate) fn select(&self, site: Site) -> Result<Site, UnknownTagError> {
        if self.tags.is_empty() { Ok(site) } else { site.select(&self.tags) }
    }
}

/// Splits NAME=VALUE.
pub(crate) fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::Parser;

    use super::SiteArgs;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        site: SiteArgs,
    }

    #[test]
    fn variables_keep_their_order_and_every_sign_after_the_first() -> Result<(), clap::Error> {
        let line = ["x", "a.yaml", "--var", "a=1=2", "b", "--var", "b=", "--var-file", "v.yaml"];

        let Line { site } = Line::try_parse_from(line)?;

        assert_eq!(site.paths, [Path::new("a.yaml"), Path::new("b")]);
        let vars =
            [("a", "1=2"), ("b", "")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(site.vars, vars);
        assert_eq!(site.var_files, [Path::new("v.yaml")]);
        Ok(())
    }

    #[test]
    fn a_site_and_a_name_are_required() {
        for line in [&["x"][..], &["x", "a.yaml", "--var", "=1"], &["x", "a.yaml", "--var", "a"]] {
            assert!(Line::try_parse_from(line).is_err(), "{line:?}");
        }
    }
}
