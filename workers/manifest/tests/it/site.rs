//! Manifests in folders of their own.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crankcase_manifest::{Manifest, ManifestError, Overrides};

/// The types that the tests' resources may have.
pub(crate) const KINDS: &[&str] = &["file", "process", "exec"];

/// A folder with files.
pub(crate) struct Site {
    folder: tempfile::TempDir,
}

impl Site {
    /// Makes a folder with one file, `site.yaml`.
    pub(crate) fn new(text: &str) -> io::Result<Self> {
        let site = Self { folder: tempfile::tempdir()? };
        site.write("site.yaml", text)?;
        Ok(site)
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) -> io::Result<PathBuf> {
        let path = self.path(name);
        fs::write(&path, text)?;
        Ok(path)
    }

    /// Writes `site.yaml`, with the folder in the place of each `@`.
    pub(crate) fn declare(&self, text: &str) -> io::Result<PathBuf> {
        self.write("site.yaml", text.replace('@', &self.folder().display().to_string()))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn load(&self) -> Result<Manifest, ManifestError> {
        self.load_with(&Overrides::default())
    }

    pub(crate) fn load_with(&self, overrides: &Overrides) -> Result<Manifest, ManifestError> {
        Manifest::load(&[self.folder().to_owned()], overrides, KINDS)
    }

    /// Returns the text of an error, with the folder taken out.
    pub(crate) fn said(&self, result: Result<Manifest, ManifestError>) -> String {
        match result {
            Ok(_) => "valid".to_owned(),
            Err(err) => err.to_string().replace(&format!("{}/", self.folder().display()), ""),
        }
    }
}
