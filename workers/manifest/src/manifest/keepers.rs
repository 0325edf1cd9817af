//! The resources that keep facts, and the template files that use some. They are found before the dependencies are
//! known.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use crankcase_resources::dynamic::{Kind, KnownConfig};
use crankcase_resources::front::{Declared, DeclaredPart};
use crankcase_resources::{Claimed, Declaration};
use indexmap::IndexMap;

use crate::facts::SeenLayer;
use crate::manifest::bounds::Room;
use crate::manifest::check::{self, Usable};
use crate::manifest::document::Written;
use crate::manifest::expression::{Budget, is_template};
use crate::manifest::globals::AllGlobals;
use crate::manifest::judging::Judging;
use crate::manifest::kept_facts::{Keeper, KeptFacts, Path, path};
use crate::manifest::kept_manifest::{KeptManifest, read_template};
use crate::manifest::links::Links;
use crate::manifest::node::{Data, Entry};
use crate::manifest::problem::{Found, Problems};
use crate::manifest::rehearsal::declare;
use crate::manifest::resource::Draft;
use crate::manifest::source;
use crate::manifest::used::{Used, UsedByFiles};
use crate::manifest::vars::KnownVars;

/// Returns the paths of the facts that resources may keep, as far as they are written out: a path
/// with expressions counts up to the first one. A part may keep any fact, because its path is never
/// written out.
pub(crate) fn paths(resources: &IndexMap<String, Written>, kinds: &impl Judging) -> BTreeSet<Path> {
    let text = |entry: &Entry| match &entry.value.data {
        Data::String(text) => Some(text.clone()),
        _ => None,
    };
    let kind = |written: &Written| match &written.node.data {
        Data::Map(resource) => text(resource.get("type")?),
        _ => None,
    };
    let of_kinds: BTreeSet<String> = resources.values().filter_map(kind).collect();
    if !with_keeping_parts(of_kinds.iter().map(String::as_str), kinds).is_empty() {
        return BTreeSet::from([Path::new()]);
    }
    let pointer = |written: &Written| {
        kinds.kind(&kind(written)?).filter(|kind| kind.keeps_facts())?;
        let Data::Map(resource) = &written.node.data else { return None };
        let Data::Map(config) = &resource.get("config")?.value.data else { return None };
        text(config.get("path")?)
    };
    let known = |pointer: String| match pointer.split_once('{') {
        Some((known, _)) if is_template(&pointer) => {
            path(known.rsplit_once('/').unwrap_or_default().0)
        }
        _ => path(&pointer),
    };
    resources.values().filter_map(pointer).map(known).collect()
}

/// Filters kinds: keeps the kinds whose resources have parts that keep facts.
fn with_keeping_parts<'n>(
    kinds: impl Iterator<Item = &'n str>,
    judging: &impl Judging,
) -> HashSet<&'n str> {
    let mut kinds: HashSet<&str> = kinds.collect();
    kinds.retain(|kind| judging.parts_keep_facts(kind));
    kinds
}

/// Judges configs as far as they need no state of another resource. Their problems are found again
/// when all configs are evaluated.
pub(crate) struct Outlook<'a, K> {
    kinds: &'a K,
    globals: &'a Arc<AllGlobals>,
    budget: Budget,
    room: Arc<Room>,
}

impl<'a, K: Judging> Outlook<'a, K> {
    /// Returns an outlook that may make `values` bytes of values.
    pub(crate) fn new(kinds: &'a K, globals: &'a Arc<AllGlobals>, values: usize) -> Self {
        Self { kinds, globals, budget: Budget::of_values(values), room: Arc::default() }
    }

    /// Returns the facts that resources and their parts keep below some layers.
    pub(crate) fn kept_facts(&mut self, drafts: &[Draft], layers: &[SeenLayer]) -> KeptFacts {
        let mut kept = KeptFacts::default();
        let kinds = drafts.iter().map(|draft| draft.kind.as_str());
        let composites = with_keeping_parts(kinds, self.kinds);
        for (node, draft) in drafts.iter().enumerate() {
            let may_keep = self.keeps_facts(&draft.kind) || composites.contains(&*draft.kind);
            // A resource that may not be there keeps nothing for sure.
            if draft.unsure.is_some() || !may_keep {
                continue;
            }
            let (declaration, declared) = self.judge(draft);
            let parts = declared.parts.iter().map(|part| &part.declaration);
            let parts = parts.map(|part| (part, Some(part.name.clone())));
            for (declaration, part) in parts.chain([(&declaration, None)]) {
                if self.keeps_facts(&declaration.kind) {
                    kept.add_all((declaration, &Keeper { node, part }), layers);
                }
            }
        }
        self.globals.note_late_keepers(kept.late());
        kept
    }

    fn keeps_facts(&self, kind: &str) -> bool {
        self.kinds.kind(kind).is_some_and(<dyn Kind>::keeps_facts)
    }

    /// Returns the names that the readable template files of a resource and of its parts use.
    pub(crate) fn used_by_files(&mut self, draft: &Draft, vars: &KnownVars<'_>) -> UsedByFiles {
        // A resource whose kind is made later renders no files.
        if self.kinds.kind(&draft.kind).is_none() {
            return UsedByFiles::default();
        }
        let (declaration, Declared { judged, parts, .. }) = self.judge(draft);
        let usable = vars.usable(draft.item.is_some(), "a template");
        let kept = self.globals.kept_files().map(|kept| &**kept);
        let of_parts = parts.iter().map(|DeclaredPart { declaration, claimed, .. }| {
            (declaration.name.clone(), used_in_files((declaration, claimed), &usable, kept))
        });
        let of_parts = of_parts.filter(|(_, used)| *used != Used::default());
        let of_parts: BTreeMap<String, Used> = of_parts.collect();
        let own = used_in_files((&declaration, &judged.claimed), &usable, kept);
        UsedByFiles { own, of_parts }
    }

    fn judge(&mut self, draft: &Draft) -> (Declaration, Declared) {
        let (mut declaration, placed) = declare(draft, Links::default(), self.globals, &self.room);
        let of_states = draft.uses.iter().filter(|(_, used)| used.uses_states());
        let of_states = of_states.map(|(attribute, _)| attribute.clone());
        let unknown: BTreeSet<String> = of_states.chain(draft.wrong.iter().cloned()).collect();
        let (mut untold, known) = (Problems::default(), (&unknown, &HashMap::new()));
        let mut found = Found::all(&mut untold);
        let (config, unknown) = placed.template.rehearse(known, &mut self.budget, &mut found);
        let known = KnownConfig { config: &config, unknown: &unknown };
        let declared = self.kinds.declare(&mut declaration, &known);
        (declaration, declared)
    }
}

/// Returns the names that the readable template files of one resource use.
fn used_in_files(
    (declaration, claimed): (&Declaration, &Claimed),
    usable: &Usable<'_>,
    kept: Option<&KeptManifest>,
) -> Used {
    let (mut used, mut untold) = (Used::default(), Problems::default());
    for read in claimed.reads.iter().filter(|read| read.is_template) {
        let path = declaration.folder.join(&read.path);
        let Ok(bytes) = read_template(kept, &path) else { continue };
        let file = source::decode(&path, bytes, &mut untold);
        if let Some(file) = file.filter(|file| is_template(file.text())) {
            used = used.and(check::check_file(&file, usable, &mut untold));
        }
    }
    used
}
