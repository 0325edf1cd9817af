//! The last good manifest of a site: it is kept in a file, for an agent to go back to.
//!
//! Invariants:
//! 1. The file is replaced as a whole: it has one manifest or the other.
//! 2. A manifest is written only after the site that was loaded from it was found good, by the
//!    caller of [`LastGood::keep`].
//! 3. A manifest is kept or gone back from, never both. While a manifest is being kept, it does not
//!    count as loaded, so no agent goes back from it. A wish to go back stays until it is answered.

use std::fmt;
use std::future::pending;
use std::io;
use std::path::{Path, PathBuf, absolute};
use std::sync::Arc;

use crankcase_resources::Site;
use crankcase_workers::{FileError, Folder};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::manifest::KeptManifest;

/// The name of the file.
const NAME: &str = "last-good.json";

/// The version of the file's format.
const VERSION: u32 = 1;

/// The size of the largest file that is read, in bytes: texts of 16 MiB with each byte escaped, and
/// their paths.
const MOST: u64 = 128 * 1024 * 1024;

/// The number of rejected manifests that are remembered. One is not enough: an agent that goes back
/// may change a template, which makes another manifest of the rejected one. The agent would try
/// that one, go back, and so on without end.
const MOST_REJECTED: usize = 16;

const TOO_LARGE: &str = "the files of the manifest and its templates are larger than 16 MiB together: it is not \
                         kept as the last good one";

/// The last good manifest of a site, in a file that only its owner can read. Cheap to clone; clones are the same.
///
/// The manifest is its files by content, with the secrets that are written in them. It may be large, so it is read when
/// it is needed.
#[derive(Clone)]
pub struct LastGood(Arc<Shared>);

struct Shared {
    folder: PathBuf,
    /// The paths that the site is loaded from; absolute.
    site: Vec<PathBuf>,
    state: Mutex<State>,
    /// How many loads were noted.
    loads: watch::Sender<u64>,
    asked: watch::Sender<Option<GoingBack>>,
}

#[derive(Default)]
struct State {
    /// The digest of the manifest in the file, if there is one of this site.
    kept: Option<String>,
    /// The manifests that were rejected although they could be loaded, the last one at the end.
    rejected: Vec<Rejected>,
    /// The manifest that the agent has gone back from, until the next load. Its site may have
    /// changed a template since.
    left: Option<Arc<KeptManifest>>,
    /// The manifest that was loaded last, until it is kept.
    loaded: Option<Loaded>,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rejected {
    digest: String,
    why: String,
}

/// The wish to go back from a manifest to the last good one.
#[derive(Debug, Clone)]
pub(crate) struct GoingBack {
    /// The digest of the manifest.
    digest: String,
    pub(crate) why: String,
}

struct Loaded {
    site: Arc<Site>,
    manifest: Arc<KeptManifest>,
    digest: String,
}

/// The content of the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    crankcase_last_good: u32,
    /// The paths that the site was loaded from. A manifest of another site does not count.
    site: Vec<PathBuf>,
    digest: String,
    manifest: Arc<KeptManifest>,
    rejected: Vec<Rejected>,
}

/// Shows no texts of a manifest, as some of them may be secrets.
impl fmt::Debug for LastGood {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LastGood").field("folder", &self.0.folder).finish_non_exhaustive()
    }
}

impl LastGood {
    /// Returns the last good manifest of the site with these paths, from a folder, such as the state folder of an agent.
    /// A file that cannot be read counts as none, which is logged. Blocks.
    pub fn open(folder: &Path, site: &[PathBuf]) -> Self {
        let site = site.iter().map(|path| absolute(path).unwrap_or_else(|_| path.clone()));
        let (loads, asked) = (watch::Sender::new(0), watch::Sender::new(None));
        let (folder, site, state) = (folder.to_owned(), site.collect(), Mutex::default());
        let last_good = Self(Arc::new(Shared { folder, site, state, loads, asked }));
        if let Some(Written { digest, rejected, .. }) = last_good.written() {
            let mut state = last_good.0.state.lock();
            (state.kept, state.rejected) = (Some(digest), rejected);
        }
        last_good
    }

    /// Returns the manifest, if there is one of this site. Blocks.
    pub fn read(&self) -> Option<Arc<KeptManifest>> {
        self.written().map(|written| written.manifest)
    }

    /// Returns the reason for which an agent has gone back from a manifest that could be loaded. Of
    /// these manifests the last 16 are known, and only those since the agent last kept one.
    pub fn rejection(&self, manifest: &KeptManifest) -> Option<String> {
        let (rejected, left) = {
            let mut state = self.0.state.lock();
            (state.rejected.clone(), state.left.take())
        };
        // Up to 16 MiB of text are hashed only if a manifest was rejected.
        let digest = (!rejected.is_empty()).then(|| manifest.digest())?;
        if let Some(rejected) = rejected.iter().find(|rejected| rejected.digest == digest) {
            return Some(rejected.why.clone());
        }
        left.filter(|left| left.differs_in_templates_only(manifest))?;
        let why = rejected.last()?.why.clone();
        self.0.state.lock().add_rejected(digest, &why);
        Some(why)
    }

    /// Returns whether a site was loaded from another manifest than the kept one, if there is a
    /// kept one.
    pub fn is_on_trial(&self, site: &Site) -> bool {
        let state = self.0.state.lock();
        state.kept.is_some() && state.is_new(site)
    }

    /// Returns whether a site was loaded from a manifest that is to be kept once the site was found good.
    pub fn is_to_be_kept(&self, site: &Site) -> bool {
        self.0.state.lock().is_new(site)
    }

    /// Keeps the manifest that a site was loaded from, unless it is the one that is kept. Blocks for the disk.
    ///
    /// # Errors
    ///
    /// When the file cannot be written. The manifest is still [to be kept](Self::is_to_be_kept) then.
    pub fn keep(&self, site: &Site) -> io::Result<()> {
        let Some(loaded) = self.take(site) else { return Ok(()) };
        let written = self.write(Arc::clone(&loaded.manifest), &loaded.digest, Vec::new());
        let mut state = self.0.state.lock();
        // Another manifest may have been loaded meanwhile, or the same one again.
        if written.is_err() {
            state.loaded.get_or_insert(loaded);
        } else {
            state.loaded.take_if(|later| later.digest == loaded.digest);
            (state.kept, state.rejected) = (Some(loaded.digest), Vec::new());
        }
        written
    }

    /// Takes the manifest that a site was loaded from, if it is to be kept: see invariant 3.
    fn take(&self, site: &Site) -> Option<Loaded> {
        let mut state = self.0.state.lock();
        if state.is_new(site) { state.loaded.take() } else { None }
    }

    /// Asks to go back from the manifest that a site was loaded from, and says why. Does nothing if
    /// that manifest is not [on trial](Self::is_on_trial).
    pub fn go_back(&self, site: &Site, why: &str) {
        let state = self.0.state.lock();
        let loaded = state.loaded.as_ref().filter(|_| state.kept.is_some() && state.is_new(site));
        if let Some(Loaded { digest, .. }) = loaded {
            let (digest, why) = (digest.clone(), why.to_owned());
            self.0.asked.send_replace(Some(GoingBack { digest, why }));
        }
    }

    /// Returns whether a wish to go back is not answered yet.
    pub fn is_asked(&self) -> bool {
        self.0.asked.borrow().is_some()
    }

    /// Returns a count of the loads that may have brought another manifest.
    pub fn loads(&self) -> watch::Receiver<u64> {
        self.0.loads.subscribe()
    }

    /// Waits until somebody asks to go back. Cancel safe: it counts as asked until it is [answered](Self::answered).
    pub(crate) async fn asked(&self) -> GoingBack {
        let mut asked = self.0.asked.subscribe();
        let asked = asked.wait_for(Option::is_some).await.ok().and_then(|asked| asked.clone());
        match asked {
            Some(asked) => asked,
            None => pending().await,
        }
    }

    /// Returns whether the manifest of a wish to go back is still the one that was loaded last.
    pub(crate) fn is_loaded(&self, asked: &GoingBack) -> bool {
        let state = self.0.state.lock();
        state.loaded.as_ref().is_some_and(|loaded| loaded.digest == asked.digest)
    }

    /// Ends the wish to go back, whether it was granted or not.
    pub(crate) fn answered(&self) {
        self.0.asked.send_replace(None);
    }

    /// Notes the files that a site was loaded from, if they can be kept.
    pub(crate) fn note(&self, site: &Arc<Site>, files: Option<KeptManifest>) {
        let loaded = files.map(|files| {
            let (site, digest) = (Arc::clone(site), files.digest());
            Loaded { site, manifest: Arc::new(files), digest }
        });
        if loaded.is_none() {
            tracing::warn!("{TOO_LARGE}");
        }
        let mut state = self.0.state.lock();
        let is_kept = loaded.as_ref().is_some_and(|it| state.kept.as_ref() == Some(&it.digest));
        state.loaded = loaded.filter(|_| !is_kept);
        drop(state);
        self.0.loads.send_modify(|loads| *loads += 1);
    }

    /// Rejects the manifest that was loaded last. The file records that, so that the next agent
    /// does not try the manifest again. Blocks for the disk.
    pub(crate) fn reject(&self, why: &str) {
        let rejected = {
            let mut state = self.0.state.lock();
            let Some(Loaded { digest, manifest, .. }) = state.loaded.take() else { return };
            state.add_rejected(digest, why);
            state.left = Some(manifest);
            state.rejected.clone()
        };
        let Some(Written { digest, manifest, .. }) = self.written() else { return };
        if let Err(error) = self.write(manifest, &digest, rejected) {
            let error: &dyn std::error::Error = &error;
            tracing::warn!(error, "cannot put on record that a manifest is rejected");
        }
    }

    /// Forgets that manifests were rejected, until the agent ends.
    pub(crate) fn forgive(&self) {
        self.0.state.lock().rejected.clear();
    }

    fn write(
        &self,
        manifest: Arc<KeptManifest>,
        digest: &str,
        rejected: Vec<Rejected>,
    ) -> io::Result<()> {
        let (digest, site) = (digest.to_owned(), self.0.site.clone());
        let written = Written { crankcase_last_good: VERSION, site, digest, manifest, rejected };
        let text = serde_json::to_vec(&written)?;
        Ok(Folder::open(&self.0.folder)?.replace(NAME, &text, 0o600)?)
    }

    /// Reads the file. A file of another site counts as none.
    fn written(&self) -> Option<Written> {
        let folder = &self.0.folder;
        let read = match Folder::open(folder).and_then(|folder| folder.read(NAME, MOST)) {
            Err(error) if error.is_missing() => return None,
            read => read.map_err(ReadError::from),
        };
        let written = read.and_then(|text| Ok(serde_json::from_slice::<Written>(&text)?));
        let whole = written.and_then(|written| match written.crankcase_last_good {
            VERSION if written.digest == written.manifest.digest() => Ok(written),
            VERSION => Err(ReadError::Damaged),
            version => Err(ReadError::Version(version)),
        });
        match whole {
            Ok(written) => Some(written).filter(|written| written.site == self.0.site),
            Err(error) => {
                let error: &dyn std::error::Error = &error;
                let path = folder.join(NAME);
                tracing::warn!(error, ?path, "cannot read the last good manifest");
                None
            }
        }
    }
}

impl State {
    /// Returns whether a site comes from the last load, and from another manifest than the kept
    /// one.
    fn is_new(&self, site: &Site) -> bool {
        let loaded = self.loaded.as_ref();
        loaded.is_some_and(|loaded| site.renewed_since(&loaded.site).is_some())
    }

    fn add_rejected(&mut self, digest: String, why: &str) {
        let too_many = (self.rejected.len() + 1).saturating_sub(MOST_REJECTED);
        self.rejected.drain(..too_many);
        self.rejected.push(Rejected { digest, why: why.to_owned() });
    }
}

/// Why the file cannot be read.
#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("it is not what an agent has written")]
    Syntax(#[from] serde_json::Error),
    #[error("it has version {0}; expected {expected}", expected = VERSION)]
    Version(u32),
    #[error("it is damaged: its texts do not fit its digest")]
    Damaged,
}

#[cfg(test)]
mod tests;
