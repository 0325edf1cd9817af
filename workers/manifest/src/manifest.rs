//! From files to declarations: a manifest, and the steps of its load in their order.
//!
//! A step that finds something wrong notes it, and the next steps go on with what is right. Only the end of the load
//! refuses the manifest, with all that was noted.

mod alias;
mod at_load;
mod before;
mod beside;
mod bounds;
mod check;
mod config;
mod data;
mod document;
mod drafts;
mod expand;
mod expression;
mod fact_circle;
mod globals;
mod hidden;
mod judging;
mod keepers;
mod kept;
mod kept_facts;
mod kept_manifest;
mod lines;
mod links;
mod loops;
mod node;
mod order;
mod placed;
mod plugs;
mod problem;
mod reasons;
mod rehearsal;
mod renewal;
mod resource;
mod rules;
mod scalar;
mod secrets;
mod sensitive;
mod source;
mod structure;
mod text;
mod tuning;
mod used;
mod vars;
mod wanted;
mod wanted_kinds;
mod yaml;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crankcase_resources::front::{DeclarationFields, Order, Secrets};
use crankcase_resources::rules::Rule;
use crankcase_resources::{Declaration, Kinds, Site};

use crate::facts::{SeenFacts, SeenLayer};
pub(crate) use before::IfFactsAreWrong;
use before::SiteBefore;
use bounds::Bounds;
use document::Document;
use expand::{Expanded, expand};
use expression::from_json;
use globals::AllGlobals;
use hidden::hide;
pub(crate) use judging::{Judging, KnownKinds};
use keepers::Outlook;
use kept_facts::KeptFacts;
pub(crate) use kept_manifest::Reading;
use links::{Links, connect};
use order::in_order;
use problem::Problems;
use rehearsal::Rehearsal;
pub(crate) use renewal::SiteInputs;
pub use renewal::WrongFacts;
pub(crate) use source::automatic_vars;
use structure::Structure;
use tuning::tune;
use used::Used;
use vars::{KnownVars, Outside};
use wanted::tell_wanted;
use wanted_kinds::make_kinds;

pub use data::{DataError, DataFiles};
pub use kept_manifest::KeptManifest;
pub use problem::{ManifestError, Problem};
pub use vars::Overrides;

/// A manifest that was found valid.
///
/// Two things are not checked yet: what only the kinds know, such as the keys of a config, and what
/// depends on the states of dependencies.
#[derive(Debug)]
pub struct Manifest {
    declarations: Vec<Declaration>,
    order: Order,
    digest: String,
    is_piped: bool,
    secrets: Secrets,
    secret_files: Vec<PathBuf>,
    /// The variables that hold secrets.
    secret_vars: BTreeSet<String>,
    rules: Vec<Rule>,
    /// The faults of facts that do not keep the manifest from being loaded.
    warnings: Vec<String>,
    inputs: SiteInputs,
}

/// The inputs of a load beside the files of the manifest.
pub(crate) struct Surroundings<'a> {
    pub(crate) overrides: &'a Overrides,
    pub(crate) host: Arc<serde_json::Value>,
    pub(crate) facts: &'a SeenFacts,
    pub(crate) if_wrong: IfFactsAreWrong<'a>,
    pub(crate) secrets: &'a Secrets,
    /// The folder of the agent's own state, if that is known.
    pub(crate) state: Option<&'a Path>,
    pub(crate) reading: &'a Reading<'a>,
}

impl Manifest {
    /// Loads files and folders as one manifest. Of a folder it loads all *.yaml, *.yml and *.json
    /// in the order of their names. `kinds` are the types that resources may have. Nothing is known
    /// of the host, and there are no facts.
    ///
    /// A path may also be `-` or `/dev/stdin`, for standard input, or name a pipe. These are read
    /// to their end, so the load waits for their writers. Relative paths in such a manifest start
    /// at the working directory.
    ///
    /// Nothing is executed. All files together have at most 16 MiB and a million values, with those
    /// that aliases stand for, and each has at most 64 levels. The values of the files, the
    /// variables and the configs take at most 64 MiB in all. A text with expressions has at most 1
    /// MiB, 60,000 bytes in a line and 1,000 tokens in an expression. All variables together, and
    /// each config at each rendering, take at most a million steps; 64 bytes of new text count as
    /// one step.
    ///
    /// # Errors
    ///
    /// When anything is wrong. The error has all problems.
    pub fn load(
        paths: &[PathBuf],
        overrides: &Overrides,
        kinds: &[&str],
    ) -> Result<Self, ManifestError> {
        let host = Arc::new(serde_json::Value::Null);
        let (facts, secrets) = (SeenFacts::default(), Secrets::default());
        let outside = Surroundings {
            overrides,
            host,
            facts: &facts,
            if_wrong: IfFactsAreWrong::Refuse,
            secrets: &secrets,
            state: None,
            reading: &Reading::new(None),
        };
        Self::load_judged(paths, outside, &mut &*kinds)
    }

    /// Returns the files that would be loaded, as far as they can be listed.
    pub(crate) fn list(paths: &[PathBuf]) -> Vec<PathBuf> {
        source::list(paths, &mut Problems::default())
    }

    /// Loads a manifest, and judges each config as far as it needs no state of another resource.
    ///
    /// Kinds that are not known yet are made when all else is found right.
    pub(crate) fn load_judged(
        paths: &[PathBuf],
        Surroundings { overrides, host, facts, if_wrong, secrets, state, reading }: Surroundings<
            '_,
        >,
        kinds: &mut impl Judging,
    ) -> Result<Self, ManifestError> {
        let fact_problems = if_wrong.fact_problems();
        let (mut problems, mut bounds) = (Problems::default(), Bounds::new());
        let document = Document::read(paths, reading, &mut bounds, &mut problems);
        let sources = &document.sources();
        let Document { is_whole, is_piped, vars, mut plugs, mut resources, rules } = document;
        let seen = (overrides, from_json(&host), facts);
        let outside = Outside::new(seen, (secrets, fact_problems), (sources, reading));
        let read = (vars, is_whole, keepers::paths(&resources, kinds));
        let vars = vars::evaluate(read, &outside, &mut bounds, &mut problems);
        let names = resources.keys().cloned().collect();
        let known = vars.known(&names);
        let globals = Arc::new(AllGlobals::new(&vars, &host, (facts, reading.kept())));
        let written = (&mut resources, &mut plugs);
        let of_names = (&known, &globals.seen, fact_problems);
        let at_load = at_load::evaluate(written, of_names, &mut bounds, &mut problems);
        let offered = plugs::decode(&plugs, &mut problems);
        let (rules, wired, of_rules) =
            rules::decode(&rules, &names, (&known, &globals), &mut problems);
        let drafts = drafts::decode(resources, kinds, (&known, &at_load.metas), &mut problems);
        let seen = (&globals.seen, if_wrong);
        let mut expanded = expand(drafts, seen, &known, &mut bounds, &mut problems);
        let seen = (Outlook::new(&*kinds, &globals, bounds.values()), &facts.layers[..]);
        let (kept_facts, declared, mut links) =
            linked(&expanded, seen, (&known, &vars.uses), &mut bounds, &mut problems);
        let mut drafts = std::mem::take(&mut expanded.drafts);
        if problems.count() == 0 {
            make_kinds(kinds, &drafts, (&plugs, offered), &mut problems);
        }
        hide((&mut drafts, &mut links), &declared, kinds, &mut problems);
        let mut rehearsal = Rehearsal::new(bounds, (&*kinds, secrets), (problems, if_wrong));
        let (mut declarations, mut placed, states) =
            rehearsal.run(drafts, (links, &declared), &globals);
        let Rehearsal { left, mut problems, .. } = rehearsal;
        beside::need_secrets((&mut declarations, &placed), &vars.files, &vars.uses);
        let how = (!overrides.no_automatic_edges, if_wrong, state);
        let order = in_order((&mut declarations[..], &mut placed[..]), how, &mut problems);
        let both = (&mut declarations[..], &mut placed[..]);
        beside::check_read(both, (&order, reading), (&known, fact_problems, left), &mut problems);
        loops::check_loops(&wired, (&declarations, &placed), &vars.uses, &mut problems);
        let mut warnings = [tune(&mut declarations, &names, &outside), expanded.warnings].concat();
        problems.tell_unused(vars.vars.keys().map(String::as_str));
        problems.finish(secrets)?;
        redact((&mut declarations, &mut warnings), secrets);
        tell_wanted(&mut declarations, &placed);
        let structure = Structure::new(at_load.deciding, expanded.deciding, of_rules, &globals);
        let of_facts = (facts.secrets.clone(), kept_facts);
        let inputs = SiteInputs::new(placed, globals, (structure, states), of_facts);
        Ok(Self {
            declarations,
            order,
            digest: inputs.digest(),
            inputs,
            is_piped,
            secrets: secrets.clone(),
            secret_files: vars.files.into_values().flatten().collect(),
            secret_vars: vars.sensitive.vars(),
            rules,
            warnings,
        })
    }

    /// Notes for each resource which of the facts that decide about it have changed since the site
    /// before.
    pub(crate) fn name_facts(&mut self, before: &SiteBefore<'_>) {
        let SiteInputs { placed, globals, structure, .. } = &self.inputs;
        reasons::name_facts((&mut self.declarations, placed), (globals, structure), before);
    }

    /// Returns the resources in the order in which they were written.
    pub fn declarations(&self) -> &[Declaration] {
        &self.declarations
    }

    /// Returns the order of the resources and their dependencies, by positions in the declarations.
    pub fn order(&self) -> &Order {
        &self.order
    }

    /// Returns the digest of the manifest, to tell it from a changed one: a SHA-256, in
    /// hexadecimal, of the texts with resources, of all variables and of the facts that configs
    /// use. It does not cover files that resources read.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Returns whether a part of the manifest came from standard input or another pipe, and so
    /// cannot be read again.
    pub fn is_piped(&self) -> bool {
        self.is_piped
    }

    /// Returns the files that secrets were read from.
    pub(crate) fn secret_files(&self) -> &[PathBuf] {
        &self.secret_files
    }

    /// Returns the site of the resources, and the inputs that it was made of. A resource whose kind
    /// reads the host gets the host.
    pub(crate) fn into_site(
        mut self,
        kinds: Kinds,
        host: &Arc<serde_json::Value>,
    ) -> (Site, SiteInputs) {
        for declaration in &mut self.declarations {
            let reads_host = kinds.get(&declaration.kind).is_ok_and(|kind| kind.reads_host());
            declaration.host = reads_host.then(|| Arc::clone(host));
        }
        let site = Site::new(self.declarations, kinds, self.digest);
        let site = site.expect("the resources of a manifest have been ordered");
        let site =
            site.hiding(self.secrets, self.secret_vars).ruled(self.rules).warned(self.warnings);
        (if self.is_piped { site.piped() } else { site }, self.inputs)
    }
}

/// Hides secrets in the reasons of edges and in warnings.
fn redact((declarations, warnings): (&mut [Declaration], &mut [String]), secrets: &Secrets) {
    if secrets.is_empty() {
        return;
    }
    for warning in warnings {
        *warning = secrets.redact(warning).into_owned();
    }
    for declaration in declarations {
        let DeclarationFields { automatic, left_out, .. } = &mut **declaration;
        for edge in automatic.iter_mut().chain(left_out) {
            edge.because = secrets.redact(&edge.because).into_owned();
        }
    }
}

/// Finds the facts that resources and their parts keep, and links the resources. `uses` has the
/// names that each variable uses.
fn linked(
    expanded: &Expanded,
    (mut outlook, layers): (Outlook<'_, impl Judging>, &[SeenLayer]),
    (vars, uses): (&KnownVars<'_>, &BTreeMap<String, Used>),
    bounds: &mut Bounds,
    problems: &mut Problems,
) -> (KeptFacts, Order, Vec<Links>) {
    let kept_facts = outlook.kept_facts(&expanded.drafts, layers);
    let readers = expanded.drafts.iter().filter(|_| !kept_facts.is_empty());
    let files: Vec<_> = readers.map(|draft| outlook.used_by_files(draft, vars)).collect();
    let (order, links) = connect(expanded, (&kept_facts, uses, &files), bounds, problems);
    (kept_facts, order, links)
}
