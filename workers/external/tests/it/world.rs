//! A folder with a type, and what is made of it.

use std::error::Error;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use crankcase_engine::Stop;
use crankcase_external::{External, Settings};
use crankcase_manifest::SiteFiles;
use crankcase_resources::{Account, ApplyOptions, Event, Facilities, Kinds, Observer};
use parking_lot::Mutex;

pub(crate) type TestResult<T = ()> = Result<T, Box<dyn Error>>;

/// Writes a program.
pub(crate) fn program(path: &Path, text: &str) -> TestResult {
    fs::write(path, text)?;
    Ok(fs::set_permissions(path, Permissions::from_mode(0o755))?)
}

/// Makes a pipe with a name.
pub(crate) fn fifo(path: &Path) -> TestResult {
    let made = Command::new("mkfifo").arg(path).status()?;
    if made.success() { Ok(()) } else { Err("there is no pipe".into()) }
}

/// A folder with a manifest, and a type in it.
pub(crate) struct World {
    folder: tempfile::TempDir,
    pub(crate) kinds: Kinds,
}

/// What was seen of a run.
#[derive(Debug, Default)]
pub(crate) struct Seen(Mutex<Vec<Event>>);

impl Observer for Seen {
    fn happened(&self, event: &Event) {
        self.0.lock().push(event.clone());
    }
}

impl World {
    pub(crate) fn new(site: &str, script: &str) -> TestResult<Self> {
        Self::with(site, script, External::new(Settings::default()))
    }

    pub(crate) fn with(site: &str, script: &str, external: External) -> TestResult<Self> {
        let folder = tempfile::tempdir()?;
        fs::write(folder.path().join("site.yaml"), site)?;
        program(&folder.path().join("it"), script)?;
        let kinds = crankcase_kinds::builtin().from_source(Arc::new(external));
        Ok(Self { folder, kinds })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn files(&self) -> SiteFiles {
        SiteFiles::new(vec![self.path("site.yaml")], self.kinds.clone())
    }

    /// Applies the manifest. Returns what came of it, and what was seen.
    pub(crate) async fn apply(&self) -> TestResult<(Account, Vec<Event>)> {
        let site = self.files().load()?;
        let seen = Arc::new(Seen::default());
        let facilities = Facilities::default().observed_by(seen.clone());
        let options = ApplyOptions { facilities, ..ApplyOptions::default() };
        let (_stopper, stop) = Stop::pair();
        let account = site.apply(&options, stop).await;
        let seen = std::mem::take(&mut *seen.0.lock());
        Ok((account, seen))
    }
}
