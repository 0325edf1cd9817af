//! Many small files, and the manifest that declares them.

use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tokio::time::Instant;

/// How many files a folder has.
const FOLDER: usize = 100;

/// How many resources one file of a manifest has.
const PART: usize = 10_000;

/// The mode of each file.
pub(crate) const MODE: u32 = 0o640;

/// Files in a temporary folder of their own, which has a manifest and a state folder beside them.
pub(crate) struct Files {
    root: TempDir,
    count: usize,
}

impl Files {
    /// Makes the manifest and the folders of the files, and no files.
    pub(crate) fn declare(count: usize) -> Self {
        let root = TempDir::new().unwrap();
        for first in (0..count).step_by(FOLDER) {
            fs::create_dir_all(path(root.path(), first).parent().unwrap()).unwrap();
        }
        write_site(root.path(), (0..count).map(|number| declaration(root.path(), number)));
        Self { root, count }
    }

    /// Makes the manifest of files that are rendered from a template each, the templates, and the folders
    /// of the files.
    pub(crate) fn declare_rendered(count: usize) -> Self {
        let files = Self::declare(count);
        let root = files.root();
        fs::remove_dir_all(root.join("site")).unwrap();
        let declared = (0..count).map(|number| {
            let config =
                format!("path: {:?}, template: {:?}", files.path(number), template(root, number));
            format!("  file-{number}: {{type: file, config: {{{config}, mode: \"{MODE:04o}\"}}}}\n")
        });
        write_site(root, declared);
        for number in 0..count {
            let template = template(root, number);
            fs::create_dir_all(template.parent().unwrap()).unwrap();
            fs::write(template, format!("{}on {{{{ host.name }}}}\n", content(number))).unwrap();
        }
        files
    }

    /// Makes all the files too, as they are declared.
    pub(crate) fn make(count: usize) -> Self {
        let files = Self::declare(count);
        for number in 0..count {
            let path = files.path(number);
            fs::write(&path, content(number)).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(MODE)).unwrap();
        }
        files
    }

    pub(crate) fn remove(&self) {
        for number in 0..self.count {
            fs::remove_file(self.path(number)).unwrap();
        }
    }

    /// Declares another content of a file, in a manifest of one part. Returns when it is declared.
    pub(crate) fn redeclare(&self, number: usize, other: &str) -> Instant {
        let (part, new) = (part(&self.root().join("site"), self.count), self.root().join("new"));
        let text = fs::read_to_string(&part).unwrap();
        let changed = text.replace(content(number).trim_end(), other);
        assert!(changed != text, "file {number} is declared in another way already");
        fs::write(&new, changed).unwrap();
        fs::rename(new, part).unwrap();
        Instant::now()
    }

    /// Writes something wrong into all of them.
    pub(crate) fn harm(&self) {
        (0..self.count).for_each(|number| fs::write(self.path(number), "wrong").unwrap());
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Returns the folder that has all.
    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    pub(crate) fn path(&self, number: usize) -> PathBuf {
        path(self.root(), number)
    }

    /// Returns the folders of the files.
    pub(crate) fn folders(&self) -> impl Iterator<Item = PathBuf> {
        let firsts = (0..self.count).step_by(FOLDER);
        firsts.map(|first| self.path(first).parent().unwrap().to_owned())
    }
}

/// Returns the path of a file under the folder that has all.
pub(crate) fn path(root: &Path, number: usize) -> PathBuf {
    root.join(format!("files/folder-{}/file-{number}", number / FOLDER))
}

/// Returns the path of the template of a file.
pub(crate) fn template(root: &Path, number: usize) -> PathBuf {
    root.join(format!("templates/folder-{}/file-{number}.j2", number / FOLDER))
}

pub(crate) fn content(number: usize) -> String {
    format!("This is what file {number} says.\n")
}

/// Returns the line of the manifest that declares a file.
pub(crate) fn declaration(root: &Path, number: usize) -> String {
    let (path, content) = (path(root, number), content(number));
    let content = content.trim_end();
    let config = format!("path: {path:?}, content: \"{content}\\n\", mode: \"{MODE:04o}\"");
    format!("  file-{number}: {{type: file, config: {{{config}}}}}\n")
}

/// Writes a manifest in several files, of a line for each resource.
pub(crate) fn write_site(root: &Path, declared: impl Iterator<Item = String>) {
    let site = root.join("site");
    fs::create_dir(&site).unwrap();
    let (mut text, mut lines) = (String::new(), 0);
    for line in declared {
        if lines % PART == 0 && lines > 0 {
            fs::write(part(&site, lines), std::mem::take(&mut text)).unwrap();
        }
        if text.is_empty() {
            text.push_str("resources:\n");
        }
        text.write_str(&line).unwrap();
        lines += 1;
    }
    let text = if text.is_empty() { "resources:\n".to_owned() } else { text };
    fs::write(part(&site, lines), text).unwrap();
}

fn part(site: &Path, last: usize) -> PathBuf {
    site.join(format!("until-{last:08}.yaml"))
}
