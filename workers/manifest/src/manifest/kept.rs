//! What resources keep that another one keeps already, also under another path that leads to the same file, and
//! what they would keep in the agent's own state folder, as far as a look can tell.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crankcase_resources::{Claim, Declaration, PATH, Role, already_kept, conflicts};

use crate::manifest::before::IfFactsAreWrong;
use crate::manifest::placed::Placed;
use crate::manifest::problem::{FactProblems, Hint, Problems};
use crate::manifest::resource::Unsure;

/// The resources of a manifest, and where they were declared.
type Site<'a> = (&'a [Declaration], &'a [Placed]);

/// A resource, by its position, and what it keeps.
type Kept<'a> = (usize, &'a Claim);

/// The device and the number of a file.
type Id = (u64, u64);

/// What makes two paths one: a file that is there, and the way from there.
type Identity<'a> = (Id, &'a Path);

/// Finds things that several resources keep, files that they keep under two paths, through symlinks, hard
/// links or mounts, and what they would keep in the state folder of the agent. Problems that are there
/// because of facts may be deferred: then returns the resources that are wrong, each of which was right before.
pub(crate) fn check_kept(
    site: Site<'_>,
    (state, if_wrong): (Option<&Path>, IfFactsAreWrong<'_>),
    problems: &mut Problems,
) -> Vec<(usize, Unsure)> {
    let mut wrong = Wrong { site, if_wrong, deferred: Vec::new(), problems };
    for conflict in conflicts(site.0) {
        let second = (conflict.second, &conflict.claim);
        wrong.tell_kept((conflict.first, conflict.how()), second, "make one resource of the two");
    }
    check_files(site.0, state, &mut wrong);
    wrong.deferred
}

/// Finds files under two paths, and those in the state folder.
fn check_files(declarations: &[Declaration], state: Option<&Path>, wrong: &mut Wrong<'_, '_>) {
    let mut files = Files::default();
    let state = state.map(|state| (state, files.state(state)));
    let mut kept: HashMap<Identity<'_>, Vec<Kept<'_>>> = HashMap::new();
    for (node, declaration) in declarations.iter().enumerate() {
        let paths = declaration.claims.iter().filter(|claim| claim.space == PATH);
        for claim in paths.filter(|claim| !matches!(claim.role, Role::Needs { .. })) {
            let path = Path::new(&claim.name);
            if let Some((folder, state)) = &state
                && files.is_within(path, state)
            {
                let message = format!("{claim} is in the agent's state folder {folder:?}");
                let hint = Hint::of(&claim.name).or("only the agent keeps what is in there");
                wrong.tell(&[node], PATH, message, hint);
            } else if matches!(claim.role, Role::Keeps { .. }) {
                let identities = files.identities(path);
                if let Some((first, other)) = keeper(&kept, &identities, (node, claim)) {
                    let how = format!("kept as {:?}", other.name);
                    wrong.tell_kept((first, &how), (node, claim), "both paths lead to one file");
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

/// What is wrong with what resources keep.
struct Wrong<'a, 'b> {
    site: Site<'a>,
    if_wrong: IfFactsAreWrong<'a>,
    /// The resources that are wrong because of facts, if that is deferred.
    deferred: Vec<(usize, Unsure)>,
    problems: &'b mut Problems,
}

impl Wrong<'_, '_> {
    /// Tells that a resource keeps what another one has already.
    fn tell_kept(&mut self, (first, how): (usize, &str), (second, claim): Kept<'_>, help: &str) {
        let (declarations, resources) = self.site;
        let Placed { template, offset, .. } = &resources[first];
        let place = template.source.place(template.offset_of(&claim.space, *offset));
        let message = already_kept((claim, how), &declarations[first].name, &place);
        self.tell(&[second, first], &claim.space, message, Hint::of(&claim.name).or(help));
    }

    /// Tells what is wrong at an attribute of some resources: at the first of them, unless that of one of them is deferred.
    fn tell(&mut self, nodes: &[usize], attribute: &str, message: String, hint: Hint) {
        let (_, resources) = self.site;
        let told = &resources[nodes[0]];
        let offset = told.template.offset_of(attribute, told.offset);
        match self.deferrable(nodes, attribute) {
            Some(node) => {
                let place = told.template.source.place(offset);
                self.deferred.push((node, Unsure { place, message }));
            }
            None => self.problems.with_hint(&told.template.source, offset, message, hint),
        }
    }

    /// Returns the resource that is wrong because an attribute follows from facts: rather one that claims something
    /// else than before.
    fn deferrable(&self, nodes: &[usize], attribute: &str) -> Option<usize> {
        if self.if_wrong.fact_problems() == FactProblems::Told {
            return None;
        }
        let (declarations, resources) = self.site;
        let may_be = |node: &usize| {
            let template = &resources[*node].template;
            template.unsure.is_none() && template.of_facts.contains(attribute)
        };
        let is_as_before = |node: &usize| {
            self.if_wrong.before().is_some_and(|before| before.has_claims_of(&declarations[*node]))
        };
        let wrong = nodes.iter().copied().filter(may_be);
        wrong.min_by_key(is_as_before)
    }
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
