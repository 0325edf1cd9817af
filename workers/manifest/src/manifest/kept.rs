//! What resources keep that another one keeps already, also under another path that leads to the same file, and
//! what they would keep in the agent's own state folder, as far as a look can tell.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crankcase_resources::{Claim, Declaration, PATH, Role, already_kept, conflicts};

use crate::manifest::placed::Placed;
use crate::manifest::problem::{Hint, Problems};

/// The resources of a manifest, and where they were declared.
type Site<'a> = (&'a [Declaration], &'a [Placed]);

/// A resource, by its position, and what it keeps.
type Kept<'a> = (usize, &'a Claim);

/// The device and the number of a file.
type Id = (u64, u64);

/// What makes two paths one: a file that is there, and the way from there.
type Identity<'a> = (Id, &'a Path);

/// Finds things that several resources keep, files that they keep under two paths, through symlinks, hard
/// links or mounts, and what they would keep in the state folder of the agent.
pub(crate) fn check_kept(site: Site<'_>, state: Option<&Path>, problems: &mut Problems) {
    for conflict in conflicts(site.0) {
        let second = (conflict.second, &conflict.claim);
        let help = "make one resource of the two";
        refuse(site, (conflict.first, conflict.how()), second, help, problems);
    }
    let mut files = Files::default();
    let state = state.map(|state| (state, files.state(state)));
    let mut kept: HashMap<Identity<'_>, Vec<Kept<'_>>> = HashMap::new();
    for (node, declaration) in site.0.iter().enumerate() {
        let paths = declaration.claims.iter().filter(|claim| claim.space == PATH);
        for claim in paths.filter(|claim| !matches!(claim.role, Role::Needs { .. })) {
            let path = Path::new(&claim.name);
            if let Some((folder, state)) = &state
                && files.is_within(path, state)
            {
                let message = format!("{claim} is in the agent's state folder {folder:?}");
                let hint = Hint::of(&claim.name).or("only the agent keeps what is in there");
                let Placed { template, offset, .. } = &site.1[node];
                let offset = template.offset_of(PATH, *offset);
                problems.with_hint(&template.source, offset, message, hint);
            } else if matches!(claim.role, Role::Keeps { .. }) {
                let identities = files.identities(path);
                if let Some((first, other)) = keeper(&kept, &identities, (node, claim)) {
                    let how = format!("kept as {:?}", other.name);
                    let help = "both paths lead to one file";
                    refuse(site, (first, &how), (node, claim), help, problems);
                }
                for identity in identities {
                    kept.entry(identity).or_default().push((node, claim));
                }
            }
        }
    }
}

/// Returns what keeps a file under another path, so that a resource cannot keep it as well.
fn keeper<'a>(
    kept: &HashMap<Identity<'_>, Vec<Kept<'a>>>,
    identities: &[Identity<'_>],
    (node, claim): Kept<'_>,
) -> Option<Kept<'a>> {
    let mut others = identities.iter().filter_map(|identity| kept.get(identity)).flatten();
    let is_other = |(first, other): &&Kept<'_>| {
        *first != node && other.name != claim.name && other.overlaps(claim)
    };
    others.find(is_other).copied()
}

/// Says that a resource keeps what another one has already.
fn refuse(
    (declarations, resources): Site<'_>,
    (first, how): (usize, &str),
    (second, claim): Kept<'_>,
    help: &str,
    problems: &mut Problems,
) {
    let offset =
        |Placed { template, offset, .. }: &Placed| template.offset_of(&claim.space, *offset);
    let (placed, name) = (&resources[first], &declarations[first].name);
    let place = placed.template.source.place(offset(placed));
    let message = already_kept((claim, how), name, &place);
    let second = &resources[second];
    let hint = Hint::of(&claim.name).or(help);
    problems.with_hint(&second.template.source, offset(second), message, hint);
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
