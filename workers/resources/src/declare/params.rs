//! What a kind declares of its configs and states, once: names, types, defaults, documentation.
//!
//! Reading, judging what is half known, JSON Schema, the reference of a kind, redaction and the
//! check of `deps.x.state.y` all work from the resulting [`Table`].

use serde_json::{Map, Value};

use crate::declare::known::KnownConfig;

pub(crate) use self::field::HIDDEN;
pub use self::field::{AbsPath, Field, Mode, Secret};
pub use self::table::{Parameter, Table};
pub use self::ty::Type;
pub(crate) use crate::declare::params::partial::shown_value;
pub use crate::declare::params::partial::{Partial, Reader, Writer};

mod field;
mod partial;
mod schema;
mod table;
mod ty;

/// A config, or a state, of a kind; made by `#[derive(Params)]` of a struct with named fields.
///
/// Each field is a parameter and needs a documentation comment. `#[param(default = ..)]` gives a
/// default as a JSON literal, `unit = ".."` the unit of a number, and `name = ".."` another name. In a
/// state, `declared` marks an attribute that is the config's attribute of the same name: dependents
/// know it when the manifest is loaded, so every check must report that very value. With
/// `compare = false`, configs that differ in it alone declare the same resource. A field that is
/// `flatten` stands for the parameters of a struct of its own, none of which is required.
///
/// The derive also makes a function `new` that takes what is required, and a struct `..Partial` of
/// the same fields, each of which may still be unknown.
///
/// # Examples
///
/// ```
/// use crankcase_resources::dynamic::Table;
/// use crankcase_resources::{AbsPath, Params};
///
/// /// Keeps a lamp.
/// #[derive(Debug, Clone, PartialEq, Params)]
/// pub struct Lamp {
///     /// where it is
///     pub path: AbsPath,
///     /// how bright it is
///     #[param(default = 40, unit = "watts")]
///     pub power: u32,
///     /// its colour; left alone if not given
///     pub colour: Option<String>,
/// }
///
/// let lamp = Lamp { colour: Some("red".to_owned()), ..Lamp::new(AbsPath::parse("/dev/lamp")?) };
/// assert_eq!(lamp.power, 40);
/// assert_eq!(Lamp::table().get("power").map(|power| power.doc.as_str()), Some("how bright it is"));
/// # Ok::<(), crankcase_resources::Wrong>(())
/// ```
pub trait Params: Sized + Send + Sync + 'static {
    /// The same fields, each of which may still be unknown.
    type Partial: From<Self> + std::fmt::Debug + Send + Sync;

    /// Returns the parameters.
    fn table() -> &'static Table;

    /// Reads each parameter as far as it is known.
    fn read(reader: &mut Reader<'_>) -> Self::Partial;

    /// Returns the whole, if all of it is known and right.
    fn whole(partial: Self::Partial) -> Option<Self>;

    /// Writes what is known.
    fn write(partial: &Self::Partial, writer: &mut Writer);

    /// Returns whether two configs declare the same resource.
    fn is_same(&self, other: &Self) -> bool;
}

/// Returns what is known of a state, as those that depend on it see it.
pub(crate) fn written<P: Params>(partial: &P::Partial) -> Value {
    let mut writer = Writer::default();
    P::write(partial, &mut writer);
    Value::Object(writer.values)
}

/// Returns what is known of a state before anything is looked at: the attributes that are the config's
/// own, as a check will report them.
pub(crate) fn declared<P: Params, S: Params>(partial: &P::Partial) -> Map<String, Value> {
    let states = S::table();
    if !states.parameters.iter().any(|attribute| attribute.is_declared) {
        return Map::new();
    }
    let writer = || Writer { declared: Some(states), ..Writer::default() };
    let mut config = writer();
    P::write(partial, &mut config);
    let config = config.values;
    // The state's own type may write a value in another way than the config's.
    let unknown = states.names().filter(|name| !config.contains_key(*name)).map(str::to_owned);
    let known = KnownConfig { config: &config, unknown: &unknown.collect() };
    let mut state = writer();
    S::write(&S::read(&mut Reader::new(states, &known)), &mut state);
    state.values
}

/// Returns what a parameter is when it is not given; for the derive.
///
/// # Panics
///
/// When the default is no value of the type, which every use of the kind shows.
#[doc(hidden)]
pub fn absent<T: Field>(default: Option<Value>) -> T {
    let default = default.map(|value| T::take(&value).map_err(|wrong| wrong.message));
    match default {
        Some(default) => default.expect("the default is a value of its type"),
        None => T::absent().expect("the derive asks for what is required"),
    }
}
