//! Files that two resources keep under two paths, and files in the agent's state folder.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::declare::claim::{Claim, PATH, Role};
use crate::declare::declaration::Declaration;

/// A resource, by its position, and what it keeps.
type NumberedClaim<'a> = (usize, &'a Claim);

/// The device and the number of a file.
type Id = (u64, u64);

/// What makes two paths one: a file that is there, and the way from there.
type Identity<'a> = (Id, &'a Path);

/// A file that a resource cannot keep; resources are given by their positions. A front refuses each of them, so the
/// enum is exhaustive: a front that does not know a new one must not compile. The variants may get more fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileConflict {
    /// Another resource keeps it under another path, which leads there through a symlink, a hard link or a mount.
    #[non_exhaustive]
    Same {
        /// The other resource.
        first: usize,
        /// What the other resource keeps.
        other: Claim,
        /// The resource.
        second: usize,
        /// What it would keep.
        claim: Claim,
    },
    /// It is in the state folder of the agent.
    #[non_exhaustive]
    InState {
        /// The resource.
        node: usize,
        /// What it would keep or make.
        claim: Claim,
        /// The state folder.
        folder: PathBuf,
    },
}

/// Finds files that resources keep under two paths, and what they would keep in the state folder of the agent, if there
/// is one. Blocks for the disk.
pub fn file_conflicts(declarations: &[Declaration], state: Option<&Path>) -> Vec<FileConflict> {
    let mut files = Files::default();
    let state = state.map(|folder| (folder, files.state(folder)));
    let mut kept: HashMap<Identity<'_>, Vec<NumberedClaim<'_>>> = HashMap::new();
    let mut conflicts = Vec::new();
    for (node, declaration) in declarations.iter().enumerate() {
        let paths = declaration.claims.iter().filter(|claim| claim.space == PATH);
        for claim in paths.filter(|claim| !matches!(claim.role, Role::Needs { .. })) {
            let path = Path::new(&claim.name);
            if let Some((folder, state)) = &state
                && files.is_within(path, state)
            {
                let (claim, folder) = (claim.clone(), folder.to_path_buf());
                conflicts.push(FileConflict::InState { node, claim, folder });
            } else if matches!(claim.role, Role::Keeps { .. }) {
                let identities = files.identities(path);
                if let Some((first, other)) = keeper(&kept, &identities, (node, claim)) {
                    let (other, second, claim) = (other.clone(), node, claim.clone());
                    conflicts.push(FileConflict::Same { first, other, second, claim });
                }
                for identity in identities {
                    kept.entry(identity).or_default().push((node, claim));
                }
            }
        }
    }
    conflicts
}

/// Returns what keeps a file under another path, so that a resource cannot keep it as well.
fn keeper<'a>(
    kept: &HashMap<Identity<'_>, Vec<NumberedClaim<'a>>>,
    identities: &[Identity<'_>],
    (node, claim): NumberedClaim<'_>,
) -> Option<NumberedClaim<'a>> {
    let mut others = identities.iter().filter_map(|identity| kept.get(identity)).flatten();
    let is_other = |(first, other): &&NumberedClaim<'_>| {
        *first != node && other.name != claim.name && other.overlaps(claim)
    };
    others.find(is_other).copied()
}

/// The state folder of the agent.
struct State {
    /// Where its path leads.
    path: PathBuf,
    /// None if it is not there.
    id: Option<Id>,
}

/// The files and folders that were looked at.
#[derive(Default)]
struct Files {
    ids: HashMap<PathBuf, Option<Id>>,
    /// Where the paths of folders lead.
    ways: HashMap<PathBuf, PathBuf>,
}

impl Files {
    fn state(&mut self, path: &Path) -> State {
        State { path: self.way(path), id: self.id(path) }
    }

    /// Returns which file or folder a path leads to, past symlinks.
    fn id(&mut self, path: &Path) -> Option<Id> {
        if let Some(id) = self.ids.get(path) {
            return *id;
        }
        let id = id(fs::metadata(path));
        self.ids.insert(path.to_owned(), id);
        id
    }

    /// Returns where a path leads, past symlinks as far as it is there.
    fn way(&mut self, path: &Path) -> PathBuf {
        if let Some(way) = self.ways.get(path) {
            return way.clone();
        }
        let mut above = path.ancestors();
        let there = above.find_map(|above| Some((above, above.canonicalize().ok()?)));
        let way = there.and_then(|(above, way)| Some(way.join(path.strip_prefix(above).ok()?)));
        let way = way.unwrap_or_else(|| path.to_owned());
        self.ways.insert(path.to_owned(), way.clone());
        way
    }

    /// Returns what else is the same as a path: the way to it from the nearest folder above that is there, and
    /// the file that is there itself.
    fn identities<'a>(&mut self, path: &'a Path) -> Vec<Identity<'a>> {
        let mut above = path.ancestors().skip(1);
        let named = above.find_map(|above| Some((self.id(above)?, path.strip_prefix(above).ok()?)));
        let itself = self.id(path).map(|id| (id, Path::new("")));
        named.into_iter().chain(itself).collect()
    }

    /// Returns whether a path leads to the state folder, or to something in it.
    fn is_within(&mut self, path: &Path, state: &State) -> bool {
        let way = match (path.parent(), path.file_name()) {
            // Many resources have one folder.
            (Some(folder), Some(name)) if !path.is_symlink() => self.way(folder).join(name),
            _ => self.way(path),
        };
        way.starts_with(&state.path)
            || state.id.is_some() && way.ancestors().any(|above| self.id(above) == state.id)
    }
}

fn id(found: io::Result<fs::Metadata>) -> Option<Id> {
    found.ok().map(|found| (found.dev(), found.ino()))
}
