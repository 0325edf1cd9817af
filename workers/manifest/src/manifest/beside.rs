//! The files that resources read: the resources that make them first, and the faults in them, as
//! far as a look can tell.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use crankcase_resources::dynamic::{FileRead, path_name};
use crankcase_resources::front::Order;
use crankcase_resources::{Claim, Declaration, PATH};

use crate::manifest::alias::Alias;
use crate::manifest::config::Template;
use crate::manifest::expression::{Budget, is_template};
use crate::manifest::kept_manifest::Reading;
use crate::manifest::placed::Placed;
use crate::manifest::problem::{FactProblems, Hint, Problems};
use crate::manifest::source;
use crate::manifest::used::Used;
use crate::manifest::vars::KnownVars;

/// How many bytes of a template are one step of the work at load.
const BYTES_PER_STEP: usize = 16;

/// The most edges that are followed to find out whether a resource comes after the maker of a file.
/// After that no file counts as missing at load; the resource fails later if its file is not there.
const MOST_EDGES: usize = 10_000_000;

/// Orders each resource after the makers of the files of the secrets that it uses. `files` has the
/// files of each variable, and `vars` the names that each variable uses.
pub(crate) fn need_secrets(
    (declarations, placed): (&mut [Declaration], &[Placed]),
    files: &BTreeMap<String, Vec<PathBuf>>,
    vars: &BTreeMap<String, Used>,
) {
    if files.is_empty() {
        return;
    }
    for (declaration, placed) in declarations.iter_mut().zip(placed) {
        let names = placed.template.used.vars_in_turn(vars);
        // It is not known yet what a rendered file uses.
        let is_used = |name: &str| placed.claimed.renders_any || names.contains(name);
        let used = files.iter().filter(|(name, _)| is_used(name)).flat_map(|(_, files)| files);
        let needs = used.filter_map(|file| path_name(file)).map(|name| Claim::needs(PATH, name));
        // A resource that keeps its earlier claims has these needs already.
        let missing: Vec<_> = needs.filter(|need| !declaration.claims.contains(need)).collect();
        declaration.claims.extend(missing);
    }
}

/// Finds files that cannot be read, and templates that cannot be rendered, within some steps of
/// work. A file that another resource may make first is not reported. Notes the digests of the
/// templates. Hides the attributes that come of templates with secrets. A problem of facts may be
/// deferred, and is then noted at the resource. With a kept manifest no missing file is reported:
/// it concerns only the resources that read the file, and these find it out.
pub(crate) fn check_read(
    (declarations, placed): (&mut [Declaration], &mut [Placed]),
    (order, reading): (&Order, &Reading<'_>),
    (vars, fact_problems, mut left): (&KnownVars<'_>, FactProblems, usize),
    problems: &mut Problems,
) {
    let (mut hidden, mut all_deferred, mut templates) = (Vec::new(), Vec::new(), Vec::new());
    let may_defer = fact_problems == FactProblems::Deferred;
    let (makers, mut edges) = (Makers::new((declarations, placed), order), MOST_EDGES);
    for (node, resource) in placed.iter().enumerate() {
        for read in &resource.claimed.reads {
            let path = declarations[node].folder.join(&read.path);
            let before = problems.count();
            let follows_facts = resource.template.of_facts.contains(read.attribute);
            let mut deferred = Problems::default();
            // A file that cannot be read may use secrets.
            let has_secrets = !vars.sensitive.is_empty()
                || resource.template.aliases.iter().any(Alias::has_secrets);
            let mut may_use_secret = read.is_template && has_secrets;
            match look(read, &path, reading) {
                Ok(None) => {}
                Ok(Some(bytes)) => {
                    templates.push((node, digest(&bytes)));
                    let cost = bytes.len() / BYTES_PER_STEP;
                    if let Some(rest) = left.checked_sub(cost) {
                        let mut budget = Budget::new();
                        may_use_secret = check_template(
                            &resource.template,
                            (&path, bytes),
                            (vars, &mut budget),
                            (problems, may_defer.then_some(&mut deferred)),
                        );
                        left = rest.saturating_sub(budget.spent());
                    }
                }
                Err(_) if reading.kept().is_some() => {}
                Err(error) if error.is_missing && makers.may_make((node, &path), &mut edges) => {}
                Err(error) => {
                    let message = format!("{}: {path:?}: {error}", read.attribute);
                    let hint = Hint::of(read.path.to_string_lossy());
                    let offset = resource.template.offset_of(read.attribute, resource.offset);
                    let is_deferred = may_defer && follows_facts;
                    let found = if is_deferred { &mut deferred } else { &mut *problems };
                    found.with_hint(&resource.template.source, offset, message, hint);
                }
            }
            if problems.count() > before {
                problems.blame_file(path);
            }
            hidden.extend(may_use_secret.then(|| (node, read.attribute.to_owned())));
            all_deferred.push((node, deferred.into_vec()));
        }
    }
    for (node, digest) in templates {
        declarations[node].templates = declarations[node].templates.rotate_left(1) ^ digest;
    }
    for (node, deferred) in all_deferred {
        placed[node].wrong.extend(deferred);
    }
    for (node, attribute) in hidden {
        declarations[node].hidden.insert(attribute);
    }
}

fn digest(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

/// Looks whether a file can be read, and returns its bytes if it is a template.
fn look(
    read: &FileRead,
    path: &Path,
    reading: &Reading<'_>,
) -> Result<Option<Vec<u8>>, source::Unreadable> {
    if read.is_template {
        return reading.template(path).map(Some);
    }
    source::probe(path).map(|()| None)
}

/// Evaluates a template as far as it needs no dependency. Returns whether it uses secrets.
fn check_template(
    template: &Template,
    (path, bytes): (&Path, Vec<u8>),
    (vars, budget): (&KnownVars<'_>, &mut Budget),
    (problems, deferred): (&mut Problems, Option<&mut Problems>),
) -> bool {
    let Some(source) = source::decode(path, bytes, problems) else { return false };
    is_template(source.text())
        && template.rehearse_file(&source, (vars, budget), (problems, deferred))
}

/// The resources that may make files before another resource reads them.
struct Makers<'a> {
    order: &'a Order,
    /// The resources that make each path.
    makers: HashMap<&'a str, HashSet<usize>>,
    /// For each resource, whether one before it may make files whose names are not known.
    follows_any: Vec<bool>,
}

impl<'a> Makers<'a> {
    fn new((declarations, placed): (&'a [Declaration], &[Placed]), order: &'a Order) -> Self {
        let mut makers: HashMap<_, HashSet<_>> = HashMap::new();
        for (node, declaration) in declarations.iter().enumerate() {
            let made = declaration.claims.iter();
            for claim in made.filter(|claim| claim.space == PATH && claim.is_made()) {
                makers.entry(claim.name.as_str()).or_default().insert(node);
            }
        }
        // A circle leaves no order, so any resource may come before another.
        let mut follows_any = vec![order.nodes().len() < placed.len(); placed.len()];
        for node in order.nodes() {
            let mut inputs = order.inputs(*node).iter();
            follows_any[*node] =
                inputs.any(|input| follows_any[*input] || placed[*input].claimed.may_make_any);
        }
        Self { order, makers, follows_any }
    }

    /// Returns whether a resource may find a file that is not there yet.
    fn may_make(&self, (node, path): (usize, &Path), edges: &mut usize) -> bool {
        let name = path_name(path).unwrap_or_default();
        let makers = self.makers.get(name.as_str());
        self.follows_any[node]
            || makers.is_some_and(|makers| comes_after(self.order, (node, makers), edges))
    }
}

/// Returns whether a resource comes after one of `others`. Returns true if no more edges may be
/// followed.
fn comes_after(order: &Order, (node, others): (usize, &HashSet<usize>), edges: &mut usize) -> bool {
    let mut open = vec![node];
    let mut seen = HashSet::new();
    while let Some(node) = open.pop() {
        let inputs = order.inputs(node);
        let Some(left) = edges.checked_sub(inputs.len()) else { return true };
        *edges = left;
        if inputs.iter().any(|input| others.contains(input)) {
            return true;
        }
        open.extend(inputs.iter().copied().filter(|input| seen.insert(*input)));
    }
    false
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use crankcase_resources::OnChange;
    use crankcase_resources::front::{Edges, Order};

    use super::comes_after;

    #[test]
    fn the_way_to_the_maker_of_a_file_is_followed_within_a_bound() -> Result<(), Vec<Vec<usize>>> {
        let mut chain = Edges::new(100);
        for node in 1..100 {
            chain.depends(node, node - 1, OnChange::default());
        }
        let order = Order::from_edges(chain)?;
        let (first, last) = (HashSet::from([0]), HashSet::from([99]));
        let mut edges = 200;

        assert!(comes_after(&order, (99, &first), &mut edges));
        assert_eq!(edges, 101);
        assert!(!comes_after(&order, (50, &last), &mut edges));
        assert_eq!(edges, 51);
        assert!(comes_after(&order, (90, &last), &mut edges));
        assert_eq!(edges, 0);
        assert!(!comes_after(&order, (0, &first), &mut edges));
        Ok(())
    }
}
