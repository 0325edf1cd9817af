//! The files and other inputs of a site, and a single load of it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crankcase_resources::derived::Value;
use crankcase_resources::front::Secrets;
use crankcase_resources::run::QUIET;
use crankcase_resources::{Kinds, Site};

use crate::facts::{NoFacts, SeenFacts, SiteFacts};
use crate::host::Host;
use crate::manifest::{
    IfFactsAreWrong, Judging, KeptManifest, KnownKinds, Manifest, ManifestError, Overrides,
    Reading, SiteInputs, Surroundings, automatic_vars,
};

/// The files and other inputs from which a site is loaded.
///
/// # Examples
///
/// ```
/// use crankcase_manifest::SiteFiles;
/// use crankcase_resources::PlanOptions;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// let manifest = folder.path().join("site.yaml");
/// std::fs::write(&manifest, "resources:\n  hello: {type: print, config: {message: hi}}\n")?;
/// let site = SiteFiles::new(vec![manifest], crankcase_kinds::builtin()).load()?;
/// let plan = site.plan(&PlanOptions::default()).await;
/// assert_eq!(plan.changes(), 1);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct SiteFiles {
    /// The manifests: files, or folders.
    pub paths: Vec<PathBuf>,
    /// The values that are set over their variables.
    pub overrides: Overrides,
    /// The kinds that resources may have.
    pub kinds: Kinds,
    /// The machine, which expressions see as `host`.
    pub host: Host,
    /// The facts, which expressions see as `facts`. Default none.
    pub facts: Arc<dyn SiteFacts>,
    /// The secrets that are hidden in all messages about the site. The secrets of the manifests are added
    /// when they are loaded. Default none.
    pub secrets: Secrets,
    /// The folder of the agent's own state, in which no resource may be. Default: not known.
    pub state: Option<PathBuf>,
    /// How long the files must have been left alone after a change before they are loaded again. Default [`QUIET`], at
    /// most 60 s.
    pub quiet: Duration,
    /// The files that are loaded in place of those on the disk: manifests, files of variables and
    /// templates. All other inputs are the current ones. Default none.
    pub kept: Option<Arc<KeptManifest>>,
}

/// A site, and the other results of its load.
pub(crate) struct LoadedSite {
    pub(crate) site: Site,
    /// The inputs that the site was made of.
    pub(crate) inputs: SiteInputs,
    /// The files that secrets were read from.
    pub(crate) secret_files: Vec<PathBuf>,
    /// The files that it was loaded from, by content; none if a file came from a pipe, or all
    /// together have more than 16 MiB.
    pub(crate) files: Option<KeptManifest>,
}

impl SiteFiles {
    /// Returns the files of a site on this machine, without variables that are set from outside.
    pub fn new(paths: Vec<PathBuf>, kinds: Kinds) -> Self {
        let (overrides, secrets) = (Overrides::default(), Secrets::default());
        let (host, facts) = (Host::of_machine(), Arc::new(NoFacts));
        let (state, kept) = (None, None);
        Self { paths, overrides, kinds, host, facts, secrets, state, quiet: QUIET, kept }
    }

    /// Returns the files of variables in a folder that are read without being named:
    /// `vars.auto.yaml` and `vars.*.auto.yaml`, in the order of their names. They are no manifests.
    /// Blocks for the disk.
    pub fn automatic_vars(folder: &Path) -> Vec<PathBuf> {
        automatic_vars(folder)
    }

    /// Returns the files that the site is loaded from: manifests, those of folders included, and files of
    /// variables. Blocks for the disk.
    pub fn listed(&self) -> Vec<PathBuf> {
        let mut files = Manifest::list(&self.paths);
        files.extend(self.overrides.files.iter().cloned());
        files
    }

    /// Loads the site and has each kind judge its configs; nothing is executed.
    ///
    /// See [`Manifest::load`] for the bounds. The attributes that use the states of other resources
    /// are judged later, when they are known.
    ///
    /// # Errors
    ///
    /// When the manifest or an attribute of its configs is wrong. The error has all problems, with
    /// their places.
    pub fn load(&self) -> Result<Site, ManifestError> {
        Ok(self.load_on(self.host.read(), &self.facts.current(), IfFactsAreWrong::Refuse)?.site)
    }

    /// Loads the site for a host as it was found.
    pub(crate) fn load_on(
        &self,
        host: Arc<Value>,
        facts: &SeenFacts,
        if_wrong: IfFactsAreWrong<'_>,
    ) -> Result<LoadedSite, ManifestError> {
        let mut kinds = self.kinds.clone();
        let reading = Reading::new(self.kept.as_ref());
        let manifest = self.manifest(&mut kinds, (&host, facts), (if_wrong, &reading))?;
        let secret_files = manifest.secret_files().to_vec();
        let files = reading.finish().filter(|_| !manifest.is_piped());
        let (site, inputs) = manifest.into_site(kinds, &host);
        Ok(LoadedSite { site, inputs, secret_files, files })
    }

    /// Loads the site like [`load_on`](Self::load_on), but makes no kinds beside these: it asks no
    /// external type.
    pub(crate) fn load_of(
        &self,
        kinds: &Kinds,
        (host, facts): (&Arc<Value>, &SeenFacts),
        if_wrong: IfFactsAreWrong<'_>,
    ) -> Result<(Site, SiteInputs), ManifestError> {
        let mut kinds = KnownKinds(kinds.clone());
        let reading = Reading::new(self.kept.as_ref());
        let manifest = self.manifest(&mut kinds, (host, facts), (if_wrong, &reading))?;
        Ok(manifest.into_site(kinds.0, host))
    }

    fn manifest(
        &self,
        kinds: &mut impl Judging,
        (host, facts): (&Arc<Value>, &SeenFacts),
        (if_wrong, reading): (IfFactsAreWrong<'_>, &Reading<'_>),
    ) -> Result<Manifest, ManifestError> {
        let (overrides, secrets) = (&self.overrides, &self.secrets);
        let (host, state) = (Arc::clone(host), self.state.as_deref());
        let outside = Surroundings { overrides, host, facts, if_wrong, secrets, state, reading };
        let mut manifest = Manifest::load_judged(&self.paths, outside, kinds)?;
        if let Some(before) = if_wrong.before() {
            manifest.name_facts(before);
        }
        Ok(manifest)
    }
}
