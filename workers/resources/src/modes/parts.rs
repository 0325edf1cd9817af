//! Resources that are made of others.
//!
//! A part is a resource like any other. Its config comes from its owner: the owner's config is
//! rendered, and the owner's kind makes the configs of the parts from it. So a part is known when
//! its owner is.

use std::any::Any;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Map, Value};

use crate::base::error::AttributeError;
use crate::base::naming::part_name;
use crate::base::shape::Shape;
use crate::base::text::circle;
use crate::declare::declaration::{
    Config, Declaration, DeclarationFields, Dependency, Inputs, OnChange, Place, Render,
    RenderError, Rendered, Scope,
};
use crate::declare::known::{Claimed, KnownConfig};
use crate::declare::order::{Edges, Order};
use crate::kind::config_report::ConfigReport;
use crate::kind::kinds::Kinds;
use crate::kind::part::Part;

/// How many levels of parts of parts there may be: a kind must not be made of itself.
const MAX_DEPTH: usize = 8;

/// What the kind of a declared resource says of it, and the resources that it is made of.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Declared {
    /// What is wrong with the config or with a part, and what the resource itself claims.
    pub judged: ConfigReport,
    /// The parts, and the parts of parts.
    pub parts: Vec<DeclaredPart>,
}

/// A resource that another one is made of, as it was declared.
#[derive(Clone)]
pub struct DeclaredPart {
    /// The declaration, with the name `OWNER["PART"]`.
    pub declaration: Declaration,
    /// What the part claims.
    pub claimed: Claimed,
    /// The attributes of its state that are known whatever a check finds; see [`ConfigReport::declared`].
    pub state: Map<String, Value>,
}

impl fmt::Debug for DeclaredPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { declaration, claimed, state } = self;
        let mut shown = f.debug_struct("DeclaredPart");
        shown.field("declaration", declaration).field("claimed", claimed);
        shown.field("state", &Shape::of_map(state)).finish()
    }
}

impl Kinds {
    /// Has the kind of a resource judge its config as far as it is known, takes its claims over into
    /// the declaration, and declares its parts, on which it depends from then on.
    ///
    /// The parts are treated as their owner is (`noop`, tags and the like), and depend on whatever it
    /// depends on. The kind of the owner sees the state of the part `page` under the alias
    /// `part page`.
    pub fn declare(&self, declaration: &mut Declaration, known: &KnownConfig<'_>) -> Declared {
        let mut judged = self.judge_of((&declaration.kind, &declaration.name), known);
        if let Some(wrong) = self.cannot_reverse(declaration, !judged.parts.is_empty()) {
            judged.errors.push(AttributeError::new("reverse", wrong));
        }
        declaration.claim(&judged.claimed);
        judged.claimed.claims.shrink_to_fit();
        let mut declaring = Declaring { kinds: self, declared: Vec::new(), errors: Vec::new() };
        declaring.parts_of(declaration, std::mem::take(&mut judged.parts), 1);
        judged.errors.extend(declaring.errors);
        Declared { judged, parts: declaring.declared }
    }

    /// Returns whether resources of a kind have parts that keep facts, or parts of such parts.
    ///
    /// The names of parts do not depend on what is known of the config. So the kind is asked about
    /// a config of which nothing is known.
    pub fn parts_keep_facts(&self, kind: &str) -> bool {
        let Ok(asked) = self.get(kind) else { return false };
        let unknown: BTreeSet<String> = asked.table().names().map(str::to_owned).collect();
        let config = unknown.iter().map(|name| (name.clone(), Value::Null)).collect();
        let known = KnownConfig { config: &config, unknown: &unknown };
        self.any_keeps_facts(&self.judge(kind, &known).parts, 1)
    }

    fn any_keeps_facts(&self, parts: &[Part], depth: usize) -> bool {
        parts.iter().any(|part| {
            let of_parts = || {
                let parts = self.judge(&part.kind, &part.known()).parts;
                self.any_keeps_facts(&parts, depth + 1)
            };
            let is_keeper = self.get(&part.kind).is_ok_and(|kind| kind.keeps_facts());
            is_keeper || depth < MAX_DEPTH && of_parts()
        })
    }

    /// Returns why a resource cannot be put back as it was, if it is to be.
    fn cannot_reverse(&self, declaration: &Declaration, has_parts: bool) -> Option<String> {
        let DeclarationFields { name, kind, reverse: true, .. } = &**declaration else {
            return None;
        };
        if declaration.noop {
            return Some(
                "what is left alone is never changed, so there is nothing to put back".into(),
            );
        }
        // Of what is made of parts, each part is put back.
        let can_reverse = has_parts || self.get(kind).map_or(true, |kind| kind.can_reverse());
        let message = format!("the type {kind} of \"{name}\" does not say how to put it back");
        (!can_reverse).then_some(message)
    }
}

/// Returns whether an alias is that of a part.
pub fn is_part_alias(alias: &str) -> bool {
    // A space is in no alias that a person has written.
    alias.starts_with("part ")
}

impl Declaration {
    /// Returns whether the resource has this part.
    pub(crate) fn has_part(&self, part: &str) -> bool {
        let alias = alias(part);
        self.dependencies.iter().any(|used| used.alias == alias)
    }
}

fn alias(part: &str) -> String {
    format!("part {part}")
}

struct Declaring<'a> {
    kinds: &'a Kinds,
    declared: Vec<DeclaredPart>,
    errors: Vec<AttributeError>,
}

impl Declaring<'_> {
    fn parts_of(&mut self, owner: &mut Declaration, parts: Vec<Part>, depth: usize) {
        if parts.is_empty() {
            return;
        }
        let names: BTreeSet<_> = parts.iter().map(|part| part.name.clone()).collect();
        if names.len() < parts.len() {
            self.refuse("two of its parts have the same name".to_owned());
        }
        if let Some(circle) = circle_of(&parts) {
            self.refuse(format!("its parts come after each other: {circle}"));
            return;
        }
        let outer = owner.clone();
        let made_of = Arc::new(Owner {
            config: Arc::clone(&owner.config),
            kinds: self.kinds.clone(),
            kind: owner.kind.clone(),
            place: owner.place.clone(),
            last: Mutex::default(),
        });
        owner.dependencies.extend(parts.iter().map(|part| Dependency {
            alias: alias(&part.name),
            resource: part_name(&outer.name, &part.name),
            on_change: OnChange::Check,
        }));
        for part in parts {
            if depth > MAX_DEPTH {
                return self.refuse(format!("parts of parts are more than {MAX_DEPTH} deep"));
            }
            self.declare((&outer, &made_of), part, (&names, depth));
        }
    }

    fn declare(
        &mut self,
        (owner, made_of): (&Declaration, &Arc<Owner>),
        part: Part,
        (names, depth): (&BTreeSet<String>, usize),
    ) {
        let Part { name, kind, after, .. } = &part;
        let shown = |what: String| format!("its part \"{name}\" ({kind}): {what}");
        if let Err(err) = self.kinds.get(kind) {
            return self.refuse(shown(err.to_string()));
        }
        let judged = self.kinds.judge(kind, &part.known());
        self.errors.extend(judged.errors.iter().map(|err| {
            let error = AttributeError::new("config", shown(err.to_string()));
            AttributeError { value: err.value.clone(), ..error }
        }));
        let config = PartConfig { owner: Arc::clone(made_of), part: name.clone() };
        let mut declaration = Declaration::from(DeclarationFields {
            name: part_name(&owner.name, name),
            kind: kind.clone(),
            config: Arc::new(config),
            notify: Vec::new(),
            ..DeclarationFields::clone(owner)
        });
        let wrong = self.kinds.cannot_reverse(&declaration, !judged.parts.is_empty());
        self.errors.extend(wrong.map(|wrong| AttributeError::new("reverse", wrong)));
        declaration.claim(&judged.claimed);
        for (before, on_change) in after {
            if !names.contains(before) {
                self.refuse(shown(format!("there is no part \"{before}\" to come after")));
                continue;
            }
            declaration.dependencies.push(Dependency {
                alias: alias(before),
                resource: part_name(&owner.name, before),
                on_change: *on_change,
            });
        }
        self.parts_of(&mut declaration, judged.parts, depth + 1);
        let (claimed, state) = (judged.claimed, judged.declared);
        self.declared.push(DeclaredPart { declaration, claimed, state });
    }

    fn refuse(&mut self, message: String) {
        self.errors.push(AttributeError::new("config", message));
    }
}

/// Returns parts that come after each other in a circle, if there are any.
fn circle_of(parts: &[Part]) -> Option<String> {
    let positions = parts.iter().enumerate().map(|(position, part)| (part.name(), position));
    let positions: HashMap<&str, usize> = positions.collect();
    let mut edges = Edges::new(parts.len());
    for (node, part) in parts.iter().enumerate() {
        for before in part.after.iter().filter_map(|(before, _)| positions.get(&**before)) {
            edges.depends(node, *before, OnChange::Check);
        }
    }
    let circles = Order::from_edges(edges).err()?;
    let names = circles.first()?.iter().map(|node| parts[*node].name.as_str());
    Some(circle(&names.collect::<Vec<_>>()))
}

/// What the parts of one resource come from.
#[derive(Debug)]
struct Owner {
    config: Arc<dyn Render>,
    kinds: Kinds,
    kind: String,
    place: Place,
    /// The parts as they were rendered last, with what the config saw. Each part asks for the same.
    last: Mutex<Option<(Inputs, Parts)>>,
}

/// The configs of all parts, by their names, or why there are none yet.
#[derive(Clone)]
enum Parts {
    Known(Arc<HashMap<String, Config>>, Arc<dyn Scope>),
    Unknown(Vec<String>),
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(parts, _) => f.debug_set().entries(parts.keys()).finish(),
            Self::Unknown(because) => f.debug_tuple("Unknown").field(because).finish(),
        }
    }
}

impl Owner {
    fn parts(&self, inputs: &Inputs) -> Result<Parts, RenderError> {
        // The states of other parts are nothing that the owner's expressions see.
        let own = inputs.deps.iter().filter(|(alias, _)| !is_part_alias(alias));
        let own = Inputs::new(own.map(|(alias, state)| (alias.clone(), state.clone())).collect());
        let mut last = self.last.lock();
        if let Some((seen, parts)) = &*last
            && *seen == own
        {
            return Ok(parts.clone());
        }
        let parts = self.render(&own)?;
        *last = Some((own, parts.clone()));
        Ok(parts)
    }

    fn render(&self, inputs: &Inputs) -> Result<Parts, RenderError> {
        let (config, scope) = match self.config.render(inputs)? {
            Rendered::Known { config, scope } => (config, scope),
            Rendered::Unknown { because } => return Ok(Parts::Unknown(because)),
        };
        let known = KnownConfig { config: &config, unknown: &BTreeSet::new() };
        let judged = self.kinds.judge(&self.kind, &known);
        if let Some(error) = judged.errors.first() {
            let message = format!("the config that it is part of is not valid: {error}");
            return Err(RenderError { place: self.place.clone(), message });
        }
        let parts = judged.parts.into_iter().map(|part| (part.name, part.config));
        Ok(Parts::Known(Arc::new(parts.collect()), scope))
    }
}

/// The config of a part, which comes from that of its owner.
#[derive(Debug)]
struct PartConfig {
    owner: Arc<Owner>,
    part: String,
}

impl Render for PartConfig {
    fn render(&self, inputs: &Inputs) -> Result<Rendered, RenderError> {
        let (parts, scope) = match self.owner.parts(inputs)? {
            Parts::Known(parts, scope) => (parts, scope),
            Parts::Unknown(because) => return Ok(Rendered::Unknown { because }),
        };
        let config = parts.get(&self.part).cloned().ok_or_else(|| RenderError {
            place: self.owner.place.clone(),
            message: format!("{} has no part \"{}\" any more", self.owner.kind, self.part),
        });
        Ok(Rendered::Known { config: config?, scope })
    }

    fn is_equal(&self, other: &dyn Render) -> bool {
        let other: &dyn Any = other;
        other.downcast_ref::<Self>().is_some_and(|other| {
            (&self.owner.kind, &self.part) == (&other.owner.kind, &other.part)
                && (Arc::ptr_eq(&self.owner, &other.owner)
                    || self.owner.config.is_equal(&*other.owner.config))
        })
    }
}
