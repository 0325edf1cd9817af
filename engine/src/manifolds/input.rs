//! What a manifold can declare as its inputs.

pub(crate) mod named;
pub(crate) mod set;

use std::collections::BTreeMap;
use std::fmt;

use crate::vocabulary::follow;
use crate::vocabulary::live_set;
use crate::vocabulary::value::Value;
use crate::worker::context::Context;
use crate::worker::launch::{Declaration, InputValue, InputValues};

/// The inputs of a manifold, and the values that its `start` gets for them.
///
/// | input | value |
/// | --- | --- |
/// | `name` or `&name`, required | `T` |
/// | `name.optional()` | `Option<T>` |
/// | `name.optional().or(default)` | `T` |
/// | `name.live()` | [`Live<T>`](crate::Live) |
/// | `name.live().required()` | [`Latest<T>`](crate::Latest) |
/// | `family.live()` | [`LiveSet<T>`](crate::LiveSet) |
/// | `name.select(part)`, in each of these forms | the same of the part's type |
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

/// Why a value that a start takes is there.
const ONLY_WHILE_UP: &str = "a worker is started only while its required inputs are up";

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

    fn value(&mut self) -> Option<Value> {
        match self.input_values.next() {
            Some(InputValue::Value(value)) => Some(value),
            _ => None,
        }
    }

    fn live(&mut self) -> follow::Receiver<Option<Value>> {
        match self.input_values.next() {
            Some(InputValue::Live(receiver) | InputValue::Latest(receiver, _)) => receiver,
            // Only a `take` that does not match its `declare` gets here. The view never gets a
            // value.
            _ => follow::channel(None).1,
        }
    }

    fn latest(&mut self) -> (follow::Receiver<Option<Value>>, Value) {
        match self.input_values.next() {
            Some(InputValue::Latest(receiver, first)) => (receiver, first),
            _ => panic!("{ONLY_WHILE_UP}"),
        }
    }

    fn set(&mut self) -> live_set::Followed {
        match self.input_values.next() {
            Some(InputValue::Set(followed)) => followed,
            // Only a `take` that does not match its `declare` gets here.
            _ => live_set::Followed::none(),
        }
    }
}

impl fmt::Debug for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Given").field("left", &self.input_values.len()).finish()
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
