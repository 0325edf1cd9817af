//! From files to declarations.

mod beside;
mod check;
mod config;
mod document;
mod expand;
mod expression;
mod globals;
mod lines;
mod links;
mod node;
mod problem;
mod resource;
mod scalar;
mod source;
mod text;
mod vars;
mod yaml;

use std::collections::{BTreeSet, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use crankcase_resources::{Declaration, Files, Graph, Judged, Kinds, KnownConfig, Place, Site};
use indexmap::IndexMap;
use sha2::{Digest as _, Sha256};

use beside::Placed;
use check::{Usable, Used};
use config::Template;
use document::{Document, Written};
use expand::expand;
use expression::{Budget, from_json};
use globals::Globals;
use links::{Links, connect};
use problem::{Hint, Problems, quoted};
use resource::Draft;
use vars::KnownVars;

pub use problem::{ManifestError, Problem};
pub use vars::Overrides;

/// How much work goes into evaluating configs at load. What is beyond is found when it is rendered;
/// the attributes without expressions are judged all the same.
const REHEARSAL: usize = 1_000_000;

/// A manifest that was found valid.
///
/// What only the kinds know (the keys of a config) and what depends on the states of dependencies
/// is not checked yet.
#[derive(Debug)]
pub struct Manifest {
    declarations: Vec<Declaration>,
    graph: Graph,
    digest: String,
}

impl Manifest {
    /// Loads some files and folders, of which all *.yaml, *.yml and *.json in name order, as one
    /// manifest. `kinds` are the types that resources may have. Nothing is known of the host.
    ///
    /// Nothing is executed. Each file has at most 16 MiB, a million values (those that aliases
    /// stand for included) and 64 levels. A text with expressions has at most 1 MiB, 60,000 bytes
    /// in a line and 1,000 tokens in an expression. All variables together, and each config at
    /// each rendering, take at most a million steps, of which 64 bytes of text made are one.
    ///
    /// # Errors
    ///
    /// When anything is wrong, with all that is.
    pub fn load(
        paths: &[PathBuf],
        overrides: &Overrides,
        kinds: &[&str],
    ) -> Result<Self, ManifestError> {
        let host = Arc::new(serde_json::Value::Null);
        Self::load_judged(paths, (overrides, host), kinds, |_, _| Judged::default())
    }

    /// Returns the files that would be loaded, as far as they can be listed.
    pub(crate) fn list(paths: &[PathBuf]) -> Vec<PathBuf> {
        source::list(paths, &mut Problems::default())
    }

    /// Loads a manifest, and has each config judged as far as it needs no other resource's state.
    pub(crate) fn load_judged(
        paths: &[PathBuf],
        (overrides, host): (&Overrides, Arc<serde_json::Value>),
        kinds: &[&str],
        judge: impl Fn(&str, &KnownConfig<'_>) -> Judged,
    ) -> Result<Self, ManifestError> {
        let mut problems = Problems::default();
        let Document { is_whole, vars, resources } = Document::read(paths, &mut problems);
        let vars = vars::evaluate((vars, is_whole), (overrides, &from_json(&host)), &mut problems);
        let known = vars.known();
        let globals = Arc::new(Globals::new(Arc::clone(&vars.vars), host));
        let drafts = decode(resources, kinds, &known, &mut problems);
        let mut expanded = expand(drafts, &globals, &known, &mut problems);
        let (graph, links) = connect(&expanded, &mut problems);
        let drafts = std::mem::take(&mut expanded.drafts);
        let mut rehearsal = Rehearsal { left: REHEARSAL, judge, problems };
        let rehearsed = rehearsal.run(drafts, links, &globals);
        let Rehearsal { left, mut problems, .. } = rehearsal;
        let placed: Vec<_> = rehearsed.iter().map(Rehearsed::placed).collect();
        beside::check_kept(&placed, &mut problems);
        beside::check_read(&placed, &graph, (&known, left), &mut problems);
        problems.finish()?;
        let digest = digest(&rehearsed);
        let declarations = rehearsed.into_iter().map(|rehearsed| rehearsed.declaration).collect();
        Ok(Self { declarations, graph, digest })
    }

    /// Returns the resources in the order in which they were written.
    pub fn declarations(&self) -> &[Declaration] {
        &self.declarations
    }

    /// Returns their order and who depends on whom, by positions in the declarations.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Returns what tells it from a manifest that was changed since: a SHA-256, in hexadecimal, of
    /// the texts with resources and of all variables. Files that resources read are not in it.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Returns the site of its resources.
    pub(crate) fn into_site(self, kinds: Kinds) -> Site {
        let site = Site::new(self.declarations, kinds, self.digest);
        site.expect("the resources of a manifest have been ordered")
    }
}

fn digest(resources: &[Rehearsed]) -> String {
    let mut hasher = Sha256::new();
    let mut add = |text: &str| {
        // With its length, so that no text runs into the next.
        hasher.update((text.len() as u64).to_le_bytes());
        hasher.update(text);
    };
    let templates = resources.iter().map(|resource| &resource.template);
    let mut before = None;
    for Template { source, globals, .. } in templates.map(|template| &**template) {
        // All resources of a file come one after another, and all have the same variables.
        match before.replace(source) {
            None => globals.texts().flat_map(|(name, text)| [name, text]).for_each(&mut add),
            Some(last) if Arc::ptr_eq(last, source) => continue,
            Some(_) => {}
        }
        add(source.text());
    }
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A resource after what is known of it was evaluated.
struct Rehearsed {
    declaration: Declaration,
    template: Arc<Template>,
    offset: usize,
    files: Files,
}

impl Rehearsed {
    fn placed(&self) -> Placed<'_> {
        let Self { declaration, template, offset, files } = self;
        Placed { declaration, template, offset: *offset, files }
    }
}

/// Evaluates configs at load, as far as they are known.
struct Rehearsal<F> {
    /// How many steps of work are left.
    left: usize,
    judge: F,
    problems: Problems,
}

impl<F: Fn(&str, &KnownConfig<'_>) -> Judged> Rehearsal<F> {
    fn run(
        &mut self,
        drafts: Vec<Draft>,
        links: Vec<Links>,
        globals: &Arc<Globals>,
    ) -> Vec<Rehearsed> {
        let mut rehearsed = Vec::with_capacity(drafts.len());
        // Of the resources of one `for_each` the first that is wrong stands for all.
        let mut last: Option<(Draft, bool)> = None;
        for (draft, links) in drafts.into_iter().zip(links) {
            let is_wrong = last.is_some_and(|(last, is_wrong)| is_wrong && last.is_beside(&draft));
            let before = self.problems.count();
            rehearsed.push(self.rehearse(&draft, declare(&draft, links, globals), is_wrong));
            last = Some((draft, is_wrong || self.problems.count() > before));
        }
        rehearsed
    }

    fn rehearse(
        &mut self,
        draft: &Draft,
        (mut declaration, template): (Declaration, Arc<Template>),
        is_left_out: bool,
    ) -> Rehearsed {
        let (offset, has_config) = (draft.offset, draft.has_config);
        let mut unknown = draft.wrong.clone();
        if self.left == 0 {
            // What is written out is judged all the same.
            unknown.extend(template.with_expressions());
        }
        if !has_config || is_left_out {
            let files = Files::any();
            return Rehearsed { declaration, template, offset, files };
        }
        let mut budget = Budget::new();
        let (config, unknown) = template.rehearse(&unknown, &mut budget, &mut self.problems);
        self.left = self.left.saturating_sub(budget.spent());
        let known = KnownConfig { config: &config, unknown: &unknown };
        let Judged { errors, files } = (self.judge)(&declaration.kind, &known);
        for error in errors {
            template.blame(offset, error, &mut self.problems);
        }
        if !declaration.noop {
            declaration.keeps.clone_from(&files.keeps);
        }
        let may_use_all = !unknown.is_empty() || files.reads.iter().any(|read| read.is_template);
        template.may_use_all.set(may_use_all).expect("a resource is rehearsed once");
        Rehearsed { declaration, template, offset, files }
    }
}

/// Decodes the resources and checks their expressions.
fn decode(
    resources: IndexMap<String, Written>,
    kinds: &[&str],
    vars: &KnownVars<'_>,
    problems: &mut Problems,
) -> Vec<Draft> {
    let decoded = resources.into_iter();
    let mut drafts: Vec<Draft> =
        decoded.map(|(name, written)| resource::decode(&name, written, kinds, problems)).collect();
    let groups = drafts.iter().filter(|draft| draft.for_each.is_some());
    let groups: HashSet<String> = groups.map(|draft| draft.name.clone()).collect();
    for draft in &mut drafts {
        check_expressions(draft, (vars, &groups), problems);
    }
    drafts
}

/// Checks the expressions of a resource, and that each bare name has one meaning.
fn check_expressions(
    draft: &mut Draft,
    (vars, names_of_groups): (&KnownVars<'_>, &HashSet<String>),
    problems: &mut Problems,
) {
    let (mut aliases, mut groups) = (BTreeSet::new(), BTreeSet::new());
    for (offset, dependency) in &draft.dependencies {
        let alias = dependency.alias.as_str();
        if vars.names.contains(alias) {
            let message = format!("alias {} is also the name of a variable", quoted(alias));
            let hint = Hint::of(alias).or("give the dependency another alias");
            problems.with_hint(&draft.source, *offset, message, hint);
        } else if check::RESERVED.contains(&alias) {
            let message = format!("{} cannot be an alias: the name is reserved", quoted(alias));
            problems.with_hint(&draft.source, *offset, message, Hint::of(alias));
        }
        aliases.insert(alias);
        if names_of_groups.contains(&dependency.resource) {
            groups.insert(alias);
        }
    }
    let usable = Usable {
        aliases: Some(aliases),
        groups,
        ..Usable::at_load(&vars.names, draft.for_each.is_some(), "a config")
    };
    let (mut wrong, mut all) = (BTreeSet::new(), Used::default());
    for (attribute, entry) in &*draft.config {
        let before = problems.count();
        let used = check::check_entry(&draft.source, (attribute, entry), &usable, problems);
        if problems.count() > before || used.uses_any(vars.wrong) {
            wrong.insert(attribute.clone());
        }
        all = all.and(used);
    }
    (draft.wrong, draft.used) = (wrong, all);
}

fn declare(draft: &Draft, links: Links, globals: &Arc<Globals>) -> (Declaration, Arc<Template>) {
    let template = Arc::new(Template {
        config: Arc::clone(&draft.config),
        globals: Arc::clone(globals),
        item: draft.item.clone(),
        aliases: links.aliases,
        source: Arc::clone(&draft.source),
        used: draft.used.clone(),
        may_use_all: OnceLock::new(),
    });
    let place: Place = draft.source.place(draft.offset);
    let config = Arc::clone(&template);
    let (name, kind) = (draft.name.clone(), draft.kind.clone());
    let mut declaration = Declaration::new(name, kind, draft.source.folder(), place, config);
    declaration.dependencies = links.dependencies;
    declaration.notify = links.notify;
    declaration.noop = draft.meta.noop || draft.readonly;
    declaration.readonly = draft.readonly;
    declaration.tags = draft.tags.clone();
    declaration.poll = draft.meta.poll;
    declaration.timeout = draft.meta.timeout;
    (declaration, template)
}
