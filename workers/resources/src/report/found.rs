//! What a look at a resource has found.

use std::fmt;
use std::sync::Arc;

use crankcase_workers::one_line;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::base::shape::Shape;
use crate::base::text::cut_after;
use crate::declare::action::Action;
use crate::declare::params::HIDDEN;

/// How many characters a summary of differences has at most.
const MAX_SUMMARY: usize = 500;

/// What a check has found, as data.
#[non_exhaustive]
pub enum Found {
    /// The resource is as declared; this is its state.
    Valid(Value),
    /// The resource is not as declared.
    Stale(Stale),
    /// What is declared is known only after these dependencies, by alias, were changed.
    Unknown(Vec<String>),
}

/// Shows the names of the attributes of the state, and no values.
impl fmt::Debug for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Valid(state) => f.debug_tuple("Valid").field(&Shape::of(state)).finish(),
            Self::Stale(amiss) => f.debug_tuple("Stale").field(amiss).finish(),
            Self::Unknown(aliases) => f.debug_tuple("Unknown").field(aliases).finish(),
        }
    }
}

/// How a resource differs from its declaration, and what would repair it.
#[non_exhaustive]
#[must_use]
pub struct Stale {
    /// The state as it is; absent if the resource does not exist.
    pub current: Option<Value>,
    /// What differs, per attribute.
    pub differences: Vec<Difference>,
    /// The actions that would repair it, in this order.
    pub actions: Vec<Action>,
    /// What has to be done before all other actions, such as stopping a server.
    pub shutdown: Option<Action>,
    /// What is known of the state after the actions.
    pub after: Option<Arc<Value>>,
    /// Whether the resource differs at each apply, whatever the state of the machine.
    pub is_each_time: bool,
}

/// Shows the names of attributes and actions, and no values: nothing is hidden in them yet.
impl fmt::Debug for Stale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { current, differences, actions, shutdown, after, .. } = self;
        let differences: Vec<_> = differences.iter().map(|it| &it.attribute).collect();
        let actions: Vec<_> = actions.iter().map(|it| &it.name).collect();
        let mut shown = f.debug_struct("Stale");
        shown.field("current", &current.as_ref().map(Shape::of));
        shown.field("differences", &differences).field("actions", &actions);
        shown.field("shutdown", &shutdown.as_ref().map(|it| &it.name));
        shown.field("after", &after.as_deref().map(Shape::of)).finish()
    }
}

impl Stale {
    /// Returns a finding without differences or actions yet.
    pub fn new(current: Option<Value>) -> Self {
        let (differences, actions) = (Vec::new(), Vec::new());
        Self { current, differences, actions, shutdown: None, after: None, is_each_time: false }
    }

    /// Adds an attribute that is `old` and should be `new`; null stands for absent.
    pub fn differs(self, attribute: &str, old: impl Into<Value>, new: impl Into<Value>) -> Self {
        self.difference(Difference::new(attribute, old.into(), new.into()))
    }

    /// Adds a difference.
    pub fn difference(mut self, difference: Difference) -> Self {
        self.differences.push(difference);
        self
    }

    /// Adds an action, to be run after those that were added before.
    ///
    /// If it names no attributes, it changes those that were added since the action before.
    pub fn action(mut self, mut action: Action) -> Self {
        if action.changes.is_empty() {
            let is_free = |name: &String| !self.actions.iter().any(|it| it.changes.contains(name));
            let differing = self.differences.iter().map(|it| it.attribute.clone());
            action.changes = differing.filter(is_free).collect();
        }
        self.actions.push(action);
        self
    }

    /// Sets the shutdown-first action; the kind's [`stops_first`](crate::dynamic::Kind::stops_first),
    /// or the [claims](crate::Claimed::stops_first), must say so.
    pub fn shutdown(mut self, action: Action) -> Self {
        self.shutdown = Some(action);
        self
    }

    /// Says that the resource differs at each apply, whatever the state of the machine, as with a
    /// command without a guard. The difference counts as no change for
    /// [`Account::has_changed`](crate::Account::has_changed).
    pub fn each_time(mut self) -> Self {
        self.is_each_time = true;
        self
    }

    /// Sets what is known of the state after the actions, a map of attributes. It is what dependents see
    /// in a plan. After apply the state must have all of it, as far as it tells of these attributes.
    pub fn after(mut self, state: Value) -> Self {
        self.after = Some(Arc::new(state));
        self
    }
}

/// One attribute that is not as declared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Difference {
    /// The attribute's name.
    pub attribute: String,
    /// The value as it is; null if there is none.
    pub old: Value,
    /// The value as declared; null if there should be none.
    pub new: Value,
    /// The change of a text, line by line, as a unified diff of bounded length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

impl Difference {
    /// Returns a difference without a text.
    pub fn new(attribute: &str, old: Value, new: Value) -> Self {
        Self { attribute: attribute.to_owned(), old, new, text: None }
    }

    /// Hides the values, and keeps whether there are any.
    pub(crate) fn hide(&mut self) {
        for value in [&mut self.old, &mut self.new] {
            if !value.is_null() {
                *value = HIDDEN.into();
            }
        }
        self.text = None;
    }

    /// Adds a unified diff.
    #[must_use]
    pub fn with_text(mut self, text: String) -> Self {
        self.text = Some(text);
        self
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let attribute = one_line(&self.attribute);
        write!(f, "{attribute}: {} -> {}", Shown(&self.old), Shown(&self.new))
    }
}

/// Writes differences on one line.
pub(crate) fn listed(differences: &[Difference]) -> String {
    differences.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Writes differences on one line of bounded length.
pub(crate) fn summary(differences: &[Difference]) -> String {
    cut_after(&listed(differences), MAX_SUMMARY)
}

/// Writes a value as JSON, or as `absent`.
struct Shown<'a>(&'a Value);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Null => f.write_str("absent"),
            value => value.fmt(f),
        }
    }
}

/// Returns an attribute of a state that is another one than was foreseen, with both values.
pub(crate) fn otherwise<'a>(
    foreseen: &'a Value,
    state: &'a Value,
) -> Option<(&'a str, &'a Value, &'a Value)> {
    let mut foreseen = foreseen.as_object().into_iter().flatten();
    foreseen.find_map(|(name, was)| {
        let is = state.get(name).filter(|is| *is != was)?;
        Some((name.as_str(), was, is))
    })
}
