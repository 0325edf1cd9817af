//! Inputs that ask one name for a value: required, optional or live, and whole or in part.

use std::fmt;
use std::sync::Arc;

use super::{Declared, Given, Inputs, ONLY_WHILE_UP};
use crate::machine::Need;
use crate::vocabulary::follow;
use crate::vocabulary::live::{Latest, Live};
use crate::vocabulary::name::{Name, Text};
use crate::vocabulary::selection::{self, Select, Selection};
use crate::vocabulary::value::{Kind, Value, downcast};
use crate::worker::launch::Declaration;

impl<T: Clone + Send + Sync + 'static> Name<T> {
    /// Makes an optional input from the name: `None` while it is absent. A change bounces the
    /// worker.
    #[must_use]
    pub fn optional(&self) -> OptionalInput<T> {
        Selected::from(self.clone()).optional()
    }

    /// Makes a live input from the name: a [`Live`](crate::Live) to follow. A change never bounces
    /// the worker.
    #[must_use]
    pub fn live(&self) -> LiveInput<T> {
        Selected::from(self.clone()).live()
    }

    /// Makes an input of a part of the value. A new value is a change of the input only if it has
    /// another part.
    ///
    /// The result is a required input by itself. [`optional`](Selected::optional) and
    /// [`live`](Selected::live) make the other kinds, and [`Nested`](crate::Nested) can import and
    /// export it.
    ///
    /// For each new value of a changing output, `select` runs in the task of the worker that
    /// publishes the value, and the parts are compared there. If `select` or the comparison panics
    /// there, that worker has panicked. `select` also runs in the task of the worker that gets the
    /// part. Two starts of the publishing worker are always a change.
    ///
    /// # Examples
    ///
    /// ```
    /// use crankcase_engine::{Changing, Engine, Manifold, Name};
    /// use tokio::sync::watch;
    ///
    /// #[derive(Clone, PartialEq)]
    /// struct Settings {
    ///     limit: u32,
    ///     banner: String,
    /// }
    ///
    /// const SETTINGS: Name<Settings> = Name::new("settings");
    /// const QUEUE: Name<u32> = Name::new("queue");
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (sender, receiver) = watch::channel(Settings { limit: 3, banner: "hello".to_owned() });
    /// let settings = Manifold::builder().offers::<(Changing<Settings>,)>().run(move |(), up| {
    ///     let receiver = receiver.clone();
    ///     async move {
    ///         up.ready((Changing::new(receiver),)).wait().await;
    ///         Ok(())
    ///     }
    /// });
    /// // Bounced when the limit changes, and by nothing else in the settings.
    /// let limit = SETTINGS.select(|settings| settings.limit);
    /// let queue = Manifold::builder().inputs(limit).offers::<(u32,)>().run(|limit, up| async move {
    ///     up.ready((limit,)).wait().await;
    ///     Ok(())
    /// });
    ///
    /// let engine = Engine::builder().build()?;
    /// engine.install(SETTINGS, settings).await?;
    /// engine.install(QUEUE, queue).await?;
    /// let mut limit = engine.output(QUEUE).follow().await?;
    /// assert_eq!(limit.value().await?, 3);
    /// sender.send_modify(|settings| settings.banner = "welcome".to_owned());
    /// sender.send_modify(|settings| settings.limit = 4);
    /// while limit.value().await? != 4 {
    ///     limit.changed().await?;
    /// }
    /// assert_eq!(engine.report().await.workers["queue"].starts, 2);
    /// engine.stop().await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn select<P, S>(&self, select: S) -> Selected<P>
    where
        P: Clone + PartialEq + Send + Sync + 'static,
        S: Fn(&T) -> P + Send + Sync + 'static,
    {
        Selected {
            name: self.text().clone(),
            kind: Kind::of::<T>(),
            part: Some(selection::by(select)),
        }
    }
}

/// The value behind a name, or a part of it; made by [`Name::select`], or from a [`Name`] by
/// `into`.
///
/// It is a required input by itself.
pub struct Selected<P> {
    name: Text,
    /// The type of the whole value.
    kind: &'static Kind,
    /// `None` for the whole value.
    part: Option<Arc<dyn Select<P>>>,
}

impl<P: Clone + Send + Sync + 'static> Selected<P> {
    /// Makes an optional input: `None` while the value is absent. A change of the part bounces the
    /// worker.
    #[must_use]
    pub fn optional(&self) -> OptionalInput<P> {
        OptionalInput { selected: self.clone() }
    }

    /// Makes a live input: a [`Live`](crate::Live) to follow. A change never bounces the worker.
    #[must_use]
    pub fn live(&self) -> LiveInput<P> {
        LiveInput { selected: self.clone() }
    }

    pub(crate) fn name(&self) -> &Text {
        &self.name
    }

    /// Takes the value of a required input as it is, without its part.
    pub(crate) fn take_whole(&self, given: &mut Given) -> Value {
        given.value().expect(ONLY_WHILE_UP)
    }

    fn declare_as(&self, need: Need, declared: &mut Declared) {
        let selection = self.selection();
        let Self { name, kind, .. } = self;
        declared.inputs.push(Declaration { name: name.clone(), need, kind, selection });
    }

    /// Returns the selection of the part; `None` for the whole value.
    pub(crate) fn selection(&self) -> Option<Arc<dyn Selection>> {
        self.part.clone().map(Select::erased)
    }

    pub(crate) fn read(&self, value: &Value) -> P {
        self.part.as_ref().map_or_else(|| downcast::<P>(value).clone(), |part| part.select(value))
    }
}

impl<P> Clone for Selected<P> {
    fn clone(&self) -> Self {
        Self { name: self.name.clone(), kind: self.kind, part: self.part.clone() }
    }
}

impl<P> fmt::Debug for Selected<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Selected")
            .field("name", &self.name.as_str())
            .field("of", &self.kind)
            .field("is_whole", &self.part.is_none())
            .finish()
    }
}

impl<T: Clone + Send + Sync + 'static> From<Name<T>> for Selected<T> {
    fn from(name: Name<T>) -> Self {
        Self { name: name.into_text(), kind: Kind::of::<T>(), part: None }
    }
}

impl<T: Clone + Send + Sync + 'static> Inputs for Name<T> {
    type Values = T;
    type Owned = Self;

    fn declare(&self, declared: &mut Declared) {
        Selected::from(self.clone()).declare(declared);
    }

    fn take(&self, given: &mut Given) -> T {
        Selected::from(self.clone()).take(given)
    }

    fn into_owned(self) -> Self {
        self
    }
}

impl<P: Clone + Send + Sync + 'static> Inputs for Selected<P> {
    type Values = P;
    type Owned = Self;

    fn declare(&self, declared: &mut Declared) {
        self.declare_as(Need::Required, declared);
    }

    fn take(&self, given: &mut Given) -> P {
        let value = self.take_whole(given);
        self.read(&value)
    }

    fn into_owned(self) -> Self {
        self
    }
}

/// An input that may be absent; made by [`Name::optional`] and [`Selected::optional`].
///
/// The worker is bounced when the input comes and when it goes. A start waits while the input is
/// coming. A start does not wait for an input that failed, is done, is parked or is not installed.
#[derive(Debug, Clone)]
pub struct OptionalInput<T> {
    selected: Selected<T>,
}

impl<T> OptionalInput<T> {
    /// Sets a default to use while the value is absent.
    #[must_use]
    pub fn or(self, default: T) -> DefaultedInput<T> {
        DefaultedInput { selected: self.selected, default }
    }
}

impl<T: Clone + Send + Sync + 'static> Inputs for OptionalInput<T> {
    type Values = Option<T>;
    type Owned = Self;

    fn declare(&self, declared: &mut Declared) {
        self.selected.declare_as(Need::Optional, declared);
    }

    fn take(&self, given: &mut Given) -> Option<T> {
        given.value().map(|value| self.selected.read(&value))
    }

    fn into_owned(self) -> Self {
        self
    }
}

/// An optional input with a default; made by [`OptionalInput::or`].
#[derive(Debug, Clone)]
pub struct DefaultedInput<T> {
    selected: Selected<T>,
    default: T,
}

impl<T: Clone + Send + Sync + 'static> Inputs for DefaultedInput<T> {
    type Values = T;
    type Owned = Self;

    fn declare(&self, declared: &mut Declared) {
        self.selected.declare_as(Need::Optional, declared);
    }

    fn take(&self, given: &mut Given) -> T {
        let value = given.value();
        value.map_or_else(|| self.default.clone(), |value| self.selected.read(&value))
    }

    fn into_owned(self) -> Self {
        self
    }
}

/// An input that the worker follows; made by [`Name::live`] and [`Selected::live`].
///
/// A live input never bounces the worker, and does not delay its start. At shutdown the worker
/// stops before the input's worker. If only the input is bounced or uninstalled, the worker sees
/// `None`.
#[derive(Debug, Clone)]
pub struct LiveInput<T> {
    selected: Selected<T>,
}

impl<T> LiveInput<T> {
    /// Makes the start wait until the input has a first value. The worker then follows it by a
    /// [`Latest`], and so never sees `None`.
    #[must_use]
    pub fn required(self) -> LatestInput<T> {
        LatestInput { selected: self.selected }
    }
}

impl<T: Clone + Send + Sync + 'static> Inputs for LiveInput<T> {
    type Values = Live<T>;
    type Owned = Self;

    fn declare(&self, declared: &mut Declared) {
        self.selected.declare_as(Need::Live, declared);
    }

    fn take(&self, given: &mut Given) -> Live<T> {
        Live::new(given.live(), self.selected.part.clone())
    }

    fn into_owned(self) -> Self {
        self
    }
}

/// A live input whose first value the start waits for; made by [`LiveInput::required`].
///
/// A change never bounces the worker.
#[derive(Debug, Clone)]
pub struct LatestInput<T> {
    selected: Selected<T>,
}

impl<T: Clone + Send + Sync + 'static> Inputs for LatestInput<T> {
    type Values = Latest<T>;
    type Owned = Self;

    fn declare(&self, declared: &mut Declared) {
        self.selected.declare_as(Need::LiveRequired, declared);
    }

    fn take(&self, given: &mut Given) -> Latest<T> {
        let (receiver, first) = given.latest();
        Latest::new(Live::new(receiver, self.selected.part.clone()), first)
    }

    fn into_owned(self) -> Self {
        self
    }
}

/// An input that a border passes on. It starts and stops the worker as a required input does, but
/// the worker follows its values as those of a live input.
#[derive(Debug)]
pub(crate) struct HeldInput<T>(pub(crate) Selected<T>);

impl<T: Clone + Send + Sync + 'static> Inputs for HeldInput<T> {
    type Values = follow::Receiver<Option<Value>>;
    type Owned = Self;

    fn declare(&self, declared: &mut Declared) {
        self.0.declare_as(Need::Held, declared);
    }

    fn take(&self, given: &mut Given) -> Self::Values {
        given.live()
    }

    fn into_owned(self) -> Self {
        self
    }
}
