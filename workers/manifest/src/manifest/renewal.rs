//! The renewal of a site when only facts have changed: the resources that use them are declared
//! again, and no others are looked at.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use crankcase_resources::dynamic::KnownConfig;
use crankcase_resources::front::{Secrets, is_part_alias};
use crankcase_resources::{Claimed, Declaration, Site};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::facts::SeenFacts;
use crate::manifest::before::SiteBefore;
use crate::manifest::config::Template;
use crate::manifest::expression::{Budget, is_template};
use crate::manifest::globals::AllGlobals;
use crate::manifest::kept_facts::KeptFacts;
use crate::manifest::placed::Placed;
use crate::manifest::problem::{Found, Problem, Problems};
use crate::manifest::reasons::named_for;
use crate::manifest::rehearsal::known_states;
use crate::manifest::source;
use crate::manifest::structure::Structure;

/// The inputs that a site was made of. Cheap to clone.
#[derive(Clone)]
pub(crate) struct SiteInputs {
    pub(crate) placed: Vec<Arc<Placed>>,
    pub(crate) globals: Arc<AllGlobals>,
    /// The names that decide which resources there are and how they hang together.
    pub(crate) structure: Arc<Structure>,
    /// The known parts of the states that configs use, by the names of the resources.
    pub(crate) states: Arc<HashMap<String, minijinja::Value>>,
    /// Where the secrets are in the facts.
    pub(crate) secrets: Vec<Vec<String>>,
    /// The facts that resources keep.
    pub(crate) kept_facts: Arc<KeptFacts>,
}

/// Shows no values, as some of them may be secrets.
impl fmt::Debug for SiteInputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SiteInputs").finish_non_exhaustive()
    }
}

/// The changes of a site that other facts cause.
pub(crate) struct Renewal {
    globals: Arc<AllGlobals>,
    declared: Vec<Redeclared>,
}

/// A resource that is declared again.
struct Redeclared {
    node: usize,
    declaration: Declaration,
    template: Arc<Template>,
    wrong: Vec<Problem>,
}

/// Something that is wrong with a site because of facts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WrongFacts {
    /// The resource that is wrong; none if it is not known which.
    pub resource: Option<String>,
    /// What is wrong, on one line and without secrets, with its place in the manifest.
    pub problem: String,
}

/// Returns the faults of a resource that are due to facts. Reads the files that are rendered.
fn wrong(
    declaration: &Declaration,
    (template, claimed): (&Template, &Claimed),
    problems: &[Problem],
    secrets: &Secrets,
) -> Vec<WrongFacts> {
    let unsure = template.unsure.iter();
    let unsure = unsure.map(|unsure| format!("{}: {}", unsure.place, unsure.message));
    let of_files = wrong_files(declaration, (template, claimed));
    // A load has read the files as well.
    let of_files = of_files.iter().filter(|problem| !problems.contains(problem));
    let texts = unsure.chain(problems.iter().chain(of_files).map(Problem::brief));
    let wrong = |text: String| WrongFacts {
        resource: Some(declaration.name.clone()),
        problem: secrets.redact(&text).into_owned(),
    };
    texts.map(wrong).collect()
}

/// Returns the problems of the template files of a resource. A file that cannot be read is wrong
/// whatever the facts are.
fn wrong_files(
    declaration: &Declaration,
    (template, claimed): (&Template, &Claimed),
) -> Vec<Problem> {
    let mut problems = Problems::default();
    if template.unsure.is_some() {
        return Vec::new();
    }
    for read in claimed.reads.iter().filter(|read| read.is_template) {
        let path = declaration.folder.join(&read.path);
        let Ok(bytes) = template.read_file(&path) else { continue };
        let file = source::decode(&path, bytes, &mut Problems::default());
        if let Some(file) = file.filter(|file| is_template(file.text())) {
            template.try_file(&file, &mut Budget::new(), &mut problems);
        }
    }
    problems.into_vec()
}

/// A SHA-256 of several texts.
#[derive(Default)]
struct Hasher(Sha256);

impl Hasher {
    fn add(&mut self, bytes: &[u8]) {
        // With its length, so that no text runs into the next.
        self.0.update((bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }

    fn finish(self) -> String {
        base16ct::lower::encode_string(&self.0.finalize())
    }
}

impl SiteInputs {
    pub(crate) fn new(
        placed: Vec<Placed>,
        globals: Arc<AllGlobals>,
        (structure, states): (Structure, HashMap<String, minijinja::Value>),
        (secrets, kept_facts): (Vec<Vec<String>>, KeptFacts),
    ) -> Self {
        let placed = placed.into_iter().map(Arc::new).collect();
        let (structure, states) = (Arc::new(structure), Arc::new(states));
        Self { placed, globals, structure, states, secrets, kept_facts: Arc::new(kept_facts) }
    }

    /// Returns the resources of the site, for the load of the next one.
    pub(crate) fn before<'a>(&'a self, site: &'a Site) -> SiteBefore<'a> {
        let made_of = (&*self.globals, &*self.structure);
        SiteBefore::new((site.declarations(), &self.placed), made_of, &self.states)
    }

    /// Returns the digest of the site. A site that is declared otherwise has another one.
    pub(crate) fn digest(&self) -> String {
        let mut hasher = Hasher::default();
        for template in self.placed.iter().map(|placed| &placed.template) {
            let fingerprints = self.globals.fingerprints(&template.used);
            fingerprints.of_facts().for_each(|fact| hasher.add(&fact));
        }
        for (name, fingerprint) in self.globals.var_fingerprints() {
            hasher.add(name.as_bytes());
            hasher.add(&fingerprint);
        }
        let mut before = None;
        for source in self.placed.iter().map(|placed| &placed.template.source) {
            // All resources of a file come one after another.
            if before.replace(source).is_none_or(|last| !Arc::ptr_eq(last, source)) {
                hasher.add(source.text().as_bytes());
            }
        }
        hasher.finish()
    }

    /// Returns the faults of the site that are due to facts, or those that it would have after a
    /// renewal. Reads the files that are rendered.
    pub(crate) fn wrong(&self, site: &Site, renewal: Option<&Renewal>) -> Vec<WrongFacts> {
        let declared = renewal.map_or(&[][..], |renewal| &renewal.declared);
        let declared: HashMap<usize, &Redeclared> =
            declared.iter().map(|declared| (declared.node, declared)).collect();
        let placed = site.declarations().iter().zip(&self.placed).enumerate();
        let wrong = placed.flat_map(|(node, (declaration, placed))| {
            let (template, problems) = match declared.get(&node) {
                Some(declared) => (&declared.template, &declared.wrong),
                None => (&placed.template, &placed.wrong),
            };
            wrong(declaration, (template, &placed.claimed), problems, site.secrets())
        });
        wrong.collect()
    }

    /// Returns the renewal of the site with other facts; none if that takes a load of the manifest.
    /// If the manifest was refused with these facts, everything that needs a load stays as it is.
    pub(crate) fn renew(
        &self,
        site: &Site,
        facts: &SeenFacts,
        is_refused: bool,
    ) -> Option<Renewal> {
        let changed = self.globals.changed_facts(&facts.value);
        let may_differ = !is_refused && self.structure.used.uses_facts(&changed);
        let is_alike = facts.secrets == self.secrets && self.kept_facts.is_alike(&facts.layers);
        if !is_alike || may_differ {
            return None;
        }
        let (globals, vars) = self.globals.with_facts(facts, &changed)?;
        if !is_refused && self.structure.used.uses_any(&vars) {
            return None;
        }
        let mut renewal = Renewal { globals: Arc::new(globals), declared: Vec::new() };
        for (node, placed) in self.placed.iter().enumerate() {
            let Placed { template, claimed, .. } = &**placed;
            let is_other = template.used.uses_facts(&changed) || template.used.uses_any(&vars);
            let is_unsure = template.unsure.is_some() || site.declarations()[node].is_unsure;
            let declared = match is_unsure {
                // Only a load finds out whether the resource is sure now.
                true => (!is_other).then_some(()),
                false if is_other || claimed.renders_any && !changed.is_empty() => {
                    self.declare((node, &changed), site, &mut renewal)
                }
                false => Some(()),
            };
            if declared.is_none() && !is_refused {
                return None;
            }
        }
        Some(renewal)
    }

    fn declare(
        &self,
        (node, changed): (usize, &BTreeSet<Vec<String>>),
        site: &Site,
        renewal: &mut Renewal,
    ) -> Option<()> {
        let (placed, old) = (&self.placed[node], &site.declarations()[node]);
        if placed.is_part {
            return None;
        }
        let template = Arc::new(placed.template.seeing(&renewal.globals));
        let mut problems = Problems::default();
        let states = known_states(old, &template, &self.states);
        let known = (&BTreeSet::new(), &states);
        let mut found = Found::all(&mut problems);
        let (config, unknown) = template.rehearse(known, &mut Budget::new(), &mut found);
        let mut declaration = old.clone();
        declaration.config = template.clone();
        let used = self.globals.vars_of_facts().behind(&template.used);
        declaration.changed_facts = named_for(&used, &placed.claimed, changed);
        let mut scratch = declaration.clone();
        let known = KnownConfig { config: &config, unknown: &unknown };
        site.kinds().hide((&scratch.kind, &scratch.name), &config, site.secrets());
        let mut declared = site.kinds().declare(&mut scratch, &known);
        for error in std::mem::take(&mut declared.judged.errors) {
            template.blame(placed.offset, error, &mut problems);
        }
        let has_parts = !declared.parts.is_empty()
            || old.dependencies.iter().any(|used| is_part_alias(&used.alias));
        let is_alike = declared.judged.claimed == placed.claimed
            && !self.is_seen_changed(old, &declared.judged.declared);
        // A wrong resource keeps its claims until it is right.
        if has_parts || !is_alike && problems.count() == 0 {
            return None;
        }
        template.keep(&renewal.globals, placed.claimed.renders_any);
        let wrong = problems.into_vec();
        renewal.declared.push(Redeclared { node, declaration, template, wrong });
        Some(())
    }

    /// Returns whether the part of a resource's state that its dependents may know has changed.
    fn is_seen_changed(&self, declaration: &Declaration, declared: &Map<String, Value>) -> bool {
        let before = self.states.get(&declaration.name);
        let before =
            before.and_then(|before| serde_json::to_value(before).ok()).unwrap_or_default();
        let names = before.as_object().into_iter().flat_map(Map::keys).chain(declared.keys());
        let mut used = names.filter(|name| declaration.wanted.has(name));
        used.any(|name| before.get(name) != declared.get(name))
    }

    /// Returns the site after a renewal, and the inputs that it is made of. Returns no site if no
    /// resource uses anything that has changed.
    pub(crate) fn with(&self, site: &Site, renewal: Renewal) -> (Option<Site>, Self) {
        let mut inputs = Self { globals: renewal.globals, ..self.clone() };
        let mut declarations = Vec::with_capacity(renewal.declared.len());
        let mut hasher = Hasher::default();
        hasher.add(site.digest().as_bytes());
        for Redeclared { node, declaration, template, wrong } in renewal.declared {
            let fingerprints = inputs.globals.fingerprints(&template.used);
            fingerprints.of_facts().for_each(|fact| hasher.add(&fact));
            let Placed { offset, claimed, is_part, .. } = &*inputs.placed[node];
            let (offset, claimed, is_part) = (*offset, claimed.clone(), *is_part);
            inputs.placed[node] = Arc::new(Placed { template, offset, claimed, is_part, wrong });
            declarations.push((node, declaration));
        }
        let is_other = !declarations.is_empty();
        (is_other.then(|| site.renewed(declarations, hasher.finish())), inputs)
    }
}
