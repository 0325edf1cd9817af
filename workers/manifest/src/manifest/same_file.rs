//! Paths that lead to one file, and paths into the agent's own state folder, as far as a look can tell.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crankcase_resources::{Claim, Declaration, PATH, Role, already_kept};

use crate::manifest::beside::{self, Placed};
use crate::manifest::problem::{Hint, Problems};

/// The device and the number of a file.
type Id = (u64, u64);

/// What makes two paths one: the file that is there, or a name in a folder.
type Identity<'a> = (Id, Option<&'a std::ffi::OsStr>);

/// Finds things that several resources keep, files that they keep under two paths, through symlinks, hard
/// links or mounts, and what is kept in the state folder of the agent.
pub(crate) fn check_kept(
    (declarations, resources): (&[Declaration], &[Placed]),
    state: Option<&Path>,
    problems: &mut Problems,
) {
    beside::check_kept(declarations, resources, problems);
    let mut folders = Folders::default();
    let state = state.map(|state| (state, id(fs::metadata(state))));
    let mut kept: HashMap<Identity<'_>, (usize, &Claim)> = HashMap::new();
    for (node, declaration) in declarations.iter().enumerate() {
        let paths = declaration.claims.iter().filter(|claim| claim.space == PATH);
        for claim in paths.filter(|claim| !matches!(claim.role, Role::Needs { .. })) {
            let second = &resources[node];
            let offset = second.template.offset_of(PATH, second.offset);
            let mut refuse = |message: String, help: &str| {
                let hint = Hint::of(&claim.name).or(help);
                problems.with_hint(&second.template.source, offset, message, hint);
            };
            if let Some((state, id)) = state
                && folders.is_within(Path::new(&claim.name), (state, id))
            {
                let message = format!("{claim} is in the agent's state folder {state:?}");
                refuse(message, "only the agent keeps what is in there");
                continue;
            }
            if !matches!(claim.role, Role::Keeps { .. }) {
                continue;
            }
            let mut identities = folders.identities(Path::new(&claim.name)).into_iter().flatten();
            let other = identities.find_map(|identity| {
                let (first, other) = *kept.entry(identity).or_insert((node, claim));
                (other.name != claim.name && is_against(claim, other)).then_some((first, other))
            });
            let Some((first, other)) = other else { continue };
            let (of_first, how) = (&resources[first], format!("kept as {:?}", other.name));
            let place = of_first.template.offset_of(PATH, of_first.offset);
            let place = of_first.template.source.place(place);
            let message = already_kept((claim, &how), &declarations[first].name, &place);
            refuse(message, "both paths lead to one file");
        }
    }
}

/// Returns whether two resources cannot both keep this of one file.
fn is_against(one: &Claim, other: &Claim) -> bool {
    match (&one.role, &other.role) {
        (Role::Keeps { part: one, .. }, Role::Keeps { part: other, .. }) => {
            one.is_none() || other.is_none() || one == other
        }
        _ => false,
    }
}

fn id(found: std::io::Result<fs::Metadata>) -> Option<Id> {
    found.ok().map(|found| (found.dev(), found.ino()))
}

/// The folders that were looked at.
#[derive(Default)]
struct Folders(HashMap<PathBuf, Option<Id>>);

impl Folders {
    fn id(&mut self, folder: &Path) -> Option<Id> {
        if let Some(id) = self.0.get(folder) {
            return *id;
        }
        let id = id(fs::metadata(folder));
        self.0.insert(folder.to_owned(), id);
        id
    }

    /// Returns what else is the same as a path: its name in its folder, and the file that is there.
    fn identities<'a>(&mut self, path: &'a Path) -> [Option<Identity<'a>>; 2] {
        let folder = path.parent().and_then(|folder| self.id(folder));
        let named = folder.map(|folder| (folder, path.file_name()));
        [named, id(fs::symlink_metadata(path)).map(|id| (id, None))]
    }

    /// Returns whether a path is a folder, or something in it.
    fn is_within(&mut self, path: &Path, (folder, id): (&Path, Option<Id>)) -> bool {
        path.starts_with(folder) || path.ancestors().any(|at| id.is_some() && self.id(at) == id)
    }
}
