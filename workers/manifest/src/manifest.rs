//! From files to declarations.

mod beside;
mod bounds;
mod check;
mod config;
mod document;
mod expression;
mod lines;
mod node;
mod problem;
mod resource;
mod scalar;
mod source;
mod text;
mod vars;
mod yaml;

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use crankcase_resources::connect as connect_automatically;
use crankcase_resources::{
    Claimed, Declaration, Edges, Graph, Judged, Kinds, KnownConfig, Place, Site, Wanted, circle,
};
use sha2::{Digest as _, Sha256};

use beside::Placed;
use bounds::{Bounds, Room, Share};
use check::Usable;
use config::Template;
use document::Document;
use expression::Budget;
use problem::{Hint, Problems, quoted};
use resource::Draft;
use vars::{KnownVars, Vars};

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
    is_piped: bool,
}

impl Manifest {
    /// Loads some files and folders, of which all *.yaml, *.yml and *.json in name order, as one
    /// manifest. `kinds` are the types that resources may have.
    ///
    /// A path may also be `-` or `/dev/stdin`, for standard input, or name a pipe: that is read to
    /// its end, which waits for whoever writes to it. Relative paths in it start at the working
    /// directory.
    ///
    /// Nothing is executed. All files together have at most 16 MiB and a million values (those that
    /// aliases stand for included), and each has 64 levels. The values of the files, the variables
    /// and the configs take at most 64 MiB in all. A text with expressions has at most 1 MiB, 60,000 bytes
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
        Self::load_judged(paths, overrides, kinds, |_, _| Judged::default())
    }

    /// Returns the files that would be loaded, as far as they can be listed.
    pub(crate) fn list(paths: &[PathBuf]) -> Vec<PathBuf> {
        source::list(paths, &mut Problems::default())
    }

    /// Loads a manifest, and has each config judged as far as it needs no other resource's state.
    pub(crate) fn load_judged(
        paths: &[PathBuf],
        overrides: &Overrides,
        kinds: &[&str],
        judge: impl Fn(&str, &KnownConfig<'_>) -> Judged,
    ) -> Result<Self, ManifestError> {
        let mut problems = Problems::default();
        let mut bounds = Bounds::new();
        let document = Document::read(paths, &mut bounds, &mut problems);
        let Document { is_whole, is_piped, vars, resources } = document;
        let vars = vars::evaluate((vars, is_whole), overrides, &mut bounds, &mut problems);
        let names = resources.keys().cloned().collect();
        let known = vars.known(&names);
        let mut drafts = Vec::with_capacity(resources.len());
        for (name, written) in resources {
            let mut draft = resource::decode(&name, written, kinds, &mut problems);
            check_expressions(&mut draft, &known, &mut problems);
            drafts.push(draft);
        }
        let graph = connect(&drafts, &mut problems);
        let mut rehearsal = Rehearsal { left: REHEARSAL, bounds, judge, problems };
        let (mut declarations, placed) = rehearsal.run(drafts, &vars.vars);
        let Rehearsal { left, mut problems, .. } = rehearsal;
        beside::check_kept(&declarations, &placed, &mut problems);
        if !overrides.no_automatic_edges {
            connect_automatically(&mut declarations);
        }
        // What is wrong with the declared edges was told.
        let graph = Graph::new(&declarations).unwrap_or(graph);
        beside::check_read((&declarations, &placed), &graph, (&known, left), &mut problems);
        problems.finish()?;
        tell_wanted(&mut declarations, &placed);
        let digest = digest(&placed);
        Ok(Self { declarations, graph, digest, is_piped })
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

    /// Whether some of it came from standard input or another pipe, and so cannot be read again.
    pub fn is_piped(&self) -> bool {
        self.is_piped
    }

    /// Returns the site of its resources.
    pub(crate) fn into_site(self, kinds: Kinds) -> Site {
        let site = Site::new(self.declarations, kinds, self.digest);
        let site = site.expect("the resources of a manifest have been ordered");
        if self.is_piped { site.piped() } else { site }
    }
}

fn digest(resources: &[Placed]) -> String {
    let mut hasher = Sha256::new();
    let mut add = |text: &str| {
        // With its length, so that no text runs into the next.
        hasher.update((text.len() as u64).to_le_bytes());
        hasher.update(text);
    };
    let templates = resources.iter().map(|resource| &resource.template);
    let mut before = None;
    for Template { source, vars_text, .. } in templates.map(|template| &**template) {
        // All resources of a file come one after another, and all have the same variables.
        match before.replace(source) {
            None => add(vars_text.as_deref().unwrap_or_default()),
            Some(last) if Arc::ptr_eq(last, source) => continue,
            Some(_) => {}
        }
        add(source.text());
    }
    base16ct::lower::encode_string(&hasher.finalize())
}

/// Tells each resource what its dependents use of its state.
fn tell_wanted(declarations: &mut [Declaration], resources: &[Placed]) {
    let mut wanted: HashMap<String, Wanted> = HashMap::new();
    for (declaration, Placed { used, claimed, .. }) in declarations.iter().zip(resources) {
        for dependency in &declaration.dependencies {
            let more = match used.get(&dependency.alias) {
                _ if claimed.renders_any => Wanted::Whole,
                Some(used) => used.clone(),
                None => Wanted::nothing(),
            };
            wanted.entry(dependency.resource.clone()).or_insert_with(Wanted::nothing).add(more);
        }
    }
    for declaration in declarations {
        declaration.wanted = wanted.remove(&declaration.name).unwrap_or_else(Wanted::nothing);
    }
}

/// Evaluates configs at load, as far as they are known.
struct Rehearsal<F> {
    /// How many steps of work are left.
    left: usize,
    bounds: Bounds,
    judge: F,
    problems: Problems,
}

impl<F: Fn(&str, &KnownConfig<'_>) -> Judged> Rehearsal<F> {
    fn run(&mut self, drafts: Vec<Draft>, vars: &Vars) -> (Vec<Declaration>, Vec<Placed>) {
        let vars_text: Option<Arc<str>> = serde_json::to_string(&**vars).ok().map(Into::into);
        let room = Arc::default();
        let declare = |draft| declare(draft, vars, vars_text.clone(), &room);
        drafts.into_iter().map(|draft| self.rehearse(draft, declare)).collect()
    }

    fn rehearse(
        &mut self,
        mut draft: Draft,
        declare: impl FnOnce(Draft) -> (Declaration, Arc<Template>),
    ) -> (Declaration, Placed) {
        let (offset, has_config) = (draft.offset, draft.has_config);
        let mut unknown = std::mem::take(&mut draft.wrong);
        let used = std::mem::take(&mut draft.used);
        let (mut declaration, template) = declare(draft);
        if self.bounds.is_spent() {
            unknown.extend(template.config.keys().cloned());
        } else if self.left == 0 {
            // What is written out is judged all the same.
            unknown.extend(template.with_expressions());
        }
        if !has_config {
            let claimed = Claimed::unknown();
            return (declaration, Placed { template, offset, used, claimed });
        }
        let mut budget = Budget::of_config(self.bounds.values());
        let (config, unknown) = template.rehearse(&unknown, &mut budget, &mut self.problems);
        self.left = self.left.saturating_sub(budget.spent());
        self.bounds.made(budget.made(), budget.is_overdrawn());
        let known = KnownConfig { config: &config, unknown: &unknown };
        let Judged { errors, claimed } = (self.judge)(&declaration.kind, &known);
        for error in errors {
            template.blame(offset, error, &mut self.problems);
        }
        if !declaration.noop {
            declaration.claims.clone_from(&claimed.claims);
            declaration.is_claimed = !claimed.is_open;
        }
        (declaration, Placed { template, offset, used, claimed })
    }
}

/// Checks the expressions of a resource, and that each bare name has one meaning.
fn check_expressions(draft: &mut Draft, vars: &KnownVars<'_>, problems: &mut Problems) {
    let mut aliases = BTreeSet::new();
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
    }
    let usable = Usable { vars: &vars.names, aliases: Some(aliases), resources: vars.resources };
    let mut wrong = BTreeSet::new();
    for (attribute, entry) in &draft.config {
        let before = problems.count();
        let used = check::check_entry(&draft.source, (attribute, entry), &usable, problems);
        if problems.count() > before || used.uses_any(vars.wrong) {
            wrong.insert(attribute.clone());
        }
        for (alias, wanted) in used.states {
            draft.used.entry(alias).or_insert_with(Wanted::nothing).add(wanted);
        }
    }
    draft.wrong = wrong;
}

/// Looks up what resources refer to, and orders them.
fn connect(drafts: &[Draft], problems: &mut Problems) -> Graph {
    let positions: HashMap<&str, usize> =
        drafts.iter().enumerate().map(|(index, draft)| (draft.name.as_str(), index)).collect();
    let mut edges = Edges::new(drafts.len());
    for (index, draft) in drafts.iter().enumerate() {
        let mut used: HashMap<&str, &str> = HashMap::new();
        for (offset, dependency) in &draft.dependencies {
            let name = dependency.resource.as_str();
            if let Some(input) = look_up(draft, *offset, name, &positions, problems) {
                edges.depends(index, input, dependency.on_change);
            }
            if let Some(first) = used.insert(name, &dependency.alias) {
                let message = format!("{} is a dependency twice", quoted(name));
                let hint = Hint::of(name).or(format!("it is there as {} already", quoted(first)));
                problems.with_hint(&draft.source, *offset, message, hint);
            }
        }
        for (offset, name) in &draft.notify {
            if let Some(notified) = look_up(draft, *offset, name, &positions, problems) {
                edges.notifies(index, notified);
            }
        }
    }
    Graph::from_edges(edges).unwrap_or_else(|cycles| {
        for cycle in cycles {
            let path: Vec<&str> = cycle.iter().map(|index| drafts[*index].name.as_str()).collect();
            let first = &drafts[cycle[0]];
            let message = format!("circular dependency: {}", circle(&path));
            problems.with_hint(&first.source, first.offset, message, Hint::of(&first.name));
        }
        Graph::default()
    })
}

fn look_up(
    draft: &Draft,
    offset: usize,
    name: &str,
    positions: &HashMap<&str, usize>,
    problems: &mut Problems,
) -> Option<usize> {
    if name == draft.name {
        let message = format!("resource {} refers to itself", quoted(name));
        problems.with_hint(&draft.source, offset, message, Hint::of(name));
        return None;
    }
    let found = positions.get(name).copied();
    if found.is_none() {
        let hint = problems.nearest(name, positions.keys().copied());
        let message = format!("unknown resource {}", quoted(name));
        problems.with_hint(&draft.source, offset, message, hint);
    }
    found
}

fn declare(
    draft: Draft,
    vars: &Vars,
    vars_text: Option<Arc<str>>,
    room: &Arc<Room>,
) -> (Declaration, Arc<Template>) {
    let dependencies: Vec<_> = draft.dependencies.into_iter().map(|(_, edge)| edge).collect();
    let template = Arc::new(Template {
        config: draft.config,
        vars: Arc::clone(vars),
        vars_text,
        aliases: dependencies.iter().map(|edge| edge.alias.clone()).collect(),
        source: Arc::clone(&draft.source),
        share: Share::new(room),
    });
    let place: Place = draft.source.place(draft.offset);
    let config = Arc::clone(&template);
    let mut declaration =
        Declaration::new(draft.name, draft.kind, draft.source.folder(), place, config);
    declaration.dependencies = dependencies;
    declaration.notify = draft.notify.into_iter().map(|(_, name)| name).collect();
    declaration.noop = draft.noop;
    (declaration, template)
}
