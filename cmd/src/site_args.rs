//! The arguments that name the manifests of a command and set their variables.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::bail;
use crankcase_facts::Facts;
use crankcase_kinds::with_facts;
use crankcase_manifest::{
    LastGood, LoadError, ManifestError, Overrides, SeenFacts, SiteFiles, SiteJudge, WrongFacts,
};
use crankcase_resources::{Kinds, Selection, Site};
use crankcase_status::StateDir;
use crankcase_workers::read_file;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::exit::{self, ExitError};
use crate::external_args::{ExternalArgs, Purpose};
use crate::facts_store::seen_of;
use crate::global::Global;
use crate::plan_file::IsSavedPlan;
use crate::print::first_of;
use crate::secrets::secrets;

/// How large a file of a manifest may be, in bytes.
const MOST: u64 = 16 * 1024 * 1024;

/// Manifests and variables.
#[derive(Clone, clap::Args, Serialize, Deserialize)]
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
    #[command(flatten)]
    #[serde(default)]
    pub(crate) external: ExternalArgs,
}

/// Shows the names of the variables that are set, and no values.
impl fmt::Debug for SiteArgs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let vars: Vec<_> = self.vars.iter().map(|(name, _)| name).collect();
        let mut shown = f.debug_struct("SiteArgs");
        shown.field("paths", &self.paths).field("vars", &vars).finish_non_exhaustive()
    }
}

impl SiteArgs {
    /// Returns what the site of an agent with these facts is loaded from. The agent goes on while a
    /// type does not work.
    pub(crate) fn files_of_agent(&self, global: &Global, facts: &Facts) -> SiteFiles {
        self.files_for(global, Purpose::Keep, facts)
    }

    /// Returns what the site is loaded from, with the facts that its expressions see. No resource
    /// may be in the state folder.
    fn files_for(&self, global: &Global, purpose: Purpose, facts: &Facts) -> SiteFiles {
        let state = global.state_dir().ok();
        let state = state.and_then(|state| std::path::absolute(state.path()).ok());
        let facts = seen_of(facts);
        SiteFiles { state, facts, ..self.files_of(self.kinds(global, purpose)) }
    }

    fn kinds(&self, global: &Global, purpose: Purpose) -> Kinds {
        let state = global.state_dir().ok();
        let state = state.as_ref().map(StateDir::path);
        let source = self.external.source((state, global.verbose > 0), purpose);
        with_facts().from_source(Arc::new(source))
    }

    fn files_of(&self, kinds: Kinds) -> SiteFiles {
        let mut files = self.automatic_vars();
        files.extend(self.var_files.iter().cloned());
        let overrides = Overrides {
            files,
            vars: self.vars.clone(),
            built_in: self.built_in(),
            no_automatic_edges: self.no_automatic_edges,
            noop: false,
        };
        let mut files = SiteFiles::new(self.paths.clone(), kinds);
        (files.overrides, files.secrets) = (overrides, secrets());
        files
    }

    /// Returns the variables that Deployster has by itself, as far as they mean something here.
    fn built_in(&self) -> Vec<(String, String)> {
        let workspace =
            self.paths.first().map(|path| folder_of(path).unwrap_or_else(|| ".".into()));
        let workspace = workspace.and_then(|folder| std::path::absolute(folder).ok());
        let conf = self.external.conf().and_then(|conf| std::path::absolute(conf).ok());
        let paths = [("_workspace", workspace), ("_conf", conf)].into_iter();
        let paths = paths
            .filter_map(|(name, path)| Some((name, path?.into_os_string().into_string().ok()?)));
        let version = ("_version", self.external.version());
        paths.chain([version]).map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// Returns the files of variables that count without being named: those in the conf folder, and then
    /// those beside the manifests, which count more.
    fn automatic_vars(&self) -> Vec<PathBuf> {
        let mut folders: Vec<_> = self.external.conf().map(Path::to_owned).into_iter().collect();
        for folder in self.paths.iter().filter_map(|path| folder_of(path)) {
            if !folders.contains(&folder) {
                folders.push(folder);
            }
        }
        folders.iter().flat_map(|folder| SiteFiles::automatic_vars(folder)).collect()
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
            external: self.external.absolute()?,
        })
    }

    /// Returns the files that it is made of, manifests and files of variables, each with its SHA-256. A
    /// file that cannot be read has none.
    pub(crate) fn fingerprints(&self) -> BTreeMap<PathBuf, String> {
        let digest = |path: PathBuf| {
            let text = read_file(&path, MOST).ok()?;
            Some((path, base16ct::lower::encode_string(&Sha256::digest(text))))
        };
        self.files_of(with_facts()).listed().into_iter().filter_map(digest).collect()
    }

    /// Returns the name of a variable that is set here and holds a secret of the site.
    pub(crate) fn secret_var(&self, site: &Site) -> Option<&str> {
        let names = self.vars.iter().map(|(name, _)| name.as_str());
        names.into_iter().find(|name| site.secret_inputs().contains(*name))
    }

    /// Returns whether variables are set from outside.
    pub(crate) fn sets_vars(&self) -> bool {
        !self.vars.is_empty() || !self.var_files.is_empty()
    }

    /// Loads the site to look at it. Nothing is executed but external types, which are asked how they work.
    pub(crate) fn load(&self, global: &Global, facts: &Facts) -> anyhow::Result<Site> {
        Self::told(self.files_for(global, Purpose::Look, facts).load())
    }

    /// Loads the site to apply it.
    pub(crate) fn load_to_apply(&self, global: &Global, facts: &Facts) -> anyhow::Result<Site> {
        Self::told(self.files_for(global, Purpose::Apply, facts).load())
    }

    /// Logs the warnings of a loaded site. If the file is a saved plan, the error says so.
    pub(crate) fn told<S: Borrow<Site>>(loaded: Result<S, ManifestError>) -> anyhow::Result<S> {
        let loaded = loaded.map_err(|error| match IsSavedPlan::among(error.problems()) {
            // Its keys are those of no manifest, and to say so of each would hide what it is.
            Some(plan) => plan.into(),
            None => anyhow::Error::from(error),
        });
        if let Ok(site) = &loaded {
            site.borrow().warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
        }
        loaded
    }
}

/// The requirement on the facts when an agent begins.
#[derive(Debug, Clone)]
pub(crate) enum FirstFacts {
    /// They may be wrong for resources.
    Any,
    /// They are wrong for no resource for which these ones are right.
    NoWorseThan(SeenFacts),
    /// They are right for all resources.
    Right,
}

/// Loads the site that an agent is to keep.
pub(crate) fn load_to_keep(
    files: &SiteFiles,
    judge: &SiteJudge,
    asked: &FirstFacts,
) -> anyhow::Result<Arc<Site>> {
    let loaded = match asked {
        FirstFacts::Any | FirstFacts::NoWorseThan(_) => judge.load(files),
        FirstFacts::Right => judge.load_strictly(files),
    };
    let site = SiteArgs::told(loaded)?;
    require(asked, (files, judge))?;
    Ok(site)
}

/// Requires that the facts meet the requirement for the site that was loaded.
fn require(asked: &FirstFacts, (files, judge): (&SiteFiles, &SiteJudge)) -> anyhow::Result<()> {
    let FirstFacts::NoWorseThan(before) = asked else { return Ok(()) };
    let wrong = judge.wrong_after(|| before.clone(), &files.facts.current());
    if wrong.is_empty() {
        return Ok(());
    }
    bail!(ExitError::new(exit::INVALID, wrong_for(wrong)))
}

/// The behaviour of an agent whose manifest is invalid at its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IfInvalid {
    /// It does not start.
    Refuse,
    /// It starts with the last good manifest.
    GoBack,
}

/// Loads the site that an agent is to keep, or its last good manifest. It takes the last good one
/// if the manifest is invalid and the arguments ask for that, or if an agent has gone back from the
/// manifest before.
pub(crate) fn load_or_go_back(
    files: &SiteFiles,
    judge: &SiteJudge,
    (asked, (last_good, if_invalid)): (&FirstFacts, (LastGood, IfInvalid)),
) -> anyhow::Result<Arc<Site>> {
    if matches!(asked, FirstFacts::Right) {
        // These facts are the first ones: there was no site with them.
        return load_to_keep(files, judge, asked);
    }
    let error = match judge.load_unless_rejected(files, &last_good) {
        Ok(site) => {
            let site = SiteArgs::told(Ok::<_, ManifestError>(site))?;
            require(asked, (files, judge))?;
            return Ok(site);
        }
        Err(LoadError::Invalid(error)) if if_invalid == IfInvalid::Refuse => {
            return SiteArgs::told(Err(error));
        }
        Err(error) => error,
    };
    let Some(kept) = last_good.read() else {
        tracing::error!("there is no last good manifest to start with");
        return match error {
            LoadError::Invalid(error) => SiteArgs::told(Err(error)),
            error => Err(error.into()),
        };
    };
    let why = match &error {
        LoadError::Invalid(error) => error.brief(),
        error => error.to_string(),
    };
    for why in why.lines() {
        tracing::warn!(why, "the agent starts with the last good manifest");
    }
    load_to_keep(&SiteFiles { kept: Some(kept), ..files.clone() }, judge, asked)
}

/// Names the first resources for which facts are wrong, says why, and counts the others.
fn wrong_for(wrong: Vec<WrongFacts>) -> String {
    let wrong = wrong.into_iter().map(|WrongFacts { resource, problem }| match resource {
        Some(resource) => format!("{resource}: {problem}"),
        None => problem,
    });
    let (first, more) = first_of(&wrong.collect::<Vec<_>>());
    let all: Vec<_> = first.into_iter().chain(more).collect();
    format!("the facts are wrong for resources: {}", all.join("; "))
}

/// Which resources of a site are meant, and how many at a time.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct WorkArgs {
    /// Only the resources with this tag, and all that they depend on; may be given again
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Only the resource with this name, and all that it depends on; may be given again
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Not the resource with this name, and nothing that depends on it; may be given again
    #[arg(long, value_name = "NAME")]
    skip: Vec<String>,
    /// How many resources are worked on at a time
    #[arg(long, value_name = "COUNT", default_value = "16")]
    pub(crate) jobs: NonZeroUsize,
}

impl WorkArgs {
    /// Returns which resources are meant.
    pub(crate) fn selection(&self) -> Selection {
        let Self { tags, only, skip, .. } = self.clone();
        Selection { tags, only, skip }
    }
}

/// Splits NAME=VALUE.
pub(crate) fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}

/// Returns the folder that a manifest is in, or is.
fn folder_of(path: &Path) -> Option<PathBuf> {
    match path.is_dir() {
        true => Some(path.to_owned()),
        false => path.parent().filter(|_| path.is_file()).map(|folder| match folder.as_os_str() {
            name if name.is_empty() => PathBuf::from("."),
            _ => folder.to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::Parser;
    use crankcase_manifest::WrongFacts;

    use super::{SiteArgs, wrong_for};

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        site: SiteArgs,
    }

    #[test]
    fn the_first_of_many_resources_with_wrong_facts_are_named() {
        let wrong = |index| WrongFacts {
            resource: Some(format!("r{index}")),
            problem: "no mode".to_owned(),
        };

        let said = wrong_for((0..25).map(wrong).collect());

        assert!(said.starts_with("the facts are wrong for resources: r0: no mode; r1: "), "{said}");
        assert!(said.ends_with("; r19: no mode; and 5 more"), "{said}");
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
