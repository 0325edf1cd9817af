//! From files to declarations.

mod check;
mod config;
mod document;
mod expression;
mod node;
mod problem;
mod resource;
mod scalar;
mod source;
mod text;
mod vars;
mod yaml;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use crate::attributes::AttributeError;
use crate::declaration::{Config, Declaration, Place};
use crate::graph::{Edges, Graph};
use crate::text::circle;
use check::Usable;
use config::Template;
use document::Document;
use expression::Budget;
use problem::{Problems, quoted};
use resource::Draft;
use vars::Vars;

pub use problem::{ManifestError, Problem};
pub use vars::Overrides;

/// How much work goes into evaluating configs at load; what is left is found when it is rendered.
const REHEARSAL: usize = 1_000_000;

/// A manifest that was found valid.
///
/// What only the kinds know (the keys of a config) and what depends on the states of dependencies
/// is not checked yet.
#[derive(Debug)]
pub struct Manifest {
    declarations: Vec<Declaration>,
    graph: Graph,
}

impl Manifest {
    /// Loads some files and folders, of which all *.yaml, *.yml and *.json in name order, as one
    /// manifest. `kinds` are the types that resources may have.
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
        Self::load_judged(paths, overrides, kinds, |_, _| Vec::new())
    }

    /// Loads a manifest, and has each config judged that needs no other resource's state.
    ///
    /// A resource with a problem of its own is not judged: what is wrong would be said twice.
    pub(crate) fn load_judged(
        paths: &[PathBuf],
        overrides: &Overrides,
        kinds: &[&str],
        judge: impl Fn(&str, &Config) -> Vec<AttributeError>,
    ) -> Result<Self, ManifestError> {
        let mut problems = Problems::default();
        let document = Document::read(paths, &mut problems);
        let before = problems.count();
        let vars = vars::evaluate(document.vars, overrides, &mut problems);
        let has_vars = problems.count() == before;
        let known = vars.keys().map(String::as_str).collect();
        let mut drafts = Vec::with_capacity(document.resources.len());
        let mut is_right = Vec::with_capacity(document.resources.len());
        for (name, written) in document.resources {
            let before = problems.count();
            let draft = resource::decode(&name, written, kinds, &mut problems);
            check_expressions(&draft, &known, &mut problems);
            is_right.push(has_vars && problems.count() == before);
            drafts.push(draft);
        }
        let graph = connect(&drafts, &mut problems);
        let vars_text: Option<Arc<str>> = serde_json::to_string(&*vars).ok().map(Into::into);
        let mut left = REHEARSAL;
        let mut declarations = Vec::with_capacity(drafts.len());
        for (draft, is_right) in drafts.into_iter().zip(is_right) {
            let offset = draft.offset;
            let (declaration, template) = declare(draft, &vars, vars_text.clone());
            if is_right && left > 0 {
                let mut budget = Budget::new();
                if let Some(config) = template.rehearse(&mut budget, &mut problems) {
                    for error in judge(&declaration.kind, &config) {
                        template.blame(offset, &error, &mut problems);
                    }
                }
                left = left.saturating_sub(budget.spent());
            }
            declarations.push(declaration);
        }
        problems.finish()?;
        Ok(Self { declarations, graph })
    }

    /// Returns the resources in the order in which they were written.
    pub fn declarations(&self) -> &[Declaration] {
        &self.declarations
    }

    /// Returns their order and who depends on whom, by positions in the declarations.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Takes the manifest apart.
    pub fn into_parts(self) -> (Vec<Declaration>, Graph) {
        (self.declarations, self.graph)
    }
}

/// Checks the expressions of a resource, and that each bare name has one meaning.
fn check_expressions(draft: &Draft, vars: &HashSet<&str>, problems: &mut Problems) {
    let mut aliases = BTreeSet::new();
    for (offset, dependency) in &draft.dependencies {
        let alias = dependency.alias.as_str();
        if vars.contains(alias) {
            let message = format!("alias {} is also the name of a variable", quoted(alias));
            let help = Some("give the dependency another alias".to_owned());
            problems.with_help(&draft.source, *offset, message, help);
        } else if check::RESERVED.contains(&alias) {
            let message = format!("{} cannot be an alias: the name is reserved", quoted(alias));
            problems.at(&draft.source, *offset, message);
        }
        aliases.insert(alias);
    }
    let usable = Usable { vars, aliases: Some(aliases) };
    check::check_map(&draft.source, &draft.config, &usable, problems);
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
                let help = Some(format!("it is there as {} already", quoted(first)));
                problems.with_help(&draft.source, *offset, message, help);
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
            problems.at(&first.source, first.offset, message);
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
        problems.at(&draft.source, offset, message);
        return None;
    }
    let found = positions.get(name).copied();
    if found.is_none() {
        let help = problems.nearest(name, positions.keys().copied());
        let message = format!("unknown resource {}", quoted(name));
        problems.with_help(&draft.source, offset, message, help);
    }
    found
}

fn declare(draft: Draft, vars: &Vars, vars_text: Option<Arc<str>>) -> (Declaration, Arc<Template>) {
    let dependencies: Vec<_> = draft.dependencies.into_iter().map(|(_, edge)| edge).collect();
    let template = Arc::new(Template {
        config: draft.config,
        vars: Arc::clone(vars),
        vars_text,
        aliases: dependencies.iter().map(|edge| edge.alias.clone()).collect(),
        source: Arc::clone(&draft.source),
    });
    let place: Place = draft.source.place(draft.offset);
    let config = Arc::clone(&template);
    let declaration = Declaration {
        name: draft.name,
        kind: draft.kind,
        place,
        config,
        dependencies,
        notify: draft.notify.into_iter().map(|(_, name)| name).collect(),
        noop: draft.noop,
    };
    (declaration, template)
}
