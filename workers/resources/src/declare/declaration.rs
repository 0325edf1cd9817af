//! What a manifest says of one resource, before its expressions are rendered.
//!
//! It is the border between the manifest, which makes declarations, and plan, apply and run, which
//! use them.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::Backoff;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::base::shape::Shape;
use crate::declare::claim::Claim;
use crate::declare::kept_thing::KeptThing;

/// A resource's config after its expressions were rendered.
pub type Config = Map<String, Value>;

/// How many repairs of a resource in a row are made at once unless its declaration says otherwise.
pub const REPAIRS: u32 = 10;

/// What the expressions of a config see in addition to what its front gave it. Values are shared: a
/// clone copies none of them.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Inputs {
    /// What is known of each dependency, by the alias that the dependent gave it.
    pub deps: BTreeMap<String, DependencyState>,
}

impl Inputs {
    /// Returns the inputs of a config that has these dependencies.
    pub fn new(deps: BTreeMap<String, DependencyState>) -> Self {
        Self { deps }
    }
}

/// One resource as its manifest declares it.
///
/// Cheap to clone: clones share what is declared. A clone that is changed has its own from then on.
#[derive(Debug, Clone)]
pub struct Declaration(Arc<DeclarationFields>);

/// What is declared of one resource.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DeclarationFields {
    /// The name, unique in the manifest.
    pub name: String,
    /// The type as written: a bare word for a built-in kind.
    pub kind: String,
    /// The folder in which relative paths of the config start; absolute.
    pub folder: PathBuf,
    /// Where in which file the declaration begins, for messages.
    pub place: Place,
    /// The config with its expressions.
    pub config: Arc<dyn Render>,
    /// The resources that this one uses.
    pub dependencies: Vec<Dependency>,
    /// The names of the resources that are notified when this one has changed.
    pub notify: Vec<String>,
    /// The names of those that it notifies as well, and that are not in this part of the site: a
    /// later run notifies them.
    pub(crate) notify_later: Vec<String>,
    /// Whether the resource is only ever checked, never changed.
    pub noop: bool,
    /// Whether only its state is read: what differs is nobody's concern. It is never changed, so
    /// `noop` is true as well.
    pub readonly: bool,
    /// Whether it is put back as it was when it leaves the manifest.
    pub reverse: bool,
    /// The record of how the resource was, if it has left the manifest and is put back by this
    /// declaration.
    pub(crate) record: Option<KeptThing>,
    /// Whether an error hides what the resource keeps and how, for which items there is one, or
    /// whether there is one at all. Its config cannot be rendered then. Until all that is known,
    /// nothing that was kept under its name is released or put back.
    pub is_unsure: bool,
    /// A digest of the texts of its templates, as they were when it was declared; 0 if it has none,
    /// or they are not known.
    pub templates: u64,
    /// Whether it keeps a fact that says which resources there are: other ones may be declared after it has changed.
    pub declares_others: bool,
    /// The words by which it can be chosen.
    pub tags: Vec<String>,
    /// How often it is looked at under `run` when nothing says that it may have changed. None by
    /// default: as often as [`Reconcile::look_every`](crate::run::Reconcile::look_every) says.
    pub poll: Option<Duration>,
    /// How long a look, and each action, may take before it is told to stop. None by default: as
    /// long as it takes.
    pub timeout: Option<Duration>,
    /// The wait after a look or an action that failed, under `run`. None by default: as
    /// [`Reconcile::backoff`](crate::run::Reconcile::backoff) says.
    pub backoff: Option<Arc<Backoff>>,
    /// How many repairs in a row are made at once, under `run`. After more of them something else
    /// seems to change the resource whenever it is repaired, and each repair waits for the backoff.
    /// A repair is in a row with one that was made less than the backoff's `reset_after` ago. None
    /// by default: [`REPAIRS`].
    pub repairs: Option<u32>,
    /// The host as it was found, if the [kind reads it](crate::dynamic::Kind::reads_host). None by
    /// default.
    pub host: Option<Arc<Value>>,
    /// What the resource keeps, makes and needs, as far as that was known when it was declared.
    pub claims: Vec<Claim>,
    /// Whether all of that was known.
    pub is_claimed: bool,
    /// Whether it may make files that none of these claims names, as far as that was known then.
    pub makes_unnamed: bool,
    /// Whether a check may ask for a shutdown-first action, as far as that was known then; see
    /// [`Claimed::stops_first`](crate::Claimed::stops_first).
    pub stops_first: bool,
    /// Whether it has automatic edges, to those that make what it needs; it has by default.
    pub has_automatic_edges: bool,
    /// Those edges.
    pub automatic: Vec<Automatic>,
    /// Those that it does not have, because each would close a cycle.
    pub left_out: Vec<Automatic>,
    /// What the resource's dependents use of its state.
    pub wanted: Wanted,
    /// The attributes of the config whose values come from secrets. They are shown to nobody.
    pub hidden: BTreeSet<String>,
    /// JSON pointers to some of the facts whose change is the reason for this declaration; empty if
    /// there is another reason, or the facts are not known. None by default.
    pub changed_facts: Vec<String>,
}

/// An edge that nobody has declared: a resource comes after one that makes what it needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Automatic {
    /// The name of the resource that comes first.
    pub resource: String,
    /// What its change means to the one that comes after.
    pub on_change: OnChange,
    /// Why the edge is there, as a text.
    pub because: String,
}

impl Declaration {
    /// Returns a declaration that uses and notifies nothing, and whose state is wanted as a whole.
    pub fn new(
        name: String,
        kind: String,
        folder: PathBuf,
        place: Place,
        config: Arc<dyn Render>,
    ) -> Self {
        Self::from(DeclarationFields {
            name,
            kind,
            folder,
            place,
            config,
            dependencies: Vec::new(),
            notify: Vec::new(),
            notify_later: Vec::new(),
            noop: false,
            readonly: false,
            reverse: false,
            record: None,
            is_unsure: false,
            templates: 0,
            declares_others: false,
            tags: Vec::new(),
            poll: None,
            timeout: None,
            backoff: None,
            repairs: None,
            host: None,
            claims: Vec::new(),
            is_claimed: false,
            makes_unnamed: false,
            stops_first: false,
            has_automatic_edges: true,
            automatic: Vec::new(),
            left_out: Vec::new(),
            wanted: Wanted::Whole,
            hidden: BTreeSet::new(),
            changed_facts: Vec::new(),
        })
    }

    /// Returns whether both are clones of one declaration, and neither was changed since.
    pub(crate) fn is_clone_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Returns the names of all resources that it depends on, declared or not, with what their change
    /// means.
    pub fn needs(&self) -> impl Iterator<Item = (&str, OnChange)> {
        let declared =
            self.dependencies.iter().map(|used| (used.resource.as_str(), used.on_change));
        declared.chain(self.automatic.iter().map(|used| (used.resource.as_str(), used.on_change)))
    }

    /// Returns whether the resource has left its manifest, and is to be put back as it was.
    pub fn is_put_back(&self) -> bool {
        self.record.is_some()
    }

    /// Returns what the resource keeps, as far as that is known.
    pub(crate) fn thing(&self) -> KeptThing {
        KeptThing::of((&self.kind, &self.name), &self.claims)
    }

    /// Returns whether it may keep something that becomes known only when its config is.
    pub(crate) fn may_find(&self) -> bool {
        !self.is_claimed && !self.noop
    }

    /// Returns whether another declaration says the same of the resource itself. Whom it notifies,
    /// where it is written, its tags, its automatic edges, the texts of its templates and the facts
    /// that have changed do not count.
    pub fn is_equal(&self, other: &Self) -> bool {
        if self.is_clone_of(other) {
            return true;
        }
        let is_alike = (&self.name, &self.kind, self.noop, self.readonly)
            == (&other.name, &other.kind, other.noop, other.readonly)
            && (self.reverse, &self.record) == (other.reverse, &other.record)
            && self.is_unsure == other.is_unsure
            && (self.poll, self.timeout, &self.wanted)
                == (other.poll, other.timeout, &other.wanted)
            && self.backoff == other.backoff
            && self.repairs == other.repairs
            && (&self.folder, &self.host) == (&other.folder, &other.host)
            && (&self.dependencies, &self.automatic) == (&other.dependencies, &other.automatic)
            && (&self.claims, self.is_claimed) == (&other.claims, other.is_claimed)
            && self.hidden == other.hidden;
        is_alike && self.config.is_equal(&*other.config)
    }
}

impl Deref for Declaration {
    type Target = DeclarationFields;

    fn deref(&self) -> &DeclarationFields {
        &self.0
    }
}

impl DerefMut for Declaration {
    fn deref_mut(&mut self) -> &mut DeclarationFields {
        Arc::make_mut(&mut self.0)
    }
}

impl From<DeclarationFields> for Declaration {
    fn from(fields: DeclarationFields) -> Self {
        Self(Arc::new(fields))
    }
}

/// Which attributes of a resource's state its dependents use, as far as their declarations tell.
///
/// A kind may leave others out of the state if they cost something, or change more often than what
/// the resource keeps; see [`Context::wants`](crate::Context::wants).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// These alone.
    Attributes(BTreeSet<String>),
    /// All of them: the state is used as one value, or in a way that nobody can foresee.
    Whole,
}

impl Wanted {
    /// Returns that nothing is used.
    pub fn nothing() -> Self {
        Self::Attributes(BTreeSet::new())
    }

    /// Returns whether an attribute is used.
    pub fn has(&self, attribute: &str) -> bool {
        match self {
            Self::Attributes(attributes) => attributes.contains(attribute),
            Self::Whole => true,
        }
    }

    /// Adds what another dependent uses.
    pub fn add(&mut self, other: Self) {
        match (&mut *self, other) {
            (Self::Attributes(attributes), Self::Attributes(others)) => attributes.extend(others),
            (_, Self::Whole) => *self = Self::Whole,
            (Self::Whole, _) => {}
        }
    }
}

/// One resource's use of another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dependency {
    /// The name under which expressions see it.
    pub alias: String,
    /// The name of the resource.
    pub resource: String,
    /// What its change means to the dependent.
    pub on_change: OnChange,
}

/// The beginning of the alias of each resource that keeps a fact.
const OF_FACT: &str = "fact ";

impl Dependency {
    /// Returns the dependency of a user of a fact on the resource that keeps the fact. Expressions
    /// do not see that resource by the alias.
    pub fn on_fact(path: &str, resource: String) -> Self {
        Self { alias: format!("{OF_FACT}{path}"), resource, on_change: OnChange::Check }
    }

    /// Returns the path of the fact, if the dependency is there because a fact is used.
    pub fn fact(&self) -> Option<&str> {
        self.alias.strip_prefix(OF_FACT)
    }
}

/// Returns whether an alias is that of a resource that keeps a fact.
pub fn is_fact_alias(alias: &str) -> bool {
    // No alias that a person has written begins so.
    alias.starts_with(OF_FACT)
}

/// What a dependency's change means to its dependent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnChange {
    /// The dependent renders its config again and is checked.
    #[default]
    Check,
    /// The dependent is notified as well: it restarts or runs again.
    Notify,
    /// The dependent is notified as well; a program that can reload does so instead of a restart.
    Reload,
}

impl OnChange {
    /// Returns whether the dependent is notified.
    pub fn notifies(self) -> bool {
        self != Self::Check
    }
}

/// What a dependent knows of a dependency.
#[derive(Clone, PartialEq)]
pub enum DependencyState {
    /// The dependency is valid, with this state.
    Known(Arc<Value>),
    /// The dependency will be changed first. These attributes of the state that it will have are known,
    /// and others may be there too.
    Foreseen(Arc<Value>),
    /// The dependency will be changed first, so its state is not known yet.
    Unknown,
}

/// Shows the names of the attributes of the state, and no values.
impl fmt::Debug for DependencyState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(state) => f.debug_tuple("Known").field(&Shape::of(state)).finish(),
            Self::Foreseen(state) => f.debug_tuple("Foreseen").field(&Shape::of(state)).finish(),
            Self::Unknown => f.write_str("Unknown"),
        }
    }
}

/// The attribute of a state that says why other attributes are missing: a map from their names to texts. An expression
/// that uses such an attribute fails with that text.
pub const UNUSABLE: &str = "unusable";

/// A config whose expressions can be rendered.
pub trait Render: Any + fmt::Debug + Send + Sync {
    /// Renders the config with what is known.
    ///
    /// # Errors
    ///
    /// When an expression is undefined or does not evaluate, with its place.
    fn render(&self, inputs: &Inputs) -> Result<Rendered, RenderError>;

    /// Returns whether another config renders the same, whatever the inputs are.
    ///
    /// `false` is always right, and costs a look at the resource when another manifest comes.
    fn is_equal(&self, other: &dyn Render) -> bool {
        let _ = other;
        false
    }

    /// Returns where an attribute is written, if it is.
    fn place_of(&self, attribute: &str) -> Option<Place> {
        let _ = attribute;
        None
    }
}

/// The result of rendering a config.
#[derive(Clone)]
pub enum Rendered {
    /// Every expression had a value.
    Known {
        /// The config.
        config: Config,
        /// Renders further texts, such as template files, with what the config's own expressions
        /// saw.
        scope: Arc<dyn Scope>,
    },
    /// An expression uses a dependency that will be changed first.
    Unknown {
        /// The aliases of those dependencies.
        because: Vec<String>,
    },
}

/// Shows the names of the attributes of the config, and no values.
impl fmt::Debug for Rendered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known { config, .. } => {
                let mut shown = f.debug_struct("Known");
                shown.field("config", &Shape::of_map(config)).finish_non_exhaustive()
            }
            Self::Unknown { because } => {
                f.debug_struct("Unknown").field("because", because).finish()
            }
        }
    }
}

/// What the expressions of one resource see: `vars`, `deps` and the shorthands.
pub trait Scope: fmt::Debug + Send + Sync {
    /// Renders a template's text; `path` names it in errors. It may take a second: it is to be called
    /// where blocking work is done.
    ///
    /// # Errors
    ///
    /// When an expression in it is undefined or does not evaluate, with its line in `path`.
    fn render_text(&self, path: &Path, text: &str) -> Result<RenderedText, RenderError>;

    /// Returns the text that is rendered in place of a template file with an absolute path. The
    /// file is not read then. By default there is none.
    fn kept_text(&self, path: &Path) -> Option<&str> {
        let _ = path;
        None
    }
}

/// The result of rendering a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RenderedText {
    /// Every expression had a value.
    Known(String),
    /// An expression uses dependencies that will be changed first: these aliases.
    Unknown(Vec<String>),
}

/// An expression that could not be rendered.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{place}: {message}")]
pub struct RenderError {
    /// Where the expression stands.
    pub place: Place,
    /// What is wrong with it and what would be right.
    pub message: String,
}

/// A place in a file that a person wrote.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Place {
    /// The file as it was named.
    pub file: PathBuf,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file.display(), self.line, self.column)
    }
}
