//! The resources that keep facts, and the template files that use some. They are found before the dependencies are
//! known.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crankcase_resources::{Claimed, Declaration, KnownConfig};
use indexmap::IndexMap;

use crate::facts::SeenLayer;
use crate::manifest::bounds::Room;
use crate::manifest::check;
use crate::manifest::document::Written;
use crate::manifest::expression::{Budget, is_template};
use crate::manifest::globals::AllGlobals;
use crate::manifest::judging::Judging;
use crate::manifest::kept_facts::{KeptFacts, Path, path};
use crate::manifest::links::Links;
use crate::manifest::node::{Data, Entry};
use crate::manifest::problem::{Found, Problems};
use crate::manifest::rehearsal::declare;
use crate::manifest::resource::Draft;
use crate::manifest::source;
use crate::manifest::used::Used;
use crate::manifest::vars::KnownVars;

/// Returns the paths of the facts that resources may keep, as far as they are written out: of a path with expressions
/// what is before the first one.
pub(crate) fn paths(resources: &IndexMap<String, Written>, kinds: &impl Judging) -> BTreeSet<Path> {
    let text = |entry: &Entry| match &entry.value.data {
        Data::String(text) => Some(text.clone()),
        _ => None,
    };
    let pointer = |written: &Written| {
        let Data::Map(resource) = &written.node.data else { return None };
        let kind = text(resource.get("type")?)?;
        kinds.kind(&kind).filter(|kind| kind.keeps_facts())?;
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

/// Judges configs as far as they need no state of another resource. What is wrong with them is found again when all are
/// evaluated.
pub(crate) struct Outlook<'a, K> {
    kinds: &'a K,
    globals: &'a Arc<AllGlobals>,
    budget: Budget,
    room: Arc<Room>,
}

impl<'a, K: Judging> Outlook<'a, K> {
    /// Returns one that may make values of so many bytes.
    pub(crate) fn new(kinds: &'a K, globals: &'a Arc<AllGlobals>, values: usize) -> Self {
        Self { kinds, globals, budget: Budget::of_values(values), room: Arc::default() }
    }

    /// Returns the facts that resources keep below some layers.
    pub(crate) fn kept_facts(&mut self, drafts: &[Draft], layers: &[SeenLayer]) -> KeptFacts {
        let mut kept = KeptFacts::default();
        for (keeper, draft) in drafts.iter().enumerate() {
            let kind = self.kinds.kind(&draft.kind);
            // One of which it is not known whether it is there keeps nothing for sure.
            if draft.unsure.is_some() || kind.is_none_or(|kind| !kind.keeps_facts()) {
                continue;
            }
            let (declaration, _) = self.judge(draft);
            let claims = declaration.claims.iter();
            for claim in claims.filter(|claim| claim.space == "fact" && claim.is_made()) {
                kept.add(&claim.name, keeper, layers);
            }
        }
        kept
    }

    /// Returns what the template files of a resource use that can be read.
    pub(crate) fn used_by_files(&mut self, draft: &Draft, vars: &KnownVars<'_>) -> Used {
        let (mut used, mut untold) = (Used::default(), Problems::default());
        // One that is made later renders no files.
        if self.kinds.kind(&draft.kind).is_none() {
            return used;
        }
        let (declaration, claimed) = self.judge(draft);
        let usable = vars.usable(draft.item.is_some(), "a template");
        for read in claimed.reads.iter().filter(|read| read.is_template) {
            let path = declaration.folder.join(&read.path);
            let Ok(bytes) = source::read_bytes(&path) else { continue };
            let file = source::decode(&path, bytes, &mut untold);
            if let Some(file) = file.filter(|file| is_template(file.text())) {
                used = used.and(check::check_file(&file, &usable, &mut untold));
            }
        }
        used
    }

    fn judge(&mut self, draft: &Draft) -> (Declaration, Claimed) {
        let (mut declaration, placed) = declare(draft, Links::default(), self.globals, &self.room);
        let of_states = draft.uses.iter().filter(|(_, used)| used.uses_states());
        let of_states = of_states.map(|(attribute, _)| attribute.clone());
        let unknown: BTreeSet<String> = of_states.chain(draft.wrong.iter().cloned()).collect();
        let (mut untold, known) = (Problems::default(), (&unknown, &HashMap::new()));
        let mut found = Found::all(&mut untold);
        let (config, unknown) = placed.template.rehearse(known, &mut self.budget, &mut found);
        let known = KnownConfig { config: &config, unknown: &unknown };
        let claimed = self.kinds.declare(&mut declaration, &known).judged.claimed;
        (declaration, claimed)
    }
}
