//! Follows a path as the kernel does, and watches every folder on the way.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};

use super::error::WatchProblem;
use super::kernel::{Interest, Kernel, Refusal};

/// How many symlinks the kernel follows in one path.
const MAX_LINKS: usize = 40;

/// Where an event concerns a path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// The watch of a folder, or of a file at the path's end.
    pub(super) watch: i32,
    /// The entry that the path goes through. `None` if the watch is at the path's end, so that every entry
    /// concerns the path.
    pub(super) entry: Option<Arc<OsStr>>,
}

/// The findings on the way along a path.
#[derive(Debug, Default)]
pub(super) struct Trail {
    pub(super) places: BTreeSet<Place>,
    /// The device and the inode at the path; `None` if nothing is there.
    pub(super) end: Option<(u64, u64)>,
    /// The first folder that is not watched.
    pub(super) problem: Option<WatchProblem>,
}

/// Follows `path` to its end or as far as it exists.
pub(super) fn follow(path: &Path, kernel: &Kernel) -> Trail {
    let mut walk = Walk {
        kernel,
        here: PathBuf::from("/"),
        ahead: names(path).collect(),
        links: 0,
        trail: Trail::default(),
    };
    while walk.step() {}
    walk.trail
}

struct Walk<'a> {
    kernel: &'a Kernel,
    /// A folder whose path has no symlink.
    here: PathBuf,
    ahead: VecDeque<OsString>,
    links: usize,
    trail: Trail,
}

impl Walk<'_> {
    /// Goes one component ahead and returns whether there is more to see.
    fn step(&mut self) -> bool {
        let Some(name) = self.ahead.pop_front() else {
            // The path's end is a folder, or it would not have been entered.
            self.watch(Interest::Contents, None);
            self.trail.end = fs::symlink_metadata(&self.here).ok().map(|end| identity(&end));
            return false;
        };
        if name == ".." {
            self.here.pop();
            return true;
        }
        let interest = if self.ahead.is_empty() { Interest::Contents } else { Interest::Names };
        // Invariant 1: watch, then look.
        if !self.watch(interest, Some(&name)) {
            return false;
        }
        let entry = self.here.join(&name);
        let Ok(metadata) = fs::symlink_metadata(&entry) else { return false };
        if metadata.is_symlink() {
            return self.turn(&entry);
        }
        if metadata.is_dir() {
            self.here = entry;
            return true;
        }
        if self.ahead.is_empty() {
            if metadata.is_file() && has_other_names(&entry, &metadata) {
                self.watch_itself(&entry);
            }
            self.trail.end = Some(identity(&metadata));
        }
        false
    }

    /// Watches the file at the path's end. If another one takes its name, the watch of the folder tells.
    fn watch_itself(&mut self, file: &Path) {
        match self.kernel.add_file(file) {
            Ok(watch) => {
                let places = watch.into_iter().map(|watch| Place { watch, entry: None });
                self.trail.places.extend(places);
            }
            Err(problem) => {
                self.trail.problem.get_or_insert(problem);
            }
        }
    }

    /// Watches the folder here, and returns whether it is still there.
    fn watch(&mut self, interest: Interest, entry: Option<&OsStr>) -> bool {
        match self.kernel.add(&self.here, interest) {
            Ok(watch) => {
                let entry = entry.map(Arc::from);
                self.trail.places.insert(Place { watch, entry });
                true
            }
            Err(Refusal::Vanished) => false,
            // The folders after this one may be watched all the same.
            Err(Refusal::Problem(problem)) => {
                self.trail.problem.get_or_insert(problem);
                true
            }
        }
    }

    /// Goes on where the symlink `link` points to.
    fn turn(&mut self, link: &Path) -> bool {
        self.links += 1;
        let Ok(target) = fs::read_link(link) else { return false };
        if self.links > MAX_LINKS {
            return false;
        }
        if target.is_absolute() {
            self.here = PathBuf::from("/");
        }
        for name in names(&target).rev() {
            self.ahead.push_front(name);
        }
        true
    }
}

/// Returns the names in `path`, `..` among them.
fn names(path: &Path) -> impl DoubleEndedIterator<Item = OsString> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    })
}

/// Returns whether a file is reached under other names too: hard links, or the place that a mount shows here. The watch
/// of the folder tells nothing of a change through those.
fn has_other_names(file: &Path, metadata: &fs::Metadata) -> bool {
    let is_mount = || {
        let found = statx(CWD, file, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::TYPE);
        found.is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
    };
    metadata.nlink() > 1 || is_mount()
}

fn identity(metadata: &fs::Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}
