//! The files of a manifest by content: as a load has read them, and as a later load takes them in the place of the disk.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf, absolute};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::manifest::bounds::{Bounds, MAX_BYTES};
use crate::manifest::lines::Source;
use crate::manifest::problem::Problems;
use crate::manifest::source::{self, BYTE_ORDER_MARK, Unreadable};

/// The files that a site was loaded from, by content: its manifests, its files of variables, and the templates that its
/// resources render.
///
/// Files that resources copy, and files with secrets, are not among them: these are read where they are.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptManifest {
    /// In the order in which they were read.
    manifests: Vec<KeptFile>,
    /// In the order in which they count.
    vars: Vec<KeptFile>,
    /// By their absolute paths.
    templates: BTreeMap<PathBuf, String>,
}

/// A file, and its text without a byte order mark.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeptFile {
    path: PathBuf,
    text: String,
}

/// Shows the paths and no texts, as some of them may be secrets.
impl fmt::Debug for KeptManifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let paths =
            |files: &[KeptFile]| files.iter().map(|file| file.path.clone()).collect::<Vec<_>>();
        f.debug_struct("KeptManifest")
            .field("manifests", &paths(&self.manifests))
            .field("vars", &paths(&self.vars))
            .field("templates", &self.templates.keys())
            .finish()
    }
}

impl KeptManifest {
    /// Returns the digest of the files: a SHA-256, in hexadecimal, of all paths and texts.
    pub fn digest(&self) -> String {
        let mut hasher = Sha256::new();
        let mut add = |bytes: &[u8]| {
            // With its length, so that no text runs into the next.
            hasher.update((bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
        };
        for files in [&self.manifests, &self.vars] {
            add(&(files.len() as u64).to_le_bytes());
            for KeptFile { path, text } in files {
                add(path.as_os_str().as_encoded_bytes());
                add(text.as_bytes());
            }
        }
        for (path, text) in &self.templates {
            add(path.as_os_str().as_encoded_bytes());
            add(text.as_bytes());
        }
        base16ct::lower::encode_string(&hasher.finalize())
    }

    /// Returns whether other files have the same texts, but for templates.
    pub(crate) fn differs_in_templates_only(&self, other: &Self) -> bool {
        (&self.manifests, &self.vars) == (&other.manifests, &other.vars)
    }

    /// Returns the absolute paths of the templates.
    pub(crate) fn templates(&self) -> Vec<PathBuf> {
        self.templates.keys().cloned().collect()
    }

    /// Returns the text of a template with an absolute path, if it is kept.
    pub(crate) fn template(&self, path: &Path) -> Option<&str> {
        self.templates.get(path).map(String::as_str)
    }
}

/// Reads a template: as it is kept, or else from the disk.
pub(crate) fn read_template(
    kept: Option<&KeptManifest>,
    path: &Path,
) -> Result<Vec<u8>, Unreadable> {
    match kept.and_then(|kept| kept.template(path)) {
        Some(text) => Ok(text.as_bytes().to_vec()),
        None => source::read_bytes(path),
    }
}

/// Reads the files of one load, from the disk or as they were kept, and notes what it has read.
pub(crate) struct Reading<'a> {
    kept: Option<&'a Arc<KeptManifest>>,
    read: RefCell<Read>,
}

/// The files that were read.
#[derive(Default)]
struct Read {
    files: KeptManifest,
    /// How many bytes they have together, also if these are too many to be noted.
    bytes: u64,
}

impl Read {
    /// Returns whether a text may be noted. All noted texts together have the bound of a manifest.
    fn has_room(&mut self, text: &str) -> bool {
        self.bytes = self.bytes.saturating_add(text.len() as u64);
        self.bytes <= MAX_BYTES
    }
}

impl<'a> Reading<'a> {
    pub(crate) fn new(kept: Option<&'a Arc<KeptManifest>>) -> Self {
        Self { kept, read: RefCell::default() }
    }

    /// Returns the manifest whose files it reads as they were kept.
    pub(crate) fn kept(&self) -> Option<&'a Arc<KeptManifest>> {
        self.kept
    }

    /// Lists the manifests behind some paths.
    pub(crate) fn list(&self, paths: &[PathBuf], problems: &mut Problems) -> Vec<PathBuf> {
        match self.kept {
            Some(kept) => paths_of(&kept.manifests),
            None => source::list(paths, problems),
        }
    }

    /// Returns the files of variables in the order in which they count.
    pub(crate) fn list_vars(&self, paths: &[PathBuf]) -> Vec<PathBuf> {
        self.kept.map_or_else(|| paths.to_vec(), |kept| paths_of(&kept.vars))
    }

    /// Reads a manifest, within the bounds.
    pub(crate) fn manifest(
        &self,
        path: &Path,
        bounds: &mut Bounds,
        problems: &mut Problems,
    ) -> Option<Source> {
        let kept = self.kept.map(|kept| &kept.manifests[..]);
        let source = read(path, kept, bounds, problems)?;
        self.note(path, &source, |files| &mut files.manifests);
        Some(source)
    }

    /// Reads a file of variables, within the bounds.
    pub(crate) fn vars(
        &self,
        path: &Path,
        bounds: &mut Bounds,
        problems: &mut Problems,
    ) -> Option<Source> {
        let kept = self.kept.map(|kept| &kept.vars[..]);
        let source = read(path, kept, bounds, problems)?;
        self.note(path, &source, |files| &mut files.vars);
        Some(source)
    }

    /// Reads a template with an absolute path.
    pub(crate) fn template(&self, path: &Path) -> Result<Vec<u8>, Unreadable> {
        let bytes = read_template(self.kept.map(|kept| &**kept), path)?;
        let noted = &mut *self.read.borrow_mut();
        if let Ok(text) = std::str::from_utf8(&bytes)
            && !noted.files.templates.contains_key(path)
            && noted.has_room(text)
        {
            let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
            noted.files.templates.insert(path.to_owned(), text.to_owned());
        }
        Ok(bytes)
    }

    /// Returns all files that were read; none if they have more than 16 MiB.
    pub(crate) fn finish(self) -> Option<KeptManifest> {
        let Read { files, bytes } = self.read.into_inner();
        (bytes <= MAX_BYTES).then_some(files)
    }

    fn note(
        &self,
        path: &Path,
        source: &Source,
        list: impl FnOnce(&mut KeptManifest) -> &mut Vec<KeptFile>,
    ) {
        let noted = &mut *self.read.borrow_mut();
        if noted.has_room(source.text()) {
            // A later load may begin in another folder.
            let path = absolute(path).unwrap_or_else(|_| path.to_owned());
            list(&mut noted.files).push(KeptFile { path, text: source.text().to_owned() });
        }
    }
}

fn paths_of(files: &[KeptFile]) -> Vec<PathBuf> {
    files.iter().map(|file| file.path.clone()).collect()
}

/// Reads a file: the kept one, if there are any, or else from the disk.
fn read(
    path: &Path,
    kept: Option<&[KeptFile]>,
    bounds: &mut Bounds,
    problems: &mut Problems,
) -> Option<Source> {
    let kept = kept.and_then(|kept| kept.iter().find(|file| file.path == path));
    match kept {
        Some(file) => source::take(path, Ok(file.text.clone().into_bytes()), bounds, problems),
        None => source::read(path, bounds, problems),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io;
    use std::path::Path;
    use std::sync::Arc;

    use super::{KeptManifest, Reading};
    use crate::manifest::bounds::{Bounds, MAX_BYTES};
    use crate::manifest::problem::Problems;

    /// Reads a manifest, a file of variables and a template of a folder.
    fn read(folder: &Path, kept: Option<&Arc<KeptManifest>>) -> Option<KeptManifest> {
        let reading = Reading::new(kept);
        let (mut bounds, mut problems) = (Bounds::new(), Problems::default());
        for path in reading.list(&[folder.join("site.yaml")], &mut problems) {
            reading.manifest(&path, &mut bounds, &mut problems)?;
        }
        for path in reading.list_vars(&[folder.join("vars.yaml")]) {
            reading.vars(&path, &mut bounds, &mut problems)?;
        }
        reading.template(&folder.join("page.j2")).ok()?;
        reading.finish()
    }

    fn write(folder: &Path, text: &str) -> io::Result<()> {
        for name in ["site.yaml", "vars.yaml", "page.j2"] {
            fs::write(folder.join(name), text)?;
        }
        Ok(())
    }

    #[test]
    fn kept_files_are_read_in_the_place_of_those_on_the_disk() -> Result<(), io::Error> {
        let folder = tempfile::tempdir()?;
        write(folder.path(), "\u{feff}hunter2")?;
        let first = Arc::new(read(folder.path(), None).unwrap_or_default());

        write(folder.path(), "two")?;
        let again = read(folder.path(), Some(&first)).unwrap_or_default();
        let other = read(folder.path(), None).unwrap_or_default();

        assert_eq!(first.template(&folder.path().join("page.j2")), Some("hunter2"));
        assert_eq!((&again, again.digest()), (&*first, first.digest()));
        assert_ne!(other.digest(), first.digest());
        assert!(!format!("{first:?}").contains("hunter2"), "{first:?}");
        Ok(())
    }

    #[test]
    fn files_that_are_larger_than_a_manifest_may_be_are_not_kept() -> Result<(), io::Error> {
        let folder = tempfile::tempdir()?;
        write(folder.path(), "one")?;
        let size = usize::try_from(MAX_BYTES - 6).unwrap_or_default();

        fs::write(folder.path().join("page.j2"), "x".repeat(size))?;
        assert!(read(folder.path(), None).is_some());

        fs::write(folder.path().join("page.j2"), "x".repeat(size + 1))?;
        assert!(read(folder.path(), None).is_none());
        Ok(())
    }
}
