//! A plan in a file, to be applied as it was seen or not at all.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use crankcase_facts::Facts;
use crankcase_resources::report::Salt;
use crankcase_resources::{Plan, Selection, Site};
use crankcase_workers::{FileError, name_first, read_file, replace_file};
use serde::{Deserialize, Serialize};

use crate::exit::{CONFLICT, ExitError, INVALID};
use crate::global::Global;
use crate::plan_file::begins_as_plan;
use crate::site_args::SiteArgs;

/// The version of the file's format.
const VERSION: u32 = 5;

/// How large a saved plan may be: as a manifest, 16 MiB, and its plan beside it.
const MOST: u64 = 64 * 1024 * 1024;

/// How many things that have moved are named.
const NAMED: usize = 5;

/// A plan, and what it was made of.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedPlan {
    crankcase_plan: u32,
    /// What it is a plan of, with absolute paths: it may be applied from elsewhere.
    site: SiteArgs,
    /// The resources that it is a plan of.
    selection: Selection,
    /// The version of the program that has made it.
    version: String,
    /// The files that it was made of: manifests and files of variables, each with its SHA-256.
    files: BTreeMap<PathBuf, String>,
    /// A SHA-256 that tells the manifest from one that was changed since.
    digest: String,
    plan: Plan,
}

/// The version of a saved plan that may be of another version.
#[derive(Deserialize)]
struct Version {
    crankcase_plan: u32,
}

/// The message about a file that has changed, after its path.
const HAS_CHANGED: &str = " has changed";

/// The thing that has changed if no file has, for the message.
const BESIDE: &str = "a secret, or what is known of the host,";

/// Refuses a plan if anything has moved since; `moved` has a clause for each change.
fn require(moved: &[String]) -> Result<(), ExitError> {
    if moved.is_empty() {
        return Ok(());
    }
    let moved = name_first(NAMED, moved.iter());
    let text = format!("the plan is out of date: {moved}; plan again");
    Err(ExitError::new(CONFLICT, text))
}

impl SavedPlan {
    /// Returns the plan of a site whose paths are absolute.
    pub(crate) fn new(
        (site, selection): (SiteArgs, Selection),
        (files, digest): (BTreeMap<PathBuf, String>, String),
        plan: Plan,
    ) -> Self {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Self { crankcase_plan: VERSION, site, selection, version, files, digest, plan }
    }

    /// Loads the site that it is a plan of, if that is made of the same as then. Nothing is executed.
    pub(crate) fn load(&self, global: &Global, facts: &Facts) -> anyhow::Result<Site> {
        require(&self.moved_files())?;
        let site = self.site.load_to_apply(global, facts)?;
        let has_moved = site.digest() != self.digest;
        let moved = has_moved.then(|| BESIDE.to_owned() + HAS_CHANGED);
        require(moved.as_slice())?;
        Ok(site.select(&self.selection)?)
    }

    /// Returns which files, and which program, are not those that the plan was made of.
    fn moved_files(&self) -> Vec<String> {
        let mut moved = Vec::new();
        let version = env!("CARGO_PKG_VERSION");
        if self.version != version {
            moved.push(format!("crankcase {} made it, and this is {version}", self.version));
        }
        let mut now = self.site.fingerprints();
        for (path, fingerprint) in &self.files {
            let path_now = now.remove(path);
            let path = path.display();
            match path_now {
                None => moved.push(format!("{path} is gone")),
                Some(now) if now != *fingerprint => moved.push(format!("{path}{HAS_CHANGED}")),
                Some(_) => {}
            }
        }
        moved.extend(now.into_keys().map(|path| format!("{} is new", path.display())));
        moved
    }

    /// Returns what plans have to be made with, to be compared with this one.
    pub(crate) fn salt(&self) -> Option<Salt> {
        self.plan.salt.clone()
    }

    /// Refuses a machine that is not as it was planned for, and says what has moved.
    pub(crate) fn check(&self, plan: &Plan) -> Result<(), ExitError> {
        let mut moved = Vec::new();
        let now = plan.resources.iter().map(|now| (now.name.as_str(), now));
        let mut now: HashMap<&str, _> = now.collect();
        for planned in &self.plan.resources {
            match now.remove(planned.name.as_str()) {
                None => moved.push(format!("\"{}\" is gone", planned.name)),
                Some(now) if now != planned => {
                    moved.push(format!("\"{}\" is not as it was", planned.name));
                }
                Some(_) => {}
            }
        }
        let mut new: Vec<_> = now.into_keys().collect();
        new.sort_unstable();
        moved.extend(new.into_iter().map(|name| format!("\"{name}\" is new")));
        require(&moved)
    }

    /// Writes the plan to a file that only its owner can read: the old content or the new, never a
    /// mix. What could not be read again is not written, and what is no plain file not replaced.
    pub(crate) fn write(&self, path: &Path) -> anyhow::Result<()> {
        self.write_at_most(path, MOST)
    }

    fn write_at_most(&self, path: &Path, most: u64) -> anyhow::Result<()> {
        let failed = || format!("cannot save the plan in {}", path.display());
        let text = self.text(most).with_context(failed)?;
        replace_file(path, &text, 0o600).map_err(io::Error::from).with_context(failed)
    }

    fn text(&self, most: u64) -> io::Result<Vec<u8>> {
        let text = serde_json::to_vec(self)?;
        let size = text.len();
        if u64::try_from(size).is_ok_and(|size| size <= most) {
            return Ok(text);
        }
        let message = format!("it has {size} bytes, and apply reads a plan of at most {most}");
        Err(io::Error::new(io::ErrorKind::FileTooLarge, message))
    }

    /// Reads a saved plan; `None` if the file is none, and so a manifest. So is one that cannot be
    /// read: who loads it says why.
    pub(crate) fn read(site: &SiteArgs) -> anyhow::Result<Option<Self>> {
        let [path] = &*site.paths else { return Ok(None) };
        if !begins_as_plan(path) {
            return Ok(None);
        }
        let text = match read_file(path, MOST) {
            Err(FileError::TooLarge { .. }) => {
                let text = format!("the saved plan {} is larger than {MOST} bytes", path.display());
                bail!(ExitError::new(INVALID, text))
            }
            Err(_) => return Ok(None),
            Ok(text) => text,
        };
        let wrong =
            || ExitError::new(INVALID, format!("cannot read the saved plan {}", path.display()));
        // Another version has other keys.
        let Version { crankcase_plan: version } =
            serde_json::from_slice(&text).with_context(wrong)?;
        if version != VERSION {
            let path = path.display();
            let text = format!("the saved plan {path} has version {version}; expected {VERSION}");
            bail!(ExitError::new(INVALID, text));
        }
        Ok(Some(serde_json::from_slice(&text).with_context(wrong)?))
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;
    use std::fs;

    use std::collections::BTreeMap;

    use crankcase_resources::{Plan, Selection};

    use super::SavedPlan;
    use crate::external_args::ExternalArgs;
    use crate::site_args::SiteArgs;

    type TestResult = Result<(), Box<dyn Error>>;

    fn saved() -> SavedPlan {
        let site = SiteArgs {
            paths: Vec::new(),
            vars: Vec::new(),
            var_files: Vec::new(),
            no_automatic_edges: false,
            external: ExternalArgs::default(),
        };
        SavedPlan::new(
            (site, Selection::default()),
            (BTreeMap::new(), String::new()),
            Plan { salt: None, resources: Vec::new(), released: Vec::new() },
        )
    }

    #[test]
    fn a_plan_that_could_not_be_read_again_is_not_written() -> TestResult {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("plan");
        let size = u64::try_from(saved().text(u64::MAX)?.len())?;

        let written = saved().write_at_most(&path, size - 1);

        let error = written.err().ok_or("it was written")?;
        let expected = format!(
            "cannot save the plan in {}: it has {size} bytes, and apply reads a plan of at most {}",
            path.display(),
            size - 1
        );
        assert_eq!(format!("{error:#}"), expected);
        assert_eq!(fs::read_dir(folder.path())?.count(), 0, "something is left behind");
        Ok(())
    }

    #[test]
    fn a_temporary_file_of_someone_else_is_left_alone() -> TestResult {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("plan");
        let taken = folder.path().join(".plan.crankcase-tmp");
        let file = fs::File::create(&taken)?;
        file.lock()?;

        let written = saved().write(&path);

        let error = written.err().ok_or("it was written")?;
        assert!(format!("{error:#}").contains("another process is just writing"), "{error:#}");
        assert!(taken.exists() && !path.exists());
        Ok(())
    }

    #[test]
    fn the_largest_plan_is_written_and_read() -> TestResult {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("plan");
        let size = u64::try_from(saved().text(u64::MAX)?.len())?;

        saved().write_at_most(&path, size)?;

        let site = SiteArgs {
            paths: vec![path],
            vars: Vec::new(),
            var_files: Vec::new(),
            no_automatic_edges: false,
            external: ExternalArgs::default(),
        };
        assert!(SavedPlan::read(&site)?.is_some());
        Ok(())
    }
}
