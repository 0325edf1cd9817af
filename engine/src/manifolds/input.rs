//! The kinds of inputs that a manifold can declare.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::machine::Need;
use crate::vocabulary::follow;
use crate::vocabulary::live::Live;
use crate::vocabulary::name::Name;
use crate::vocabulary::value::{Kind, downcast};
use crate::worker::context::Context;
use crate::worker::launch::{Declaration, InputValue, InputValues};

/// The inputs of a manifold, and the values that its `start` gets for them.
///
/// | input | value |
/// | --- | --- |
/// | `name` or `&name`, required | `T` |
/// | `name.optional()` | `Option<T>` |
/// | `name.optional().or(default)` | `T` |
/// | `name.live()` | [`Live<T>`] |
/// | `name.live().required()` | [`Live<T>`], with a value at first |
/// | [`EngineInput`](crate::EngineInput) | a handle on the engine itself |
/// | `()` and tuples of up to twelve inputs | tuples of their values |
/// | `Vec<I>` | `Vec` of the values, in the same order |
/// | `BTreeMap<K, I>` | a map from the same keys |
///
/// Inputs nest: a tuple may hold a vector of inputs that is made at run time.
///
/// # Implementing it
///
/// A struct of inputs can be an input too. Implement each method by calling it on every field, in
/// the same order.
///
/// ```
/// use crankcase_engine::Name;
/// use crankcase_engine::input::{Declared, Given, Inputs};
///
/// struct Needs {
///     store: Name<String>,
///     clock: Name<u64>,
/// }
///
/// struct Got {
///     store: String,
///     clock: Option<u64>,
/// }
///
/// impl Inputs for Needs {
///     type Values = Got;
///     type Owned = Self;
///     fn declare(&self, declared: &mut Declared) {
///         self.store.declare(declared);
///         self.clock.optional().declare(declared);
///     }
///     fn take(&self, given: &mut Given) -> Got {
///         Got { store: self.store.take(given), clock: self.clock.optional().take(given) }
///     }
///     fn into_owned(self) -> Self {
///         self
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an input",
    label = "expected names, or tuples, vectors or maps of names",
    note = "a name is made with its type: `const STORE: Name<Store> = Name::new(\"store\");`",
    note = "an input's type must be `Clone + Send + Sync + 'static`; the ways to declare one are \
            listed at `crankcase_engine::input::Inputs`"
)]
pub trait Inputs {
    /// The type of the values that `start` gets.
    type Values: Send + 'static;
    /// The same inputs without borrows.
    type Owned: Inputs<Values = Self::Values> + Send + Sync + 'static;

    /// Declares every input, in order.
    fn declare(&self, declared: &mut Declared);

    /// Takes the values, in the order in which [`declare`](Self::declare) declares their inputs.
    fn take(&self, given: &mut Given) -> Self::Values;

    /// Converts to inputs without borrows.
    fn into_owned(self) -> Self::Owned;
}

/// Collects the inputs that a manifold declares.
#[derive(Debug, Default)]
pub struct Declared {
    pub(crate) inputs: Vec<Declaration>,
}

impl Declared {
    fn push<T: Clone + Send + Sync + 'static>(&mut self, name: &Name<T>, need: Need) {
        self.inputs.push(Declaration { name: name.text().clone(), need, kind: Kind::of::<T>() });
    }
}

/// The values for one start, in the order of its inputs.
pub struct Given {
    input_values: smallvec::IntoIter<[InputValue; 1]>,
    ctx: Context,
}

impl Given {
    pub(crate) fn new(input_values: InputValues, ctx: Context) -> Self {
        Self { input_values: input_values.into_iter(), ctx }
    }

    pub(crate) fn context(&self) -> &Context {
        &self.ctx
    }

    /// Returns the context after all values were taken.
    pub(crate) fn into_context(self) -> Context {
        self.ctx
    }

    fn value<T: Clone + 'static>(&mut self) -> Option<T> {
        match self.input_values.next() {
            Some(InputValue::Value(value)) => Some(downcast::<T>(&value).clone()),
            _ => None,
        }
    }

    fn live<T: Clone + 'static>(&mut self) -> Live<T> {
        match self.input_values.next() {
            Some(InputValue::Live(receiver)) => Live::new(receiver),
            // Only a `take` that does not match its `declare` gets here. The view never gets a
            // value.
            _ => Live::new(follow::channel(None).1),
        }
    }
}

impl fmt::Debug for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Given").field("left", &self.input_values.len()).finish()
    }
}

impl<T: Clone + Send + Sync + 'static> Inputs for Name<T> {
    type Values = T;
    type Owned = Self;

    fn declare(&self, declared: &mut Declared) {
        declared.push(self, Need::Required);
    }

    fn take(&self, given: &mut Given) -> T {
        given.value().expect("a worker is started only while its required inputs are up")
    }

    fn into_owned(self) -> Self {
        self
    }
}

/// A required input whose value is taken without a clone.
#[derive(Debug)]
pub(crate) struct SharedInput<T>(pub(crate) Name<T>);

impl<T: Clone + Send + Sync + 'static> Inputs for SharedInput<T> {
    type Values = Arc<T>;
    type Owned = Self;

    fn declare(&self, declared: &mut Declared) {
        self.0.declare(declared);
    }

    fn take(&self, given: &mut Given) -> Arc<T> {
        let Some(InputValue::Value(value)) = given.input_values.next() else {
            unreachable!("a worker is started only while its required inputs are up")
        };
        value.downcast().expect("types are compared at install")
    }

    fn into_owned(self) -> Self {
        self
    }
}

#[diagnostic::do_not_recommend]
impl<I: Inputs + Clone> Inputs for &I {
    type Values = I::Values;
    type Owned = I::Owned;

    fn declare(&self, declared: &mut Declared) {
        (**self).declare(declared);
    }

    fn take(&self, given: &mut Given) -> Self::Values {
        (**self).take(given)
    }

    fn into_owned(self) -> Self::Owned {
        self.clone().into_owned()
    }
}

/// An input that may be absent; made by [`Name::optional`].
///
/// The worker is bounced when the input comes and when it goes. A start waits while the input is
/// coming. A start does not wait for an input that failed, is done, is parked or is not installed.
#[derive(Debug, Clone)]
pub struct OptionalInput<T> {
    name: Name<T>,
}

impl<T> OptionalInput<T> {
    pub(crate) fn new(name: Name<T>) -> Self {
        Self { name }
    }

    /// Sets a default to use while the value is absent.
    #[must_use]
    pub fn or(self, default: T) -> DefaultedInput<T> {
        DefaultedInput { name: self.name, default }
    }
}

impl<T: Clone + Send + Sync + 'static> Inputs for OptionalInput<T> {
    type Values = Option<T>;
    type Owned = Self;

    fn declare(&self, declared: &mut Declared) {
        declared.push(&self.name, Need::Optional);
    }

    fn take(&self, given: &mut Given) -> Option<T> {
        given.value()
    }

    fn into_owned(self) -> Self {
        self
    }
}

/// An optional input with a default; made by [`OptionalInput::or`].
#[derive(Debug, Clone)]
pub struct DefaultedInput<T> {
    name: Name<T>,
    default: T,
}

impl<T: Clone + Send + Sync + 'static> Inputs for DefaultedInput<T> {
    type Values = T;
    type Owned = Self;

    fn declare(&self, declared: &mut Declared) {
        declared.push(&self.name, Need::Optional);
    }

    fn take(&self, given: &mut Given) -> T {
        given.value().unwrap_or_else(|| self.default.clone())
    }

    fn into_owned(self) -> Self {
        self
    }
}

/// An input that the worker follows; made by [`Name::live`].
///
/// A live input never bounces the worker, and does not delay its start. At shutdown the worker
/// stops before the input's worker. If only the input is bounced or uninstalled, the worker sees
/// `None`.
#[derive(Debug, Clone)]
pub struct LiveInput<T> {
    name: Name<T>,
    need: Need,
}

impl<T> LiveInput<T> {
    pub(crate) fn new(name: Name<T>) -> Self {
        Self { name, need: Need::Live }
    }

    /// Makes the start wait until the input has a first value.
    #[must_use]
    pub fn required(self) -> Self {
        Self { need: Need::LiveRequired, ..self }
    }
}

impl<T: Clone + Send + Sync + 'static> Inputs for LiveInput<T> {
    type Values = Live<T>;
    type Owned = Self;

    fn declare(&self, declared: &mut Declared) {
        declared.push(&self.name, self.need);
    }

    fn take(&self, given: &mut Given) -> Live<T> {
        given.live()
    }

    fn into_owned(self) -> Self {
        self
    }
}

impl<T> Name<T> {
    /// Makes an optional input from the name: `None` while it is absent. A change bounces the
    /// worker.
    #[must_use]
    pub fn optional(&self) -> OptionalInput<T> {
        OptionalInput::new(self.clone())
    }

    /// Makes a live input from the name: a [`Live`](crate::Live) to follow. A change never bounces
    /// the worker.
    #[must_use]
    pub fn live(&self) -> LiveInput<T> {
        LiveInput::new(self.clone())
    }
}

impl<I: Inputs> Inputs for Vec<I> {
    type Values = Vec<I::Values>;
    type Owned = Vec<I::Owned>;

    fn declare(&self, declared: &mut Declared) {
        self.iter().for_each(|input| input.declare(declared));
    }

    fn take(&self, given: &mut Given) -> Self::Values {
        self.iter().map(|input| input.take(given)).collect()
    }

    fn into_owned(self) -> Self::Owned {
        self.into_iter().map(I::into_owned).collect()
    }
}

impl<K: Ord + Clone + Send + Sync + 'static, I: Inputs> Inputs for BTreeMap<K, I> {
    type Values = BTreeMap<K, I::Values>;
    type Owned = BTreeMap<K, I::Owned>;

    fn declare(&self, declared: &mut Declared) {
        self.values().for_each(|input| input.declare(declared));
    }

    fn take(&self, given: &mut Given) -> Self::Values {
        self.iter().map(|(key, input)| (key.clone(), input.take(given))).collect()
    }

    fn into_owned(self) -> Self::Owned {
        self.into_iter().map(|(key, input)| (key, input.into_owned())).collect()
    }
}

impl Inputs for () {
    type Values = ();
    type Owned = ();

    fn declare(&self, _declared: &mut Declared) {}

    fn take(&self, _given: &mut Given) {}

    fn into_owned(self) {}
}

macro_rules! tuples {
    ($($name:ident $place:tt)+) => {
        impl<$($name: Inputs),+> Inputs for ($($name,)+) {
            type Values = ($($name::Values,)+);
            type Owned = ($($name::Owned,)+);

            fn declare(&self, declared: &mut Declared) {
                $(self.$place.declare(declared);)+
            }

            fn take(&self, given: &mut Given) -> Self::Values {
                ($(self.$place.take(given),)+)
            }

            fn into_owned(self) -> Self::Owned {
                ($(self.$place.into_owned(),)+)
            }
        }
    };
}

tuples!(A 0);
tuples!(A 0 B 1);
tuples!(A 0 B 1 C 2);
tuples!(A 0 B 1 C 2 D 3);
tuples!(A 0 B 1 C 2 D 3 E 4);
tuples!(A 0 B 1 C 2 D 3 E 4 F 5);
tuples!(A 0 B 1 C 2 D 3 E 4 F 5 G 6);
tuples!(A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7);
tuples!(A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 J 8);
tuples!(A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 J 8 K 9);
tuples!(A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 J 8 K 9 L 10);
tuples!(A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 J 8 K 9 L 10 M 11);
