//! Actions as data, which can be shown, saved and read back, and the trait that kinds derive.

use std::fmt;

use crankcase_workers::one_line;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::base::error::{BoxError, Wrong};
use crate::base::text::did_you_mean;
use crate::declare::params::Field;

/// Something that a check wants done, as data: it is shown, saved, and run by
/// [`Unit::act`](crate::dynamic::Unit::act).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Action {
    /// What is done, as a verb.
    pub name: String,
    /// To what, and how.
    pub arguments: Map<String, Value>,
    /// The attributes that it changes.
    pub changes: Vec<String>,
}

impl Action {
    /// Returns an action without arguments that changes nothing in particular.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), arguments: Map::new(), changes: Vec::new() }
    }

    /// Adds an argument.
    #[must_use]
    pub fn with(mut self, argument: &str, value: impl Into<Value>) -> Self {
        self.arguments.insert(argument.to_owned(), value.into());
        self
    }

    /// Adds an attribute that the action changes.
    #[must_use]
    pub fn changing(mut self, attribute: &str) -> Self {
        self.changes.push(attribute.to_owned());
        self
    }

    /// Reads an argument; for the derive.
    #[doc(hidden)]
    pub fn argument<T: Field>(&self, name: &str) -> Result<T, Wrong> {
        let value = self.arguments.get(name).filter(|value| !value.is_null());
        let missing = || format!("the action \"{}\" lacks \"{name}\"", self.name).into();
        value.map_or_else(|| T::absent().ok_or_else(missing), T::take)
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&one_line(&self.name))?;
        for (name, value) in &self.arguments {
            write!(f, " {}={value}", one_line(name))?;
        }
        Ok(())
    }
}

/// The actions of a kind; made by `#[derive(Actions)]` of an enum, or [`Infallible`] for none.
///
/// Each variant is an action: its name in snake case, with its fields as arguments. It needs a
/// documentation comment. Arguments are shown to people and saved: a content or a secret stays in
/// the config.
///
/// [`Infallible`]: std::convert::Infallible
///
/// # Examples
///
/// ```
/// use crankcase_resources::{Action, Actions};
///
/// #[derive(Debug, PartialEq, Actions)]
/// enum Do {
///     /// switches it on
///     SwitchOn { watts: u32 },
///     /// switches it off
///     SwitchOff,
/// }
///
/// let action = Do::SwitchOn { watts: 40 }.erase();
/// assert_eq!(action, Action::new("switch_on").with("watts", 40));
/// assert_eq!(Do::read(&action)?, Do::SwitchOn { watts: 40 });
/// # Ok::<(), crankcase_resources::Wrong>(())
/// ```
pub trait Actions: Sized + Send + Sync + 'static {
    /// Returns what actions there are, in the order in which they are shown.
    fn types() -> Vec<ActionType>;

    /// Returns the action as data.
    fn erase(&self) -> Action;

    /// Reads an action that was data.
    ///
    /// # Errors
    ///
    /// When there is no such action, or an argument is missing or wrong.
    fn read(action: &Action) -> Result<Self, Wrong>;
}

impl Actions for std::convert::Infallible {
    fn types() -> Vec<ActionType> {
        Vec::new()
    }

    fn erase(&self) -> Action {
        match *self {}
    }

    fn read(action: &Action) -> Result<Self, Wrong> {
        Err(unknown::<Self>(action))
    }
}

/// Says that there is no such action; for the derive.
#[doc(hidden)]
pub fn unknown<A: Actions>(action: &Action) -> Wrong {
    let (name, types) = (&action.name, A::types());
    let names = types.iter().map(|action| action.name.as_str());
    format!("there is no action \"{name}\"{}", did_you_mean(name, names)).into()
}

/// An action that a kind may want done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ActionType {
    /// Its name.
    pub name: String,
    /// What it does, in words that end without a full stop.
    pub doc: String,
}

impl ActionType {
    /// Returns an action type.
    pub fn new(name: &str, doc: &str) -> Self {
        Self { name: name.to_owned(), doc: doc.to_owned() }
    }
}

/// Why an action did not finish.
///
/// Any error converts into [`Unfinished::Failed`], so `?` works; therefore it is not an `Error`
/// itself.
#[derive(Debug)]
#[non_exhaustive]
pub enum Unfinished {
    /// It was told to stop, and ended what it had begun.
    Interrupted,
    /// It failed.
    Failed(BoxError),
}

impl<E: Into<BoxError>> From<E> for Unfinished {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}
