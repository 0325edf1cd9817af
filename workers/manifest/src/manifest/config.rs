//! The config of a resource with its expressions, and its rendering.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::path::Path;
use std::slice;
use std::sync::{Arc, OnceLock, Weak};

use crankcase_resources::AttributeError;
use crankcase_resources::dynamic::Config;
use crankcase_resources::front::{
    DependencyState, Inputs, Place, Render, RenderError, Rendered, RenderedText, Scope,
};
use serde_json::Value;

use crate::manifest::alias::{Alias, secrets_of};
use crate::manifest::bounds::Share;
use crate::manifest::check::{self, Usable};
use crate::manifest::expression::{
    Budget, Failure, Missed, Names, Partial, Stop, from_json, from_state, is_template, size,
};
use crate::manifest::globals::{AllGlobals, UsedValues};
use crate::manifest::kept_facts::{UnknownFacts, UsedFact, VALUE, with_fact};
use crate::manifest::kept_manifest::{KeptManifest, read_template};
use crate::manifest::lines::Source;
use crate::manifest::node::{Data, Map, Node};
use crate::manifest::problem::{Found, Hint, Problems, escaped};
use crate::manifest::resource::{Item, Unsure};
use crate::manifest::source::Unreadable;
use crate::manifest::text::{self, Texts, Trouble};
use crate::manifest::used::Used;
use crate::manifest::vars::{KnownVars, VarsOfFacts};

/// The config of one resource, with its expressions.
pub(crate) struct Template {
    pub(crate) source: Arc<Source>,
    pub(crate) config: Arc<Map>,
    /// All that its expressions may see, while the manifest is loaded.
    pub(crate) all: Weak<AllGlobals>,
    /// The values that its expressions see later: only those that they use.
    pub(crate) kept: OnceLock<Arc<UsedValues>>,
    /// The item that the resource is for.
    pub(crate) item: Option<Item>,
    pub(crate) aliases: Vec<Alias>,
    /// The names that the config uses.
    pub(crate) used: Arc<Used>,
    /// The attributes of the config that follow from facts.
    pub(crate) of_facts: Arc<BTreeSet<String>>,
    /// The facts that it uses and that other resources keep.
    pub(crate) kept_facts: Vec<UsedFact>,
    /// The variables that follow from facts, if the config uses a variable that follows from
    /// `kept_facts`. The names that they use count as used by the config.
    pub(crate) late_vars: Option<Arc<VarsOfFacts>>,
    /// The bytes that it holds in the room of its site.
    pub(crate) share: Share,
    /// Why it is not known whether the resource is there, or for which items.
    pub(crate) unsure: Option<Arc<Unsure>>,
}

/// Shows the names of the attributes and no values, as some of these may be secrets.
impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let attributes: Vec<_> = self.config.keys().collect();
        f.debug_struct("Template").field("attributes", &attributes).finish_non_exhaustive()
    }
}

impl Template {
    /// Evaluates what needs no dependency, to find at load what would fail later.
    ///
    /// Returns the config, and the names of its attributes that are not known: those that need a
    /// dependency, those that are wrong, and those of `left_out`.
    ///
    /// `declared` has the known parts of the states of dependencies, by alias.
    pub(crate) fn rehearse(
        &self,
        (left_out, declared): (&BTreeSet<String>, &HashMap<&str, minijinja::Value>),
        budget: &mut Budget,
        found: &mut Found<'_>,
    ) -> (Config, BTreeSet<String>) {
        let names = self.seeing_kept(self.first_names(), |alias| {
            let value = declared.get(alias)?.get_attr(VALUE).ok()?;
            (!value.is_undefined()).then_some(value)
        });
        let names = Names { declared: self.declared(declared), ..names };
        let (mut config, mut unknown) = (Config::new(), left_out.clone());
        for (attribute, entry) in &*self.config {
            let mut value = Value::Null;
            if budget.is_overdrawn() {
                unknown.insert(attribute.clone());
            } else if !left_out.contains(attribute) {
                let mut texts = Texts::new(&names, budget);
                value = texts.node(&entry.value);
                let findings = texts.finish();
                if !findings.unknown.is_empty() || !findings.troubles.is_empty() {
                    unknown.insert(attribute.clone());
                    value = Value::Null;
                }
                for Trouble { span, text, failure } in findings.troubles {
                    check::report(&self.source, (&text, &span), failure, found.of(attribute));
                }
            }
            config.insert(attribute.clone(), value);
        }
        (config, unknown)
    }

    /// Returns the names of the attributes that hold expressions.
    pub(crate) fn with_expressions(&self) -> impl Iterator<Item = String> {
        let entries = self.config.iter().filter(|(_, entry)| has_expressions(&entry.value));
        entries.map(|(attribute, _)| attribute.clone())
    }

    /// Evaluates a template file that the config names, as far as it needs no dependency. Defers
    /// the problems of facts if there is a place for them. Returns whether the file uses secrets,
    /// or may.
    pub(crate) fn rehearse_file(
        &self,
        file: &Source,
        (vars, budget): (&KnownVars<'_>, &mut Budget),
        (problems, deferred): (&mut Problems, Option<&mut Problems>),
    ) -> bool {
        let names = self.aliases.iter().map(|alias| alias.name.as_str());
        let groups = self.aliases.iter().filter(|alias| alias.items.is_some());
        let before = problems.count();
        let usable = Usable {
            aliases: Some(names.collect()),
            resources: Some(vars.resources),
            groups: groups.map(|alias| alias.name.as_str()).collect(),
            ..vars.usable(self.item.is_some(), "a template")
        };
        let used = check::check_file(file, &usable, problems);
        if problems.count() > before || used.uses_any(vars.wrong) {
            return true;
        }
        let deferred = deferred.filter(|_| used.follows_facts(vars.of_facts));
        self.try_file(file, budget, deferred.unwrap_or(problems));
        !used.secrets.is_empty()
            || !secrets_of(&self.aliases, &used).is_empty()
            || self.kept_facts.iter().any(|fact| fact.is_secret)
    }

    /// Reads a template file that the config names: as it is kept, or else from the disk.
    pub(crate) fn read_file(&self, path: &Path) -> Result<Vec<u8>, Unreadable> {
        read_template(self.kept.get().and_then(|kept| kept.kept_files.as_deref()), path)
    }

    /// Renders a template file as far as it needs no dependency.
    pub(crate) fn try_file(&self, file: &Source, budget: &mut Budget, problems: &mut Problems) {
        let text = file.text();
        if let Err(Stop::Failed(failure)) = text::render_text(text, &self.first_names(), budget) {
            check::report(file, (text, &(0..text.len())), failure, problems);
        }
    }

    /// Notes the problem that a kind finds in an attribute: at the attribute if it is written, else
    /// at the resource.
    pub(crate) fn blame(&self, resource: usize, error: AttributeError, problems: &mut Problems) {
        let offset = self.offset_of(&error.attribute, resource);
        let message = error.to_string();
        let AttributeError { value, suggestion, .. } = error;
        problems.with_hint(&self.source, offset, message, Hint { help: None, value, suggestion });
    }

    /// Returns where an attribute is written, or where its resource is if it is not.
    pub(crate) fn offset_of(&self, attribute: &str, resource: usize) -> usize {
        self.config.get(attribute).map_or(resource, |entry| entry.key.start)
    }

    /// Returns the states that a plan knows in part, as expressions see them, by the names that
    /// they have for the dependencies.
    fn foreseen(&self, inputs: &Inputs) -> BTreeMap<String, minijinja::Value> {
        let is_foreseen =
            |alias: &str| matches!(inputs.deps.get(alias), Some(DependencyState::Foreseen(_)));
        let aliases = self.aliases.iter();
        let partly = aliases.filter(|alias| alias.states().any(|(_, alias)| is_foreseen(alias)));
        let each = partly.map(|alias| {
            let known =
                alias.states().filter_map(|(name, alias)| match inputs.deps.get(alias)? {
                    DependencyState::Known(state) | DependencyState::Foreseen(state) => {
                        Some((name, from_state(state)))
                    }
                    DependencyState::Unknown => None,
                });
            (alias.name.clone(), known.collect::<BTreeMap<_, _>>().into())
        });
        each.collect()
    }

    /// Returns the known parts of states, as expressions see them, by the names that they have for
    /// the dependencies.
    fn declared(
        &self,
        known: &HashMap<&str, minijinja::Value>,
    ) -> BTreeMap<String, minijinja::Value> {
        if known.is_empty() {
            return BTreeMap::new();
        }
        let each = self.aliases.iter().map(|alias| {
            let states = alias.states();
            let known = states.filter_map(|(name, alias)| Some((name, known.get(alias)?.clone())));
            (alias.name.clone(), known.collect::<BTreeMap<_, _>>())
        });
        let each = each.filter(|(_, states)| !states.is_empty());
        each.map(|(alias, states)| (alias, states.into())).collect()
    }

    /// Returns the names that are known before any dependency is.
    fn first_names(&self) -> Names {
        self.names(&Inputs::default())
    }

    fn names(&self, inputs: &Inputs) -> Names {
        self.names_of(inputs, |alias| state(alias, inputs))
    }

    /// Returns the names for a scope, which lives as long as its resource is kept. A config that
    /// sees only the values that it keeps shares its names with other configs.
    fn lasting_names(&self, inputs: &Inputs) -> Arc<Names> {
        let names = || Arc::new(self.names(inputs));
        let sees_more = self.item.is_some()
            || !self.aliases.is_empty()
            || !self.kept_facts.is_empty()
            || self.late_vars.is_some()
            || self.all.upgrade().is_some_and(|all| all.late_keepers().is_some());
        match self.kept.get().filter(|_| !sees_more) {
            Some(kept) => Arc::clone(kept.names.get_or_init(names)),
            None => names(),
        }
    }

    /// Returns the names with the known part of each state, if a plan foresees a part of one.
    fn names_in_part(&self, inputs: &Inputs) -> Option<Box<(Names, Missed)>> {
        let mut states = inputs.deps.values();
        if !states.any(|state| matches!(state, DependencyState::Foreseen(_))) {
            return None;
        }
        let missed = Missed::default();
        let names = self.names_of(inputs, |alias| Some(state_in_part(alias, inputs, &missed)));
        Some(Box::new((names, missed)))
    }

    fn names_of(&self, inputs: &Inputs, state: impl Fn(&str) -> Option<minijinja::Value>) -> Names {
        let deps = self.aliases.iter().map(|alias| (alias.name.clone(), seen(alias, &state)));
        let all = self.all.upgrade();
        let globals = match (self.kept.get(), &all) {
            (Some(kept), _) => &kept.globals,
            (None, Some(all)) => &all.seen,
            (None, None) => {
                unreachable!("all that a template uses is kept when its manifest is loaded")
            }
        };
        let secrets = self.kept_facts.iter().filter(|fact| fact.is_secret);
        let secrets = secrets.map(|fact| fact.path.clone()).collect();
        let sensitive = globals.sensitive.with_states(self.secrets_of_states());
        let names = Names {
            deps: deps.collect(),
            declared: self.foreseen(inputs),
            item: self.item.as_ref().map(|item| from_json(&item.value)),
            late_keepers: all.as_ref().and_then(|all| all.late_keepers()),
            sensitive: sensitive.with_facts(secrets),
            ..globals.names()
        };
        self.seeing_kept(names, |alias| kept_fact(alias, inputs))
    }

    /// Returns the names with the facts that other resources keep. `value` returns such a fact by
    /// the alias of the resource that keeps it, if the fact is known.
    fn seeing_kept(&self, names: Names, value: impl Fn(&str) -> Option<minijinja::Value>) -> Names {
        let (mut facts, mut unknown_facts) = (names.facts.clone(), UnknownFacts::default());
        for fact in &self.kept_facts {
            match value(&fact.alias) {
                Some(value) => facts = with_fact(&facts, &fact.path, fact.seen(value)),
                None => unknown_facts.add(fact),
            }
        }
        let names = Names { facts, unknown_facts, ..names };
        let Some(vars) = &self.late_vars else { return names };
        vars.again(names, &self.kept_paths())
    }

    /// Returns whether the value of a fact that another resource keeps differs, or will differ,
    /// from its value at the load of the manifest.
    fn moves(&self, fact: &UsedFact, inputs: &Inputs) -> bool {
        let at_load = self.kept.get().and_then(|kept| {
            let facts = kept.globals.facts.clone();
            fact.path.iter().try_fold(facts, |facts, name| facts.get_attr(name).ok())
        });
        kept_fact(&fact.alias, inputs).is_none_or(|kept| at_load != Some(fact.seen(kept)))
    }

    /// Returns the paths of the facts that other resources keep.
    fn kept_paths(&self) -> BTreeSet<Vec<String>> {
        self.kept_facts.iter().map(|fact| fact.path.clone()).collect()
    }

    /// Evaluates the config. Also returns how many bytes of values that has made. The inner error
    /// is the problem of an expression.
    fn evaluate(&self, names: &Names) -> Result<Result<(Config, usize), RenderError>, Stop> {
        let mut budget = Budget::new();
        let mut texts = Texts::new(names, &mut budget);
        let config = texts.map(&self.config);
        let findings = texts.finish();
        if let Some(Trouble { span, text, failure }) = findings.troubles.into_iter().next() {
            let offset = self.source.locate(&span, &text, failure.offset);
            return Ok(Err(render_error(self.source.place(offset), failure)));
        }
        match findings.unknown.is_empty() {
            true => Ok(Ok((config, budget.made()))),
            false => Err(Stop::Unknown(findings.unknown)),
        }
    }

    /// Returns where the secrets are in what expressions see of the dependencies: an alias, and the keys below it.
    fn secrets_of_states(&self) -> Vec<Vec<Option<String>>> {
        let secrets = self.aliases.iter().flat_map(|alias| {
            // Below the alias of a `for_each` there is the item.
            let below = alias.items.is_none().then(|| "state".to_owned());
            let first = [Some(alias.name.clone()), below];
            let secrets = alias.secrets.iter();
            secrets.map(move |keys| {
                first.iter().cloned().chain(keys.iter().cloned().map(Some)).collect()
            })
        });
        secrets.collect()
    }

    /// Returns the aliases of the dependencies that are not known, by the names that expressions have
    /// for them.
    fn waits(&self, inputs: &Inputs) -> Waits {
        let aliases = self.aliases.iter().map(|alias| {
            let states = alias.states().map(|(_, alias)| alias);
            let unknown = states.filter(|alias| state(alias, inputs).is_none());
            (alias.name.clone(), unknown.map(str::to_owned).collect())
        });
        let facts = self.kept_facts.iter().filter(|fact| kept_fact(&fact.alias, inputs).is_none());
        let facts = facts.map(|fact| (fact.alias.clone(), vec![fact.alias.clone()]));
        Waits(aliases.chain(facts).collect())
    }

    /// Returns the size, in bytes, of the values that only the expressions of this config see.
    fn seen_size(&self, inputs: &Inputs) -> usize {
        let states = inputs.deps.values().map(|state| match state {
            DependencyState::Known(state) | DependencyState::Foreseen(state) => size(state),
            DependencyState::Unknown => 0,
        });
        states.sum::<usize>() + self.item.as_ref().map_or(0, |item| size(&item.value))
    }

    /// Returns the same template with other facts.
    pub(crate) fn seeing(&self, all: &Arc<AllGlobals>) -> Self {
        Self { all: Arc::downgrade(all), kept: OnceLock::new(), ..self.copy() }
    }

    /// Returns the same template, of a resource that is unsure.
    pub(crate) fn but_unsure(&self, why: Unsure) -> Self {
        Self { unsure: Some(Arc::new(why)), ..self.copy() }
    }

    /// Returns the same template, which holds nothing in the room of its site yet.
    fn copy(&self) -> Self {
        Self {
            source: Arc::clone(&self.source),
            config: Arc::clone(&self.config),
            all: Weak::clone(&self.all),
            kept: self.kept.clone(),
            item: self.item.clone(),
            aliases: self.aliases.clone(),
            used: Arc::clone(&self.used),
            of_facts: Arc::clone(&self.of_facts),
            kept_facts: self.kept_facts.clone(),
            late_vars: self.late_vars.clone(),
            share: self.share.beside(),
            unsure: self.unsure.clone(),
        }
    }

    /// Keeps the values that the config uses, and drops all others. `renders_files` says that the
    /// config names files whose texts are rendered, or may name some: such a file may use any name
    /// at any time.
    pub(crate) fn keep(&self, all: &AllGlobals, renders_files: bool) {
        let used = if renders_files { &Used::all() } else { &*self.used };
        let mut kept = all.used(used);
        if !self.kept_facts.is_empty() {
            // Kept facts, and the variables that follow from them, come with the states of their
            // keepers.
            let (facts, secrets) = (self.kept_paths(), &all.seen.sensitive);
            let vars = self.late_vars.as_ref().map(|vars| vars.following(&facts));
            let mut vars = vars.unwrap_or_default();
            vars.retain(|name| secrets.used(slice::from_ref(name)).is_none());
            let fingerprints = all.fingerprints(&used.without(&facts, &vars));
            Arc::make_mut(&mut kept).fingerprints = fingerprints;
        }
        if let Some(files) = all.kept_files().filter(|_| renders_files) {
            Arc::make_mut(&mut kept).kept_files = Some(Arc::clone(files));
        }
        assert!(self.kept.set(kept).is_ok(), "it is kept once");
    }
}

/// The aliases of the dependencies that are not known, by the names that expressions have for them.
struct Waits(BTreeMap<String, Vec<String>>);

impl Waits {
    fn of(&self, names: &BTreeSet<String>) -> Vec<String> {
        names.iter().filter_map(|name| self.0.get(name)).flatten().cloned().collect()
    }
}

/// Returns a dependency, or all of a `for_each`, as expressions see them, if its states are known.
fn seen(
    alias: &Alias,
    state: impl Fn(&str) -> Option<minijinja::Value>,
) -> Option<minijinja::Value> {
    let known = alias.states().map(|(name, alias)| Some((name, state(alias)?)));
    let mut known = known.collect::<Option<BTreeMap<_, _>>>()?;
    if let Some((name, kind)) = &alias.of {
        known.extend([("name", name.into()), ("type", kind.into())]);
    }
    Some(known.into())
}

fn state(alias: &str, inputs: &Inputs) -> Option<minijinja::Value> {
    match inputs.deps.get(alias) {
        Some(DependencyState::Known(state)) => Some(from_state(state)),
        Some(DependencyState::Foreseen(_) | DependencyState::Unknown) | None => None,
    }
}

/// Returns the fact that a resource keeps, or will keep, if that is known.
fn kept_fact(alias: &str, inputs: &Inputs) -> Option<minijinja::Value> {
    match inputs.deps.get(alias)? {
        DependencyState::Known(state) | DependencyState::Foreseen(state) => {
            state.get(VALUE).map(from_json)
        }
        DependencyState::Unknown => None,
    }
}

/// Returns the known part of a state.
fn state_in_part(alias: &str, inputs: &Inputs, missed: &Missed) -> minijinja::Value {
    let known = match inputs.deps.get(alias) {
        Some(DependencyState::Known(state)) => return from_state(state),
        Some(DependencyState::Foreseen(state)) => state.as_object(),
        Some(DependencyState::Unknown) | None => None,
    };
    let known = known.into_iter().flatten();
    let known = known.map(|(name, value)| (name.clone(), from_json(value))).collect();
    Partial::value(known, missed)
}

impl Render for Template {
    fn render(&self, inputs: &Inputs) -> Result<Rendered, RenderError> {
        if let Some(why) = &self.unsure {
            let Unsure { place, message, late } = &**why;
            let moving = self.kept_facts.iter().filter(|fact| self.moves(fact, inputs));
            let because: Vec<_> = moving.map(|fact| fact.alias.clone()).collect();
            if late.is_some() && !because.is_empty() {
                return Ok(Rendered::Unknown { because });
            }
            return Err(RenderError { place: place.clone(), message: message.clone() });
        }
        let (names, in_part) = (self.lasting_names(inputs), self.names_in_part(inputs));
        let kept_files = self.kept.get().and_then(|kept| kept.kept_files.clone());
        let seen = Seen { names, in_part, waits: self.waits(inputs), kept_files };
        let (config, made) = match seen.evaluate(|names| self.evaluate(names)) {
            Ok(evaluated) => evaluated?,
            Err(Stop::Unknown(names)) => {
                return Ok(Rendered::Unknown { because: seen.waits.of(&names) });
            }
            Err(Stop::Failed(failure)) => {
                return Err(render_error(self.source.place(failure.offset), failure));
            }
        };
        self.share.hold(made + self.seen_size(inputs)).map_err(|why| {
            let offset = self.config.first().map_or(0, |(_, entry)| entry.key.start);
            render_error(self.source.place(offset), Failure::new(offset, why))
        })?;
        Ok(Rendered::Known { config, scope: Arc::new(seen) })
    }

    fn is_equal(&self, other: &dyn Render) -> bool {
        let other: &dyn Any = other;
        other.downcast_ref::<Self>().is_some_and(|other| {
            self.config == other.config
                && self.unsure == other.unsure
                && self.aliases == other.aliases
                && self.item == other.item
                && self.used == other.used
                && self.kept_facts == other.kept_facts
                && match (&self.late_vars, &other.late_vars) {
                    (Some(one), Some(other)) => one.is_alike(other),
                    (one, other) => one.is_none() && other.is_none(),
                }
                && self.kept.get().zip(other.kept.get()).is_some_and(|(one, two)| one.is_alike(two))
        })
    }

    fn place_of(&self, attribute: &str) -> Option<Place> {
        self.config.get(attribute).map(|entry| self.source.place(entry.key.start))
    }
}

/// The values that the expressions of a rendered config saw.
struct Seen {
    names: Arc<Names>,
    /// The same names, in a plan that knows only a part of some states. Boxed, because a run never
    /// has them.
    in_part: Option<Box<(Names, Missed)>>,
    waits: Waits,
    /// The templates that take the place of those on the disk.
    kept_files: Option<Arc<KeptManifest>>,
}

/// Shows no values, as some of them may be secrets.
impl fmt::Debug for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seen").finish_non_exhaustive()
    }
}

impl Seen {
    /// Evaluates something with the states that are known as a whole. If these are not enough, it
    /// takes the states that are known in part as well.
    fn evaluate<T>(&self, evaluate: impl Fn(&Names) -> Result<T, Stop>) -> Result<T, Stop> {
        let unknown = match evaluate(&self.names) {
            Err(Stop::Unknown(unknown)) => unknown,
            evaluated => return evaluated,
        };
        let in_part = self.in_part.as_deref().and_then(|(names, missed)| {
            let evaluated = evaluate(names).ok();
            evaluated.filter(|_| !missed.is_set())
        });
        in_part.ok_or(Stop::Unknown(unknown))
    }
}

impl Scope for Seen {
    fn kept_text(&self, path: &Path) -> Option<&str> {
        self.kept_files.as_deref()?.template(path)
    }

    fn render_text(&self, path: &Path, text: &str) -> Result<RenderedText, RenderError> {
        if !is_template(text) {
            return Ok(RenderedText::Known(text.to_owned()));
        }
        match self.evaluate(|names| text::render_text(text, names, &mut Budget::new())) {
            Ok(rendered) => Ok(RenderedText::Known(rendered)),
            Err(Stop::Unknown(names)) => Ok(RenderedText::Unknown(self.waits.of(&names))),
            Err(Stop::Failed(failure)) => {
                let place = Source::new(path.to_owned(), text.to_owned()).place(failure.offset);
                Err(render_error(place, failure))
            }
        }
    }
}

fn has_expressions(node: &Node) -> bool {
    match &node.data {
        Data::String(text) => is_template(text),
        Data::List(items) => items.iter().any(has_expressions),
        Data::Map(map) => map.values().any(|entry| has_expressions(&entry.value)),
        _ => false,
    }
}

fn render_error(place: Place, failure: Failure) -> RenderError {
    let Failure { message, hint, .. } = failure;
    let message = match hint.help {
        Some(help) => format!("{message}; {help}"),
        None => message,
    };
    RenderError { place, message: escaped(&message) }
}
